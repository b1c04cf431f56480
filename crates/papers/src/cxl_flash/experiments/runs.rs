//! [`Run`]: a run of the simulated device, and [`Row`], its result.

use std::path::Path;
use std::sync::OnceLock;

use ebbtide_core::{PAGE_BYTES, Span, Watch};
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Replay, ReplayError, replay};
use ebbtide_trace::{
    FrameMap, Hinted, Mapped, Mapping, Physical, Recording, Source, TraceError, Wrapped,
};
use ebbtide_workloads::Open;
use serde::Serialize;

use super::REAL;
use super::captured::CAPTURED;
use super::given::{First, Given};
use super::programs::{Cut, PROGRAMS};
use super::stand_ins::STAND_INS;
use crate::{ReproduceError, ReproduceOptions};
use ebbtide_study::side_by_side::side_by_side;
use ebbtide_study::watched::Watched;

/// Pages of the cache of the study of real programs, 64 MiB.
pub(crate) const CACHE_PAGES: u64 = (64 << 20) / PAGE_BYTES as u64;

/// Stand-ins with other choices of the parameters that Table 5 leaves open end after this many
/// times [`CACHE_PAGES`] new pages.
const FILLS: u64 = 2;

/// Frames of the host, which are the device's pages: 16 GiB.
const FRAMES: u64 = 1 << 22;

/// The result of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Row {
    /// The figure or table.
    pub figure: &'static str,
    /// The program.
    pub program: &'static str,
    /// The device, and the changes to the trace.
    pub setup: String,
    /// Accesses.
    pub accesses: u64,
    /// Share of accesses that take less than 1 µs in the device.
    pub sub_us: f64,
    /// Mean latency in the device, in microseconds.
    pub mean_us: f64,
    /// 99th percentile of latency in the device, in microseconds.
    pub p99_us: f64,
    /// Mean latency from the time in the trace, in microseconds. It includes the wait before the
    /// device.
    pub mean_from_issue_us: f64,
    /// Hits.
    pub hits: u64,
    /// Hits under a miss.
    pub hits_under_miss: u64,
    /// Misses.
    pub misses: u64,
    /// Reads of pages that were already being read.
    pub repeated_reads: u64,
    /// Pages of 4 KiB read from flash.
    pub flash_reads: u64,
    /// Pages of 4 KiB written to flash.
    pub flash_writes: u64,
    /// Simulated time, in seconds.
    pub seconds: f64,
    /// Share of prefetches that were used.
    pub accuracy: f64,
    /// Hits on prefetched pages, as a share of all accesses.
    pub coverage: f64,
    /// Misses caused by prefetches, as a share of all misses.
    pub pollution: f64,
}

impl Row {
    /// Returns the mean time between commands to flash, in microseconds.
    pub(crate) fn flash_interval_us(&self) -> f64 {
        self.seconds * 1e6 / (self.flash_reads + self.flash_writes).max(1) as f64
    }
}

/// A run.
pub(crate) struct Run {
    pub(crate) figure: &'static str,
    pub(crate) trace: Trace,
    pub(crate) setup: String,
    pub(crate) keys: Vec<(&'static str, String)>,
    pub(crate) addresses: Addresses,
    pub(crate) hints: Option<Hints>,
}

/// A trace, by its index in its list.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Trace {
    /// Of [`PROGRAMS`].
    Synthetic(usize, Cut),
    /// Of [`STAND_INS`].
    Real(usize, Open),
    /// Of [`CAPTURED`], at rescaled times or at those of the capture.
    Captured { program: usize, own_times: bool },
}

/// The kind of a trace's addresses that the device sees.
#[derive(Clone, Copy)]
pub(crate) enum Addresses {
    /// The program's own.
    Virtual,
    /// Those of a memory with runs of this many adjacent pages, in an order that the seed decides.
    Mapped { run_pages: u64, seed: u64 },
    /// The physical addresses in the trace.
    Physical,
}

/// Hints of observation 7: the top share of pages, the probability, and the lead in microseconds.
/// The lead is an assumption, and it is varied.
pub(crate) type Hints = (f64, f64, u64);

/// The extent of a run of the study.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// The divisor of synthetic programs' data and caches.
    pub(crate) synthetic: u64,
    /// Real programs end after this many accesses.
    pub(crate) accesses_max: u64,
}

