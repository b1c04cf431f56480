//! Miss-ratio curves agree with caches of every size.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::{Addr, PageId, Time};
use ebbtide_trace::curve::{
    Curve, PolicyCaches, Sample, SampledDistances, StackDistances, in_parts, pages_of,
};
use ebbtide_trace::{Access, Op, open};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// An LRU cache as simple as can be: misses and write-backs.
fn lru(pages: usize, accesses: &[(u64, bool)]) -> (u64, u64) {
    let mut cache: VecDeque<(u64, bool)> = VecDeque::new();
    let (mut misses, mut write_backs) = (0, 0);
    for &(page, write) in accesses {
        let at = cache.iter().position(|(held, _)| *held == page);
        let dirty = match at.and_then(|at| cache.remove(at)) {
            Some((_, dirty)) => dirty,
            None => {
                misses += 1;
                false
            }
        };
        cache.push_front((page, dirty || write));
        if cache.len() > pages {
            let (_, dirty) = cache.pop_back().expect("it is not empty");
            write_backs += u64::from(dirty);
        }
    }
    (misses, write_backs)
}

fn exact(accesses: &[(u64, bool)]) -> Curve {
    let mut distances = StackDistances::new();
    accesses.iter().for_each(|&(page, write)| distances.touch(PageId(page), write));
    distances.curve()
}

/// Misses and write-backs as whole numbers.
fn counts(curve: &Curve, pages: u64) -> (u64, u64) {
    let all = curve.accesses() as f64;
    let whole = |ratio: f64| (ratio * all).round() as u64;
    (whole(curve.miss_ratio(pages)), whole(curve.write_back_ratio(pages)))
}

/// Pages drawn by a power law, 30% written.
fn skewed(count: u64, pages: u64) -> Vec<(u64, bool)> {
    let mut random = Pcg64::seed_from_u64(5);
    let draw = |_| {
        let rank = (pages as f64).powf(random.random::<f64>()) as u64;
        (rank.wrapping_mul(0x9e37_79b1) % pages, random.random_bool(0.3))
    };
    (0..count).map(draw).collect()
}

proptest! {
    #[test]
    fn the_exact_curve_counts_as_an_lru_cache_of_each_size_does(
        accesses in prop::collection::vec((0..40_u64, any::<bool>()), 1..300),
        spread in 1..1_000_000_u64,
    ) {
        let accesses: Vec<_> = accesses.iter().map(|(page, w)| (page * spread, *w)).collect();
        let curve = exact(&accesses);
        for pages in 1..45 {
            prop_assert_eq!(counts(&curve, pages as u64), lru(pages, &accesses), "{} pages", pages);
        }
    }

    #[test]
    fn what_is_counted_since_a_warm_up_is_what_a_warm_cache_does(
        accesses in prop::collection::vec((0..40_u64, any::<bool>()), 2..400),
        split in 0.0..1.0,
    ) {
        let warm = (accesses.len() as f64 * split) as usize;
        let mut distances = StackDistances::new();
        let mut feed = |part: &[(u64, bool)]| {
            part.iter().for_each(|&(page, write)| distances.touch(PageId(page), write));
            distances.curve()
        };
        let before = feed(&accesses[..warm]);
        let curve = feed(&accesses[warm..]).since(&before);
        for pages in 1..45 {
            let (cold, all) = (lru(pages, &accesses[..warm]), lru(pages, &accesses));
            let expected = (all.0 - cold.0, all.1 - cold.1);
            prop_assert_eq!(counts(&curve, pages as u64), expected, "{} pages", pages);
        }
    }

    #[test]
    fn simulated_caches_under_lru_are_the_exact_curve(
        accesses in prop::collection::vec((0..40_u64, any::<bool>()), 1..300),
    ) {
        let exact = exact(&accesses);
        let sizes = [1, 2, 3, 7, 20, 39, 64];
        let everything = Sample::all(exact.pages() as u64);
        let mut caches = PolicyCaches::new(PolicyKind::Lru, &sizes, everything, 1);
        accesses.iter().for_each(|&(page, write)| caches.touch(PageId(page), write));
        let simulated = caches.curve();
        for pages in sizes {
            prop_assert_eq!(counts(&simulated, pages), counts(&exact, pages), "{} pages", pages);
        }
    }

    #[test]
    fn a_sample_of_all_pages_is_the_exact_curve(
        accesses in prop::collection::vec((0..200_u64, any::<bool>()), 1..300),
    ) {
        let mut sampled = SampledDistances::new(200);
        accesses.iter().for_each(|&(page, write)| sampled.touch(PageId(page), write));
        prop_assert_eq!(sampled.curve(), exact(&accesses));
    }
}

