//! The least DRAM that meets an objective, under two models of one queue.

use ebbtide_core::PAGE_BYTES;
use ebbtide_report::microseconds;
use serde::Serialize;

use super::{Anatomy, Demand, Tried};
use crate::analytic::event_model::{Core, Effort, FlashTime, Misses};
use crate::analytic::queueing::Queue;
use crate::analytic::systems::overlapping;

/// The objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// The longest p99 response, in microseconds.
    pub slo_us: f64,
    /// The load, as a share of DRAM-only's throughput, above 0 and below 1.
    pub load: f64,
    /// Number of cores, which share the flash.
    pub cores: u32,
    /// The most pages written to flash a second for the required lifetime. Infinite without one.
    pub writes_per_s_max: f64,
}

/// The least DRAM that meets the goal, with its figures. Throughput, misses, reads and writes are
/// those of the simulated design, if it ran. Otherwise the two models yield them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Need {
    /// The recommended DRAM: the largest of the three sizes below. It is larger if the simulated
    /// design needs more.
    pub dram_bytes: u64,
    /// `dram_bytes` as a share of the data.
    pub dram_share: f64,
    /// The least DRAM that meets the objective under the analytic queue, in bytes.
    pub analytic_dram_bytes: u64,
    /// The least DRAM that meets the objective under the event model, in bytes.
    pub simulated_dram_bytes: u64,
    /// The least DRAM with which the flash reaches the required lifetime, in bytes.
    pub lasting_dram_bytes: u64,
    /// p99 response with `dram_bytes` by the analytic queue, in microseconds.
    pub analytic_p99_us: f64,
    /// p99 response with `dram_bytes` by the event model, in microseconds.
    pub simulated_p99_us: f64,
    /// Throughput relative to DRAM-only, with a job always waiting.
    pub throughput_kept: f64,
    /// Mean misses of a job.
    pub misses_per_job: f64,
    /// Execution between misses, in microseconds. `None` if nothing misses.
    pub miss_interval_us: Option<f64>,
    /// Mean pages of 4 KiB that a job reads from flash.
    pub reads_per_job: f64,
    /// Mean pages of 4 KiB written to flash for a job.
    pub write_backs_per_job: f64,
    /// The figures of the simulated design with `dram_bytes`. `None` if it was not simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried: Option<Tried>,
}

impl Need {
    /// Returns the p99 response with `dram_bytes`, in microseconds: that of the simulated design if
    /// it ran, otherwise the larger of the models'.
    pub fn p99_us(&self) -> f64 {
        let of_models = self.analytic_p99_us.max(self.simulated_p99_us);
        self.tried.and_then(|tried| tried.p99_us).unwrap_or(of_models)
    }

    /// This need with the DRAM and the figures of `tried`.
    pub(super) fn confirmed(
        self,
        tried: Tried,
        demand: &Demand,
        anatomy: &Anatomy,
        goal: &Goal,
    ) -> Need {
        let dram_bytes = if anatomy.all_dram { self.dram_bytes } else { tried.dram_bytes };
        let pages = dram_bytes / PAGE_BYTES as u64;
        let trial = Trial::new(demand, anatomy, goal, pages);
        Need {
            dram_bytes,
            dram_share: pages as f64 / demand.dataset_pages as f64,
            analytic_p99_us: trial.analytic_p99_us(),
            simulated_p99_us: trial.simulated_p99_us(),
            throughput_kept: tried.throughput_kept,
            misses_per_job: tried.misses_per_job,
            miss_interval_us: tried.miss_interval_us,
            reads_per_job: tried.reads_per_job,
            write_backs_per_job: tried.writes_per_job,
            tried: Some(Tried { dram_bytes, ..tried }),
            ..self
        }
    }
}

impl Goal {
    /// Whether `tried` meets the goal under `demand`.
    pub(super) fn is_met(&self, tried: &Tried, demand: &Demand) -> bool {
        let jobs_per_s = f64::from(self.cores) * self.load * 1e6 / demand.job_us;
        tried.throughput_kept > self.load
            && tried.p99_us.is_some_and(|us| us <= self.slo_us)
            && jobs_per_s * tried.writes_per_job <= self.writes_per_s_max
    }
}

