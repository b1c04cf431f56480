//! The paper's experiments: programs and their machines.

mod databases;
mod files;
mod readings;
mod trial;
mod working_set;

use ebbtide_core::Watch;
use ebbtide_study::claims::Findings;
use ebbtide_workloads::Kind;
pub(super) use ebbtide_workloads::file_metadata::{FILE_SYSTEMS, OPERATIONS};
pub(super) use ebbtide_workloads::logging::Logging;
use serde::Serialize;

pub(super) use self::databases::{DatabaseRow, PAGE_INTERVAL, gain_of_tpcb, log_pages};
pub(super) use self::files::FileRow;
pub(super) use self::readings::{ReadingRow, ratio_of_writes};
pub(super) use self::trial::{DRAM_ONLY, FLATFLASH, Measure, TRADITIONAL_STACK, UNIFIED_MMAP};
use self::trial::{LINES_MIB, Runs, Shared, Trial};
use super::FlatFlash;
use crate::{ReproduceError, ReproduceOptions};

/// A run of the simulator.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunRow {
    /// The program and its sizes.
    pub experiment: String,
    /// The system, and its differences from its configuration.
    pub system: String,
    /// Its measurements.
    #[serde(flatten)]
    pub measure: Measure,
}

/// A trial and its names.
struct Experiment {
    name: String,
    system: String,
    trial: Trial,
}

/// An SSD-Cache of 0.125% of a TiB, in MiB, and its ways.
const OF_1_TIB: (u64, u64) = (1280, 20);

/// The same of 32 GiB.
const OF_32_GIB: (u64, u64) = (40, 20);

/// The same of the testbed's SSD, a P3700 of 1.6 TB: 2 GiB (§5, §3.4).
const OF_P3700: (u64, u64) = (2048, 16);

/// The microbenchmark of Fig. 8, by name: whether it is random, and whether it writes.
pub(super) const MICRO: [(&str, bool, bool); 4] = [
    ("sequential read", false, false),
    ("sequential write", false, true),
    ("random read", true, false),
    ("random write", true, true),
];

/// GUPS of Fig. 9.
pub(super) const GUPS: &str = "GUPS";

/// GUPS by one process from the sparse beginning of its stream.
pub(super) const GUPS_FROM_ONE: &str = "GUPS from one";

/// SSD-Caches of Fig. 9b in MiB, apart from the default.
pub(super) const CACHES_MIB: [u64; 3] = [40, 320, 5120];

/// The graph programs of Fig. 10.
pub(super) const GRAPHS: [GraphProgram; 2] = [
    GraphProgram { name: "PageRank", shards: Kind::PageRankShards, timed: 1, rows: Kind::PageRank },
    GraphProgram {
        name: "CC",
        shards: Kind::ConnectedComponentsShards,
        timed: 2,
        rows: Kind::ConnectedComponents,
    },
];

/// A graph program of Fig. 10.
#[derive(Debug, Clone, Copy)]
pub(super) struct GraphProgram {
    /// The name in the claims.
    pub(super) name: &'static str,
    /// The program over shards, as in GraphChi.
    shards: Kind,
    /// Its measured passes, after the first one. Those of PageRank are alike. Those of CC end with
    /// the pass that changes no label, as GraphChi's do.
    timed: u64,
    /// The same program over compressed rows.
    rows: Kind,
}

/// Size of the data divided by the size of DRAM.
pub(super) const GRAPH_RATIOS: [u64; 3] = [2, 4, 8];

/// The ratio of the single figures, the middle one.
pub(super) const GRAPH_RATIO: u64 = GRAPH_RATIOS[1];

/// YCSB of Figs. 11 and 12.
pub(super) const YCSB: [(&str, Kind); 2] = [("YCSB-B", Kind::YcsbB64), ("YCSB-D", Kind::YcsbD64)];

/// Size of the working set divided by the size of DRAM. The data are as large as the largest.
/// Smaller ones are made by the skew of requests.
pub(super) const YCSB_RATIOS: [u64; 2] = [4, 16];

/// The ratio of the single figures, the largest one: requests have YCSB's own skew.
pub(super) const YCSB_RATIO: u64 = YCSB_RATIOS[YCSB_RATIOS.len() - 1];

