//! A child process of the bench: one memory, controlled by commands on standard input.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebbtide_core::prefetch::PrefetcherKind;
use ebbtide_core::{PAGE_BYTES, PageId, Span, Time};
use ebbtide_engine::device::dma::{self, Dma};
use ebbtide_engine::device::threads::Threads;
use ebbtide_engine::mapped::{Region, STACK_BYTES_MIN, Shares};
use ebbtide_engine::store::{Access, Store, StoreError};
use ebbtide_engine::{Engine, MappedMemory, Options, Progress, Snapshot, affinity};
use ebbtide_workloads::{Kind, Program, Shape, Workload};
use hdrhistogram::Histogram;

use super::calibrate::calibrate;
use super::data::{device_bytes, spare_pages};
use super::error::BenchError;
use super::job_stream::{
    CoreTimes, Stream, StreamService, WindowTimes, latency, run_threads, total,
};
use super::options::{Flash, Mode};
use super::protocol::{
    Command, Committed, Latency, RawReads, Reply, Setup, Window, WindowArrivals,
};
use super::replay;
use crate::doctor::probe::{ProbeError, Target};
use crate::usage;

/// Numbers of kernel threads per core that OS paging tries. The fastest is used.
pub(super) const PAGING_THREADS: [usize; 5] = [4, 8, 16, 32, 64];

/// Length of each trial, in seconds, unless the bench is short.
pub(super) const PAGING_TRIAL_S: f64 = 0.3;

/// Before the first trial the page cache fills for this long, in seconds, unless the bench is
/// short.
const PAGING_FILL_S: f64 = 1.5;

