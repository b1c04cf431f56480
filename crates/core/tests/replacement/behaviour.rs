//! Effects of the policies on a program's misses, required and forbidden, and their exact miss
//! counts on a fixed stream.

use ebbtide_core::replacement::{Frames, Geometry, PolicyKind, Position, Replacement};
use ebbtide_core::{FrameId, PageId};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64;

use crate::cache::Cache;

fn cache(kind: PolicyKind, frames: usize, pages: u64) -> Cache {
    Cache::new(kind, Geometry::fully_associative(frames), pages)
}

pub(crate) fn zipf(pages: u64, count: usize, seed: u64) -> Vec<u64> {
    let mut random = Pcg64::seed_from_u64(seed);
    let rank = Zipf::new(pages as f64, 0.99).expect("valid parameters");
    (0..count).map(|_| rank.sample(&mut random) as u64 - 1).collect()
}

/// Low pages more often than high ones; integers only, so the same on every machine.
pub(crate) fn skewed(pages: u64, count: usize, seed: u64) -> Vec<u64> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut draw = || {
        let bound = random.random_range(0..pages);
        let bound = random.random_range(0..=bound);
        random.random_range(0..=bound)
    };
    (0..count).map(|_| draw()).collect()
}

#[test]
fn a_page_fetched_ahead_enters_the_order_of_recency_where_it_is_told_to() {
    struct Clean;
    impl Frames for Clean {
        fn take_touches(&mut self, _: FrameId) -> u8 {
            0
        }
        fn is_dirty(&self, _: FrameId) -> bool {
            false
        }
        fn is_pinned(&self, _: FrameId) -> bool {
            false
        }
    }
    let geometry = Geometry { sets: 2, ways: 8 };
    for kind in [PolicyKind::Lru, PolicyKind::Cflru] {
        for (position, before) in [
            (Position::MostRecent, 7),
            (Position::Middle, 4),
            (Position::LeastRecentQuarter, 2),
            (Position::LeastRecent, 0),
        ] {
            // The other set is empty.
            let mut policy = kind.build(geometry, 100, 1);
            (8..15).for_each(|frame| policy.insert(FrameId(frame), PageId(u64::from(frame))));
            policy.insert_ahead(FrameId(15), PageId(15), position);
            policy.touch(FrameId(8));
            let left = std::iter::from_fn(|| policy.victim(1, &mut Clean));
            let place = left.map(|frame| frame.0).position(|frame| frame == 15);
            // The least recent was used again.
            assert_eq!(place, Some(usize::max(before, 1) - 1), "{kind:?} {position:?}");
        }
    }
}

#[test]
fn every_policy_misses_as_often_as_it_always_did() {
    let pages = skewed(2_000, 20_000, 3);
    let misses = |kind, geometry| {
        let mut cache = Cache::new(kind, geometry, 2_000);
        pages.iter().filter(|&&page| cache.access(PageId(page), page % 3 == 0)).count()
    };
    let counted = PolicyKind::ALL.map(|kind| {
        let name = kind.name();
        let associative = misses(kind, Geometry::fully_associative(64));
        (name, associative, misses(kind, Geometry { sets: 8, ways: 8 }))
    });
    // Fully associative, then 8 sets of 8 ways.
    let golden = [
        ("fifo", 16_985, 16_943),
        ("random", 17_003, 16_932),
        ("lru", 16_753, 16_747),
        ("clock", 16_563, 16_605),
        ("cflru", 16_834, 16_740),
        ("srrip-hp", 16_195, 16_241),
        ("srrip-fp", 16_450, 16_471),
        ("brrip", 14_566, 14_977),
        ("drrip", 16_195, 15_625),
        ("s3-fifo", 14_492, 14_418),
        ("mini-sim", 13_873, 14_178),
    ];
    assert_eq!(counted, golden);
}

#[test]
fn a_policy_with_the_state_of_another_goes_on_as_that_one() {
    const PAGES: u64 = 2_000;
    let requests = skewed(PAGES, 12_000, 5);
    let (before, after) = requests.split_at(6_000);
    for kind in PolicyKind::ALL {
        for geometry in [Geometry::fully_associative(192), Geometry { sets: 64, ways: 4 }] {
            let mut one = Cache::new(kind, geometry, PAGES);
            // Every third request writes.
            let ask =
                |cache: &mut Cache, page: u64| cache.access(PageId(page), page.is_multiple_of(3));
            for page in before {
                ask(&mut one, *page);
            }
            let mut other = one.archived(kind, PAGES);
            for page in after {
                assert_eq!(ask(&mut one, *page), ask(&mut other, *page), "{kind}, {geometry:?}");
                assert_eq!(one.page_in, other.page_in, "{kind}, {geometry:?}");
            }
        }
    }
}

