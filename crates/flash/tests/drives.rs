//! Drives against closed forms: the throughput of buses, Little's law, and data sheets.

mod common;

use std::collections::HashMap;

use common::{Host, random_commands, small, us};
use ebbtide_core::{Span, Time};
use ebbtide_flash::{Config, Done, DriveCounters, Kind, SsdConfig, WriteDone};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Some drives of a preset.
fn preset(name: &str, drives: u32) -> SsdConfig {
    let Config::Ssd(config) = Config::preset(name).unwrap() else { panic!("{name} is an SSD") };
    SsdConfig { drives, ..*config }
}

/// Returns random requests a second with `depth` in flight, after as many to settle.
fn per_s(config: SsdConfig, kind: Kind, depth: usize, count: usize) -> f64 {
    let mut host = Host::new(config);
    let pages = host.flash.logical_pages().unwrap();
    let mut random = Pcg64::seed_from_u64(1);
    for _ in 0..depth {
        host.submit(Time::ZERO, kind, random.random_range(0..pages));
    }
    let (mut done, mut settled) = (0, Time::ZERO);
    while done < 2 * count {
        let at = host.flash.next_event().expect("requests are in flight");
        host.flash.advance(at, &mut host.done);
        for _ in 0..std::mem::take(&mut host.done).len() {
            done += 1;
            if done == count {
                settled = at;
            }
            host.submit(at, kind, random.random_range(0..pages));
        }
        if done >= 2 * count {
            return (done - count) as f64 * 1e12 / at.since(settled).as_ps() as f64;
        }
    }
    unreachable!("the loop ends in its body")
}

#[test]
fn random_reads_reach_what_the_buses_carry_and_data_sheets_promise() {
    for (name, promised) in [("tlc-pcie4", 900e3), ("tlc-pcie5", 3300e3)] {
        let config = preset(name, 1);
        let carried = f64::from(config.channels) * config.bus_mt_per_s * 1e6 / 4096.0;
        assert!((carried / promised - 1.0).abs() < 0.01, "{name}: {carried}");
        let found = per_s(config, Kind::Read, 2_048, 30_000);
        assert!((0.97..1.001).contains(&(found / carried)), "{name}: {found} of {carried}");
    }
}

/// The write amplification of `count` writes of random pages, `per_s` a second.
fn amplification(config: SsdConfig, per_s: u64, count: u64) -> f64 {
    let mut host = Host::new(config);
    let pages = host.flash.logical_pages().unwrap();
    let mut random = Pcg64::seed_from_u64(1);
    for write in 0..count {
        let at = Time::ZERO + Span::from_ps(write * 1_000_000_000_000 / per_s);
        host.flash.advance(at, &mut host.done);
        host.submit(at, Kind::Write, random.random_range(0..pages));
    }
    host.finish();
    host.flash.counters().write_amplification()
}

#[test]
fn drives_side_by_side_amplify_writes_as_one_does() {
    // As many writes a plane, at a rate that leaves a plane of four drives a millisecond a write.
    let one = amplification(preset("tlc-pcie4", 1), 200_000, 40_000);
    let four = amplification(preset("tlc-pcie4", 4), 200_000, 160_000);
    assert!((four / one - 1.0).abs() < 0.03, "{four} and {one}");
}

#[test]
fn drives_side_by_side_read_as_much_as_all_of_them() {
    let one = per_s(preset("tlc-pcie4", 1), Kind::Read, 1_024, 20_000);
    for interleave_pages in [1, 64] {
        let four = SsdConfig { interleave_pages, ..preset("tlc-pcie4", 4) };
        let four = per_s(four, Kind::Read, 4_096, 40_000);
        assert!((four / (4.0 * one) - 1.0).abs() < 0.03, "{four} and {one}");
    }
}

