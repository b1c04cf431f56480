//! Latency of commands on an idle or lightly loaded device.

mod common;

use common::{Host, PROGRAM, READ, TRANSFER, small, us};
use ebbtide_core::{PageId, Span, Time};
use ebbtide_flash::{Command, Config, Flash, Kind, SsdConfig, WriteDone, WriteUnit};

/// Like the small device, with four 4 KiB places in a physical page.
fn large_pages(write_unit: WriteUnit) -> SsdConfig {
    SsdConfig { page_bytes: 16384, write_unit, pad_after_us: 50.0, ..small() }
}

#[test]
fn an_idle_device_reads_in_array_and_bus_time() {
    let mut host = Host::new(small());
    let read = host.read(us(5), 0);
    host.finish();
    assert_eq!(host.done(read).at, us(5) + READ + TRANSFER);
    assert_eq!(host.done(read).queued, Span::ZERO);
    assert!(host.flash.is_idle());
}

#[test]
fn an_idle_device_writes_in_bus_and_array_time() {
    let mut host = Host::new(small());
    let write = host.write(us(5), 0);
    host.finish();
    assert_eq!(host.done(write).at, us(5) + TRANSFER + PROGRAM);
    assert_eq!(host.done(write).queued, Span::ZERO);
}

#[test]
fn a_read_of_a_large_page_moves_only_its_part_over_the_bus() {
    let mut host = Host::new(large_pages(WriteUnit::Filled));
    let read = host.read(us(0), 0);
    host.finish();
    assert_eq!(host.done(read).at, us(0) + READ + TRANSFER);
}

#[test]
fn planes_of_one_channel_sense_together_and_send_one_after_the_other() {
    let mut host = Host::new(small());
    // Planes 0 and 2 share channel 0; plane 1 has the other.
    let [first, second, other] = [0, 2, 1].map(|page| host.read(us(0), page));
    host.finish();
    assert_eq!(host.done(first).at, us(0) + READ + TRANSFER);
    assert_eq!(host.done(second).at, us(0) + READ + TRANSFER + TRANSFER);
    assert_eq!(host.done(second).queued, TRANSFER);
    assert_eq!(host.done(other).at, us(0) + READ + TRANSFER);
}

#[test]
fn reads_of_one_plane_are_served_one_after_the_other() {
    let mut host = Host::new(small());
    let [first, second] = [0, 4].map(|page| host.read(us(0), page));
    host.finish();
    let service = READ + TRANSFER;
    assert_eq!(host.done(first).at, us(0) + service);
    assert_eq!(host.done(second).at, us(0) + service + service);
    assert_eq!(host.flash.plane_busy().next(), Some(service + service));
}

#[test]
fn planes_of_a_die_work_together_only_if_they_are_independent() {
    let read_both = |independent_planes| {
        let config = SsdConfig { channels: 1, chips_per_channel: 1, planes_per_die: 2, ..small() };
        let mut host = Host::new(SsdConfig { independent_planes, ..config });
        let reads = [0, 1].map(|page| host.read(us(0), page));
        host.finish();
        reads.map(|read| host.done(read).at)
    };
    let first = us(0) + READ + TRANSFER;
    assert_eq!(read_both(true), [first, first + TRANSFER]);
    assert_eq!(read_both(false), [first, first + READ + TRANSFER]);
}

#[test]
fn a_read_goes_before_queued_programs() {
    let mut host = Host::new(small());
    let writes = [0, 4, 8].map(|page| host.write(us(0), page));
    let read = host.read(us(1), 12);
    host.finish();
    let first = us(0) + TRANSFER + PROGRAM;
    assert_eq!(host.done(writes[0]).at, first);
    assert_eq!(host.done(read).at, first + READ + TRANSFER);
    assert_eq!(host.done(writes[1]).at, first + READ + TRANSFER + TRANSFER + PROGRAM);
}

#[test]
fn four_writes_fill_a_large_page() {
    let mut host = Host::new(large_pages(WriteUnit::Filled));
    let writes = [0, 4, 8, 12].map(|page| host.write(us(0), page));
    host.finish();
    let transfer = Span::from_ns(4 * 4096);
    for write in writes {
        assert_eq!(host.done(write).at, us(0) + transfer + PROGRAM);
    }
    assert_eq!(host.flash.counters().write_amplification(), 1.0);
}

