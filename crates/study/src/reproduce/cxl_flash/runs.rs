//! The study's figures and tables as runs of the simulated device.

use std::ops::ControlFlow;
use std::sync::OnceLock;

use ebbtide_sim::config::resolve;
use ebbtide_sim::{Replay, ReplayError, replay};
use ebbtide_trace::{FrameMap, Source};
use serde::Serialize;

use super::programs::PROGRAMS;
use super::recording::Recording;
use super::sources::{Cancellable, Hinted, Hints, Mapped};
use super::stand_ins::{REUSED, STAND_INS};
use crate::reproduce::{Cancel, Options, Progress, ReproduceError};
use crate::side_by_side::side_by_side;

/// Programs of the synthetic studies, in the order of [`PROGRAMS`].
pub(super) const SYNTHETIC: [&str; 5] =
    [PROGRAMS[0].name, PROGRAMS[1].name, PROGRAMS[2].name, PROGRAMS[3].name, PROGRAMS[4].name];

/// Programs of the study of real ones, in the order of [`STAND_INS`].
pub(super) const REAL: [&str; 5] =
    [STAND_INS[0].name, STAND_INS[1].name, STAND_INS[2].name, STAND_INS[3].name, STAND_INS[4].name];

/// Policies of Fig. 11.
pub(super) const POLICIES: [&str; 4] = ["fifo", "random", "lru", "cflru"];

/// Prefetchers of Figs. 13 and 14, with how the paper calls them.
pub(super) const PREFETCHERS: [(&str, &str); 5] = [
    ("none", "NP"),
    ("next-n-line", "NL"),
    ("feedback-directed", "FD"),
    ("best-offset", "BO"),
    ("leap", "LP"),
];

/// Kinds of flash of Fig. 9.
pub(super) const FLASH: [&str; 4] = ["ull", "slc", "mlc", "tlc"];

/// Table 3's five physical traces: the run of pages that stay neighbours in memory. The last two were
/// made on a machine whose memory had been fragmented; the numbers are assumptions.
pub(super) const FRAGMENTS: [u64; 5] = [64, 64, 16, 1, 1];

/// What real programs run in: a memory not yet fragmented, an assumption.
const FRESH: u64 = 64;

/// Frames of the host: 16 GiB.
const FRAMES: u64 = 1 << 22;

/// Hints of observation 7: top share, chance, lead in us.
pub(super) const HINTS: [(f64, f64, u64); 7] = [
    (0.05, 0.01, 10),
    (0.05, 0.05, 10),
    (0.05, 0.10, 10),
    (0.05, 0.50, 10),
    (0.01, 0.10, 10),
    (0.05, 0.10, 1),
    (0.05, 0.10, 100),
];

/// How a run with hints is called.
pub(super) fn hinted((top, chance, lead_us): (f64, f64, u64)) -> String {
    format!("top {:.0}% at {:.0}%, {lead_us} us", top * 100.0, chance * 100.0)
}

/// How far back accesses of stand-ins return in an experiment on what Table 5 leaves open.
pub(super) const FAR_REUSED: usize = 1 << 16;

/// What came of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The figure or table that it belongs to.
    pub figure: &'static str,
    /// The program.
    pub program: &'static str,
    /// The device, and what is done to the trace.
    pub setup: String,
    /// Accesses.
    pub accesses: u64,
    /// Share of accesses below a microsecond in the device.
    pub sub_us: f64,
    /// Mean latency in the device.
    pub mean_us: f64,
    /// 99th percentile of latency in the device.
    pub p99_us: f64,
    /// Mean latency from the time in the trace, waiting before the device included.
    pub mean_from_issue_us: f64,
    /// Hits.
    pub hits: u64,
    /// Hits under a miss.
    pub hits_under_miss: u64,
    /// Misses.
    pub misses: u64,
    /// Reads of pages that were on their way.
    pub repeated_reads: u64,
    /// Pages read from flash.
    pub flash_reads: u64,
    /// Pages written to flash.
    pub flash_writes: u64,
    /// Simulated time.
    pub seconds: f64,
    /// Of prefetches: the share that was used.
    pub accuracy: f64,
    /// Hits on prefetched pages, of all accesses.
    pub coverage: f64,
    /// Misses that prefetches caused, of all misses.
    pub pollution: f64,
}

