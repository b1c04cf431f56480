//! How fast images are made and jobs run in plain words: `cargo run --release --example speed`.
//!
//! Prints the median and the range of several rounds. Run it on an idle core.

use std::hint::black_box;
use std::time::Instant;

use ebbtide_core::{Addr, Memory, PAGE_BYTES, PageId, Value, check_access};
use ebbtide_workloads::{Kind, Scatter, Shape, Workload};

const ROUNDS: usize = 7;

/// Words in order, one job at a time: the least a memory can do.
struct Words(Vec<u64>);

impl Memory for Words {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64 * 8
    }
    #[inline]
    fn load<T: Value>(&mut self, at: Addr) -> T {
        check_access::<T>(at);
        let first = at.0 as usize / 8;
        *bytemuck::from_bytes(bytemuck::cast_slice(&self.0[first..first + size_of::<T>() / 8]))
    }
    #[inline]
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        check_access::<T>(at);
        let first = at.0 as usize / 8;
        let words = &mut self.0[first..first + size_of::<T>() / 8];
        bytemuck::cast_slice_mut(words).copy_from_slice(bytemuck::bytes_of(&value));
    }
    #[inline]
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let word = &mut self.0[at.0 as usize / 8];
        if *word == current { Ok(std::mem::replace(word, new)) } else { Err(*word) }
    }
    fn work(&mut self, _instructions: u64) {}
    fn wait(&mut self, at: Addr, _seen: u64) {
        panic!("the only job waits for the latch at {at:?}");
    }
    fn wake(&mut self, _at: Addr) {}
}

/// Median, least and most of `ROUNDS` measurements of seconds per item.
fn rounds(items: u64, mut round: impl FnMut()) -> [f64; 3] {
    let mut seconds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_secs_f64() / items as f64
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    [seconds[ROUNDS / 2], seconds[0], seconds[ROUNDS - 1]]
}

fn main() {
    println!("{:16} {:8} {:>24} {:>26}", "program", "scatter", "image GiB/s (range)", "job ns");
    for (name, kind) in Kind::ALL.map(|kind| (kind.name(), kind)) {
        for (scatter_name, scatter) in Scatter::ALL.map(|kind| (kind.name(), kind)) {
            let shape = Shape { dataset_bytes: 256 << 30, scatter, ..Shape::default() };
            let great = kind.build(&shape).unwrap();
            let pages = great.size_bytes() / PAGE_BYTES as u64;
            let mut out = [0; PAGE_BYTES];
            let mut next = 0;
            let image = rounds(1 << 14, || {
                for _ in 0..1 << 14 {
                    next = (next + 1_000_003) % pages;
                    great.image(PageId(next), &mut out);
                    black_box(&out);
                }
            });

            let small = kind.build(&Shape { dataset_bytes: 1 << 20, ..shape }).unwrap();
            let mut words = Words(Vec::new());
            for page in 0..small.size_bytes() / PAGE_BYTES as u64 {
                small.image(PageId(page), &mut out);
                words.0.extend(out.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)));
            }
            let mut job = 0;
            let jobs = rounds(1 << 16, || {
                for _ in 0..1 << 16 {
                    small.run(job, &mut words).expect("the image is right");
                    job += 1;
                }
            });
            let [gib, most, least] = image.map(|s| PAGE_BYTES as f64 / s / (1u64 << 30) as f64);
            let [ns, ns_least, ns_most] = jobs.map(|seconds| seconds * 1e9);
            println!(
                "{name:16} {scatter_name:8} {:>24} {:>26}",
                format!("{gib:.2} ({least:.2}-{most:.2})"),
                format!("{ns:.0} ({ns_least:.0}-{ns_most:.0})"),
            );
        }
    }
}