#[test]
fn a_stack_of_high_bandwidth_flash_reads_what_banks_sense_or_channels_carry() {
    const ROUNDS: u64 = 16;
    let took_us = |read_us| {
        let config = SsdConfig { read_us, ..preset("hbf", 1) };
        assert_eq!(config.planes(), 4_096);
        let mut host = Host::new(config);
        (0..ROUNDS * 4_096).for_each(|page| _ = host.read(us(0), page));
        host.finish();
        let last = host.done.iter().map(|done| done.at).max().expect("some reads");
        last.since(Time::ZERO).as_ps() as f64 / 1e6
    };
    // A channel of 256 banks carries a page in 4096 B / 96 GB/s.
    let page_us = 4_096.0 / 96e3;
    let by_banks = ROUNDS as f64 * (15.0 + page_us) + 255.0 * page_us;
    assert!((took_us(15.0) / by_banks - 1.0).abs() < 0.01, "{} and {by_banks}", took_us(15.0));
    let by_channels = 10.0 + ROUNDS as f64 * 256.0 * page_us;
    assert!((took_us(10.0) / by_channels - 1.0).abs() < 0.01, "{} {by_channels}", took_us(10.0));
}

#[test]
fn a_lone_read_takes_as_long_on_several_drives_as_on_one() {
    let latencies = |drives, interleave_pages| {
        let mut host = Host::new(SsdConfig { interleave_pages, ..preset("tlc-pcie4", drives) });
        let mut random = Pcg64::seed_from_u64(1);
        let read = |number: u64| {
            let at = us(1_000 * number);
            let tag = host.read(at, random.random_range(0..1 << 20));
            host.finish();
            host.done(tag).at.since(at)
        };
        (0..50).map(read).collect::<Vec<_>>()
    };
    let one = latencies(1, 1);
    assert!(one.iter().all(|latency| *latency == one[0]), "{one:?}");
    assert_eq!(latencies(4, 1), one);
    assert_eq!(latencies(4, 64), one);
}

#[test]
fn sequential_pages_go_to_the_drives_in_turn() {
    let mut host = Host::new(SsdConfig { drives: 3, interleave_pages: 1, ..small() });
    for page in 0..90 {
        host.read(us(0), page);
    }
    host.finish();
    let reads: Vec<u64> = host.flash.drive_counters().map(|drive| drive.reads).collect();
    assert_eq!(reads, [30, 30, 30]);
    let mut host = Host::new(SsdConfig { drives: 3, interleave_pages: 8, ..small() });
    for page in 0..20 {
        host.read(us(0), page);
    }
    host.finish();
    let reads: Vec<u64> = host.flash.drive_counters().map(|drive| drive.reads).collect();
    assert_eq!(reads, [8, 8, 4]);
}

#[test]
fn one_drive_has_no_units() {
    let run = |interleave_pages| {
        let mut host = Host::new(SsdConfig { interleave_pages, ..small() });
        let pages = host.flash.logical_pages().unwrap();
        for (at, kind, page) in random_commands(3, 2_000, pages, 40, 20) {
            host.submit(at, kind, page);
        }
        host.finish();
        (host.done, *host.flash.counters(), pages)
    };
    assert_eq!(run(7), run(1));
}

/// Two channels of two planes with a write buffer of its own that is soon full.
fn buffered() -> SsdConfig {
    SsdConfig { write_done: WriteDone::Buffered, write_buffer_pages: 6, ..small() }
}

