//! Speed of miss-ratio curves in accesses a second of CPU time: exact, sampled and by simulation.
//! Also prints the distance of the sampled curve from the exact one.
//!
//!     cargo bench -p ebbtide-trace --bench curve

use std::fs;
use std::hint::black_box;

use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::{Addr, Time};
use ebbtide_trace::curve::{PolicyCaches, SampledDistances, StackDistances};
use ebbtide_trace::{Access, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const ACCESSES: usize = 20_000_000;

/// Pages of 4 GiB.
const PAGES: u64 = 1 << 20;

const ROUNDS: usize = 5;

/// A power law like Zipf's with exponent 1: every doubling of pages draws as many accesses.
fn accesses() -> Vec<Access> {
    let mut random = Pcg64::seed_from_u64(1);
    let mut draw = |_| {
        let rank = (PAGES as f64).powf(random.random::<f64>()) as u64;
        let page = rank.wrapping_mul(0x9e37_79b1) % PAGES;
        let op = if random.random_bool(0.3) { Op::Write } else { Op::Read };
        let address = Addr(page * 4096);
        Access::new(Time::ZERO, address, 64, op)
    };
    (0..ACCESSES).map(&mut draw).collect()
}

/// Returns the nanoseconds that this thread has run. Other programs do not add to it.
fn cpu_ns() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux keeps it");
    stat.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("its first field")
}

/// Prints the rate of `measure`, the median of several rounds and their range. Returns its result.
fn rate<T>(name: &str, mut measure: impl FnMut() -> T) -> T {
    let mut result = measure();
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = cpu_ns();
            result = black_box(measure());
            ACCESSES as f64 * 1e3 / (cpu_ns() - start) as f64
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    let (least, median, most) = (rates[0], rates[ROUNDS / 2], rates[ROUNDS - 1]);
    println!("{name:<36}{median:>7.1} M accesses/s of CPU time ({least:.1} to {most:.1})");
    result
}

fn main() {
    let accesses = accesses();
    let sizes: Vec<u64> = (4..18).map(|shift| PAGES >> shift).collect();
    println!("{ACCESSES} accesses to {PAGES} pages by a power law, 30% of them writes");
    let exact = rate("LRU, exact", || {
        let mut distances = StackDistances::new();
        distances.read(&accesses);
        distances.curve()
    });
    for pages_max in [SampledDistances::PAGES / 2, SampledDistances::PAGES] {
        let sampled = rate(&format!("LRU, from {pages_max} pages"), || {
            let mut distances = SampledDistances::new(pages_max);
            distances.read(&accesses);
            distances
        });
        let (most, mean) = sampled.curve().error(&exact, &sizes);
        println!("    at most {most:.4} from the exact miss ratio, {mean:.4} on average");
    }
    let mut sample = SampledDistances::new(SampledDistances::PAGES);
    sample.read(&accesses);
    for kind in [PolicyKind::Clock, PolicyKind::MiniSim] {
        rate(&format!("{} sizes of {}, sampled", sizes.len(), kind.name()), || {
            let mut caches = PolicyCaches::new(kind, &sizes, sample.sample(), 1);
            caches.read(&accesses);
            caches.curve()
        });
    }
}