#[test]
fn times_of_use_are_numbered_anew_without_a_trace() {
    // Far more uses than times: the line of times is renumbered often.
    let accesses: Vec<_> =
        (0..300_000_u64).map(|use_| (use_ * use_ % 257, use_ % 5 == 0)).collect();
    let curve = exact(&accesses);
    for pages in [1, 2, 16, 100, 128, 200] {
        assert_eq!(counts(&curve, pages as u64), lru(pages, &accesses), "{pages} pages");
    }
}

#[test]
fn a_sample_of_pages_estimates_the_exact_curve() {
    let accesses = skewed(2_000_000, 1 << 18);
    let exact = exact(&accesses);
    let mut sampled = SampledDistances::new(4096);
    accesses.iter().for_each(|&(page, write)| sampled.touch(PageId(page), write));
    assert!(sampled.sample().rate() < 0.03, "{:?}", sampled.sample());
    assert!(sampled.sample().pages() <= 4096);
    let sizes: Vec<u64> = (6..18).map(|shift| 1 << shift).collect();
    let (most, mean) = sampled.curve().error(&exact, &sizes);
    assert!(most < 0.03 && mean < 0.015, "at most {most}, {mean} on average");
    let footprint = sampled.curve().pages() / exact.pages();
    assert!((footprint - 1.0).abs() < 0.05, "{footprint} of the pages");
    for pages in [1 << 12, 1 << 15] {
        let apart = sampled.curve().write_back_ratio(pages) - exact.write_back_ratio(pages);
        assert!(apart.abs() < 0.02, "write-backs are {apart} apart at {pages} pages");
    }
}

/// Half of the accesses go to a few pages, the rest to `pages` by a power law; each `seed` has its
/// own pages.
fn with_hot_pages(hot: u64, pages: u64, seed: u64) -> Vec<(u64, bool)> {
    let mut random = Pcg64::seed_from_u64(seed);
    let draw = |_| {
        let rank = if random.random_bool(0.5) {
            random.random_range(0..hot)
        } else {
            (pages as f64).powf(random.random::<f64>()) as u64
        };
        ((seed << 40) + rank.wrapping_mul(0x9e37_79b1) % pages, random.random_bool(0.3))
    };
    (0..1_000_000).map(draw).collect()
}

#[test]
fn whether_a_hot_page_is_in_the_sample_makes_no_difference() {
    // If its accesses stood for those of others, a page that takes a percent of them would be
    // counted as half of all, or as none: up to 0.27 at these sizes.
    for hot in [20, 200, 500, 1000, 2000] {
        for seed in 1..=4 {
            let accesses = with_hot_pages(hot, 1 << 17, seed);
            let exact = exact(&accesses);
            let mut sampled = SampledDistances::new(2048);
            accesses.iter().for_each(|&(page, write)| sampled.touch(PageId(page), write));
            let rate = sampled.sample().rate();
            // From four pages of the sample on.
            let size = |step| (4.0 / rate * 2_f64.powf(f64::from(step) / 4.0)) as u64;
            let sizes: Vec<u64> = (0..40).map(size).filter(|size| *size < 1 << 17).collect();
            let (most, mean) = sampled.curve().error(&exact, &sizes);
            assert!(most < 0.06 && mean < 0.015, "{hot} hot pages: {most}, on average {mean}");
        }
    }
}

#[test]
fn a_sample_takes_memory_that_does_not_grow() {
    let mut sampled = SampledDistances::new(512);
    let mut bytes = Vec::new();
    for (n, (page, write)) in (1..).zip(skewed(2_000_000, 1 << 20)) {
        // A sweep of ever new pages, and old ones now and then.
        sampled.touch(PageId(n), n % 3 == 0);
        sampled.touch(PageId(page), write);
        if n % 500_000 == 0 {
            bytes.push(sampled.memory_bytes());
        }
    }
    assert!(bytes.iter().all(|bytes| *bytes < 512 * 512), "{bytes:?}");
    assert!(sampled.sample().pages() <= 512);
}

