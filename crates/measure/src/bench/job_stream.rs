//! The job stream of a measured window, and the latencies of its jobs.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ebbtide_core::{Span, Time};
use ebbtide_engine::mapped::Region;
use ebbtide_engine::{FlashMemory, JobError, MappedMemory, Offer, Service, Timing, affinity};
use ebbtide_workloads::{Program, Workload, load};
use hdrhistogram::Histogram;

use super::protocol::{Latency, RawReads, SlowestJobs, WindowArrivals};
use super::raw_ring::RawRing;
use super::slowest::Slowest;
use crate::doctor::probe::Target;

/// Longer latencies are counted as this one, in nanoseconds.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// The jobs of a window, handed out to all cores in order.
pub(super) struct Stream {
    program: Program,
    first_job: u64,
    /// Jobs handed out so far.
    handed_out: AtomicU64,
    /// Start of the window, on the clock of the memory that runs it.
    start: Time,
    until: ArrivalTimes,
}

enum ArrivalTimes {
    /// Jobs until this time.
    Closed(Time),
    /// A job at each of these times.
    Open(Vec<Time>),
}

/// A job to run.
pub(super) struct Job {
    number: u64,
    arrival: Time,
    wrong: Option<String>,
}

impl Stream {
    /// The stream from job `first_job` on, starting at `start` for `seconds`.
    pub(super) fn new(
        program: Program,
        first_job: u64,
        start: Time,
        seconds: f64,
        arrivals: WindowArrivals,
    ) -> Stream {
        let end = start + Span::from_ns((seconds * 1e9) as u64);
        let until = match arrivals {
            WindowArrivals::Closed => ArrivalTimes::Closed(end),
            WindowArrivals::Poisson { jobs_per_s } => ArrivalTimes::Open(
                load::Poisson::new(jobs_per_s, first_job)
                    .map(|at| start + at.since(Time::ZERO))
                    .take_while(|&at| at < end)
                    .collect(),
            ),
        };
        Stream { program, first_job, handed_out: AtomicU64::new(0), start, until }
    }

    /// Jobs handed out.
    pub(super) fn jobs(&self) -> u64 {
        match &self.until {
            ArrivalTimes::Closed(_) => self.handed_out.load(Ordering::Relaxed),
            ArrivalTimes::Open(arrivals) => arrivals.len() as u64,
        }
    }

    fn next(&self, now: Time) -> Offer<Job> {
        let job = |index, arrival| {
            Offer::Job(Job { number: self.first_job + index, arrival, wrong: None })
        };
        match &self.until {
            ArrivalTimes::Closed(end) if now >= *end => Offer::End,
            ArrivalTimes::Closed(_) => job(self.handed_out.fetch_add(1, Ordering::Relaxed), now),
            ArrivalTimes::Open(arrivals) => loop {
                let index = self.handed_out.load(Ordering::Relaxed);
                let Some(&arrival) = arrivals.get(index as usize) else { return Offer::End };
                if arrival > now {
                    return Offer::At(arrival);
                }
                let claimed = self.handed_out.compare_exchange(
                    index,
                    index + 1,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                if claimed.is_ok() {
                    return job(index, arrival);
                }
            },
        }
    }
}

/// The latencies that one core or thread measured.
pub(super) struct CoreTimes {
    service_ns: Histogram<u64>,
    response_ns: Histogram<u64>,
    slowest: Slowest,
    last: Time,
    /// Reads through a raw ring.
    raw_reads: u64,
    wrong: Option<String>,
}

impl CoreTimes {
    fn new() -> CoreTimes {
        let histogram = || {
            // Small: a thread of the paging mode has two inside its memory limit.
            Histogram::new_with_max(LATENCY_NS_MAX, 2).expect("the histogram's bounds are valid")
        };
        CoreTimes {
            service_ns: histogram(),
            response_ns: histogram(),
            slowest: Slowest::new(),
            last: Time::ZERO,
            raw_reads: 0,
            wrong: None,
        }
    }