/// Independent repetitions of YCSB. Its tails are judged.
pub(super) const SEEDS: u64 = 3;

/// The name of the repetition `seed` of `experiment`. The first has the name of the experiment.
pub(super) fn seeded(experiment: &str, seed: u64) -> String {
    match seed {
        0 => experiment.to_string(),
        seed => format!("{experiment}, seed +{seed}"),
    }
}

/// An SSD-Cache of 0.125% of the database, not of the SSD, in MiB, and its ways.
pub(super) const OF_DATABASE: (u64, u64) = (60, 15);

/// The databases of Fig. 14.
pub(super) const DATABASES: [(&str, Kind); 3] =
    [("TPCC", Kind::TpccMix), ("TPCB", Kind::Tpcb), ("TATP", Kind::TatpMix)];

/// Latencies of the device in Fig. 14d, in microseconds. Figs. 14a to 14c have the first one.
pub(super) const DEVICES_US: [u64; 3] = [20, 10, 5];

/// The name of an experiment whose data is `ratio` times the size of DRAM.
pub(super) fn at(name: &str, ratio: u64) -> String {
    format!("{name} at {ratio}x")
}

/// The name of an experiment on a device with another latency.
pub(super) fn on_device(name: &str, device_us: u64) -> String {
    format!("{name}, {device_us} us")
}

/// The name of FlatFlash with an SSD-Cache of another size.
pub(super) fn with_cache(mib: u64) -> String {
    format!("{FLATFLASH}, SSD-Cache {mib} MiB")
}

/// FlatFlash with a reset of promotion at every epoch.
pub(super) const WINDOWED: &str = "flatflash, windowed";

/// FlatFlash that promotes a page only if its count equals the threshold, as in the listing.
pub(super) const EQUAL: &str = "flatflash, equal";

/// FlatFlash that promotes at the first access.
pub(super) const AT_ONCE: &str = "flatflash, threshold 1";

/// FlatFlash that promotes at the second access.
pub(super) const TWICE: &str = "flatflash, threshold 2";

/// FlatFlash that cleans its SSD-Cache by whole blocks.
pub(super) const BY_BLOCKS: &str = "flatflash, cleaned by blocks";

/// Time from a block's first write until it is cleaned (assumption: the paper says "periodically").
pub(super) const CLEAN_AFTER_US: u64 = 200_000;

/// FlatFlash with a device that delays posted writes while 16 commands are at flash.
pub(super) const FEW_COMMANDS: &str = "flatflash, 16 commands";

const COMMANDS: u64 = 16;

/// TraditionalStack with the least and the most software time of a fault in HAMS (ISCA'21 §II).
pub(super) const STACKS: [&str; 2] =
    ["traditional-stack, 15 us of software", "traditional-stack, 20 us of software"];

const STACKS_IO_US: [u64; 2] = [15, 20];

/// The name of a system with adjacent pages of the microbenchmark, instead of pages spread over the
/// SSD.
pub(super) fn contiguous(system: &str) -> String {
    format!("{system}, side by side")
}

/// The name of a system on a modelled SSD of a Z-SSD's class. Reads wait for planes there.
pub(super) fn on_ssd(system: &str) -> String {
    format!("{system}, modelled SSD")
}

/// The number of runs of `sets`.
pub(super) fn count(sets: &[Programs]) -> usize {
    all(sets).len()
}

fn trials_of(experiments: &[Experiment]) -> Vec<Trial> {
    experiments.iter().map(|experiment| experiment.trial.clone()).collect()
}

/// Does the runs of `sets`. The findings are left empty.
pub(super) fn run(
    sets: &[Programs],
    options: &ReproduceOptions,
    watch: Watch<'_>,
) -> Result<FlatFlash, ReproduceError> {
    let experiments = all(sets);
    let measures = trial::measure_all(&trials_of(&experiments), options, watch)?;
    let runs: Vec<RunRow> = experiments
        .into_iter()
        .zip(measures)
        .map(|(run, measure)| RunRow { experiment: run.name, system: run.system, measure })
        .collect();
    let mut flatflash = FlatFlash {
        scale_denominator: options.scale_denominator(),
        graph_scale_denominator: trial::graph_scale_denominator(options),
        seed: options.seed,
        readings: Vec::new(),
        databases: Vec::new(),
        files: files::rows(files::PRICES, files::SSD_CACHE_PAGES, options.seed),
        findings: Findings::default(),
        runs,
    };
    flatflash.readings = readings::rows(&flatflash);
    if sets.contains(&Programs::Databases) {
        flatflash.databases = databases::rows(&flatflash);
    }
    Ok(flatflash)
}