#[test]
fn miniature_caches_of_a_sample_miss_like_whole_ones() {
    let accesses = skewed(2_000_000, 1 << 16);
    let sizes = [1 << 10, 1 << 12, 1 << 14];
    let mut sampled = SampledDistances::new(8192);
    accesses.iter().for_each(|&(page, write)| sampled.touch(PageId(page), write));
    let pages = exact(&accesses).pages() as u64;
    for kind in [PolicyKind::MiniSim, PolicyKind::Clock, PolicyKind::S3Fifo] {
        let curve_of = |sample| {
            let mut caches = PolicyCaches::new(kind, &sizes, sample, 1);
            accesses.iter().for_each(|&(page, write)| caches.touch(PageId(page), write));
            caches.curve()
        };
        let (whole, small) = (curve_of(Sample::all(pages)), curve_of(sampled.sample()));
        let (most, _) = small.error(&whole, &sizes);
        assert!(most < 0.04, "{}: {most} apart", kind.name());
    }
}

#[test]
fn the_knee_is_where_more_dram_begins_to_spare_little() {
    // A hundred pages take nine accesses of ten in turn, 900 others the rest.
    let page = |n: u64| if n % 10 < 9 { (n / 10 * 9 + n % 10) % 100 } else { 100 + n / 10 % 900 };
    let accesses: Vec<_> = (0..200_000).map(|n| (page(n), false)).collect();
    let knee = exact(&accesses).knee(1000);
    assert!((100..=115).contains(&knee), "{knee}");
}

#[test]
fn the_pages_that_some_accesses_touch_follow_from_the_curve() {
    let mut random = Pcg64::seed_from_u64(9);
    let draw = |_| (random.random_range(0..100_u64), false);
    let curve = exact(&(0..200_000).map(draw).collect::<Vec<_>>());
    for accesses in [1, 10, 50, 200] {
        let expected = 100.0 * (1.0 - 0.99_f64.powi(accesses));
        let found = curve.working_set(f64::from(accesses)) as f64;
        assert!((found - expected).abs() <= 1.5, "{accesses} touch {found}, not {expected}");
    }
    assert_eq!(curve.working_set(1e9), 100, "no more than there are");
}

#[test]
fn an_access_across_pages_touches_each() {
    let access = |address, bytes| Access::new(Time::ZERO, Addr(address), bytes, Op::Read);
    let hint = Access { op: Op::Hint, ..access(1 << 20, 8) };
    let mut distances = StackDistances::new();
    distances.read(&[access(4090, 6), access(4090, 7), hint]);
    distances.read(&[access(4095, 8194), access(u64::MAX, 8)]);
    let curve = distances.curve();
    assert_eq!((curve.accesses(), curve.pages()), (1 + 2 + 4 + 1, 5.0));
}

#[test]
fn a_batch_in_parts_touches_the_same_pages_a_few_at_a_time() {
    let access = |address, bytes| Access::new(Time::ZERO, Addr(address), bytes, Op::Read);
    let batch = [
        access(0, 8),
        access(4090, 12),
        access(100, 40 * 4096),
        access(7, 1),
        access(u64::MAX - 10 * 4096, 10 * 4096 + 1),
        access(4096, u32::MAX),
    ];
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    pages_of(&batch, |page, _| whole.push(page));
    let done = in_parts(&batch, 4, |part| {
        let before = parts.len();
        pages_of(part, |page, _| parts.push(page));
        if parts.len() - before <= 4 { Ok(()) } else { Err(parts.len() - before) }
    });
    assert_eq!(done, Ok(()));
    assert!(whole == parts, "{} pages, not {}", parts.len(), whole.len());
    let mut seen = 0;
    let stopped = in_parts(&batch[5..], 1 << 16, |_| {
        seen += 1;
        if seen < 3 { Ok(()) } else { Err("stop") }
    });
    assert_eq!((stopped, seen), (Err("stop"), 3), "one access is left in the middle");
}

#[test]
fn sizes_are_found_by_the_ratio_they_reach() {
    let accesses: Vec<_> = (0..1000_u64).map(|n| (n % 10, false)).collect();
    let curve = exact(&accesses);
    assert_eq!((curve.miss_ratio(9), curve.miss_ratio(10)), (1.0, 0.01));
    assert_eq!(curve.cold_ratio(), 0.01);
    assert_eq!(curve.pages_for(0.5), Some(10));
    assert_eq!(curve.pages_for(0.005), None);
    assert_eq!(curve.pages_for(1.0), Some(0));
}

