//! Time of one demand access with a prefetcher, including the arrival of the pages that it fetches.
//!
//!     cargo bench -p ebbtide-core --bench prefetch

use criterion::{Criterion, criterion_group, criterion_main};
use ebbtide_core::PageId;
use ebbtide_core::prefetch::{Demand, Origin, PrefetcherKind, Prefetching, Preset};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const PAGES: u64 = 1 << 20;

fn events(criterion: &mut Criterion) {
    // Half of the accesses step through memory, the others go anywhere; drawn beforehand.
    let mut random = Pcg64::seed_from_u64(1);
    let accesses: Vec<(PageId, Demand)> = (0..1 << 20)
        .map(|at| {
            let page = if at % 2 == 0 { at / 2 % PAGES } else { random.random_range(0..PAGES) };
            let demand = match random.random_range(0..4) {
                0 => Demand::FirstHit { late: false },
                1 => Demand::Late,
                _ => Demand::Miss,
            };
            (PageId(page), demand)
        })
        .collect();
    for (name, kind) in PrefetcherKind::ALL.map(|kind| (kind.name(), kind)) {
        for (preset_name, preset) in Preset::ALL.map(|kind| (kind.name(), kind)) {
            let mut at_work = Prefetching::new(kind.build(preset, PAGES), PAGES);
            let mut at = 0;
            criterion.bench_function(&format!("prefetch/{name}/{preset_name}"), |bencher| {
                bencher.iter(|| {
                    let (page, demand) = accesses[at % accesses.len()];
                    at += 1;
                    let first = at_work.demand(page, demand).first().copied();
                    at_work.arrived(page, false);
                    if let Some(fetched) = first {
                        at_work.issued();
                        at_work.arrived(fetched, true);
                        at_work.evicted(fetched, Origin::Used, false);
                    }
                });
            });
        }
    }
}

criterion_group!(benches, events);
criterion_main!(benches);
