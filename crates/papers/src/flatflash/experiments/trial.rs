//! [`Trial`]: a program on a machine, with warm-up and measurement.

use std::collections::BTreeMap;

use ebbtide_core::{PAGE_BYTES, Span, Watch};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::{compose, resolve};
use ebbtide_sim::{Machine, Measured, SimError, WORK_UNITS};
use ebbtide_study::runs::RunError;
use ebbtide_study::side_by_side::side_by_side_by_cost;
use ebbtide_workloads::{Kind, Lines, Scatter, Shape};
use serde::Serialize;

use super::working_set;
use crate::{ReproduceError, ReproduceOptions};

/// A machine for any of the systems, at the paper's capacities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shared {
    /// The data, in MiB.
    pub(super) data_mib: u64,
    /// Host DRAM, in MiB.
    pub(super) dram_mib: u64,
    /// The SSD-Cache, in MiB, and its ways.
    pub(super) ssd_cache: (u64, u64),
    /// Cores, with one thread each.
    pub(super) cores: u64,
}

/// The program of a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Runs {
    /// Jobs of a program: until the memory is in steady state, then about [`ACCESSES`] accesses.
    Program(Kind),
    /// Whole passes over a graph, the same on every system: the first one untimed, then `timed`.
    Passes {
        /// The graph program.
        kind: Kind,
        /// Passes that are measured.
        timed: u64,
    },
    /// The microbenchmark over [`LINES_MIB`] of its file.
    Lines {
        /// Lines in random order instead of one after the other.
        random: bool,
        /// Writes instead of reads.
        write: bool,
    },
}

/// A program on a machine.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) design: &'static str,
    pub(super) runs: Runs,
    pub(super) shared: Shared,
    /// The working set that the skew of YCSB's requests makes, in MiB at the paper's capacities.
    pub(super) working_set_mib: Option<u64>,
    /// Further settings: key and value.
    pub(super) settings: Vec<(&'static str, String)>,
    /// Number to add to the seed of the whole run.
    pub(super) seed: u64,
}

/// The measurements of a [`Trial`], as means over jobs.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Measure {
    /// Time of a job, in nanoseconds.
    pub job_ns: f64,
    /// 99th percentile of the time of a job, in nanoseconds.
    pub p99_ns: f64,
    /// Pages moved between the SSD and host DRAM.
    pub pages_moved: f64,
    /// Pages that the host or the device's cache wrote to flash.
    pub pages_written: f64,
    /// Promotions that were dropped for lack of room.
    pub promotions_dropped: f64,
    /// Jobs measured.
    pub jobs: u64,
}

impl Trial {
    pub(super) fn new(design: &'static str, runs: Runs, shared: Shared) -> Trial {
        let (working_set_mib, settings) = (None, Vec::new());
        Trial { design, runs, shared, working_set_mib, settings, seed: 0 }
    }

    /// The same with another seed.
    pub(super) fn seeded(self, seed: u64) -> Trial {
        Trial { seed, ..self }
    }

    /// The same with requests that make a working set of `mib`.
    pub(super) fn working_on(self, mib: u64) -> Trial {
        Trial { working_set_mib: Some(mib), ..self }
    }

    /// The same with a further setting.
    pub(super) fn with(mut self, key: &'static str, value: impl ToString) -> Trial {
        self.settings.push((key, value.to_string()));
        self
    }

    fn is_lines(&self) -> bool {
        matches!(self.runs, Runs::Lines { .. })
    }

    /// The divisor of the capacities.
    fn scale_denominator(&self, options: &ReproduceOptions) -> u64 {
        match self.runs {
            Runs::Passes { .. } => graph_scale_denominator(options),
            _ => options.scale_denominator(),
        }
    }

