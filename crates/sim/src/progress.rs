//! [`HostTime`]: the time that the stages of a run take on the host, about.

use std::time::Duration;

use ebbtide_core::PAGE_BYTES;
use ebbtide_workloads::Kind;

use crate::plan::{Plan, jobs_in_dram_max};

/// Measurements that a calibration usually takes.
const ROUNDS_USUAL: u32 = 3;

/// The time that the stages of a run take on a host, about. Relations between stages and between
/// runs hold better than the times themselves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostTime {
    /// The misses of a plain LRU cache are counted.
    pub(crate) counting: Duration,
    /// Jobs run in DRAM, by which computing is calibrated.
    pub(crate) in_dram: Duration,
    /// The memory is filled.
    pub(crate) warming: Duration,
    /// Jobs run in time until they count.
    pub(crate) settling: Duration,
    /// Jobs are measured.
    pub(crate) measuring: Duration,
}

/// The shares of a run, from 0 to 1, at which its stages end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shares {
    pub(crate) counted: f64,
    pub(crate) calibrated: f64,
    pub(crate) warm: f64,
    pub(crate) settled: f64,
}

/// Host time that fills a frame of the plain LRU cache.
const COUNT_US: f64 = 5.0;

/// Host time that fills a frame of the memory.
const WARM_US: f64 = 10.0;

/// Host time of a job in DRAM, as a share of its computing on a design.
const IN_DRAM: f64 = 0.55;

/// Host time of a timed job's computing, on the mean of the designs with which `ebbtide reproduce
/// astriflash` runs it. `examples/stages.rs` measures these figures.
fn computing_us(workload: Kind) -> f64 {
    match workload {
        Kind::Tatp => 2.3,
        Kind::ArraySwap => 5.0,
        Kind::Masstree => 12.0,
        Kind::RedBlackTree => 26.0,
        Kind::Tpcc => 62.0,
        Kind::Silo => 350.0,
        _ => 7.8,
    }
}

/// Host time in which a timed job moves large pages, on the mean of the designs of `ebbtide reproduce
/// hams`.
fn moving_us(workload: Kind) -> f64 {
    match workload {
        Kind::RandomWrite => 5_000.0,
        Kind::SqlRandomInsert | Kind::SqlUpdate => 700.0,
        Kind::SqlRandomSelect => 300.0,
        Kind::SeqRead | Kind::SeqWrite => 150.0,
        Kind::SqlSeqInsert => 25.0,
        _ => 0.0,
    }
}

impl HostTime {
    /// Of a run of `plan` that shares nothing with other runs.
    pub fn of(plan: &Plan) -> HostTime {
        let frames = plan.config.memory_size().1.0 as f64 / PAGE_BYTES as f64;
        let job_us = computing_us(plan.workload) + moving_us(plan.workload);
        let in_dram_us = IN_DRAM * computing_us(plan.workload);
        // A calibration runs several times, each time with a fourth more jobs than it counts.
        let jobs = jobs_in_dram_max(plan.config.cores.count as u64) as f64;
        let jobs_in_dram = f64::from(ROUNDS_USUAL) * 1.25 * jobs;
        let us = |us: f64| Duration::from_secs_f64(us / 1e6);
        HostTime {
            counting: us(frames * COUNT_US),
            in_dram: us(jobs_in_dram * in_dram_us),
            warming: us(frames * WARM_US),
            settling: us(plan.jobs as f64 / 4.0 * job_us),
            measuring: us(plan.jobs as f64 * job_us),
        }
    }

    /// All stages together.
    pub fn whole(&self) -> Duration {
        self.counting + self.in_dram + self.warming + self.settling + self.measuring
    }

    /// The shares at which stages end.
    pub(crate) fn shares(&self) -> Shares {
        let whole = self.whole().as_secs_f64();
        let end = |time: Duration| time.as_secs_f64() / whole;
        let calibrated = self.counting + self.in_dram;
        Shares {
            counted: end(self.counting),
            calibrated: end(calibrated),
            warm: end(calibrated + self.warming),
            settled: end(calibrated + self.warming + self.settling),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ebbtide_core::time_left;

    use super::*;
    use crate::designs::resolve;
    use crate::offered::Offered;

    /// Of `ebbtide sim --scale 1/8 --seeds 1` on a busy machine of two cores, which took 29.4 s:
    /// seconds after its start, the stage (0 counts misses, 2 warms up, 3 settles, 4 measures) and
    /// the share of the stage.
    const RECORDED: [(f64, usize, f64); 23] = [
        (0.95, 0, 0.150),
        (1.85, 0, 0.281),
        (2.76, 0, 0.373),
        (3.66, 0, 0.474),
        (4.57, 0, 0.569),
        (5.48, 0, 0.645),
        (7.29, 0, 0.790),
        (9.10, 0, 0.939),
        (9.81, 1, 0.0),
        (10.59, 1, 1.0),
        (11.81, 2, 0.087),
        (12.72, 2, 0.144),
        (14.56, 2, 0.234),
        (16.37, 2, 0.327),
        (18.20, 2, 0.411),
        (20.02, 2, 0.519),
        (21.84, 2, 0.613),
        (23.67, 2, 0.711),
        (25.49, 2, 0.806),
        (27.31, 2, 0.902),
        (27.78, 3, 0.5),
        (28.21, 4, 0.2),
        (29.15, 4, 0.9),
    ];

    const TOOK: f64 = 29.4;

    #[test]
    fn the_time_left_of_a_simulation_is_right_by_half_from_the_start() {
        let config = resolve("astriflash", &[]).expect("it is shipped").scaled(1, 8);
        let (workload, arrivals) = (Kind::HashTable, Offered::Saturating);
        let plan = Plan { config, workload, jobs: 20_000, seed: 1, arrivals };
        let Shares { counted, calibrated, warm, settled } = HostTime::of(&plan).shares();
        let ends = [0.0, counted, calibrated, warm, settled, 1.0];
        assert!(ends.is_sorted(), "{ends:?}");
        for (seconds, stage, part) in RECORDED.into_iter().filter(|(s, ..)| *s >= 0.05 * TOOK) {
            let share = ends[stage] + (ends[stage + 1] - ends[stage]) * part;
            let left = time_left(Duration::from_secs_f64(seconds), share, None);
            let left = left.expect("the run is under way").as_secs_f64();
            let (low, high) = ((TOOK - seconds) / 1.5 - 0.5, (TOOK - seconds) * 1.5 + 0.5);
            assert!((low..high).contains(&left), "at {seconds} s: {left} s, not {low} to {high} s");
        }
    }
}