impl FlatFlash {
    /// The measurements of `system` in `experiment`.
    pub(crate) fn run(&self, experiment: &str, system: &str) -> &Measure {
        let found =
            self.runs.iter().find(|row| row.experiment == experiment && row.system == system);
        &found.unwrap_or_else(|| panic!("{experiment} ran on {system}")).measure
    }

    /// Whether `experiment` was run.
    pub(crate) fn ran(&self, experiment: &str) -> bool {
        self.runs.iter().any(|row| row.experiment == experiment)
    }

    /// Time of a job on `system` divided by that on FlatFlash.
    pub(crate) fn gain(&self, experiment: &str, system: &str) -> f64 {
        self.run(experiment, system).job_ns / self.run(experiment, FLATFLASH).job_ns
    }
}

/// A set of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Programs {
    /// The microbenchmark of Fig. 8.
    Micro,
    /// GUPS of Fig. 9.
    Gups,
    /// The graphs of Fig. 10.
    Graphs,
    /// YCSB of Figs. 11 and 12.
    Ycsb,
    /// The databases of Fig. 14.
    Databases,
}

/// Every run of `sets`.
fn all(sets: &[Programs]) -> Vec<Experiment> {
    let mut all = Vec::new();
    for (set, add) in [
        (Programs::Micro, micro as fn(&mut Vec<Experiment>)),
        (Programs::Gups, gups),
        (Programs::Graphs, graphs),
        (Programs::Ycsb, ycsb),
        (Programs::Databases, databases),
    ] {
        if sets.contains(&set) {
            add(&mut all);
        }
    }
    all
}

fn add(all: &mut Vec<Experiment>, name: &str, trial: Trial) {
    let system = trial.design.to_string();
    all.push(Experiment { name: name.to_string(), system, trial });
}

fn variant(all: &mut Vec<Experiment>, name: &str, system: impl ToString, trial: Trial) {
    all.push(Experiment { name: name.to_string(), system: system.to_string(), trial });
}

