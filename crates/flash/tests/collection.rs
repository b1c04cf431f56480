//! The commands that a collection blocks, and those that it does not.

mod common;

use common::{Host, PROGRAM, READ, TRANSFER, about_to_collect, random_commands, small, us};
use ebbtide_core::{PageId, Span, Time};
use ebbtide_flash::{GarbageCollection, Kind, SsdConfig, victim_share};

/// Completion time of the write that starts the collection.
fn written() -> Time {
    us(0) + TRANSFER + PROGRAM
}

/// Duration of the collection: some copies and an erasure.
fn copyback(host: &Host) -> Span {
    let counters = host.flash.counters();
    assert_eq!(counters.erases, 1);
    assert!((1..4).contains(&counters.gc_pages_moved), "{counters:?}");
    Span::from_us(counters.gc_pages_moved * (10 + 100) + 1000)
}

/// Submission time of the read of plane `plane`, far enough apart for the channels.
fn read_at(plane: u64) -> Time {
    us(200 + 20 * plane)
}

/// Writes a page of plane 0. While that plane collects, reads a page of each plane.
fn reads_during_a_collection(garbage_collection: GarbageCollection) -> (Host, [u64; 4]) {
    let mut host = Host::new(about_to_collect(garbage_collection, 11));
    host.write(us(0), 0);
    let reads = [0, 1, 2, 3].map(|plane| host.read(read_at(plane), 4 + plane));
    host.finish();
    (host, reads)
}

#[test]
fn plane_blocking_gc_blocks_only_its_plane() {
    let (host, reads) = reads_during_a_collection(GarbageCollection::PlaneBlocking);
    assert_eq!(host.done(reads[0]).at, written() + copyback(&host) + READ + TRANSFER);
    for plane in [1, 2, 3] {
        assert_eq!(host.done(reads[plane]).at, read_at(plane as u64) + READ + TRANSFER);
    }
    assert_eq!(reads.map(|read| host.done(read).blocked_by_gc), [true, false, false, false]);
    assert_eq!(host.flash.counters().reads_blocked_by_gc, 1);
    assert_eq!(host.flash.counters().read_share_blocked_by_gc(), 0.25);
}

#[test]
fn controller_blocking_gc_delays_the_whole_channel() {
    let (host, reads) = reads_during_a_collection(GarbageCollection::ControllerBlocking);
    // Every copy crosses the bus twice. Plane 2 shares the channel of plane 0.
    let transfers = Span::from_ns(host.flash.counters().gc_pages_moved * 2 * 4096);
    let over = written() + copyback(&host) + transfers;
    assert_eq!(host.done(reads[2]).at, over + TRANSFER);
    assert!(host.done(reads[0]).at >= over + READ + TRANSFER);
    for plane in [1, 3] {
        assert_eq!(host.done(reads[plane]).at, read_at(plane as u64) + READ + TRANSFER);
    }
    assert_eq!(reads.map(|read| host.done(read).blocked_by_gc), [true, false, true, false]);
}

#[test]
fn a_free_collection_delays_nobody_but_is_counted() {
    let (host, reads) = reads_during_a_collection(GarbageCollection::Free);
    for plane in [0, 1, 2, 3] {
        assert_eq!(host.done(reads[plane]).at, read_at(plane as u64) + READ + TRANSFER);
    }
    assert_eq!(host.flash.counters().share_blocked_by_gc(), 0.0);
    assert!(host.flash.counters().gc_pages_moved > 0);
}

#[test]
fn a_write_that_waits_for_a_collection_is_counted_as_blocked() {
    let mut host = Host::new(about_to_collect(GarbageCollection::PlaneBlocking, 11));
    host.write(us(0), 0);
    let write = host.write(us(200), 4);
    host.finish();
    assert_eq!(host.done(write).at, written() + copyback(&host) + TRANSFER + PROGRAM);
    assert!(host.done(write).blocked_by_gc);
    assert_eq!(host.flash.counters().writes_blocked_by_gc, 1);
}

#[test]
fn one_waiting_read_is_served_between_two_collections() {
    let mut host = Host::new(about_to_collect(GarbageCollection::PlaneBlocking, 12));
    host.write(us(0), 0);
    let reads = [4, 8].map(|page| host.read(us(200), page));
    host.finish();
    assert_eq!(host.flash.counters().erases, 2);
    let [first, second] = reads.map(|read| host.done(read).at);
    assert!(second - first > Span::from_us(1000), "{first:?} {second:?}");
}