/// The pages that a shipped trace touches one after the other, whether it writes them, and how many
/// there are.
fn shipped(name: &str) -> (Vec<(PageId, bool)>, u64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../traces/{name}.ebt"));
    let mut trace = open(&path).expect("a trace that is shipped");
    let (mut touched, mut batch) = (Vec::new(), Vec::new());
    while trace.fill(&mut batch).expect("a trace that is whole") {
        pages_of(&batch, |page, write| touched.push((page, write)));
    }
    let pages = touched.iter().map(|(page, _)| page).collect::<BTreeSet<_>>().len() as u64;
    (touched, pages)
}

/// Misses of `kind` with each of `frames`.
fn misses(kind: PolicyKind, touched: &[(PageId, bool)], pages: u64, frames: &[u64]) -> Vec<u64> {
    let mut caches = PolicyCaches::new(kind, frames, Sample::all(pages), 1);
    touched.iter().for_each(|(page, write)| caches.touch(*page, *write));
    caches.curve().steps().iter().map(|step| step.misses as u64).collect()
}

#[test]
fn policies_miss_as_often_on_the_shipped_traces_as_they_always_did() {
    let traces = ["sort", "xz", "perl", "sqlite"];
    let shipped = traces.map(shipped);
    let counted = PolicyKind::ALL.map(|kind| {
        let misses =
            |(touched, pages): &(Vec<_>, u64)| misses(kind, touched, *pages, &[*pages * 3 / 10])[0];
        (kind.name(), shipped.each_ref().map(misses))
    });
    // Of each trace, with 30% of its pages cached.
    let golden = [
        ("fifo", [2_218, 118_237, 44_643, 17_925]),
        ("random", [2_905, 118_766, 47_170, 19_512]),
        ("lru", [2_035, 94_027, 31_684, 13_164]),
        ("clock", [1_978, 90_340, 31_247, 13_073]),
        ("cflru", [2_460, 126_382, 56_688, 14_730]),
        ("srrip-hp", [2_022, 84_238, 29_789, 12_512]),
        ("srrip-fp", [2_017, 84_281, 29_435, 12_548]),
        ("brrip", [2_513, 79_341, 40_176, 13_643]),
        ("drrip", [2_022, 84_238, 29_789, 12_512]),
        ("s3-fifo", [2_238, 81_052, 29_001, 12_687]),
        ("mini-sim", [1_949, 73_015, 30_344, 13_049]),
    ];
    assert_eq!(counted, golden);
}

#[test]
fn mini_sim_misses_at_most_a_fiftieth_more_than_lru_on_the_shipped_traces() {
    for name in ["sort", "perl", "sqlite"] {
        let (touched, pages) = shipped(name);
        let frames = [10, 30, 50].map(|percent| pages * percent / 100);
        let lru = misses(PolicyKind::Lru, &touched, pages, &frames);
        let ours = misses(PolicyKind::MiniSim, &touched, pages, &frames);
        for ((frames, ours), lru) in frames.iter().zip(ours).zip(lru) {
            assert!(50 * ours <= 51 * lru, "{name}, {frames} frames: {ours} misses, LRU {lru}");
        }
    }
}

#[test]
fn what_a_sample_does_to_lru_is_taken_out_of_other_policies() {
    let accesses = skewed(1_000_000, 1 << 16);
    let sizes: Vec<u64> = (8..16).map(|power| 1 << power).collect();
    let mut sampled = SampledDistances::new(1024);
    accesses.iter().for_each(|&(page, write)| sampled.touch(PageId(page), write));
    let (all, sample) = (Sample::all(1 << 16), sampled.sample());
    let curve = |kind, sample| {
        let mut caches = PolicyCaches::new(kind, &sizes, sample, 1);
        accesses.iter().for_each(|&(page, write)| caches.touch(PageId(page), write));
        caches.curve()
    };
    let (exact_lru, small_lru) = (exact(&accesses), curve(PolicyKind::Lru, sample));
    let (uncorrected, _) = small_lru.error(&exact_lru, &sizes);
    assert!(small_lru.corrected(&exact_lru, &small_lru).error(&exact_lru, &sizes).0 < 1e-9);
    for kind in [PolicyKind::Fifo, PolicyKind::Clock, PolicyKind::S3Fifo] {
        let (whole, small) = (curve(kind, all), curve(kind, sample));
        let before = small.error(&whole, &sizes).0;
        let after = small.corrected(&exact_lru, &small_lru).error(&whole, &sizes).0;
        assert!(after < before / 2.0, "{kind}: {before} becomes {after}; LRU {uncorrected}");
    }
}
