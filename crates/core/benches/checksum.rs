//! Time to checksum a page. The pages are either two in turn, which stay in the core's cache, or
//! any of 256 MiB, as after a read from the drive.
//!
//!     cargo bench -p ebbtide-core --bench checksum

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ebbtide_core::{PAGE_BYTES, crc32c};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

const PAGES: usize = 1 << 16;

fn pages(criterion: &mut Criterion) {
    let mut random = Pcg64::seed_from_u64(1);
    let mut memory = vec![0; PAGES * PAGE_BYTES];
    random.fill_bytes(&mut memory);
    let mut group = criterion.benchmark_group("checksum");
    group.throughput(Throughput::Bytes(PAGE_BYTES as u64));
    for (name, pages) in [("in the cache", 2), ("in memory", PAGES)] {
        let mut at = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                // An odd step comes to every page, and to no neighbours one after the other.
                at = (at + 40_503) % pages;
                crc32c(&memory[at * PAGE_BYTES..][..PAGE_BYTES])
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pages);
criterion_main!(benches);
