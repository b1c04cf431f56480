//! What a replacement decision costs: one victim and one insertion in a warm cache.
//!
//!     cargo bench -p ebbtide-core --bench victim

mod misses;
mod touches;

use criterion::{Criterion, criterion_group, criterion_main};
use ebbtide_core::replacement::{Geometry, PolicyKind};
use misses::{Misses, PAGES_A_FRAME};

const FRAMES: usize = 1 << 15;

/// Misses of a stream.
const LENGTH: usize = 1 << 20;

/// Small caches, where the default simulates all pages.
const FEW_FRAMES: [usize; 3] = [100, 500, 1_000];

/// Frames in a set, for the policies that are made for sets.
const WAYS: usize = 16;

fn victims(criterion: &mut Criterion) {
    for kind in PolicyKind::ALL {
        let geometry = match kind.searches_set() {
            true => Geometry { sets: FRAMES / WAYS, ways: WAYS },
            false => Geometry::fully_associative(FRAMES),
        };
        measure(criterion, &format!("victim/{kind}"), kind, geometry);
    }
    for frames in FEW_FRAMES {
        let (name, kind) = (format!("few frames/{frames}"), PolicyKind::MiniSim);
        measure(criterion, &name, kind, Geometry::fully_associative(frames));
    }
}

fn measure(criterion: &mut Criterion, name: &str, kind: PolicyKind, geometry: Geometry) {
    let pages = (PAGES_A_FRAME * geometry.frames()) as u64;
    let mut misses = Misses::new(kind.build(geometry, pages, 1), geometry, LENGTH);
    criterion.bench_function(name, |bencher| bencher.iter(|| misses.step()));
}

criterion_group!(benches, victims);
criterion_main!(benches);
