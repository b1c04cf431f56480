//! How fast miss-ratio curves are made: accesses a second by one core, exact, sampled and by
//! simulation, and how far the sampled curve is from the exact one.
//!
//!     cargo bench -p ebbtide-trace --bench curve

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::{Addr, Time};
use ebbtide_trace::{Access, Op};
use ebbtide_trace::curve::{Curve, PolicyCaches, Sample, SampledDistances, StackDistances};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const ACCESSES: u64 = 20_000_000;

/// Pages of 4 GiB.
const PAGES: u64 = 1 << 20;

/// A power law like Zipf's with exponent 1: every doubling of pages draws as many accesses.
fn accesses() -> Vec<Access> {
    let mut random = Pcg64::seed_from_u64(1);
    let mut draw = |_| {
        let rank = (PAGES as f64).powf(random.random::<f64>()) as u64;
        let page = rank.wrapping_mul(0x9e37_79b1) % PAGES;
        let op = if random.random_bool(0.3) { Op::Write } else { Op::Read };
        let address = Addr(page * 4096);
        Access { at: Time::ZERO, address, frame: None, device: 0, bytes: 64, op }
    };
    (0..ACCESSES).map(&mut draw).collect()
}

fn exact(accesses: &[Access]) -> Curve {
    let mut distances = StackDistances::new();
    distances.read(accesses);
    distances.curve()
}

fn sampled(accesses: &[Access]) -> SampledDistances {
    let mut distances = SampledDistances::new(SampledDistances::PAGES);
    distances.read(accesses);
    distances
}

fn simulated(accesses: &[Access], sample: Sample) -> Curve {
    let kind = PolicyKind::AdaptiveLrfu;
    let mut caches = PolicyCaches::new(kind, &SIZES, sample, 1);
    caches.read(accesses);
    caches.curve()
}

const SIZES: [u64; 8] = [
    PAGES >> 8,
    PAGES >> 7,
    PAGES >> 6,
    PAGES >> 5,
    PAGES >> 4,
    PAGES >> 3,
    PAGES >> 2,
    PAGES >> 1,
];

fn curves(criterion: &mut Criterion) {
    let accesses = accesses();
    let sample = sampled(&accesses).sample();
    let (most, mean) = sampled(&accesses).curve().error(&exact(&accesses), &SIZES);
    println!(
        "the sampled miss ratio is at most {most:.4} from the exact one, {mean:.4} on average"
    );
    let mut group = criterion.benchmark_group("curve");
    group.throughput(Throughput::Elements(ACCESSES)).sample_size(10);
    group.bench_function("exact", |bencher| bencher.iter(|| exact(&accesses)));
    group.bench_function("sampled", |bencher| bencher.iter(|| sampled(&accesses).curve()));
    group.bench_function("eight sizes of adaptive-lrfu, sampled", |bencher| {
        bencher.iter(|| simulated(&accesses, sample));
    });
}

criterion_group!(benches, curves);
criterion_main!(benches);
