//! How fast the text form is read: accesses parsed a second by one core, plain and zstd.
//!
//!     cargo bench -p ebbtide-trace --bench text

use std::io::Cursor;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ebbtide_trace::text::TextReader;
use ebbtide_trace::{Input, Source};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const ACCESSES: u64 = 1_000_000;

/// Lines as published traces have them: a line of 64 bytes about every 200 ns, within 4 GiB.
fn lines() -> Vec<u8> {
    let mut random = Pcg64::seed_from_u64(1);
    let (mut text, mut time) = (String::new(), 0_u64);
    for _ in 0..ACCESSES {
        time += random.random_range(0..400);
        let address = 0x7f00_0000_0000 + random.random_range(0..1_u64 << 26) * 64;
        text += &format!("{time} 0 {address} 8 {}\n", u8::from(random.random_bool(0.6)));
    }
    text.into_bytes()
}

fn read(text: &[u8]) -> u64 {
    let input = Input::new("bench", Cursor::new(text.to_vec())).expect("bytes in memory");
    let mut reader = TextReader::new(input);
    let (mut batch, mut sum) = (Vec::new(), 0_u64);
    while reader.fill(&mut batch).expect("a valid trace") {
        sum = batch.iter().fold(sum, |sum, access| sum.wrapping_add(access.address.0));
    }
    sum
}

fn readers(criterion: &mut Criterion) {
    let plain = lines();
    let compressed = zstd::encode_all(&plain[..], 3).expect("bytes in memory");
    let mut group = criterion.benchmark_group("text");
    group.throughput(Throughput::Elements(ACCESSES)).sample_size(20);
    group.bench_function("plain", |bencher| bencher.iter(|| read(&plain)));
    group.bench_function("zstd", |bencher| bencher.iter(|| read(&compressed)));
}

criterion_group!(benches, readers);
criterion_main!(benches);