/// Runs this process as a child of a bench. Executes the commands on `input` until it ends, and
/// replies on `output`.
///
/// # Errors
/// If a line cannot be read, parsed or answered, for example because the parent has ended.
#[cfg(feature = "memories")]
pub fn serve(input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
    let mut memory = None;
    for line in input.lines() {
        let command: Command = serde_json::from_str(&line?)?;
        if matches!(command, Command::Quit) {
            return Ok(());
        }
        let reply = obey(command, &mut memory).unwrap_or_else(|refusal| refusal);
        serde_json::to_writer(&mut output, &reply)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

fn failed(error: impl ToString) -> Reply {
    Reply::Failed(error.to_string())
}

fn obey(command: Command, memory: &mut Option<Under>) -> Result<Reply, Reply> {
    match command {
        Command::Setup(setup) => {
            let (under, reply) = Under::new(*setup)?;
            *memory = Some(under);
            Ok(reply)
        }
        Command::Calibrate { frames, interval_ns } => {
            let under = memory.as_mut().ok_or_else(|| failed("not set up"))?;
            under.calibrate(frames, interval_ns).map_err(failed)
        }
        Command::Run { seconds, arrivals, work_instructions, reads } => {
            let under = memory.as_mut().ok_or_else(|| failed("not set up"))?;
            let raw = reads.map(|reads| Ok((Target::open(&reads.file)?, reads))).transpose();
            let raw = raw.map_err(|error: ProbeError| failed(error))?;
            let length = (seconds, arrivals);
            let window = under.run(length, work_instructions, raw.as_ref()).map_err(failed)?;
            Ok(Reply::Window(Box::new(window)))
        }
        Command::Quit => Err(failed("quit is not answered")),
    }
}

/// The memory under test.
enum Tested {
    Mapped {
        memory: MappedMemory,
        threads: usize,
    },
    Engine(Box<Engine>),
    /// The jobs of an engine use a region by plain loads and stores.
    Region {
        engine: Arc<Engine>,
        region: Region,
    },
}

struct Under {
    tested: Tested,
    /// Memory in place of a drive. Its cost does not count for this memory.
    in_place_of_drive_bytes: u64,
    setup: Setup,
    program: Program,
    next_job: u64,
    clock: Instant,
}

impl Under {
    fn new(setup: Setup) -> Result<(Under, Reply), Reply> {
        // Threads and the kernel's I/O workers of this process inherit these CPUs.
        let mut elsewhere = affinity::allowed().map_err(failed)?;
        elsewhere.retain(|cpu| !setup.cpus.contains(cpu));
        affinity::confine(&setup.cpus).map_err(failed)?;
        let program = program(&setup).map_err(failed)?;
        let pages = program.size_bytes() / PAGE_BYTES as u64;
        let mut notices = Vec::new();
        let mut frames = None;
        let mut in_place_of_drive_bytes = 0;
        let tested = match setup.mode {
            Mode::Dram => {
                let image = |page, out: &mut _| program.image(page, out);
                let memory = MappedMemory::dram(pages, &image).map_err(|error| {
                    Reply::Unavailable(format!("the dataset does not fit into DRAM: {error}"))
                })?;
                Tested::Mapped { memory, threads: setup.cpus.len() }
            }
            Mode::Paging => paging(&setup, &program).map_err(failed)?,
            Mode::Sync | Mode::Ebbtide | Mode::Plain | Mode::Durable => {
                let (engine, bytes) = engine(&setup, &elsewhere, &program).map_err(failed)?;
                in_place_of_drive_bytes = bytes;
                frames = Some(engine.budget().frames as u64);
                notices.extend_from_slice(engine.notices());
                // Of a file there is little to say.
                if setup.device_path.is_some() || device_bytes(&setup.data).is_some() {
                    notices.push(format!("the drive is reached by {}", engine.device_name()));
                }
                Tested::Engine(Box::new(engine))
            }
            Mode::Mapped => {
                let (shares, (engine, bytes)) =
                    mapped(&setup, &elsewhere, &program).map_err(failed)?;
                in_place_of_drive_bytes = bytes;
                frames = Some(shares.tokens as u64);
                notices.extend_from_slice(engine.notices());
                let engine = Arc::new(engine);
                let region = Region::over(&engine, shares.tokens).map_err(|error| {
                    Reply::Unavailable(format!("mapped regions do not work here: {error}"))
                })?;
                Tested::Region { engine, region }
            }
        };
        let clock = Instant::now();
        let mut under =
            Under { tested, in_place_of_drive_bytes, setup, program, next_job: 0, clock };
        let threads_per_core = under.choose_threads().map_err(failed)?;
        Ok((under, Reply::Ready { frames, threads_per_core, notices }))
    }

    fn calibrate(&mut self, frames: u64, interval_ns: f64) -> Result<Reply, String> {
        let Tested::Mapped { memory, .. } = &mut self.tested else {
            return Err("only DRAM can calibrate".into());
        };
        let program = self.program.clone();
        let with_work = |work| program.clone().with_work(work);
        let share = self.setup.setup_share;
        calibrate(&with_work, memory, frames, interval_ns, share).map(Reply::Calibrated)
    }

    /// For OS paging: tries numbers of kernel threads and selects the fastest.
    fn choose_threads(&mut self) -> Result<Option<usize>, String> {
        if self.setup.mode != Mode::Paging {
            return Ok(None);
        }
        // A comparison is meaningful only with a full page cache.
        let (work, share) = (self.setup.work_instructions, self.setup.setup_share);
        self.run((PAGING_FILL_S * share, WindowArrivals::Closed), work, None)?;
        let mut best = (0.0, 0);
        let at_most = self.setup.tuning.threads.unwrap_or(usize::MAX);
        for per_core in PAGING_THREADS.into_iter().filter(|&count| count <= at_most) {
            self.set_threads(per_core * self.setup.cpus.len());
            let length = (PAGING_TRIAL_S * share, WindowArrivals::Closed);
            let window = self.run(length, work, None)?;
            let rate = window.jobs as f64 / window.seconds;
            if rate > best.0 {
                best = (rate, per_core);
            }
        }
        self.set_threads(best.1 * self.setup.cpus.len());
        Ok(Some(best.1))
    }

    fn set_threads(&mut self, count: usize) {
        if let Tested::Mapped { threads, .. } = &mut self.tested {
            *threads = count;
        }
    }

    /// Runs the job stream for a window, with reads through a raw ring or without.
    fn run(
        &mut self,
        (seconds, arrivals): (f64, WindowArrivals),
        work_instructions: u64,
        raw: Option<&(Target, RawReads)>,
    ) -> Result<Window, String> {
        let program = self.program.clone().with_work(work_instructions);
        let start = match &self.tested {
            Tested::Mapped { .. } => Time::from_ns(self.clock.elapsed().as_nanos() as u64),
            Tested::Engine(engine) => engine.now(),
            Tested::Region { engine, .. } => engine.now(),
        };
        let stream = Arc::new(Stream::new(program, self.next_job, start, seconds, arrivals));
        let before = (self.usage(), self.counted());
        let cores = self.run_stream(&stream, raw)?;
        let after = (self.usage(), self.counted());
        self.next_job += stream.jobs();
        let total = total(&stream, cores)?;
        Ok(self.window(&stream, &total, &before, &after))
    }

    fn run_stream(
        &self,
        stream: &Arc<Stream>,
        raw: Option<&(Target, RawReads)>,
    ) -> Result<Vec<CoreTimes>, String> {
        match &self.tested {
            Tested::Mapped { memory, threads, .. } => {
                Ok(run_threads(stream, memory, &self.setup.cpus, *threads, raw, self.clock))
            }
            Tested::Engine(_) if raw.is_some() => Err("only DRAM reads through a raw ring".into()),
            Tested::Engine(engine) => engine
                .run(|_| StreamService::new(stream.clone(), None), StreamService::measured)
                .map_err(|error| error.to_string()),
            Tested::Region { engine, region } => {
                let service = |_| StreamService::new(stream.clone(), Some(region.clone()));
                engine.run(service, StreamService::measured).map_err(|error| error.to_string())
            }
        }
    }

    /// Returns the CPU time and memory of this process, without the work that it does in place of a
    /// drive.
    fn usage(&self) -> usage::Usage {
        let mut usage = usage::usage();
        if self.in_place_of_drive_bytes > 0 {
            let (cpu_s, system_s) = usage::threads_cpu_s(dma::MOVER);
            usage.cpu_s -= cpu_s;
            usage.system_s -= system_s;
        }
        usage
    }

    fn counted(&self) -> Option<Counted> {
        let engine: &Engine = match &self.tested {
            Tested::Mapped { .. } => return None,
            Tested::Engine(engine) => engine,
            Tested::Region { engine, .. } => engine,
        };
        let counters = engine.counters();
        Some(Counted {
            counts: counters.snapshot(),
            reads_ns: counters.flash_read_ns(),
            stack_used_bytes: counters.stack_used_bytes(),
            log: engine.progress(),
        })
    }

    fn window(
        &self,
        stream: &Stream,
        total: &WindowTimes,
        before: &(usage::Usage, Option<Counted>),
        after: &(usage::Usage, Option<Counted>),
    ) -> Window {
        let usage = after.0.since(&before.0);
        let mut window = Window {
            jobs: stream.jobs(),
            seconds: total.seconds,
            cpu_s: usage.cpu_s,
            system_s: usage.system_s,
            service_us: total.service_us,
            response_us: total.response_us,
            slowest: total.slowest,
            rss_bytes: usage::resident_bytes().saturating_sub(self.in_place_of_drive_bytes),
            ..Window::default()
        };
        match (&before.1, &after.1) {
            (Some(earlier), Some(later)) => {
                window.flash_read_us = later.reads_since(earlier);
                window.stack_used_bytes = later.stack_used_bytes;
                window.committed = later.committed_since(earlier);
                let (before, after) = (&earlier.counts, &later.counts);
                window.misses = after.misses - before.misses;
                window.hits_under_miss = after.hits_under_miss - before.hits_under_miss;
                window.flash_reads = after.flash_reads - before.flash_reads;
                window.flash_writes = after.flash_writes - before.flash_writes;
                window.write_requests = after.write_requests - before.write_requests;
                window.submissions = after.submissions - before.submissions;
                window.fetched_ahead = after.fetched_ahead - before.fetched_ahead;
                window.ahead_used = after.ahead_used - before.ahead_used;
                window.ahead_late = after.ahead_late - before.ahead_late;
                window.polluted = after.polluted - before.polluted;
                window.held_s = (after.held_ns - before.held_ns) as f64 / 1e9;
                window.idle_s = (after.idle_ns - before.idle_ns) as f64 / 1e9;
            }
            _ => {
                window.misses = usage.major_faults + total.raw_reads;
                window.flash_reads = usage.bytes_read / PAGE_BYTES as u64;
                window.flash_writes = usage.bytes_written / PAGE_BYTES as u64;
            }
        }
        window
    }
}

/// Counters of an engine so far.
struct Counted {
    counts: Snapshot,
    reads_ns: Histogram<u64>,
    stack_used_bytes: u64,
    /// End of the log, if there is one.
    log: Option<Progress>,
}

impl Counted {
    /// Returns the stores of transactions since `earlier`.
    fn committed_since(&self, earlier: &Counted) -> Committed {
        let (Some(before), Some(after)) = (&earlier.log, &self.log) else {
            return Committed::default();
        };
        Committed {
            transactions: after.stored.transactions - before.stored.transactions,
            stored_pages: after.stored.pages - before.stored.pages,
            stored_bytes: after.stored.bytes - before.stored.bytes,
            log_bytes: after.written_bytes - before.written_bytes,
            flushes: after.flushes - before.flushes,
            flush_s: (after.flush_time - before.flush_time).as_secs_f64(),
        }
    }

    /// How long the flash reads took that have ended since `earlier`.
    fn reads_since(&self, earlier: &Counted) -> Latency {
        let mut since = self.reads_ns.clone();
        since.subtract(&earlier.reads_ns).expect("an engine only adds to its counts");
        latency(&since)
    }
}

/// Returns the workload of `setup`.
pub(super) fn program(setup: &Setup) -> Result<Program, String> {
    if let Some(steps) = &setup.replay {
        let unread = |error| format!("cannot read {}: {error}", steps.display());
        return replay::load(steps, setup.seed).map_err(unread);
    }
    let kind = setup.workload.parse::<Kind>().map_err(|error| error.to_string())?;
    let shape = Shape {
        dataset_bytes: setup.dataset_bytes,
        theta: setup.theta,
        scatter: setup.scatter,
        seed: setup.seed,
        work_instructions: 0,
    };
    let program = match &setup.graph {
        None => kind.build(&shape).map_err(BenchError::from),
        // DRAM-only needs the image, and has no budget.
        Some(graph) if setup.mode == Mode::Dram => graph.load(kind, &shape),
        Some(graph) => graph.elsewhere(kind, &shape),
    };
    program.map_err(|error| error.to_string())
}

/// Returns the store of `setup`. It is shared with other modes if no job changes it.
fn store(setup: &Setup, program: &Program) -> Result<Arc<Store>, StoreError> {
    let access = if program.writes() { Access::Exclusive } else { Access::SharedReadOnly };
    Store::open_clean(&setup.data, setup.offset, access).map(Arc::new)
}

fn paging(setup: &Setup, program: &Program) -> Result<Tested, String> {
    let store = store(setup, program).map_err(|error| error.to_string())?;
    if program.writes() {
        // The kernel writes pages back at any time.
        store.mark_dirty().map_err(|error| error.to_string())?;
    }
    let memory = MappedMemory::paged(&store).map_err(|error| error.to_string())?;
    Ok(Tested::Mapped { memory, threads: setup.cpus.len() })
}

/// Returns the engine, and the size of the memory in place of a drive. That memory is moved on the
/// CPUs `elsewhere`.
fn engine(setup: &Setup, elsewhere: &[usize], program: &Program) -> Result<(Engine, u64), String> {
    engine_with(&engine_options(setup), setup, elsewhere, program)
}

/// As [`engine`], for a region over all its pages, with the shares of the budget.
fn mapped(
    setup: &Setup,
    elsewhere: &[usize],
    program: &Program,
) -> Result<(Shares, (Engine, u64)), String> {
    let mut options = engine_options(setup);
    // The frame of a signal needs room on a stack.
    options.stack_bytes = options.stack_bytes.max(STACK_BYTES_MIN);
    let pages = program.size_bytes() / PAGE_BYTES as u64;
    let shares = Shares::divide(&options, pages).map_err(|error| error.to_string())?;
    let engine = engine_with(&shares.options, setup, elsewhere, program)?;
    Ok((shares, engine))
}

fn engine_with(
    options: &Options,
    setup: &Setup,
    elsewhere: &[usize],
    program: &Program,
) -> Result<(Engine, u64), String> {
    if let Flash::Ram(latency) = setup.device {
        let (engine, bytes) = engine_over_ram(latency, elsewhere, program, options)?;
        return Ok((engine, bytes));
    }
    let store = store(setup, program).map_err(|error| error.to_string())?;
    let engine = if setup.mode == Mode::Sync {
        let device = Arc::new(Threads::blocking(store.file()));
        Engine::over(&store, device, options)
    } else {
        Engine::open(&store, options)
    };
    engine.map(|engine| (engine, 0)).map_err(|error| error.to_string())
}

/// An engine over memory with the room of a data file.
fn engine_over_ram(
    latency: Span,
    elsewhere: &[usize],
    program: &Program,
    options: &Options,
) -> Result<(Engine, u64), String> {
    let pages = program.size_bytes() / PAGE_BYTES as u64;
    let spare_pages = spare_pages(pages, program.writes());
    let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| {
        if page.0 < pages {
            program.image(page, out);
        }
    };
    let latency = Duration::from_nanos(latency.as_ns());
    let device = Dma::new(pages + spare_pages, latency, elsewhere, &image)
        .map_err(|error| format!("no memory to stand for a drive: {error}"))?;
    let bytes = device.bytes();
    Engine::over_roomy_device(Arc::new(device), pages, spare_pages, options)
        .map(|engine| (engine, bytes))
        .map_err(|error| error.to_string())
}

/// The options of the engine for `setup`.
pub(super) fn engine_options(setup: &Setup) -> Options {
    let mut options = Options::new(setup.dram_bytes as usize);
    options.cores = setup.cpus.len();
    options.cpus = setup.cpus.clone();
    options.stack_bytes = setup.stack_bytes;
    options.tuning = setup.tuning;
    options.durability = (setup.mode == Mode::Durable).then_some(setup.durability);
    options.device_path = setup.device_path;
    if setup.mode == Mode::Sync {
        // Blocking reads cannot run ahead of demand.
        options.tuning.threads = Some(1);
        options.tuning.prefetch = PrefetcherKind::None;
        options.tuning.hints = false;
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_before_a_window_do_not_count_in_it() {
        let counted = |reads_us: &[u64]| {
            let mut reads_ns = Histogram::new_with_max(1_000_000_000, 2).expect("valid bounds");
            reads_us.iter().for_each(|us| reads_ns.saturating_record(us * 1000));
            Counted { counts: Snapshot::default(), reads_ns, stack_used_bytes: 0, log: None }
        };
        let (before, after) = (counted(&[900; 99]), counted(&[&[900; 99][..], &[100; 9]].concat()));
        let reads = after.reads_since(&before);
        assert!((99.0..101.0).contains(&reads.p50), "{reads:?}");
        assert_eq!((reads.p50, reads.p999), (reads.p99, reads.p99));
    }
}