impl Scale {
    pub(crate) fn new(options: &ReproduceOptions) -> Scale {
        match options.quick {
            true => Scale { synthetic: 8, accesses_max: 2_000_000 },
            false => Scale { synthetic: 1, accesses_max: u64::MAX },
        }
    }
}

impl Run {
    /// `trace` on the study's device by its own addresses. The DRAM is that of the authors'
    /// simulator.
    pub(crate) fn new(figure: &'static str, trace: Trace, setup: String) -> Run {
        let (keys, addresses, hints) = (Vec::new(), Addresses::Virtual, None);
        let run = Run { figure, trace, setup, keys, addresses, hints };
        run.set("device.dram_banks", 1).set("device.pages_take_bus", false)
    }

    pub(crate) fn set(mut self, key: &'static str, value: impl ToString) -> Run {
        self.keys.push((key, value.to_string()));
        self
    }

    /// The device of section 4: fully associative, FIFO.
    pub(crate) fn cache(self, scale: Scale, mib: u64) -> Run {
        let size = format!("{}KiB", mib * 1024 / scale.synthetic);
        self.set("dram_cache.policy", "fifo").set("dram_cache.ways", 0).set("dram_cache.size", size)
    }

    pub(crate) fn flash(self, preset: &str, (channels, chips): (u64, u64)) -> Run {
        self.set("flash.preset", preset)
            .set("flash.channels", channels)
            .set("flash.chips_per_channel", chips)
    }

    /// Next-n-line of section 4.
    pub(crate) fn next_line(self, degree: u64, offset: u64) -> Run {
        self.prefetch("next-n-line").set("prefetch.degree", degree).set("prefetch.offset", offset)
    }

    /// A prefetcher as in the authors' simulator.
    pub(crate) fn prefetch(self, policy: &str) -> Run {
        self.set("prefetch.policy", policy)
            .set("prefetch.preset", "atc23")
            .set("device.prefetches_first", true)
    }

    /// The run by the addresses of a memory with runs of `run_pages` adjacent pages.
    pub(crate) fn mapped(self, run_pages: u64, seed: u64) -> Run {
        Run { addresses: Addresses::Mapped { run_pages, seed }, ..self }
    }

    /// The run of a captured program at the times of the capture.
    pub(crate) fn at_own_times(mut self) -> Run {
        if let Trace::Captured { own_times, .. } = &mut self.trace {
            *own_times = true;
        }
        self
    }

    /// The index of its program in [`REAL`], if it is a real one.
    pub(crate) fn real(&self) -> Option<usize> {
        match self.trace {
            Trace::Real(program, _) => Some(program),
            _ => None,
        }
    }

    pub(crate) fn program(&self) -> &'static str {
        match self.trace {
            Trace::Synthetic(program, _) => PROGRAMS[program].name,
            Trace::Real(program, _) => REAL[program],
            Trace::Captured { program, .. } => CAPTURED[program].name,
        }
    }

    /// The study's own trace of the run, if it is there.
    fn given<'a>(&self, given: &'a Given) -> Option<&'a Path> {
        match (self.trace, self.addresses) {
            (Trace::Real(program, Open::Fixed), Addresses::Mapped { .. }) => {
                given.of(program, true)
            }
            (Trace::Real(program, Open::Fixed), Addresses::Virtual) => given.of(program, false),
            _ => None,
        }
    }

    /// The accesses that the device sees.
    fn source<'a>(
        &self,
        inputs: &'a Inputs<'a>,
        watch: Watch<'a>,
    ) -> Result<Box<dyn Source + 'a>, TraceError> {
        let Inputs { scale, recordings, given, options } = inputs;
        // Its addresses are those that the device sees.
        if let Some(path) = self.given(given) {
            let first = First::new(ebbtide_trace::open(path)?, scale.accesses_max);
            return Ok(Box::new(Wrapped::new(Watched::new(first, watch), FRAMES)));
        }
        let source: Box<dyn Source> = match self.trace {
            Trace::Synthetic(program, cut) => {
                let recording = recordings.of(program, cut).expect("every run's is there");
                let record = || PROGRAMS[program].record(cut, scale.synthetic);
                PROGRAMS[program].replay(cut, recording.get_or_init(record))
            }
            Trace::Real(program, open) => {
                let stand_in = STAND_INS[program];
                let most = match open {
                    Open::Fixed => scale.accesses_max,
                    _ => stand_in.accesses_to_fill(CACHE_PAGES) * FILLS,
                };
                Box::new(stand_in.trace(stand_in.accesses.min(most), open, options.seed))
            }
            Trace::Captured { program, own_times: false } => Box::new(CAPTURED[program].trace()?),
            Trace::Captured { program, own_times: true } => {
                Box::new(CAPTURED[program].at_own_times()?)
            }
        };
        let source = Watched::new(source, watch);
        let source: Box<dyn Source> = match self.addresses {
            Addresses::Virtual => Box::new(source),
            Addresses::Mapped { run_pages, seed } => {
                let seed = seed.wrapping_add(options.seed);
                let frames = FrameMap::fragmented(FRAMES, run_pages, seed);
                Box::new(Physical::new(Mapped::new(source, Mapping::Fragmented(frames))))
            }
            Addresses::Physical => Box::new(Physical::new(source)),
        };
        Ok(Box::new(Wrapped::new(source, FRAMES)))
    }
}