fn each(
    all: &mut Vec<Experiment>,
    name: &str,
    runs: Runs,
    shared: Shared,
    systems: &[&'static str],
) {
    systems.iter().for_each(|system| add(all, name, Trial::new(system, runs, shared)));
}

/// Adds the other readings of Algorithm 1, and promotion at the first access.
fn readings(all: &mut Vec<Experiment>, name: &str, trial: Trial) {
    variant(all, name, WINDOWED, trial.clone().with("promotion.reset", "windowed"));
    variant(all, name, EQUAL, trial.clone().with("promotion.meets", "equal"));
    variant(all, name, AT_ONCE, trial.with("promotion.threshold_max", 1));
}

fn few_commands(all: &mut Vec<Experiment>, name: &str, trial: Trial) {
    variant(all, name, FEW_COMMANDS, trial.with("device.flash_commands", COMMANDS));
}

/// Adds TraditionalStack with other software times.
fn stacks(all: &mut Vec<Experiment>, name: &str, trial: Trial) {
    for (system, us) in STACKS.into_iter().zip(STACKS_IO_US) {
        variant(all, name, system, trial.clone().with("os.io_us", us));
    }
}

const THREE: [&str; 3] = [FLATFLASH, UNIFIED_MMAP, TRADITIONAL_STACK];
const FOUR: [&str; 4] = [FLATFLASH, UNIFIED_MMAP, TRADITIONAL_STACK, DRAM_ONLY];

/// The name of an experiment on an SSD of 32 GiB instead of 1 TiB.
pub(super) fn on_32_gib(experiment: &str) -> String {
    format!("{experiment}, 32 GiB")
}

/// §5.1: 2 M pages, spread over a file of the SSD's size, 32 GB to 1 TB, with 2 GB of DRAM.
fn micro(all: &mut Vec<Experiment>) {
    for (name, random, write) in MICRO {
        let runs = Runs::Lines { random, write };
        let shared = Shared { data_mib: 1 << 20, dram_mib: 2048, ssd_cache: OF_1_TIB, cores: 1 };
        each(all, name, runs, shared, &THREE);
        if !write {
            let small = Shared { data_mib: 32 << 10, ssd_cache: OF_32_GIB, ..shared };
            each(all, &on_32_gib(name), runs, small, &THREE);
        }
        match (random, write) {
            (true, false) => {
                for system in THREE {
                    let together = Shared { data_mib: LINES_MIB, ..shared };
                    let trial = Trial::new(system, runs, together);
                    variant(all, name, contiguous(system), trial);
                }
            }
            (false, false) => {
                stacks(all, name, Trial::new(TRADITIONAL_STACK, runs, shared));
            }
            (true, true) => few_commands(all, name, Trial::new(FLATFLASH, runs, shared)),
            (false, true) => {}
        }
    }
}

/// §5.2: a table of 32 GB, 2 GB of DRAM, SSD:DRAM 512. Several threads: four (assumption).
fn gups(all: &mut Vec<Experiment>) {
    let runs = Runs::Program(Kind::Gups);
    let shared = Shared { data_mib: 32 << 10, dram_mib: 2048, ssd_cache: OF_1_TIB, cores: 4 };
    each(all, GUPS, runs, shared, &FOUR);
    each(all, GUPS_FROM_ONE, Runs::Program(Kind::GupsFromOne), shared, &FOUR);
    let flatflash = Trial::new(FLATFLASH, runs, shared);
    readings(all, GUPS, flatflash.clone());
    let twice = flatflash.clone().with("promotion.threshold_max", 2);
    variant(all, GUPS, TWICE, twice);
    few_commands(all, GUPS, flatflash.clone());
    variant(all, GUPS, BY_BLOCKS, flatflash.with("promotion.clean_after_us", CLEAN_AFTER_US));
    stacks(all, GUPS, Trial::new(TRADITIONAL_STACK, runs, shared));
    for mib in CACHES_MIB {
        let shared = Shared { ssd_cache: (mib, 20), ..shared };
        variant(all, GUPS, with_cache(mib), Trial::new(FLATFLASH, runs, shared));
    }
}

/// The name of a system with the graph in compressed rows, instead of GraphChi's shards.
pub(super) fn in_rows(system: &str) -> String {
    format!("{system}, compressed rows")
}

/// §5.3: GraphChi's programs, graphs larger than DRAM, here of 16 GiB (assumption).
fn graphs(all: &mut Vec<Experiment>) {
    const DATA_MIB: u64 = 16 << 10;
    for GraphProgram { name, shards, timed, rows } in GRAPHS {
        for ratio in GRAPH_RATIOS {
            let dram_mib = DATA_MIB / ratio;
            let shared = Shared { data_mib: DATA_MIB, dram_mib, ssd_cache: OF_1_TIB, cores: 4 };
            let runs = Runs::Passes { kind: shards, timed };
            each(all, &at(name, ratio), runs, shared, &FOUR);
            if ratio == GRAPH_RATIO {
                readings(all, &at(name, ratio), Trial::new(FLATFLASH, runs, shared));
                for system in THREE {
                    let runs = Runs::Passes { kind: rows, timed: 1 };
                    let trial = Trial::new(system, runs, shared);
                    variant(all, &at(name, ratio), in_rows(system), trial);
                }
            }
        }
    }
}

/// The name of a system with one thread a client, instead of Redis's one.
pub(super) fn threaded(system: &str) -> String {
    format!("{system}, 16 threads")
}

/// The name of a system with smaller data at YCSB's own skew, instead of a smaller working set of
/// the same data.
pub(super) fn on_less_data(system: &str) -> String {
    format!("{system}, less data")
}

/// §5.4: 16 clients of one Redis, which executes with one thread. SSD:DRAM is 256. The request
/// distribution makes working sets of up to 16 times the size of DRAM.
fn ycsb(all: &mut Vec<Experiment>) {
    const DRAM_MIB: u64 = 2048;
    for (name, kind) in YCSB {
        let runs = Runs::Program(kind);
        for ratio in YCSB_RATIOS {
            let sized = |ratio| {
                let data_mib = ratio * DRAM_MIB;
                Shared { data_mib, dram_mib: DRAM_MIB, ssd_cache: (640, 20), cores: 1 }
            };
            let shared = sized(YCSB_RATIO);
            let trial = |system| match ratio {
                YCSB_RATIO => Trial::new(system, runs, shared),
                ratio => Trial::new(system, runs, shared).working_on(ratio * DRAM_MIB),
            };
            let name = at(name, ratio);
            FOUR.into_iter().for_each(|system| add(all, &name, trial(system)));
            // Tails are judged over seeds.
            for seed in 1..SEEDS {
                for system in THREE {
                    add(all, &seeded(&name, seed), trial(system).seeded(seed));
                }
            }
            if ratio == YCSB_RATIO {
                largest_ycsb(all, &name, runs, shared);
            } else {
                for system in THREE {
                    let trial = Trial::new(system, runs, sized(ratio));
                    variant(all, &name, on_less_data(system), trial);
                }
            }
        }
    }
}

/// Variations of YCSB at the largest ratio.
fn largest_ycsb(all: &mut Vec<Experiment>, name: &str, runs: Runs, shared: Shared) {
    for system in THREE {
        let many = Shared { cores: 16, ..shared };
        variant(all, name, threaded(system), Trial::new(system, runs, many));
    }
    for system in [FLATFLASH, UNIFIED_MMAP] {
        let trial = Trial::new(system, runs, shared).with("flash.preset", "ull");
        variant(all, name, on_ssd(system), trial);
    }
    readings(all, name, Trial::new(FLATFLASH, runs, shared));
}

/// §5.6: a database of 48 GB with 6 GB of buffer, on the testbed's SSD.
fn databases(all: &mut Vec<Experiment>) {
    let shared = Shared { data_mib: 48 << 10, dram_mib: 6 << 10, ssd_cache: OF_P3700, cores: 16 };
    for (name, kind) in DATABASES {
        for device_us in DEVICES_US {
            for system in FOUR {
                let trial = Trial::new(system, Runs::Program(kind), shared);
                let write_us = device_us * 4 / 5;
                let trial = match system {
                    DRAM_ONLY => trial,
                    _ => trial.with("flash.read_us", device_us).with("flash.write_us", write_us),
                };
                add(all, &on_device(name, device_us), trial);
            }
        }
        // The configured device is the first of them.
        let trial = Trial::new(FLATFLASH, Runs::Program(kind), shared);
        readings(all, &on_device(name, DEVICES_US[0]), trial);
        let small = Shared { ssd_cache: OF_DATABASE, ..shared };
        let trial = Trial::new(FLATFLASH, Runs::Program(kind), small);
        variant(all, &on_device(name, DEVICES_US[0]), with_cache(OF_DATABASE.0), trial);
    }
}

#[cfg(test)]
impl FlatFlash {
    /// A made-up result, with the same time for every run of `sets`.
    pub(super) fn made_up(sets: &[Programs]) -> FlatFlash {
        let (job_ns, p99_ns, pages_moved, pages_written) = (1e4, 2e4, 1.0, 1.0);
        let row = |run: Experiment| RunRow {
            experiment: run.name,
            system: run.system,
            measure: Measure {
                job_ns,
                p99_ns,
                pages_moved,
                pages_written,
                promotions_dropped: 0.0,
                jobs: 1,
            },
        };
        let mut made_up = FlatFlash {
            scale_denominator: 64,
            graph_scale_denominator: 512,
            seed: 1,
            runs: all(sets).into_iter().map(row).collect(),
            readings: Vec::new(),
            databases: Vec::new(),
            files: files::rows(files::PRICES, 64, 1),
            findings: Findings::default(),
        };
        made_up.readings = readings::rows(&made_up);
        if sets.contains(&Programs::Databases) {
            made_up.databases = databases::rows(&made_up);
        }
        made_up
    }
}