impl Row {
    /// Mean time between commands to flash.
    pub(super) fn flash_interval_us(&self) -> f64 {
        self.seconds * 1e6 / (self.flash_reads + self.flash_writes).max(1) as f64
    }
}

/// A run: what [`Row`] says of it, and how to do it.
pub(super) struct Run {
    figure: &'static str,
    trace: Trace,
    setup: String,
    keys: Vec<(&'static str, String)>,
    /// Runs of pages that stay neighbours, and a seed; virtual addresses without.
    mapping: Option<(u64, u64)>,
    hints: Option<Hints>,
    /// How far back accesses of a stand-in return.
    reused: usize,
}

#[derive(Clone, Copy)]
enum Trace {
    Synthetic(usize),
    Real(usize),
}

/// How much of the study is run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// Synthetic programs, their data and their caches are smaller by this.
    pub(super) synthetic: u64,
    /// Real programs are cut after so many accesses.
    pub(super) accesses_max: u64,
}

impl Scale {
    pub(super) fn new(options: &Options) -> Scale {
        match options.quick {
            true => Scale { synthetic: 8, accesses_max: 2_000_000 },
            false => Scale { synthetic: 1, accesses_max: u64::MAX },
        }
    }
}

impl Run {
    fn synthetic(figure: &'static str, program: usize, setup: String) -> Run {
        let trace = Trace::Synthetic(program);
        let (keys, mapping, hints) = (Vec::new(), None, None);
        Run { figure, trace, setup, keys, mapping, hints, reused: REUSED }
    }

    fn real(figure: &'static str, program: usize, setup: String) -> Run {
        Run { trace: Trace::Real(program), ..Run::synthetic(figure, program, setup) }
    }

    fn set(mut self, key: &'static str, value: impl ToString) -> Run {
        self.keys.push((key, value.to_string()));
        self
    }

    /// The device of section 4: fully associative, FIFO.
    fn cache(self, scale: Scale, mib: u64) -> Run {
        let size = format!("{}KiB", mib * 1024 / scale.synthetic);
        self.set("dram_cache.policy", "fifo").set("dram_cache.ways", 0).set("dram_cache.size", size)
    }

    fn flash(self, preset: &str, (channels, chips): (u64, u64)) -> Run {
        self.set("flash.preset", preset)
            .set("flash.channels", channels)
            .set("flash.chips_per_channel", chips)
    }

    /// Next-n-line of section 4.
    fn next_line(self, degree: u64, offset: u64) -> Run {
        self.prefetch("next-n-line").set("prefetch.degree", degree).set("prefetch.offset", offset)
    }

    /// A prefetcher as the authors' simulator has it.
    fn prefetch(self, policy: &str) -> Run {
        self.set("prefetch.policy", policy)
            .set("prefetch.preset", "atc23")
            .set("device.prefetches_first", true)
    }

    fn mapped(mut self, run_pages: u64, seed: u64) -> Run {
        self.mapping = Some((run_pages, seed));
        self
    }

    fn program(&self) -> &'static str {
        match self.trace {
            Trace::Synthetic(program) => SYNTHETIC[program],
            Trace::Real(program) => REAL[program],
        }
    }
}

/// Every run of the study.
pub(super) fn all(scale: Scale) -> Vec<Run> {
    [figures_5_to_7(scale), figure_8(scale), figure_9(scale), figure_10(scale), table_3(scale)]
        .into_iter()
        .chain([figure_11(), figures_13_and_14(), hints(), far_reuse()])
        .flatten()
        .collect()
}

/// No cache, a cache alone, and miss registers: 32 x 32 chips of SLC.
fn figures_5_to_7(scale: Scale) -> Vec<Run> {
    let runs = |program| {
        let run = |setup: &str, gib: u64, mshr| {
            let run = Run::synthetic("Fig. 5", program, setup.to_string());
            run.cache(scale, gib * 1024).flash("slc", (32, 32)).set("dram_cache.mshr", mshr)
        };
        [
            run("no cache", 0, 0),
            run("2 GiB", 2, 0),
            run("8 GiB", 8, 0),
            run("8 GiB, registers", 8, 1024),
        ]
    };
    (0..SYNTHETIC.len()).flat_map(runs).collect()
}

