//! The effects of the prefetchers on a program's misses, both wanted and unwanted. Also their exact
//! counts on a fixed stream.

use ebbtide_core::PageId;
use ebbtide_core::prefetch::{
    Demand, Metrics, NextNLine, Origin, Prefetcher, PrefetcherKind, Prefetching, Preset,
};
use ebbtide_core::replacement::Position;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::device::Device;

const PAGES: u64 = 4_000;

fn device(kind: PrefetcherKind, preset: Preset, latency: u64) -> Device {
    Device::new(kind.build(preset, PAGES), PAGES, 256, latency)
}

/// Scans with a stride, loops and random pages, one after the other. It uses only integers, so it
/// is the same on every machine.
fn mixed() -> Vec<u64> {
    let mut random = Pcg64::seed_from_u64(3);
    let mut pages = Vec::new();
    for part in 0..40 {
        let start = random.random_range(0..PAGES - 2_000);
        match part % 4 {
            0 => pages.extend((0..400).map(|step| start + step)),
            1 => pages.extend((0..400).map(|step| start + 5 * step)),
            2 => pages.extend((0..400).map(|_| random.random_range(0..PAGES))),
            // Two scans that take turns, one of them backwards.
            _ => pages.extend((0..200).flat_map(|step| [start + step, start + 1_999 - step])),
        }
    }
    pages
}

#[test]
fn every_prefetcher_does_on_a_mixed_stream_what_it_always_did() {
    let counted = PrefetcherKind::ALL.map(|kind| {
        let name = kind.name();
        let counts = Preset::ALL.map(|preset| {
            let mut device = device(kind, preset, 20);
            let Metrics { issued, used, late, misses, polluted, .. } =
                *device.access_all(mixed()).metrics();
            [misses, issued, used, late, polluted]
        });
        (name, counts[0], counts[1])
    });
    // Misses, issued, used, late, polluted; original, then as in ATC'23.
    let golden = [
        ("none", [15_093, 0, 0, 0, 0], [15_093, 0, 0, 0, 0]),
        ("next-n-line", [5_967, 36_045, 9_520, 3_942, 509], [7_876, 28_044, 7_606, 2_443, 1_309]),
        (
            "feedback-directed",
            [9_812, 17_215, 5_591, 4_457, 2_119],
            [9_144, 26_691, 6_553, 2_339, 1_506],
        ),
        ("best-offset", [9_113, 14_852, 6_481, 1_157, 1_192], [7_180, 73_696, 8_648, 1_208, 359]),
        ("leap", [8_580, 6_893, 6_537, 6_522, 958], [12_493, 6_460, 2_767, 2_610, 2_468]),
    ];
    assert_eq!(counted, golden);
}

#[test]
fn next_n_line_fetches_the_run_it_is_set_to_at_a_miss_and_at_a_first_use() {
    for preset in [Preset::Original, Preset::Atc23] {
        let mut next = NextNLine { degree: 3, offset: 2, preset };
        let mut at = |demand| {
            let mut candidates = Vec::new();
            next.demand(PageId(10), demand, &Metrics::default(), &mut candidates);
            !candidates.is_empty() && {
                assert_eq!(candidates, [13, 14, 15].map(PageId));
                true
            }
        };
        assert!(at(Demand::Miss) && at(Demand::FirstHit { late: false }) && !at(Demand::Hit));
        let late = preset == Preset::Original;
        assert_eq!((at(Demand::Late), at(Demand::FirstHit { late: true })), (late, !late));
    }
}

#[test]
fn no_candidate_lies_beyond_the_address_space() {
    let mut at_work = Prefetching::new(Box::new(NextNLine::new(Preset::Original)), 100);
    assert_eq!(at_work.demand(PageId(81), Demand::Miss), [98, 99].map(PageId));
    assert_eq!(at_work.demand(PageId(99), Demand::Miss), []);
}

#[test]
fn a_scan_slower_than_the_device_misses_only_until_the_first_prefetch_arrives() {
    let mut device = device(PrefetcherKind::NextNLine, Preset::Original, 8);
    device.access_all(0..1_000);
    // The seventeen pages before the first run ahead, and no other.
    assert_eq!(device.misses, 17);
    let metrics = device.metrics();
    assert_eq!((metrics.used, metrics.late), (1_000 - 17, 0));
    assert!(metrics.accuracy() > 0.95, "{}", metrics.accuracy());
    assert_eq!(metrics.coverage(1_000), 0.983);
}

#[test]
fn a_scan_faster_than_the_device_finds_its_prefetches_late() {
    let mut device = device(PrefetcherKind::NextNLine, Preset::Original, 30);
    device.access_all(0..1_000);
    assert_eq!(device.misses, 17);
    assert_eq!(device.metrics().lateness(), 1.0);
}