#[test]
fn a_drive_among_others_does_what_it_does_alone() {
    const UNIT: u64 = 5;
    let alone = buffered();
    let mut one = Host::new(alone.clone());
    let together = SsdConfig { drives: 3, interleave_pages: UNIT as u32, ..alone };
    let mut three = Host::new(together);
    let pages = one.flash.logical_pages().unwrap() / UNIT * UNIT;
    assert_eq!(three.flash.logical_pages(), Some(3 * pages));
    // The page of the same number on a drive of three.
    let on = |drive: u64, page: u64| (page / UNIT * 3 + drive) * UNIT + page % UNIT;
    let mut tags = Vec::new();
    for (number, (at, kind, page)) in
        random_commands(5, 3_000, pages, 60, 15).into_iter().enumerate()
    {
        let single = one.submit(at, kind, page);
        tags.push((single, three.submit(at, kind, on(1, page))));
        // Other load on the other drives.
        three.submit(at, Kind::Write, on(2 * (number as u64 % 2), page));
    }
    one.finish();
    three.finish();
    let done = |host: &Host| -> HashMap<u64, Done> {
        host.done.iter().map(|done| (done.tag, *done)).collect()
    };
    let (single, among) = (done(&one), done(&three));
    assert!(tags.iter().any(|(tag, _)| single[tag].queued > Span::from_us(50)), "no queue");
    for (tag, other) in tags {
        assert_eq!(single[&tag], Done { tag, ..among[&other] });
    }
    let drives: Vec<_> = three.flash.drive_counters().collect();
    let counted = one.flash.drive_counters().next();
    assert_eq!(Some(drives[1]), counted);
    let sum = |count: fn(&DriveCounters) -> u64| drives.iter().map(count).sum::<u64>();
    let all = three.flash.counters();
    assert_eq!(
        (sum(|drive| drive.reads), sum(|drive| drive.writes), sum(|drive| drive.erases)),
        (all.reads, all.writes, all.erases)
    );
}

#[test]
fn drives_side_by_side_hold_and_endure_as_much_as_all_of_them() {
    let lifetime = |drives| {
        let mut host = Host::new(SsdConfig { drives, interleave_pages: 2, ..small() });
        for page in 0..100 {
            host.write(us(0), page);
        }
        host.finish();
        host.flash.lifetime(Span::from_us(1_000_000)).expect("it has planes").years()
    };
    assert!((lifetime(4) / (4.0 * lifetime(1)) - 1.0).abs() < 1e-9);
    assert_eq!(preset("tlc-pcie4", 4).raw_bytes(), 4 * preset("tlc-pcie4", 1).raw_bytes());
}

#[test]
fn random_writes_are_sustained_about_as_data_sheets_promise() {
    for (name, promised) in [("tlc-pcie4", 200e3), ("tlc-pcie5", 400e3)] {
        let found = per_s(preset(name, 1), Kind::Write, 4_096, 150_000);
        let ratio = found / promised;
        assert!((0.6..1.6).contains(&ratio), "{name}: {found} of {promised}");
    }
}

#[test]
fn requests_in_flight_are_their_rate_times_their_latency() {
    let mut host = Host::new(preset("tlc-pcie4", 1));
    let pages = host.flash.logical_pages().unwrap();
    let mut random = Pcg64::seed_from_u64(2);
    let (mut submitted, mut in_flight_ps, mut latency_ps) = (Vec::new(), 0u128, 0u128);
    let mut now = Time::ZERO;
    let mut spend = |host: &mut Host, now: &mut Time, until: Time, submitted: &[Time]| {
        while let Some(at) = host.flash.next_event().filter(|at| *at <= until) {
            in_flight_ps +=
                u128::from(host.flash.outstanding()) * u128::from(at.since(*now).as_ps());
            *now = at;
            host.flash.advance(at, &mut host.done);
            for done in host.done.drain(..) {
                latency_ps += u128::from(done.at.since(submitted[done.tag as usize - 1]).as_ps());
            }
        }
        let rest = until.since(*now).as_ps();
        in_flight_ps += u128::from(host.flash.outstanding()) * u128::from(rest);
        *now = until;
    };
    for _ in 0..40_000 {
        let uniform: f64 = random.random();
        let next = now + Span::from_ns((-(1.0 - uniform).ln() * 1_500.0) as u64);
        spend(&mut host, &mut now, next, &submitted);
        let kind = if random.random_range(0..4) == 0 { Kind::Write } else { Kind::Read };
        submitted.push(next);
        host.submit(next, kind, random.random_range(0..pages));
    }
    while host.flash.outstanding() > 0 {
        let until = now + Span::from_us(1_000);
        spend(&mut host, &mut now, until, &submitted);
    }
    let ratio = in_flight_ps as f64 / latency_ps as f64;
    assert!((ratio - 1.0).abs() < 1e-3, "{ratio}");
}