#[test]
fn a_scan_does_not_flush_the_hot_set() {
    for kind in [PolicyKind::S3Fifo, PolicyKind::MiniSim] {
        let mut cache = cache(kind, 100, 10_000);
        let mut random = Pcg64::seed_from_u64(5);
        let mut hot = || random.random_range(0..80);
        cache.misses((0..5_000).map(|_| hot()));
        let mut hot_misses = 0;
        for scanned in 80..10_000 {
            cache.misses([scanned]);
            hot_misses += cache.misses([hot()]);
        }
        assert!(hot_misses < 100, "{} missed {hot_misses} of 9,920 hot requests", kind.name());
    }
}

#[test]
fn a_scan_without_a_pause_leaves_most_of_the_hot_set() {
    // Mini-sim learns from requests between those of the scan, of which there are none.
    let mut cache = cache(PolicyKind::S3Fifo, 100, 10_000);
    let mut random = Pcg64::seed_from_u64(5);
    cache.misses((0..5_000).map(|_| random.random_range(0..80)));
    cache.misses(80..1_080);
    let lost = cache.misses(0..80);
    assert!(lost < 20, "lost {lost} of 80 hot pages to a scan");
}

#[test]
fn a_shifted_hot_set_is_followed() {
    let mut pages = zipf(10_000, 100_000, 7);
    pages.extend(zipf(10_000, 15_000, 8).iter().map(|page| 9_999 - page));
    let misses = |kind| {
        let mut cache = cache(kind, 300, 10_000);
        cache.misses(pages[..100_000].iter().copied());
        cache.misses(pages[100_000..].iter().copied())
    };
    let (ours, clock) = (misses(PolicyKind::MiniSim), misses(PolicyKind::Clock));
    assert!(ours <= clock, "{ours} misses after the shift, CLOCK {clock}");
}

#[test]
fn a_stationary_skew_is_learnt_beyond_recency() {
    let pages = zipf(10_000, 200_000, 9);
    let late_misses = |kind| {
        let mut cache = cache(kind, 300, 10_000);
        cache.misses(pages[..100_000].iter().copied());
        cache.misses(pages[100_000..].iter().copied()) as f64
    };
    let to_lru = late_misses(PolicyKind::MiniSim) / late_misses(PolicyKind::Lru);
    assert!(to_lru < 0.79, "{to_lru} of LRU's misses");
}

#[test]
fn a_loop_larger_than_the_cache_costs_no_more_than_in_a_queue() {
    for (name, kind) in PolicyKind::ALL.map(|kind| (kind.name(), kind)) {
        let looped = (0..20_000).map(|at| at % 250);
        let misses = cache(kind, 100, 250).misses(looped);
        assert!(misses <= 20_000, "{name}: {misses}");
    }
}

#[test]
fn small_caches_learn_too() {
    for frames in [8, 16, 32, 64] {
        let pages = zipf(30 * frames as u64, 60_000, 11);
        let misses = |kind| cache(kind, frames, 2_000).misses(pages.iter().copied());
        let (ours, clock) = (misses(PolicyKind::MiniSim), misses(PolicyKind::Clock));
        assert!(ours < clock, "{frames} frames: {ours} misses, CLOCK {clock}");
    }
}

#[test]
fn brrip_and_drrip_keep_part_of_a_loop_larger_than_the_cache_and_srrip_does_not() {
    let misses = |kind| {
        let mut cache = Cache::new(kind, Geometry { sets: 256, ways: 8 }, 4_096);
        cache.misses((0..20 * 4_096).map(|at| at % 4_096))
    };
    let every = 20 * 4_096;
    assert_eq!(misses(PolicyKind::SrripHp), every);
    assert!(misses(PolicyKind::Brrip) < every * 7 / 10, "{}", misses(PolicyKind::Brrip));
    assert!(misses(PolicyKind::Drrip) < every * 3 / 4, "{}", misses(PolicyKind::Drrip));
}