    fn config(&self, options: &ReproduceOptions) -> Result<Config, ReproduceError> {
        let Shared { data_mib, dram_mib, ssd_cache: (cache_mib, cache_ways), cores } = self.shared;
        let mib = |mib: u64| format!("{mib}MiB");
        let mut settings = vec![
            ("dataset.size", mib(data_mib)),
            ("cores.count", cores.to_string()),
            ("llc.size", mib(LLC_MIB_A_CORE * cores)),
            ("noc.columns", cores.isqrt().to_string()),
        ];
        let mut base = self.design;
        match self.design {
            FLATFLASH => settings.extend([
                ("promotion.size", mib(dram_mib)),
                ("dram_cache.size", mib(cache_mib)),
                ("dram_cache.ways", cache_ways.to_string()),
            ]),
            TRADITIONAL_STACK => {
                let used_mib = if self.is_lines() { LINES_MIB } else { data_mib };
                let index_mib = used_mib / (PAGE_BYTES as u64 / INDEX_BYTES_A_PAGE);
                settings.push(("dram_cache.size", mib(dram_mib - index_mib)));
            }
            UNIFIED_MMAP => settings.push(("dram_cache.size", mib(dram_mib))),
            // On the same cores as the other systems.
            design => {
                base = UNIFIED_MMAP;
                let sides = ["parts.core_side", "parts.memory_side"];
                settings.extend(sides.map(|side| (side, design.to_string())));
            }
        }
        if let Some(working_set_mib) = self.working_set_mib {
            let scale = options.scale_denominator();
            let [data, working_set] = [data_mib, working_set_mib].map(|mib| (mib << 20) / scale);
            let theta = working_set::theta(data, working_set, scale);
            settings.push(("workload.theta", theta.to_string()));
        }
        settings.extend(self.settings.iter().cloned());
        let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        Ok(resolve(base, &settings)?.scaled(1, self.scale_denominator(options)))
    }

    /// The program and its seed. They identify the jobs of the trial.
    fn jobs(&self) -> String {
        format!("{:?} {}", self.runs, self.seed)
    }

    /// Runs it on a machine of `config`. `warm` has the warm machine of an earlier trial.
    fn run(
        &self,
        config: &Config,
        warm: &mut ebbtide_sim::Shared,
        options: &ReproduceOptions,
        watch: Watch<'_>,
    ) -> Result<Measure, ReproduceError> {
        let name = match self.runs {
            Runs::Program(kind) | Runs::Passes { kind, .. } => kind.name(),
            Runs::Lines { .. } => "lines",
        };
        let measure = self.measure(config, warm, options, watch);
        measure.map_err(|error| RunError::new(self.design, name, error).into())
    }

    fn measure(
        &self,
        config: &Config,
        warm: &mut ebbtide_sim::Shared,
        options: &ReproduceOptions,
        watch: Watch<'_>,
    ) -> Result<Measure, SimError> {
        let (parts, seed) = (compose(config)?, options.seed + self.seed);
        let build = |kind: Kind| {
            kind.build(&Shape {
                dataset_bytes: config.dataset.size.0,
                theta: config.workload.theta,
                // Keys are hashed, so keys of similar popularity share no page.
                scatter: Scatter::Keys,
                seed,
                work_instructions: WORK_UNITS,
            })
        };
        let machine = match self.runs {
            Runs::Lines { random, write } => {
                let file_pages = config.dataset.size.0 / PAGE_BYTES as u64;
                let pages = (LINES_MIB << 20) / PAGE_BYTES as u64 / options.scale_denominator();
                Machine::new(config, parts, Lines { pages, file_pages, random, write, seed })?
            }
            Runs::Program(kind) => Machine::of_program(config, parts, build(kind)?)?,
            Runs::Passes { kind, timed } => {
                let program = build(kind)?;
                let jobs = program.jobs_per_pass().expect("a graph program has passes");
                let machine = Machine::of_program(config, parts, program)?;
                return measure_passes(config, machine, jobs, timed, watch);
            }
        };
        self.measure_steady(config, machine, warm, watch)
    }

    /// Measures jobs of `machine` in steady state.
    fn measure_steady(
        &self,
        config: &Config,
        mut machine: Machine,
        warm: &mut ebbtide_sim::Shared,
        watch: Watch<'_>,
    ) -> Result<Measure, SimError> {
        watch.within(0.0, WARM_SHARE, |watch| {
            warm.warm_up(&mut machine, (&self.jobs(), config), watch)
        })?;
        let threads = machine.threads() as u64;
        machine.run(SETTLING_JOBS * threads)?;
        let settled = machine.take_measured();
        let per_job = (settled.accesses / (SETTLING_JOBS * threads)).max(1);
        let jobs = (ACCESSES / per_job).max(SETTLING_JOBS * threads);
        let time = machine.run(jobs)?;
        Ok(Measure::new(config, &mut machine, &settled, jobs, time))
    }
}