    fn job_done(&mut self, job: Job, started: Time, finished: Time) {
        self.service_ns.saturating_record(finished.since(started).as_ns());
        let response_ns = finished.since(job.arrival).as_ns();
        self.response_ns.saturating_record(response_ns);
        self.slowest.note(response_ns, started.since(job.arrival).as_ns());
        self.last = self.last.max(finished);
        if self.wrong.is_none() {
            self.wrong = job.wrong;
        }
    }
}

/// All cores' measurements together.
pub(super) struct WindowTimes {
    pub(super) service_us: Latency,
    pub(super) response_us: Latency,
    pub(super) slowest: SlowestJobs,
    /// From the start of the window to the end of its last job, in seconds.
    pub(super) seconds: f64,
    /// Reads through raw rings.
    pub(super) raw_reads: u64,
}

/// Adds up what the cores measured.
///
/// # Errors
/// The message of the first job that read a wrong value.
pub(super) fn total(stream: &Stream, cores: Vec<CoreTimes>) -> Result<WindowTimes, String> {
    let mut all = CoreTimes::new();
    for core in cores {
        if let Some(wrong) = core.wrong {
            return Err(wrong);
        }
        all.service_ns.add(&core.service_ns).expect("same bounds");
        all.response_ns.add(&core.response_ns).expect("same bounds");
        all.slowest.add(&core.slowest);
        all.last = all.last.max(core.last);
        all.raw_reads += core.raw_reads;
    }
    Ok(WindowTimes {
        service_us: latency(&all.service_ns),
        response_us: latency(&all.response_ns),
        slowest: all.slowest.hundredth(),
        seconds: all.last.since(stream.start).as_ns() as f64 / 1e9,
        raw_reads: all.raw_reads,
    })
}

/// Quantiles of times in nanoseconds.
pub(super) fn latency(ns: &Histogram<u64>) -> Latency {
    let us = |quantile| ns.value_at_quantile(quantile) as f64 / 1e3;
    Latency { p50: us(0.5), p99: us(0.99), p999: us(0.999) }
}

/// A core of the engine that works on a stream.
pub(super) struct StreamService {
    stream: Arc<Stream>,
    /// The memory of the jobs, if it is a region.
    region: Option<Region>,
    measured: RefCell<CoreTimes>,
}

impl StreamService {
    pub(super) fn new(stream: Arc<Stream>, region: Option<Region>) -> StreamService {
        StreamService { stream, region, measured: RefCell::new(CoreTimes::new()) }
    }

    pub(super) fn measured(self) -> CoreTimes {
        self.measured.into_inner()
    }
}

impl Service for StreamService {
    type Job = Job;

    fn next(&self, now: Time) -> Offer<Job> {
        self.stream.next(now)
    }

    fn run(&self, job: &mut Job, memory: &mut FlashMemory<'_>) {
        let program = &self.stream.program;
        let ran = match &self.region {
            None => program.run(job.number, memory),
            Some(region) => program.run(job.number, &mut region.memory(memory)),
        };
        job.wrong = ran.err().map(|wrong| wrong.to_string());
    }

    fn done(&self, mut job: Job, result: Result<(), JobError>, timing: Timing) {
        if let Err(error) = result {
            job.wrong = Some(error.to_string());
        }
        self.measured.borrow_mut().job_done(job, timing.started, timing.finished);
    }
}

/// Runs a stream over mapped memory on `threads` kernel threads, spread over `cpus`. With `raw`,
/// each thread also reads through a ring between its jobs.
pub(super) fn run_threads(
    stream: &Stream,
    memory: &MappedMemory,
    cpus: &[usize],
    threads: usize,
    raw: Option<&(Target, RawReads)>,
    clock: Instant,
) -> Vec<CoreTimes> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let mut memory = memory.clone();
                let cpu = cpus[thread % cpus.len()];
                scope.spawn(move || {
                    // The whole process is confined to these CPUs already; this only spreads it.
                    let _ = affinity::pin(cpu);
                    run_thread(stream, &mut memory, raw, clock)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
            })
            .collect()
    })
}

fn run_thread(
    stream: &Stream,
    memory: &mut MappedMemory,
    raw: Option<&(Target, RawReads)>,
    clock: Instant,
) -> CoreTimes {
    let mut measured = CoreTimes::new();
    let mut ring = match raw.map(|(target, reads)| RawRing::new(target, reads)).transpose() {
        Ok(ring) => ring,
        Err(error) => {
            measured.wrong = Some(format!("a raw ring: {error}"));
            return measured;
        }
    };
    let now = || Time::from_ns(clock.elapsed().as_nanos() as u64);
    let mut started = now();
    loop {
        match stream.next(started) {
            Offer::Job(mut job) => {
                job.wrong = stream.program.run(job.number, memory).err().map(|w| w.to_string());
                let finished = now();
                measured.job_done(job, started, finished);
                started = finished;
                if let Some(ring) = &mut ring {
                    if let Err(error) = ring.after_job() {
                        measured.wrong = Some(format!("a raw read: {error}"));
                        return measured;
                    }
                    measured.raw_reads = ring.made();
                    started = now();
                }
            }
            Offer::At(arrival) => {
                wait_until(arrival, started);
                started = now();
            }
            Offer::Empty | Offer::End => return measured,
        }
    }
}

/// Waits for an arrival: asleep while it is far, yielding to other threads when it is near.
fn wait_until(arrival: Time, now: Time) {
    const WAKING_TAKES: Span = Span::from_us(60);
    let left = arrival.since(now);
    if left > WAKING_TAKES {
        std::thread::sleep(Duration::from_nanos(left.as_ns() - WAKING_TAKES.as_ns()));
    } else {
        std::thread::yield_now();
    }
}
