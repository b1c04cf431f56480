//! A job always reads the last write, in every state of the cache. Random reads and writes go
//! through a cache of a few frames, on one core and on two, and are compared with a plain array.
//!
//! `EBBTIDE_SEEDS=200` tries 200 seeds instead of one: a soak for races.

use std::sync::Arc;
use std::time::Duration;

use ebbtide_engine::device::faulty::{Faults, Faulty};
use ebbtide_engine::device::ram::{Latency, Ram};

use crate::common::{Plan, image, run, small_cache};

fn plan(cores: u64, seed: u64) -> Plan {
    Plan {
        pages: 256,
        cores,
        lanes_per_core: 16,
        jobs_per_lane: 40,
        steps_per_job: 50,
        write_share: 0.3,
        seed,
    }
}

/// How many seeds to try.
fn seeds() -> u64 {
    std::env::var("EBBTIDE_SEEDS").map_or(1, |count| count.parse().unwrap())
}

fn check(cores: usize, latency: Latency, faults: Faults) {
    for seed in 0..seeds() {
        for frames in [8, 40, 200] {
            check_one(cores, frames, seed, latency, faults);
        }
    }
}

fn check_one(cores: usize, frames: usize, seed: u64, latency: Latency, faults: Faults) {
    let plan = plan(cores as u64, seed);
    let ram = Ram::new(plan.pages as usize, latency, image);
    let device = Arc::new(Faulty::new(ram, faults, 99 + seed));
    let options = small_cache(frames, cores, 16, plan.pages);
    let (engine, failed) = run(device, &plan, &options);
    let counted = engine.counters().snapshot();
    let jobs = u64::from(plan.jobs_per_lane) * plan.cores * plan.lanes_per_core;
    assert_eq!(counted.jobs + counted.jobs_failed, jobs);
    assert_eq!(counted.jobs_failed, u64::from(failed));
    assert!(counted.misses > 0 && counted.evictions_dirty > 0);
    if faults.read_errors == 0.0 {
        assert_eq!(failed, 0);
        assert_eq!(counted.flash_reads, counted.misses, "every miss reads once");
    }
}

#[test]
fn one_core_reads_what_was_last_written() {
    check(1, Latency::Looks(2), Faults::default());
}

#[test]
fn two_cores_read_what_was_last_written() {
    check(2, Latency::Looks(2), Faults::default());
    check(2, Latency::Time(Duration::from_micros(20)), Faults::default());
}

#[test]
fn short_transfers_and_reordering_are_survived_without_an_error() {
    let faults = Faults { short: 0.05, delays: 0.3, ..Faults::default() };
    check(1, Latency::Looks(1), faults);
    check(2, Latency::Looks(1), faults);
}

#[test]
fn failing_reads_and_writes_end_jobs_and_never_lose_a_word() {
    let faults = Faults {
        read_errors: 0.4,
        write_errors: 0.2,
        short: 0.05,
        delays: 0.2,
        broken_offset: None,
    };
    check(1, Latency::Looks(1), faults);
    check(2, Latency::Looks(1), faults);
}