/// Measures `timed` passes of `jobs` jobs each, after an untimed one.
fn measure_passes(
    config: &Config,
    mut machine: Machine,
    jobs: u64,
    timed: u64,
    watch: Watch<'_>,
) -> Result<Measure, SimError> {
    let (untimed, all) = (jobs, timed * jobs);
    let share = |jobs: u64| jobs as f64 / (untimed + all) as f64;
    for first in (0..untimed).step_by(WATCHED_JOBS as usize) {
        watch.tell("warming up", share(first))?;
        machine.warm(WATCHED_JOBS.min(untimed - first), None)?;
    }
    let warm = machine.take_measured();
    let mut time = Span::ZERO;
    while machine.completed() < all {
        watch.tell("measuring", share(untimed + machine.completed()))?;
        time = time + machine.run(WATCHED_JOBS.min(all - machine.completed()))?;
    }
    Ok(Measure::new(config, &mut machine, &warm, all, time))
}

impl Measure {
    /// The means over `jobs` that `machine` ran in `time` since the measurements `before`.
    fn new(
        config: &Config,
        machine: &mut Machine,
        before: &Measured,
        jobs: u64,
        time: Span,
    ) -> Measure {
        let threads = machine.threads() as u64;
        let measured = machine.take_measured();
        let each = |count: u64| count as f64 / jobs as f64;
        let written =
            |flash: Option<ebbtide_flash::Counters>| flash.map_or(0, |flash| flash.writes);
        let counters = measured.counters;
        let moved = match config.promotion {
            Some(_) => counters.promotion.promotions + counters.promotion.demotions_written,
            None => counters.cache.misses + counters.cache.evictions_dirty,
        };
        Measure {
            // Cores run in parallel, each with a job at a time.
            job_ns: time.as_ns() as f64 * threads as f64 / jobs as f64,
            p99_ns: measured.service.p99 as f64,
            pages_moved: each(moved),
            pages_written: each(written(measured.flash) - written(before.flash)),
            promotions_dropped: each(counters.promotion.promotions_dropped),
            jobs,
        }
    }
}

/// Approximate share of a trial that warms up.
const WARM_SHARE: f64 = 0.8;

/// Approximate number of measured accesses.
const ACCESSES: u64 = 300_000;

/// Jobs between two reports of progress of a [pass](Runs::Passes).
const WATCHED_JOBS: u64 = 4_096;

/// The divisor of the graphs' capacities. Whole passes are measured, so that graphs are smaller.
pub(super) fn graph_scale_denominator(options: &ReproduceOptions) -> u64 {
    if options.quick { 512 } else { 64 }
}

/// Timed jobs of each thread before the measured ones.
const SETTLING_JOBS: u64 = 20;

/// Size of the last-level cache, as in `configs/unified-mmap.toml`.
const LLC_MIB_A_CORE: u64 = 2;

/// The pages that the microbenchmark touches, in MiB: 2 million (FlatFlash §5.1).
pub(super) const LINES_MIB: u64 = 8192;

/// Bytes that TraditionalStack keeps in host DRAM for each used page, in addition to data: an FTL
/// entry and a page-table entry.
const INDEX_BYTES_A_PAGE: u64 = 16;

pub(crate) const FLATFLASH: &str = "flatflash";
pub(crate) const UNIFIED_MMAP: &str = "unified-mmap";
pub(crate) const TRADITIONAL_STACK: &str = "traditional-stack";
pub(crate) const DRAM_ONLY: &str = "dram-only";

/// Runs `trials` and returns the measurements of each, in their order. Trials of the same program
/// on the same machine run once, such as those on DRAM-only. Trials that begin with the same warm
/// machine share it.
///
/// # Errors
/// The error of the first failed trial, or the user's stop.
pub(super) fn measure_all(
    trials: &[Trial],
    options: &ReproduceOptions,
    watch: Watch<'_>,
) -> Result<Vec<Measure>, ReproduceError> {
    let distinct = Distinct::of(trials, options)?;
    let groups = distinct.groups(trials);
    let counts: Vec<f64> = groups.iter().map(|group| group.len() as f64).collect();
    let measures = side_by_side_by_cost(&counts, options.threads, watch, |number, watch| {
        let group = &groups[number];
        let mut warm = ebbtide_sim::Shared::default();
        let share = |done: usize| done as f64 / group.len() as f64;
        let run = |(done, &number): (usize, &usize)| {
            let trial = distinct.trials[number];
            let measure = watch.within(share(done), share(done + 1), |watch| {
                trials[trial].run(&distinct.configs[trial], &mut warm, options, watch)
            });
            Ok::<_, ReproduceError>((number, measure?))
        };
        group.iter().enumerate().map(run).collect::<Result<Vec<_>, _>>()
    })?;
    let measures: BTreeMap<usize, Measure> = measures.into_iter().flatten().collect();
    Ok(distinct.run_as.iter().map(|number| measures[number]).collect())
}