/// Next-n-line by degree and offset, on 8 GiB.
fn figure_8(scale: Scale) -> Vec<Run> {
    let run = |program, degree, offset| {
        let run = Run::synthetic("Fig. 8", program, format!("degree {degree}, offset {offset}"));
        run.cache(scale, 8192).flash("slc", (32, 32)).next_line(degree, offset)
    };
    let offsets =
        [0, 1, 2, 4].into_iter().flat_map(|p| [4, 16, 64].map(|offset| run(p, 4, offset)));
    offsets.chain([run(1, 1, 16)]).collect()
}

/// Stride on four kinds of flash; with offset 64 as well, which leaves prefetches more time.
fn figure_9(scale: Scale) -> Vec<Run> {
    let run = |flash: &'static str, gib: u64| {
        let run = Run::synthetic("Fig. 9", 4, format!("{flash}, {gib} GiB"));
        let run = run.cache(scale, gib * 1024).flash(flash, (32, 32));
        if gib == 0 { run } else { run.next_line(4, 16) }
    };
    let runs = FLASH.into_iter().flat_map(|flash| [0, 1, 2, 4].map(|gib| run(flash, gib)));
    let in_time = FLASH.map(|flash| Run {
        setup: format!("{flash}, 4 GiB, offset 64"),
        ..run(flash, 4).next_line(4, 64)
    });
    runs.chain(in_time).collect()
}

/// Chips against cache.
fn figure_10(scale: Scale) -> Vec<Run> {
    let run = |program, chips: (u64, u64), gib: u64| {
        let setup = format!("{} x {}, {gib} GiB", chips.0, chips.1);
        let run = Run::synthetic("Fig. 10", program, setup);
        run.cache(scale, gib * 1024).flash("slc", chips).next_line(4, 16)
    };
    let all = [0, 2, 3, 4].into_iter();
    all.flat_map(|p| [(8, 4), (32, 32)].map(|chips| [1, 8].map(|gib| run(p, chips, gib))))
        .flatten()
        .collect()
}

/// Virtual against physical addresses: 8 x 8 chips, 512 MiB, next-n-line.
fn table_3(scale: Scale) -> Vec<Run> {
    let run = |program, setup: String| {
        let run = Run::synthetic("Table 3", program, setup);
        run.cache(scale, 512).flash("ull", (8, 8)).next_line(4, 16)
    };
    let runs = |program| {
        let physical = (1..).zip(FRAGMENTS).map(move |(number, pages)| {
            run(program, format!("physical {number}")).mapped(pages, number)
        });
        std::iter::once(run(program, "virtual".to_string())).chain(physical)
    };
    (0..SYNTHETIC.len()).flat_map(runs).collect()
}

/// Policies and ways.
fn figure_11() -> Vec<Run> {
    let run = |program, policy: &str, ways: u64| {
        let run = Run::real("Fig. 11", program, format!("{policy}, {ways} ways"));
        run.set("dram_cache.policy", policy).set("dram_cache.ways", ways)
    };
    let ways = POLICIES.into_iter().flat_map(|policy| [1, 4, 16].map(|ways| (policy, ways)));
    let setups: Vec<_> =
        ways.filter(|(policy, ways)| *ways > 1 || *policy == POLICIES[0]).collect();
    let runs = |program| setups.iter().map(move |(policy, ways)| run(program, policy, *ways));
    (0..REAL.len()).flat_map(runs).collect()
}

/// Prefetchers, by physical addresses; best-offset by virtual ones as well.
fn figures_13_and_14() -> Vec<Run> {
    let run = |program, (policy, name): (&str, &str)| {
        Run::real("Fig. 13", program, name.to_string()).prefetch(policy)
    };
    let runs = |program| PREFETCHERS.map(|prefetcher| run(program, prefetcher).mapped(FRESH, 1));
    let virtually = [0, 1]
        .map(|program| Run { setup: "BO, virtual".to_string(), ..run(program, PREFETCHERS[3]) });
    (0..REAL.len()).flat_map(runs).chain(virtually).collect()
}

/// BERT with hints.
fn hints() -> Vec<Run> {
    let run = |setup: (f64, f64, u64)| {
        let (top, chance, lead_us) = setup;
        let hints = Some(Hints { top, chance, lead_us });
        Run { hints, ..Run::real("Obs. 7", 0, hinted(setup)).mapped(FRESH, 1) }
    };
    HINTS.map(run).into()
}