/// The p99 response with one size of DRAM. A value is `None` if the design cannot keep up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ResponsePoint {
    /// The size of DRAM, in bytes.
    pub dram_bytes: u64,
    /// By the analytic queue, in microseconds.
    pub analytic_p99_us: Option<f64>,
    /// By the event model, in microseconds.
    pub simulated_p99_us: Option<f64>,
}

/// A design with a size of DRAM, under a program.
#[derive(Clone, Copy)]
struct Trial<'a> {
    demand: &'a Demand,
    anatomy: &'a Anatomy,
    goal: &'a Goal,
    pages: u64,
    misses: f64,
}

/// Replications and jobs of the event model. In milliseconds they yield p99 to a few percent.
const EFFORT: Effort = Effort { replications: 4, jobs: 20_000, seed: 1 };

impl<'a> Trial<'a> {
    fn new(demand: &'a Demand, anatomy: &'a Anatomy, goal: &'a Goal, pages: u64) -> Trial<'a> {
        let misses = if anatomy.all_dram {
            0.0
        } else {
            demand.curve(anatomy.policy).miss_ratio(pages) * demand.accesses_per_job
        };
        Trial { demand, anatomy, goal, pages, misses }
    }

    /// The time of a flash read at the offered load. `None` if flash cannot serve the load, or if
    /// DRAM is smaller than the pages of all concurrent jobs. The curve is measured with one job
    /// after the other, and concurrent jobs would evict each other's pages.
    fn flash_us(&self) -> Option<f64> {
        let cores = f64::from(self.goal.cores);
        let reads_per_s = cores * self.goal.load * 1e6 / self.demand.job_us * self.misses;
        let us = self.anatomy.flash.read_us(reads_per_s)?;
        let jobs = if self.anatomy.blocks { cores } else { cores + reads_per_s * us / 1e6 };
        let touched = jobs * self.demand.pages_per_job as f64;
        (self.pages as f64 >= touched.min(self.demand.dataset_pages as f64)).then_some(us)
    }

    /// Core time lost per miss, and waiting time that the core can use for other jobs.
    fn loses_and_waits(&self) -> Option<(f64, f64)> {
        let (flash, overhead) = (self.flash_us()?, self.anatomy.overhead_us);
        Some(if self.anatomy.blocks { (overhead + flash, 0.0) } else { (overhead, flash) })
    }

    fn analytic_p99_us(&self) -> f64 {
        let Some((loses, waits)) = self.loses_and_waits() else { return f64::INFINITY };
        let execution = self.demand.job_us;
        let queue: Queue = overlapping(execution, self.misses * loses, self.misses * waits);
        queue.p99(self.goal.load) * execution
    }

    fn core(&self) -> Option<Core> {
        let (overhead, flash) = self.loses_and_waits()?;
        Some(Core {
            execution: self.demand.job_us,
            misses: Misses::Random(self.misses),
            overhead,
            flash,
            flash_time: FlashTime::Fixed,
            order: self.anatomy.order,
        })
    }

    fn simulated_p99_us(&self) -> f64 {
        let core = self.core().filter(|core| core.capacity() > self.goal.load);
        core.map_or(f64::INFINITY, |core| core.p99(self.goal.load, EFFORT).mean)
    }

    /// Pages written to flash a job.
    fn write_backs(&self) -> f64 {
        if self.anatomy.all_dram {
            return 0.0;
        }
        let curve = self.demand.curve(self.anatomy.policy);
        curve.write_back_ratio(self.pages) * self.demand.accesses_per_job
    }

    /// Whether the flash lasts long enough at the offered load.
    fn lasts(&self) -> bool {
        let jobs_per_s = f64::from(self.goal.cores) * self.goal.load * 1e6 / self.demand.job_us;
        jobs_per_s * self.write_backs() <= self.goal.writes_per_s_max
    }

    /// Throughput relative to DRAM-only's with a job always waiting.
    fn throughput_kept(&self) -> f64 {
        let reads_max = self.anatomy.flash.reads_per_s_max() / f64::from(self.goal.cores);
        let by_flash = reads_max * self.demand.job_us / 1e6 / self.misses;
        let by_core = self.core().map_or(0.0, |core| core.capacity());
        by_core.min(if self.misses > 0.0 { by_flash } else { 1.0 })
    }
}

/// The least DRAM with which `anatomy` meets `goal` under `demand`. `None` if no size does.
pub(super) fn need(demand: &Demand, anatomy: &Anatomy, goal: &Goal) -> Option<Need> {
    let all = demand.dataset_pages;
    let at = |pages| Trial::new(demand, anatomy, goal, pages);
    let (analytic, simulated, lasting) = if anatomy.all_dram {
        let meets = at(all).analytic_p99_us() <= goal.slo_us;
        (meets.then_some(all)?, all, all)
    } else {
        let analytic = least(all, |pages| at(pages).analytic_p99_us() <= goal.slo_us)?;
        let simulated = least(all, |pages| at(pages).simulated_p99_us() <= goal.slo_us)?;
        (analytic, simulated, least(all, |pages| at(pages).lasts())?)
    };
    let pages = analytic.max(simulated).max(lasting);
    let trial = at(pages);
    let bytes = |pages: u64| pages * PAGE_BYTES as u64;
    Some(Need {
        dram_bytes: bytes(pages),
        dram_share: pages as f64 / all as f64,
        analytic_dram_bytes: bytes(analytic),
        simulated_dram_bytes: bytes(simulated),
        lasting_dram_bytes: bytes(lasting),
        analytic_p99_us: trial.analytic_p99_us(),
        simulated_p99_us: trial.simulated_p99_us(),
        throughput_kept: trial.throughput_kept(),
        misses_per_job: trial.misses,
        miss_interval_us: (trial.misses > 0.0).then(|| demand.job_us / trial.misses),
        reads_per_job: trial.misses,
        write_backs_per_job: trial.write_backs(),
        tried: None,
    })
}

/// The least number of pages, to half a percent, such that `meets` holds there and up to `all`.
fn least(all: u64, meets: impl Fn(u64) -> bool) -> Option<u64> {
    if !meets(all) {
        return None;
    }
    let (mut too_few, mut enough) = (0, all);
    while enough - too_few > 1 + enough / 200 {
        // The search is as fine for small sizes as for large ones.
        let middle =
            ((too_few.max(1) as f64 * enough as f64).sqrt() as u64).clamp(too_few + 1, enough - 1);
        if meets(middle) { enough = middle } else { too_few = middle }
    }
    Some(enough)
}

/// p99 over the sizes of the demand's curves.
pub(super) fn points(demand: &Demand, anatomy: &Anatomy, goal: &Goal) -> Vec<ResponsePoint> {
    if anatomy.all_dram {
        return Vec::new();
    }
    let finite = |us: f64| us.is_finite().then_some(us);
    let point = |&pages: &u64| {
        let trial = Trial::new(demand, anatomy, goal, pages);
        ResponsePoint {
            dram_bytes: pages * PAGE_BYTES as u64,
            analytic_p99_us: finite(trial.analytic_p99_us()),
            simulated_p99_us: finite(trial.simulated_p99_us()),
        }
    };
    demand.sizes().iter().step_by(2).map(point).collect()
}

/// The best p99 of `anatomy` with any size of DRAM, in words.
pub(super) fn best(demand: &Demand, anatomy: &Anatomy, goal: &Goal) -> String {
    let p99 = |anatomy: &Anatomy| {
        let trial = Trial::new(demand, anatomy, goal, demand.dataset_pages);
        trial.analytic_p99_us().max(trial.simulated_p99_us())
    };
    let here = match p99(anatomy) {
        us if us.is_finite() => format!("its p99 is at best {}", microseconds(us)),
        _ => "it cannot keep up".to_string(),
    };
    let dram_only = p99(&Anatomy { all_dram: true, ..anatomy.clone() });
    let first = 100.0 * demand.first_touches;
    let anyway = match first > 0.0 && !anatomy.all_dram {
        true => {
            format!(" ({first:.2}% of the accesses are the first to their page and miss anyway)")
        }
        false => String::new(),
    };
    format!("{here}{anyway}; with all data in DRAM and no flash, {}", microseconds(dram_only))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_size_is_found_to_half_a_percent() {
        for wanted in [1, 2, 3, 100, 12_345, 999_999, 1_000_000] {
            let found = least(1_000_000, |pages| pages >= wanted).expect("all of it is enough");
            assert!(found >= wanted && found - wanted <= 1 + wanted / 200, "{found}, {wanted}");
        }
        assert_eq!(least(100, |_| false), None);
    }
}