/// Distinct trials: each program on each machine once.
struct Distinct {
    /// The machine of each trial.
    configs: Vec<Config>,
    /// The indices of the trials that run.
    trials: Vec<usize>,
    /// For each trial, the index in `trials` of the run that stands for it.
    run_as: Vec<usize>,
}

impl Distinct {
    fn of(trials: &[Trial], options: &ReproduceOptions) -> Result<Distinct, ReproduceError> {
        let configs: Vec<Config> =
            trials.iter().map(|trial| trial.config(options)).collect::<Result<_, _>>()?;
        let same = |a: usize, b: usize| {
            let key = |trial: &Trial| (trial.runs, trial.seed);
            key(&trials[a]) == key(&trials[b]) && configs[a] == configs[b]
        };
        let mut distinct: Vec<usize> = Vec::new();
        let run_as = (0..trials.len())
            .map(|number| {
                distinct.iter().position(|known| same(*known, number)).unwrap_or_else(|| {
                    distinct.push(number);
                    distinct.len() - 1
                })
            })
            .collect();
        Ok(Distinct { configs, trials: distinct, run_as })
    }

    /// The indices in `trials` of those that begin with the same warm machine, together.
    fn groups(&self, all: &[Trial]) -> Vec<Vec<usize>> {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (number, &trial) in self.trials.iter().enumerate() {
            let config = &self.configs[trial];
            let basis = ebbtide_sim::Shared::basis(&all[trial].jobs(), config);
            let key = format!("{:?} {basis}", config.parts);
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, group)) => group.push(number),
                None => groups.push((key, vec![number])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Selection;

    fn quick() -> ReproduceOptions {
        ReproduceOptions {
            selection: Selection::All,
            quick: true,
            real: false,
            seed: 1,
            threads: 1,
            traces: None,
        }
    }

    #[test]
    fn every_system_measures_the_same_passes_over_a_graph() {
        let shared = Shared { data_mib: 4096, dram_mib: 2048, ssd_cache: (320, 20), cores: 4 };
        let runs = Runs::Passes { kind: Kind::PageRankShards, timed: 1 };
        let trials = [FLATFLASH, UNIFIED_MMAP, TRADITIONAL_STACK, DRAM_ONLY]
            .map(|design| Trial::new(design, runs, shared));
        let dataset_bytes = trials[0].config(&quick()).unwrap().dataset.size.0;
        let shape = Shape { dataset_bytes, seed: 1, ..Shape::default() };
        let jobs = Kind::PageRankShards.build(&shape).unwrap().jobs_per_pass().unwrap();
        let measures = measure_all(&trials, &quick(), Watch::unattended()).unwrap();
        assert_eq!(measures.iter().map(|measure| measure.jobs).collect::<Vec<_>>(), [jobs; 4]);
        let [flatflash, paged, traditional, dram] = [0, 1, 2, 3].map(|system| measures[system]);
        assert!(flatflash.pages_moved > 0.0 && paged.pages_moved > 0.0);
        assert!(traditional.pages_moved >= paged.pages_moved, "it has less DRAM");
        assert!(measures.iter().all(|measure| measure.job_ns >= dram.job_ns));
    }

    #[test]
    fn trials_that_differ_only_in_flash_begin_with_one_warm_machine() {
        let shared = Shared { data_mib: 4096, dram_mib: 256, ssd_cache: (20, 20), cores: 4 };
        let trial = |design| Trial::new(design, Runs::Program(Kind::Gups), shared);
        let trials = [
            trial(FLATFLASH),
            trial(UNIFIED_MMAP),
            trial(FLATFLASH).with("flash.read_us", 10),
            trial(FLATFLASH).with("device.flash_commands", 16),
            trial(FLATFLASH).with("promotion.meets", "equal"),
            trial(UNIFIED_MMAP).with("flash.read_us", 10),
            trial(DRAM_ONLY),
            trial(FLATFLASH).seeded(1),
        ];
        let options = quick();
        let groups = Distinct::of(&trials, &options).unwrap().groups(&trials);
        assert_eq!(groups, [vec![0, 2, 3], vec![1, 5], vec![4], vec![6], vec![7]]);
    }
}