#[test]
fn at_the_hard_limit_reads_are_served_and_writes_wait() {
    let config = SsdConfig {
        valid_percent: 50.0,
        invalid_percent: 30.0,
        gc_start_free_percent: 19.0,
        gc_hard_free_percent: 12.0,
        ..small()
    };
    let mut host = Host::new(config);
    let pages = host.flash.logical_pages().unwrap();
    let commands = random_commands(3, 2_000, pages, 60, 5);
    for (at, kind, page) in commands {
        host.submit(at, kind, page);
    }
    host.finish();
    let counters = host.flash.counters();
    assert_eq!(counters.reads + counters.writes, 2_000);
    assert!(counters.erases > 100, "{counters:?}");
    // Reads pass between collections; writes wait for as many as it takes.
    let mean = |kind| {
        let of_kind = host.done.iter().filter(|done| done.kind == kind);
        let (sum, count) =
            of_kind.fold((0, 0), |(sum, count), done| (sum + done.queued.as_ns(), count + 1));
        sum / count
    };
    assert!(mean(Kind::Read) * 4 < mean(Kind::Write), "{} {}", mean(Kind::Read), mean(Kind::Write));
}

/// The share of random requests that collections block. Data fill a third of the device.
fn blocked_share(chips_per_channel: u32) -> f64 {
    let config = SsdConfig {
        channels: 4,
        chips_per_channel,
        blocks_per_plane: 64,
        pages_per_block: 32,
        over_provisioning_percent: 66.0,
        valid_percent: 34.0,
        invalid_percent: 36.0,
        gc_start_free_percent: 30.0,
        gc_hard_free_percent: 10.0,
        ..small()
    };
    let mut host = Host::new(config);
    let pages = host.flash.logical_pages().unwrap();
    for (at, kind, page) in random_commands(7, 60_000, pages, 20, 40) {
        host.submit(at, kind, page);
    }
    host.finish();
    host.flash.counters().share_blocked_by_gc()
}

#[test]
fn four_times_the_planes_block_a_quarter_of_the_requests() {
    let (few, many) = (blocked_share(4), blocked_share(16));
    assert!(few > 0.005, "{few}");
    assert!((3.2..5.0).contains(&(few / many)), "{few} {many}");
}

#[test]
fn the_same_commands_have_the_same_result() {
    let run = || {
        let mut host =
            Host::new(SsdConfig { valid_percent: 50.0, gc_start_free_percent: 20.0, ..small() });
        let pages = host.flash.logical_pages().unwrap();
        for (at, kind, page) in random_commands(1, 3_000, pages, 30, 40) {
            host.submit(at, kind, page);
        }
        host.finish();
        (host.done.clone(), *host.flash.counters(), host.flash.plane_busy().collect::<Vec<_>>())
    };
    let (done, counters, busy) = run();
    assert!(counters.erases > 0);
    assert_eq!((done, counters, busy), run());
}

#[test]
fn completions_do_not_depend_on_how_often_the_device_is_looked_at() {
    let commands = random_commands(9, 2_000, 200, 30, 40);
    let config = SsdConfig { valid_percent: 50.0, gc_start_free_percent: 20.0, ..small() };
    let mut seldom = Host::new(config.clone());
    let mut often = Host::new(config);
    for (at, kind, page) in commands {
        seldom.submit(at, kind, page);
        while let Some(next) = often.flash.next_event().filter(|next| *next <= at) {
            often.flash.advance(next, &mut often.done);
        }
        often.submit(at, kind, page);
    }
    seldom.finish();
    often.finish();
    assert_eq!(seldom.done, often.done);
}

#[test]
fn who_watches_learns_which_pages_were_written_and_which_a_collection_moved() {
    let mut host = Host::new(about_to_collect(GarbageCollection::PlaneBlocking, 11));
    host.flash.watch_moves();
    host.write(us(0), 0);
    host.finish();
    let moved = host.flash.take_moved();
    assert_eq!(moved[0], PageId(0));
    assert_eq!(moved.len() as u64, 1 + host.flash.counters().gc_pages_moved);
    assert!(moved.iter().all(|page| page.0 % 4 == 0), "all of plane 0: {moved:?}");
    assert_eq!(host.flash.take_moved(), []);
}

#[test]
fn planes_of_an_aged_device_begin_at_different_points_between_two_collections() {
    let (planes, pages_per_block) = (64, 64);
    let mut host = Host::new(SsdConfig {
        channels: 8,
        chips_per_channel: 8,
        blocks_per_plane: 64,
        pages_per_block,
        over_provisioning_percent: 40.0,
        // Three of the 64 blocks are free: just as many as start a collection.
        valid_percent: 60.0,
        invalid_percent: 35.0,
        gc_start_free_percent: 100.0 * 3.0 / 64.0,
        garbage_collection: GarbageCollection::Free,
        ..small()
    });
    // A collection gains the places of a block that hold no valid data.
    let gained = f64::from(pages_per_block) * (1.0 - victim_share(60.0 / 95.0));
    let mut erases = Vec::new();
    for round in 0..gained as u64 {
        for page in (round * planes)..((round + 1) * planes) {
            host.write(us(round * 1_000), page);
        }
        host.finish();
        erases.push(host.flash.counters().erases);
    }
    let evenly = |writes: usize| writes as f64 * planes as f64 / gained;
    for (done, erases) in (1..).zip(erases) {
        assert!(
            (erases as f64 - evenly(done)).abs() <= 4.0,
            "{erases} after {done} of {gained:.1}"
        );
    }
}