/// Stand-ins whose accesses return further back, which Table 5 leaves open.
fn far_reuse() -> Vec<Run> {
    let run = |program, policy: &str| {
        let run = Run::real("Reuse", program, policy.to_string()).set("dram_cache.policy", policy);
        Run { reused: FAR_REUSED, ..run }
    };
    let policies = ["fifo", "cflru"];
    (0..REAL.len()).flat_map(|program| policies.map(|policy| run(program, policy))).collect()
}

/// Synthetic programs, recorded when they are first wanted.
type Recordings = [OnceLock<Recording>; SYNTHETIC.len()];

/// Does all `runs`, side by side.
///
/// # Errors
/// The first run's that failed; or that `cancel` broke off.
pub(super) fn run_all(
    runs: &[Run],
    scale: Scale,
    options: &Options,
    cancel: &Cancel,
    progress: Progress<'_>,
) -> Result<(Vec<Row>, Recordings), ReproduceError> {
    let recordings = Recordings::default();
    let watch = |_: &str, share| {
        progress(share);
        if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let rows = side_by_side(runs.len(), options.threads, &watch, |number, watch| {
        let run = &runs[number];
        let replayed = run_one(run, scale, &recordings, options, cancel);
        let wrong = |error| ReproduceError::Replay {
            trace: run.program(),
            setup: format!("{}, {}", run.figure, run.setup),
            error: Box::new(error),
        };
        // A run that was broken off may look like one that ended.
        if watch(run.program(), 1.0).is_break() {
            return Err(ReproduceError::Cancelled);
        }
        replayed.map(|replay| row(run, &replay)).map_err(wrong)
    })?;
    Ok((rows, recordings))
}

fn run_one(
    run: &Run,
    scale: Scale,
    recordings: &Recordings,
    options: &Options,
    cancel: &Cancel,
) -> Result<Replay, ReplayError> {
    let keys: Vec<(&str, &str)> =
        run.keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let config = resolve("cxl-flash", &keys)?;
    let trace = || -> Box<dyn Source> {
        let virtually: Box<dyn Source> = match run.trace {
            Trace::Synthetic(program) => {
                let record = || PROGRAMS[program].record(scale.synthetic);
                Box::new(recordings[program].get_or_init(record).replay())
            }
            Trace::Real(program) => {
                let stand_in = STAND_INS[program];
                Box::new(stand_in.trace(
                    stand_in.accesses.min(scale.accesses_max),
                    run.reused,
                    options.seed,
                ))
            }
        };
        let source = Cancellable { source: virtually, cancel };
        match run.mapping {
            None => Box::new(source),
            Some((pages, seed)) => {
                let frames = FrameMap::fragmented(FRAMES, pages, seed.wrapping_add(options.seed));
                Box::new(Mapped { virtually: source, frames })
            }
        }
    };
    match run.hints {
        None => replay(&config, &mut *trace()),
        Some(hints) => replay(&config, &mut Hinted::new(trace(), trace(), hints, options.seed)?),
    }
}

fn row(run: &Run, replay: &Replay) -> Row {
    let (device, cache) = (&replay.device_latency_ns, &replay.dram_cache);
    Row {
        figure: run.figure,
        program: run.program(),
        setup: run.setup.clone(),
        accesses: replay.accesses,
        sub_us: device.sub_us_share.unwrap_or(0.0),
        mean_us: device.mean / 1e3,
        p99_us: device.p99 as f64 / 1e3,
        mean_from_issue_us: replay.latency_ns.mean / 1e3,
        hits: cache.hits,
        hits_under_miss: cache.hits_under_miss,
        misses: cache.misses,
        repeated_reads: cache.repeated_reads,
        flash_reads: replay.flash.reads,
        flash_writes: replay.flash.writes,
        seconds: replay.simulated_ns as f64 / 1e9,
        accuracy: replay.prefetch.map_or(0.0, |prefetch| prefetch.accuracy),
        coverage: replay.prefetch.map_or(0.0, |prefetch| prefetch.coverage),
        pollution: replay.prefetch.map_or(0.0, |prefetch| prefetch.pollution),
    }
}