#[test]
fn a_page_that_does_not_fill_is_padded_in_the_end() {
    let mut host = Host::new(large_pages(WriteUnit::Filled));
    let writes = [0, 4].map(|page| host.write(us(0), page));
    host.finish();
    let transfer = Span::from_ns(4 * 4096);
    for write in writes {
        assert_eq!(host.done(write).at, us(50) + transfer + PROGRAM);
    }
    assert_eq!(host.flash.counters().write_amplification(), 2.0);
}

#[test]
fn a_write_in_the_buffer_waits_for_others_until_the_buffer_is_full() {
    let config = large_pages(WriteUnit::Filled);
    let mut host =
        Host::new(SsdConfig { write_done: WriteDone::Buffered, write_buffer_pages: 2, ..config });
    for page in [0, 1] {
        host.write(us(0), page);
    }
    host.finish();
    assert_eq!(host.flash.counters().host_pages_programmed, 0);
    let third = host.write(us(1_000), 2);
    host.finish();
    // It alone is padded, and so makes room.
    let buffered = Span::from_ns((config.buffered_write_us * 1e3) as u64);
    let programmed = us(1_050) + Span::from_ns(4 * 4096) + PROGRAM;
    assert_eq!(host.done(third).at, programmed + buffered);
    assert_eq!(host.flash.counters().host_pages_programmed, 4);
}

#[test]
fn padded_writes_program_four_times_as_much() {
    let mut host = Host::new(large_pages(WriteUnit::Padded));
    for page in [0, 4, 8, 12] {
        host.write(us(0), page);
    }
    host.finish();
    assert_eq!(host.flash.counters().write_amplification(), 4.0);
}

#[test]
fn a_page_in_the_write_buffer_is_read_from_there() {
    let config = SsdConfig { buffered_read_us: 2.0, ..small() };
    let mut host = Host::new(config);
    host.write(us(0), 0);
    let early = host.read(us(50), 0);
    let late = host.read(us(200), 0);
    host.finish();
    assert_eq!(host.done(early).at, us(52));
    assert_eq!(host.done(late).at, us(200) + READ + TRANSFER);
    assert_eq!(host.flash.counters().buffer_reads, 1);
}

#[test]
fn buffered_writes_are_acknowledged_until_the_buffer_is_full() {
    let config = SsdConfig {
        write_done: WriteDone::Buffered,
        buffered_write_us: 3.0,
        write_buffer_pages: 2,
        ..small()
    };
    let mut host = Host::new(config);
    let writes = [0, 4, 8].map(|page| host.write(us(0), page));
    host.finish();
    assert_eq!([0, 1].map(|write| host.done(writes[write]).at), [us(3); 2]);
    // The third waits for the first to leave the buffer.
    assert_eq!(host.done(writes[2]).at, us(3) + TRANSFER + PROGRAM);
    assert_eq!(host.done(writes[2]).queued, TRANSFER + PROGRAM);
}

#[test]
fn a_flat_device_has_its_latencies_at_any_load() {
    let mut flash = Flash::new(&Config::preset("flat").unwrap()).unwrap();
    for tag in 0..1000 {
        let kind = if tag % 2 == 0 { Kind::Read } else { Kind::Write };
        flash.submit(us(tag / 100), Command { tag, kind, page: PageId(u64::MAX - tag) });
    }
    let mut done = Vec::new();
    flash.advance(us(1000), &mut done);
    assert_eq!(done.len(), 1000);
    assert!(done.is_sorted_by_key(|done| done.at));
    for done in done {
        let latency = if done.kind == Kind::Read { 50 } else { 100 };
        assert_eq!(done.at, us(done.tag / 100) + Span::from_us(latency));
    }
    assert_eq!(flash.lifetime(Span::from_us(1)), None);
}

#[test]
fn what_is_done_before_a_command_comes_is_told_after_it() {
    let mut host = Host::new(small());
    let first = host.read(us(0), 0);
    let second = host.read(us(100), 0);
    assert_eq!((host.flash.next_event(), host.flash.outstanding()), (Some(us(100)), 2));
    host.flash.advance(us(100), &mut host.done);
    assert_eq!((host.done.len(), host.flash.outstanding()), (1, 1));
    assert_eq!(host.done(first).at, us(0) + READ + TRANSFER);
    host.finish();
    assert_eq!(host.done(second).at, us(100) + READ + TRANSFER);
}

#[test]
#[should_panic(expected = "beyond the device's")]
fn a_page_beyond_the_last_is_refused() {
    let mut host = Host::new(small());
    let pages = host.flash.logical_pages().unwrap();
    host.read(Time::ZERO, pages);
}
