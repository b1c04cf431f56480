//! Drives against closed forms: the throughput of buses, Little's law, and data sheets.

mod common;

use common::Host;
use ebbtide_core::{Span, Time};
use ebbtide_flash::{Config, Kind, SsdConfig};
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
    let four = per_s(preset("tlc-pcie4", 4), Kind::Read, 4_096, 40_000);
    assert!((four / (4.0 * one) - 1.0).abs() < 0.03, "{four} and {one}");
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