/// The recordings of synthetic programs. Each is made at its first replay.
pub(crate) struct Recordings(Vec<(usize, Cut, OnceLock<Recording>)>);

impl Recordings {
    /// A place for every recording that `runs` replay.
    fn for_all(runs: &[Run]) -> Recordings {
        let mut all = Recordings(Vec::new());
        for run in runs {
            if let Trace::Synthetic(program, cut) = run.trace
                && all.of(program, cut).is_none()
            {
                all.0.push((program, cut, OnceLock::new()));
            }
        }
        all
    }

    fn of(&self, program: usize, cut: Cut) -> Option<&OnceLock<Recording>> {
        let found = self.0.iter().find(|(p, c, _)| (*p, *c) == (program, cut));
        found.map(|(.., recording)| recording)
    }

    /// Every finished recording, with its program and its cut.
    pub(crate) fn made(&self) -> impl Iterator<Item = (usize, Cut, &Recording)> {
        self.0.iter().filter_map(|(program, cut, made)| Some((*program, *cut, made.get()?)))
    }
}

/// The inputs of runs.
struct Inputs<'a> {
    scale: Scale,
    recordings: &'a Recordings,
    given: &'a Given,
    options: &'a ReproduceOptions,
}

/// Runs all of `runs` side by side. The study's own traces that are `given` take the place of
/// stand-ins.
///
/// # Errors
/// The error of the first failed run, or the user's stop.
pub(crate) fn run_all(
    runs: &[Run],
    scale: Scale,
    given: &Given,
    options: &ReproduceOptions,
    watch: Watch<'_>,
) -> Result<(Vec<Row>, Recordings), ReproduceError> {
    let recordings = Recordings::for_all(runs);
    let inputs = Inputs { scale, recordings: &recordings, given, options };
    let rows = side_by_side(runs.len(), options.threads, watch, |number, watch| {
        let run = &runs[number];
        let replayed = run_one(run, &inputs, watch);
        let wrong = |error| ReproduceError::Replay {
            trace: run.program(),
            setup: format!("{}, {}", run.figure, run.setup),
            error: Box::new(error),
        };
        // A stopped run may look like a finished one.
        watch.tell(run.program(), 1.0)?;
        replayed.map(|replay| row(run, &replay)).map_err(wrong)
    })?;
    Ok((rows, recordings))
}

fn run_one(run: &Run, inputs: &Inputs<'_>, watch: Watch<'_>) -> Result<Replay, ReplayError> {
    let keys: Vec<(&str, &str)> =
        run.keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let config = resolve("cxl-flash", &keys)?;
    let source = || run.source(inputs, watch);
    let Some((top, chance, lead_us)) = run.hints else { return replay(&config, &mut *source()?) };
    let hints = ebbtide_trace::Hints {
        top,
        chance,
        lead: Span::from_us(lead_us),
        seed: inputs.options.seed,
    };
    let hottest = hints.hottest(&mut *source()?)?;
    replay(&config, &mut Hinted::new(source()?, hints, hottest))
}

fn row(run: &Run, replay: &Replay) -> Row {
    let (device, cache) = (&replay.device_latency_ns, &replay.memory.cache);
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
