//! For any device and load, every command completes once, in order, and no faster than its own
//! operation takes. The counters add up.

mod common;

use common::{Host, small};
use ebbtide_core::{Span, Time};
use ebbtide_flash::{GarbageCollection, Kind, SsdConfig, Suspend, WriteDone, WriteUnit};
use proptest::prelude::*;

/// Slightly more than the least over-provisioning with which collections always gain room.
fn least_over_provisioning(blocks: u32, pages: u32) -> f64 {
    100.0 * (1.0 - f64::from((blocks - 3) * (pages - 1)) / f64::from(blocks * pages)) + 0.01
}

fn geometry() -> impl Strategy<Value = SsdConfig> {
    let parts = (1u32..3, 1u32..3, any::<bool>(), 8u32..14, 2u32..9, 1u32..5);
    let shares = (0.0f64..1.0, 0.0f64..1.0, 0.0f64..1.0);
    let drives = (1u32..4, 1u32..4);
    (parts, shares, drives).prop_map(|(parts, (over_provisioning, valid, invalid), drives)| {
        let (drives, interleave_pages) = drives;
        let (channels, chips_per_channel, independent_planes, blocks, pages, page) = parts;
        let least = least_over_provisioning(blocks, pages);
        let over_provisioning_percent = least + 20.0 * over_provisioning.powi(2);
        let writable = 100.0 * f64::from(blocks - 3) / f64::from(blocks);
        let valid_percent = valid * (100.0 - over_provisioning_percent).min(writable - 0.1);
        SsdConfig {
            drives,
            interleave_pages,
            channels,
            chips_per_channel,
            planes_per_die: 2,
            independent_planes,
            blocks_per_plane: blocks,
            pages_per_block: pages,
            page_bytes: 4096 * page,
            over_provisioning_percent,
            valid_percent,
            invalid_percent: invalid * (writable - 0.1 - valid_percent),
            ..small()
        }
    })
}

fn device() -> impl Strategy<Value = SsdConfig> {
    use GarbageCollection::{ControllerBlocking, Free, PlaneBlocking};
    let collection = prop::sample::select(vec![ControllerBlocking, PlaneBlocking, Free]);
    let unit = prop::sample::select(vec![WriteUnit::Filled, WriteUnit::Padded]);
    let done = prop::sample::select(vec![WriteDone::Programmed, WriteDone::Buffered]);
    let suspend = prop::sample::select(vec![Suspend::None, Suspend::Erase, Suspend::ProgramErase]);
    let choices = (collection, unit, done, suspend);
    let numbers = (0.0f64..60.0, 0.0f64..1.0, 0u32..4, 0u32..8, 0.0f64..200.0);
    (geometry(), choices, numbers).prop_map(|(geometry, choices, numbers)| {
        let (garbage_collection, write_unit, write_done, suspend) = choices;
        let (gc_start_free_percent, hard, static_wear_spread, write_buffer_pages, pad) = numbers;
        SsdConfig {
            garbage_collection,
            gc_start_free_percent,
            gc_hard_free_percent: hard * gc_start_free_percent,
            static_wear_spread,
            write_unit,
            pad_after_us: pad,
            write_done,
            buffered_write_us: 2.0,
            buffered_read_us: 1.0,
            write_buffer_pages,
            suspend,
            suspend_us: 3.0,
            resume_us: 1.0,
            suspensions_max: 2,
            ..geometry
        }
    })
}

fn load() -> impl Strategy<Value = Vec<(u64, bool, prop::sample::Index)>> {
    let gap = prop_oneof![Just(0u64), 0u64..50, 0u64..2_000];
    prop::collection::vec((gap, prop::bool::weighted(0.7), any::<prop::sample::Index>()), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_command_is_done_once_and_everything_adds_up(config in device(), load in load()) {
        let slots_per_page = u64::from(config.page_bytes / 4096);
        let buffered = config.write_done == WriteDone::Buffered;
        let mut host = Host::new(config);
        let pages = host.flash.logical_pages().unwrap() as usize;
        let mut submitted = Vec::new();
        let mut now = Time::ZERO;
        for (gap, is_write, page) in &load {
            now += Span::from_us(*gap);
            let kind = if *is_write { Kind::Write } else { Kind::Read };
            host.submit(now, kind, page.index(pages) as u64);
            submitted.push((now, kind));
        }
        host.finish();
        prop_assert!(host.flash.is_idle());

        let mut tags: Vec<u64> = host.done.iter().map(|done| done.tag).collect();
        tags.sort_unstable();
        prop_assert!(tags.iter().copied().eq(1..=load.len() as u64));
        prop_assert!(host.done.is_sorted_by_key(|done| done.at));
        for done in &host.done {
            let (at, kind) = submitted[done.tag as usize - 1];
            prop_assert_eq!(done.kind, kind);
            prop_assert!(done.at >= at + done.queued + Span::from_us(1));
        }

        let counters = host.flash.counters();
        let of_kind = |kind| submitted.iter().filter(|(_, other)| *other == kind).count() as u64;
        let written = counters.writes + host.flash.buffered_writes();
        prop_assert_eq!((counters.reads, written), (of_kind(Kind::Read), of_kind(Kind::Write)));
        prop_assert!(buffered || host.flash.buffered_writes() == 0);
        let programmed = counters.host_pages_programmed;
        let least = counters.writes.div_ceil(slots_per_page) * slots_per_page;
        prop_assert!((least..=counters.writes * slots_per_page).contains(&programmed));
        prop_assert!(counters.gc_pages_moved <= counters.gc_pages_programmed);
        let blocked = |kind| {
            host.done.iter().filter(|done| done.kind == kind && done.blocked_by_gc).count() as u64
        };
        prop_assert_eq!(counters.reads_blocked_by_gc, blocked(Kind::Read));
        if !buffered {
            prop_assert_eq!(counters.writes_blocked_by_gc, blocked(Kind::Write));
        }
        let wear = host.flash.wear();
        prop_assert!(f64::from(wear.erases_max) >= wear.erases_mean);
        prop_assert_eq!(wear.erases_mean > 0.0, counters.erases > 0);
    }
}
