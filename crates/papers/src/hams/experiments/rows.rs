//! The rows of HAMS's figures, computed from the outcomes of runs.

use ebbtide_core::PAGE_BYTES;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Outcome, Stretch};
use ebbtide_study::claims::mean;
use ebbtide_study::energy::{Energy, EnergyTable, Meter};
use ebbtide_workloads::Kind;
use serde::Serialize;

use super::{DESIGNS, MMAP, PAGES_PER_JOB, WORKLOADS};
use crate::ReproduceError;
use crate::hams::Hams;

/// A workload.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WorkloadRow {
    /// The workload.
    pub workload: &'static str,
    /// Throughput divided by mmap's, by design.
    pub speedup: Vec<(&'static str, f64)>,
    /// Throughput of an NVDIMM that holds everything, divided by mmap's.
    pub nvdimm: f64,
}

/// The parts of mmap's time: a bar of Fig. 3a.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ShareRow {
    /// The workload.
    pub workload: &'static str,
    /// Faults and context switches.
    pub mmap: f64,
    /// File system, block layer, driver.
    pub io_stack: f64,
    /// Flash and the link to it, and waiting for pages that other cores have requested.
    pub flash: f64,
    /// The medium's part of `flash`. It counts the requests of the waiting core itself.
    pub medium: f64,
    /// The link's part of `flash`, counted alike.
    pub link: f64,
    /// Computing, and the NVDIMM.
    pub compute: f64,
}

/// A curve of Fig. 4.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Curve {
    /// The way to run the figure.
    pub what: &'static str,
    /// The design.
    pub design: &'static str,
    /// Its points, from the cold start on.
    pub points: Vec<Point>,
}

/// A point of Fig. 4.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Point {
    /// Pages touched since the start.
    pub pages: u64,
    /// Pages a second since the last point.
    pub pages_per_s: f64,
    /// Pages a second since the start.
    pub pages_per_s_so_far: f64,
}

/// Throughput with a change of the configuration.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct VariationRow {
    /// The change.
    pub what: &'static str,
    /// The workloads that ran with it.
    pub workloads: Vec<WorkloadRow>,
    /// The parts of mmap's time for them.
    pub shares: Vec<ShareRow>,
}

/// Energy of a workload.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct EnergyRow {
    /// The workload.
    pub workload: &'static str,
    /// The energy of a job, by design.
    pub designs: Vec<(&'static str, Energy)>,
}

