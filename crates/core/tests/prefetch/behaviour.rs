//! What the prefetchers must and must not do to a program's misses, and their exact counts on a
//! fixed stream.

use ebbtide_core::PageId;
use ebbtide_core::prefetch::{
    Demand, Metrics, NextNLine, Origin, Prefetcher, PrefetcherKind, Prefetching, Preset,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::device::Device;

const PAGES: u64 = 4_000;

fn device(kind: PrefetcherKind, preset: Preset, latency: u64) -> Device {
    Device::new(kind.build(preset, PAGES), PAGES, 256, latency)
}

/// Scans with a stride, loops and random pages, one after the other; integers only, so the same on
/// every machine.
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
    let counted = PrefetcherKind::ALL.map(|(name, kind)| {
        let counts = Preset::ALL.map(|(_, preset)| {
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
    for (name, kind) in PrefetcherKind::ALL {
        assert_eq!((PrefetcherKind::from_name(name), kind.name()), (Ok(kind), name));
    }
    let error = PrefetcherKind::from_name("next-n-lines").unwrap_err().to_string();
    assert!(error.starts_with("unknown prefetcher 'next-n-lines'; did you mean 'next-n-line'?"));
    assert_eq!(Preset::from_name("atc23"), Ok(Preset::Atc23));
}