#[test]
fn drrip_leaves_pages_that_are_hit_again_as_srrip_does() {
    // Each page is hit again some three hundred misses later: soon enough for SRRIP, not for BRRIP.
    let pages = || (0u64..30_000).flat_map(|at| [at, at.saturating_sub(300)]);
    let misses = |kind| {
        let mut cache = Cache::new(kind, Geometry { sets: 256, ways: 4 }, 30_000);
        cache.misses(pages())
    };
    let (srrip, brrip) = (misses(PolicyKind::SrripHp), misses(PolicyKind::Brrip));
    let drrip = misses(PolicyKind::Drrip);
    assert!(brrip > srrip * 4 / 3, "{srrip} misses of SRRIP, {brrip} of BRRIP");
    assert!(drrip < srrip * 11 / 10, "{srrip} misses of SRRIP, {drrip} of DRRIP");
}

/// The clock of eight frames wraps after some 260,000 victims; keys older than that must not turn
/// into the heaviest.
#[test]
fn the_hot_set_stays_when_the_clock_wraps() {
    let mut cache = cache(PolicyKind::MiniSim, 8, 100_000);
    let mut hot_misses = 0;
    for request in 0..1_000_000 {
        cache.misses([8 + request % 99_992]);
        if request % 2 == 0 {
            hot_misses += cache.misses([request / 2 % 5]);
        }
    }
    assert!(hot_misses < 5_000, "{hot_misses} of 500,000 hot requests missed");
}

/// A pinned frame's weight is left far behind, in the lists that the clock makes one of.
#[test]
fn a_frame_pinned_for_long_can_still_be_given_up() {
    let mut cache = cache(PolicyKind::MiniSim, 16, 10_000);
    cache.misses(0..16);
    for frame in [2, 5, 11] {
        cache.marks.pinned[frame] = true;
    }
    cache.misses((0..300_000).map(|at| 16 + at * 7 % 40));
    cache.marks.pinned.fill(false);
    let victims = (0..16).map_while(|_| cache.evict(0));
    assert_eq!(victims.count(), 16);
}

/// LRFU as its authors define it: told of every access, in real numbers, searching all frames but
/// the newest, which have a window.
pub(crate) struct ExactLrfu {
    pub(crate) window: usize,
    pub(crate) weights: Vec<f64>,
    pub(crate) known: Vec<(FrameId, PageId)>,
    /// What an access weighs now; it doubles every half-life, which spares ageing the weights.
    pub(crate) unit: f64,
    pub(crate) growth: f64,
}

impl ExactLrfu {
    /// Where in `known` the page to give up is.
    pub(crate) fn lightest(&self) -> Option<usize> {
        let weight = |&(_, page): &(FrameId, PageId)| self.weights[page.index()];
        (0..self.known.len().saturating_sub(self.window))
            .min_by(|&a, &b| weight(&self.known[a]).total_cmp(&weight(&self.known[b])))
    }
}

impl Replacement for ExactLrfu {
    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.weights[page.index()] += self.unit;
        self.known.push((frame, page));
    }

    fn touch(&mut self, frame: FrameId) {
        let (_, page) = self.known.iter().find(|(known, _)| *known == frame).expect("known");
        self.weights[page.index()] += self.unit;
    }

    fn victim(&mut self, _set: usize, _frames: &mut dyn Frames) -> Option<FrameId> {
        self.unit *= self.growth;
        let lightest = self.lightest()?;
        Some(self.known.remove(lightest).0)
    }

    fn remove(&mut self, frame: FrameId) {
        self.known.retain(|(known, _)| *known != frame);
    }
}

#[test]
fn random_gives_up_every_unpinned_frame_equally_often() {
    const DRAWS: usize = 40_000;
    let mut cache = cache(PolicyKind::Random, 10, DRAWS as u64 + 10);
    cache.misses(0..10);
    cache.marks.pinned[3] = true;
    cache.marks.pinned[7] = true;
    let mut drawn = [0usize; 10];
    for page in 0..DRAWS as u64 {
        let victim = cache.evict(0).expect("eight may go");
        drawn[victim.index()] += 1;
        cache.misses([page + 10]);
    }
    for (frame, count) in drawn.into_iter().enumerate() {
        let expected = if [3, 7].contains(&frame) { 0 } else { DRAWS / 8 };
        assert!(count.abs_diff(expected) < 300, "frame {frame}: {count} of {DRAWS}");
    }
}