#[test]
fn a_page_that_a_prefetch_displaced_and_is_missed_counts_as_pollution_once() {
    let mut at_work = Prefetching::new(PrefetcherKind::None.build(Preset::Original, 10), 10);
    let page = PageId(7);
    at_work.demand(page, Demand::Miss);
    at_work.evicted(page, Origin::Demand, false);
    at_work.demand(page, Demand::Miss);
    assert_eq!(at_work.metrics().polluted, 0, "a demand displaced it");
    at_work.evicted(page, Origin::Demand, true);
    at_work.demand(page, Demand::Miss);
    at_work.demand(page, Demand::Miss);
    assert_eq!(at_work.metrics().polluted, 1);
    assert_eq!(at_work.metrics().pollution(), 0.25);
    at_work.evicted(page, Origin::Demand, true);
    at_work.arrived(page, true);
    at_work.demand(page, Demand::Miss);
    assert_eq!(at_work.metrics().polluted, 1, "a prefetch had brought it back");
    for origin in [Origin::Used, Origin::Unused] {
        at_work.evicted(page, origin, true);
        at_work.demand(page, Demand::Miss);
        assert_eq!(at_work.metrics().polluted, 1, "a prefetch had brought it");
    }
}

#[test]
fn names_are_found_and_misspelt_ones_offered_the_nearest() {
    for (name, kind) in PrefetcherKind::ALL.map(|kind| (kind.name(), kind)) {
        assert_eq!((name.parse::<PrefetcherKind>(), kind.name()), (Ok(kind), name));
    }
    let error = "next-n-lines".parse::<PrefetcherKind>().unwrap_err().to_string();
    assert!(error.starts_with("unknown prefetcher 'next-n-lines'; did you mean 'next-n-line'?"));
    assert_eq!("atc23".parse::<Preset>(), Ok(Preset::Atc23));
}

/// The prefetches of an interval.
#[derive(Clone, Copy)]
struct Interval {
    /// Used prefetches of a thousand.
    used: u64,
    /// Late prefetches of the used ones.
    late: u64,
    /// Polluted misses of two thousand.
    polluted: u64,
}

const HIGH: u64 = 750;
const MEDIUM: u64 = 749;
const MEDIUM_LEAST: u64 = 400;
const LOW: u64 = 399;

/// Feeds the events of one interval of HPCA'07, which ends at 8,192 useful pages.
fn tell(at_work: &mut Prefetching, interval: Interval) {
    let page = PageId(7);
    (0..1_000).for_each(|_| at_work.issued());
    for number in 0..interval.used {
        let late = number < interval.late;
        at_work.count(page, if late { Demand::Late } else { Demand::FirstHit { late: false } });
    }
    for number in 0..2_000 {
        let polluted = number < interval.polluted;
        at_work.evicted(page, Origin::Demand, polluted);
        at_work.count(page, Demand::Miss);
        at_work.evicted(page, Origin::Unused, true);
    }
    (0..8_192 - 2_000).for_each(|_| at_work.evicted(page, Origin::Used, true));
}

/// Returns how far ahead it fetches, and how many pages.
fn run_ahead(at_work: &mut Prefetching) -> (u64, usize) {
    let run = at_work.demand(PageId(0), Demand::FirstHit { late: false });
    (run[0].0 - 1, run.len())
}

#[test]
fn feedback_of_2007_changes_its_level_as_its_table_says() {
    const MIDDLE: (u64, usize) = (16, 2);
    const MORE: (u64, usize) = (32, 4);
    const LESS: (u64, usize) = (8, 1);
    // Late from 1 in 100 used ones, polluting from 1 in 200 misses.
    let rows = [
        (HIGH, true, false, MORE),
        (HIGH, true, true, MORE),
        (HIGH, false, false, MIDDLE),
        (HIGH, false, true, LESS),
        (MEDIUM, true, false, MORE),
        (MEDIUM_LEAST, true, false, MORE),
        (MEDIUM, true, true, LESS),
        (MEDIUM, false, false, MIDDLE),
        (MEDIUM, false, true, LESS),
        (LOW, true, false, LESS),
        (LOW, true, true, LESS),
        (LOW, false, false, MIDDLE),
        (LOW, false, true, LESS),
    ];
    for (row, (used, late, polluting, then)) in rows.into_iter().enumerate() {
        let kind = PrefetcherKind::FeedbackDirected;
        let mut at_work = Prefetching::new(kind.build(Preset::Original, PAGES), PAGES);
        assert_eq!(run_ahead(&mut at_work), MIDDLE);
        // The look at the level was one first hit.
        let late = if late { (used + 1).div_ceil(100) } else { used / 100 };
        let polluted = if polluting { 10 } else { 9 };
        tell(&mut at_work, Interval { used: used - 1, late, polluted });
        assert_eq!(run_ahead(&mut at_work), then, "row {row}");
    }
}