fn workload_row(workload: &'static str, runs: &[Outcome]) -> WorkloadRow {
    let mmap = runs[0].jobs_per_s;
    let speedup = |(design, run): (&'static str, &Outcome)| (design, run.jobs_per_s / mmap);
    WorkloadRow {
        workload,
        speedup: DESIGNS.into_iter().zip(runs).map(speedup).collect(),
        nvdimm: 1.0 / runs[0].ratio_to_dram,
    }
}

fn share_row(workload: &'static str, run: &Outcome) -> ShareRow {
    let Outcome { config, memory, warm_up, .. } = run;
    let all_ns = run.simulated_ns as f64 * config.cores.count as f64;
    let faults = (memory.cache.misses + memory.cache.hits_under_miss) as f64;
    let mmap = faults * config.os.fault_us as f64 * 1e3 / all_ns;
    let io_stack = memory.cache.misses as f64 * config.os.io_us as f64 * 1e3 / all_ns;
    let compute = run.jobs as f64 * warm_up.job_ns / all_ns;
    let of_misses = |ns: f64| memory.cache.misses as f64 * ns / all_ns;
    let read_us = config.flash_device().expect("a device that ran").idle_read_us();
    let a_page_ns = PAGE_BYTES as f64 / config.link.bandwidth_gb_per_s as f64;
    ShareRow {
        workload,
        mmap,
        io_stack,
        flash: 1.0 - mmap - io_stack - compute,
        medium: of_misses(read_us * 1e3),
        link: of_misses(2.0 * config.link.latency_ns as f64 + a_page_ns),
        compute,
    }
}

/// The rows of the runs of every design under `workloads`.
pub(super) fn rows(
    workloads: &[(&'static str, Kind)],
    outcomes: &[Outcome],
) -> (Vec<WorkloadRow>, Vec<ShareRow>) {
    let runs = workloads.iter().zip(outcomes.chunks(DESIGNS.len()));
    runs.map(|((name, _), runs)| (workload_row(name, runs), share_row(name, &runs[0]))).unzip()
}

/// Energies by the shipped table. The paper's capacities draw power, even for smaller runs.
pub(super) fn energies(outcomes: &[Outcome]) -> Result<Vec<EnergyRow>, ReproduceError> {
    let table = EnergyTable::shipped();
    let meter = |design| Ok((design, Meter::new(&table, &resolve(design, &[])?, true)?));
    let meters = DESIGNS.into_iter().map(meter).collect::<Result<Vec<_>, ReproduceError>>()?;
    let row = |(&(workload, _), runs): (&(&'static str, Kind), &[Outcome])| EnergyRow {
        workload,
        designs: meters
            .iter()
            .zip(runs)
            .filter_map(|((design, meter), run)| Some((*design, meter.as_ref()?.of_program(run))))
            .collect(),
    };
    Ok(WORKLOADS.iter().zip(outcomes.chunks(DESIGNS.len())).map(row).collect())
}

/// The mean over workloads of a design's throughput divided by mmap's.
pub(crate) fn mean_speedup(rows: &[WorkloadRow], design: &str) -> f64 {
    mean(rows.iter().map(|row| row.speedup(design)))
}

/// The mean over workloads of a share of mmap's time.
pub(crate) fn mean_share(rows: &[ShareRow], of: fn(&ShareRow) -> f64) -> f64 {
    mean(rows.iter().map(of))
}

impl EnergyRow {
    pub(crate) fn total_uj(&self, design: &str) -> f64 {
        self.of(design).total_uj
    }

    fn of(&self, design: &str) -> &Energy {
        let found = self.designs.iter().find(|(name, _)| *name == design);
        &found.expect("the shipped table is for every design here").1
    }
}

impl ShareRow {
    /// The share of time that HM4 counts.
    pub(crate) fn software(&self) -> f64 {
        self.mmap + self.io_stack
    }
}

impl WorkloadRow {
    pub(crate) fn speedup(&self, design: &str) -> f64 {
        let found = self.speedup.iter().find(|(name, _)| *name == design);
        found.expect("every design was run").1
    }
}

pub(super) fn curve(what: &'static str, design: &'static str, stretches: &[Stretch]) -> Curve {
    let (mut pages, mut ns) = (0, 0);
    let point = |stretch: &Stretch| {
        let now = stretch.jobs * PAGES_PER_JOB;
        (pages, ns) = (pages + now, ns + stretch.simulated_ns);
        let per_s = |pages, ns| pages as f64 * 1e9 / ns as f64;
        Point {
            pages,
            pages_per_s: per_s(now, stretch.simulated_ns),
            pages_per_s_so_far: per_s(pages, ns),
        }
    };
    Curve { what, design, points: stretches.iter().map(point).collect() }
}

impl Hams {
    /// The row of the change called `what`.
    pub(crate) fn variation(&self, what: &str) -> &VariationRow {
        let found = self.variations.iter().find(|row| row.what == what);
        found.expect("every variation was run")
    }

    /// The mean over workloads of a design's energy a job divided by mmap's.
    pub(crate) fn mean_energy(&self, design: &str) -> f64 {
        let of = |row: &EnergyRow| row.total_uj(design) / row.total_uj(MMAP);
        mean(self.energies.iter().map(of))
    }

    /// The curve of `design` in Fig. 4 run as `what`.
    pub(crate) fn curve(&self, what: &str, design: &str) -> &[Point] {
        let found = self.curves.iter().find(|curve| (curve.what, curve.design) == (what, design));
        &found.expect("every design was run").points
    }

    /// The best performance of one design divided by that of another.
    pub(crate) fn best(&self, what: &str, design: &str, other: &str) -> f64 {
        let best = |design| {
            self.curve(what, design).iter().map(|point| point.pages_per_s).fold(0.0, f64::max)
        };
        best(design) / best(other)
    }

    /// The largest speedup of one design over another at the same point.
    pub(crate) fn best_at_a_point(&self, what: &str, design: &str, other: &str) -> f64 {
        let pairs = self.curve(what, design).iter().zip(self.curve(what, other));
        pairs.map(|(a, b)| a.pages_per_s / b.pages_per_s).fold(0.0, f64::max)
    }
}
