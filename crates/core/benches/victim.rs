//! What a replacement decision costs: one victim and one insertion in a warm cache.
//!
//!     cargo bench -p ebbtide-core --bench victim

mod touches;

use criterion::{Criterion, criterion_group, criterion_main};
use ebbtide_core::replacement::{Geometry, PolicyKind};
use ebbtide_core::{FrameId, PageId};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64;
use touches::Touches;

const FRAMES: usize = 1 << 15;

/// Frames in a set, for the policies that are made for sets.
const WAYS: usize = 16;
const PAGES: u64 = 1 << 20;

/// Misses whose pages are announced to the policy before they are inserted, as the engine's cores
/// do with the misses of a turn.
const MISSES_A_TURN: usize = 32;

/// Hits between two misses; with Zipf's law and 3% of the pages cached, about three.
const HITS_A_MISS: usize = 3;

fn victims(criterion: &mut Criterion) {
    for (name, kind) in PolicyKind::ALL.map(|kind| (kind.name(), kind)) {
        let geometry = match kind.searches_set() {
            true => Geometry { sets: FRAMES / WAYS, ways: WAYS },
            false => Geometry::fully_associative(FRAMES),
        };
        let mut policy = kind.build(geometry, PAGES, 1);
        let mut touches = Touches::new(FRAMES);
        let mut random = Pcg64::seed_from_u64(1);
        let frame_rank = Zipf::new(FRAMES as f64, 0.99).expect("valid parameters");
        // Drawn beforehand, so that only the policy is timed.
        let hits: Vec<u32> =
            (0..1 << 20).map(|_| frame_rank.sample(&mut random) as u32 - 1).collect();
        let pages: Vec<PageId> =
            (0..1 << 20).map(|_| PageId(random.random_range(0..PAGES))).collect();
        for frame in 0..FRAMES as u32 {
            policy.insert(FrameId(frame), PageId(u64::from(frame)));
        }
        let mut at = 0;
        let mut miss = || {
            let page = at % pages.len();
            if page.is_multiple_of(MISSES_A_TURN) {
                policy.recall(&pages[page..page + MISSES_A_TURN]);
            }
            for hit in 0..HITS_A_MISS {
                touches.hit(FrameId(hits[(HITS_A_MISS * at + hit) % hits.len()]));
            }
            let frame = policy.victim(at % geometry.sets, &mut touches).expect("nothing is pinned");
            touches.clear(frame);
            policy.insert(frame, pages[page]);
            policy.look_around(&mut touches);
            at += 1;
        };
        for _ in 0..4 * FRAMES {
            miss();
        }
        criterion.bench_function(&format!("victim/{name}"), |bencher| bencher.iter(&mut miss));
    }
}

criterion_group!(benches, victims);
criterion_main!(benches);