#[test]
fn feedback_of_2007_puts_pages_nearer_the_end_of_the_cache_the_more_it_pollutes() {
    let kind = PrefetcherKind::FeedbackDirected;
    for (polluted, position) in [
        (9, Position::Middle),
        (10, Position::LeastRecentQuarter),
        (499, Position::LeastRecentQuarter),
        (500, Position::LeastRecent),
    ] {
        let mut at_work = Prefetching::new(kind.build(Preset::Original, PAGES), PAGES);
        assert_eq!(at_work.position(), Position::Middle);
        tell(&mut at_work, Interval { used: 500, late: 0, polluted });
        assert_eq!(at_work.position(), position, "{polluted} of 2000");
    }
    let mut at_work = Prefetching::new(kind.build(Preset::Atc23, PAGES), PAGES);
    tell(&mut at_work, Interval { used: 500, late: 0, polluted: 2_000 });
    assert_eq!(at_work.position(), Position::MostRecent);
}

#[test]
fn feedback_of_2007_forgets_half_of_what_was_at_every_interval() {
    let kind = PrefetcherKind::FeedbackDirected;
    let mut at_work = Prefetching::new(kind.build(Preset::Original, PAGES), PAGES);
    let late = Interval { used: 500, late: 20, polluted: 0 };
    let timely = Interval { used: 500, late: 0, polluted: 0 };
    tell(&mut at_work, late);
    assert_eq!(run_ahead(&mut at_work), (32, 4));
    // 10 of 750, 5 of 875, …: late once more, then no longer.
    tell(&mut at_work, timely);
    assert_eq!(run_ahead(&mut at_work), (64, 4));
    let bad = Interval { used: 100, late: 0, polluted: 1_000 };
    tell(&mut at_work, timely);
    for (distance, degree) in [(32, 4), (16, 2), (8, 1), (4, 1), (4, 1)] {
        tell(&mut at_work, bad);
        assert_eq!(run_ahead(&mut at_work), (distance, degree));
    }
}

#[test]
fn best_offset_finds_the_step_of_a_program_and_covers_its_latency() {
    for (step, latency) in [(1, 20), (3, 10), (5, 0)] {
        let mut device = device(PrefetcherKind::BestOffset, Preset::Original, latency);
        let steps = |count: u64| (0..count).map(move |at| at * step % PAGES);
        // It learns for 31 rounds of 52 offsets, and once more by the offset it then has.
        device.access_all(steps(8_000));
        let before = *device.metrics();
        let after = device.access_all(steps(4_000)).metrics().since(&before);
        assert!(after.accuracy() > 0.98, "step {step}: {after:?}");
        assert!(after.lateness() < 0.02 && after.misses < 80, "step {step}: {after:?}");
    }
}

#[test]
fn best_offset_stops_where_nothing_repeats_and_starts_again() {
    let pages = 1 << 22;
    let mut random = Pcg64::seed_from_u64(9);
    let kind = PrefetcherKind::BestOffset;
    let mut device = Device::new(kind.build(Preset::Original, pages), pages, 256, 10);
    // The first phase prefetches by the offset it begins with: 100 rounds of 52 accesses.
    device.access_all((0..100 * 52).map(|_| random.random_range(0..pages)));
    let before = device.metrics().issued;
    device.access_all((0..3_000).map(|_| random.random_range(0..pages)));
    assert_eq!(device.metrics().issued, before);
    device.access_all(0..12_000);
    assert!(device.metrics().issued > before + 6_000, "{}", device.metrics().issued - before);
}

#[test]
fn leap_finds_a_trend_through_irregular_steps_and_follows_a_new_one() {
    let mut at_work = Prefetching::new(PrefetcherKind::Leap.build(Preset::Original, PAGES), PAGES);
    let mut fault = |page: u64| at_work.demand(PageId(page), Demand::Miss).to_vec();
    let down = |at: u64| 1_000 - 3 * at;
    // Five steps of eight are the majority that the first window needs, and then it follows.
    assert!((0..6).all(|at| fault(down(at)).is_empty()));
    assert_eq!(fault(down(6)), [PageId(down(7))]);
    assert_eq!(fault(2_000), [], "off the trend");
    assert_eq!(fault(down(7)), []);
    assert_eq!(fault(down(8)), [PageId(down(9))], "the trend outlasts one step to elsewhere");
    for at in 0..20 {
        fault(3_000 + 2 * at);
    }
    assert_eq!(fault(3_040), [PageId(3_042)]);
}

#[test]
fn leap_doubles_its_window_with_use_and_halves_it_without() {
    let mut at_work = Prefetching::new(PrefetcherKind::Leap.build(Preset::Original, PAGES), PAGES);
    for at in 0..7 {
        at_work.demand(PageId(at), Demand::Miss);
    }
    let mut windows = Vec::new();
    let mut page = 7;
    for uses in [1, 3, 7, 20, 0, 0, 0, 0] {
        for _ in 0..uses {
            assert_eq!(at_work.demand(PageId(page), Demand::FirstHit { late: false }), []);
            page += 1;
        }
        windows.push(at_work.demand(PageId(page), Demand::Miss).len());
        page += 1;
    }
    // Twice the uses and no more than 8, but no less than half of the last.
    assert_eq!(windows, [2, 4, 8, 8, 4, 2, 1, 1]);
}
