//! The jobs under way and their activities, for programs that hang.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use ebbtide_core::{Addr, PageId, Span, Time};

/// The jobs under way, by core and fiber.
pub(crate) struct JobTable {
    cores: Box<[CoreJobs]>,
}

/// The jobs of a core.
struct CoreJobs {
    /// The fiber that runs now and has done so since `since`, counted from one; zero if none does.
    running: AtomicU32,
    since: AtomicU64,
    fibers: Box<[FiberJob]>,
}

/// The job of a fiber. Its number is zero while there is none.
#[derive(Default)]
struct FiberJob {
    number: AtomicU64,
    started: AtomicU64,
    /// How often it has run its transaction again.
    reruns: AtomicU32,
    /// The label that the job has set.
    label: AtomicU64,
}

/// A job that has been under way for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongJob {
    /// Its core.
    pub core: usize,
    /// Its fiber there.
    pub(crate) fiber: u32,
    /// Its number, counted from one among the jobs that its core has started.
    pub number: u64,
    /// For how long it has been under way.
    pub lasts: Duration,
    /// How often it has run its present transaction again.
    pub reruns: u32,
    /// Its activity.
    pub does: Does,
    /// Its label ([`FlashMemory::label_job`](crate::FlashMemory::label_job)). Zero if it has set
    /// none.
    pub label: u64,
}

/// The activity of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// It has run on its core for this long, without waiting.
    Runs(Duration),
    /// It waits for this page.
    WaitsForPage(PageId),
    /// It waits on the word at this address.
    WaitsOnWord(Addr),
    /// It waits until a transaction is on the device.
    WaitsForLog,
    /// It waits for room in the log.
    WaitsForRoom,
    /// It waits until another transaction has committed, because DRAM does not hold the pages of
    /// both.
    WaitsForTurn,
    /// It could go on, and waits for its core.
    WaitsForCore,
}

impl fmt::Display for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Does::Runs(lasts) => write!(f, "has run for {lasts:.1?} without a wait"),
            Does::WaitsForPage(page) => write!(f, "waits for page {}", page.0),
            Does::WaitsOnWord(at) => write!(f, "waits on the word at {:#x}", at.0),
            Does::WaitsForLog => f.write_str("waits until a transaction is on the device"),
            Does::WaitsForRoom => f.write_str("waits for room in the log"),
            Does::WaitsForTurn => {
                f.write_str("waits until another large transaction has committed")
            }
            Does::WaitsForCore => f.write_str("waits for its core"),
        }
    }
}

impl fmt::Display for LongJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LongJob { core, number, lasts, reruns, does, .. } = self;
        write!(f, "job {number} of core {core}, under way for {lasts:.1?}, {does}")?;
        if *reruns > 0 {
            write!(f, ", and has run its transaction {} times", reruns + 1)?;
        }
        Ok(())
    }
}

impl JobTable {
    /// A table for `cores` cores of `threads` fibers.
    pub(crate) fn new(cores: usize, threads: usize) -> JobTable {
        let core = |_| CoreJobs {
            running: AtomicU32::new(0),
            since: AtomicU64::new(0),
            fibers: (0..threads).map(|_| FiberJob::default()).collect(),
        };
        JobTable { cores: (0..cores).map(core).collect() }
    }

    fn job(&self, core: usize, fiber: u32) -> &FiberJob {
        &self.cores[core].fibers[fiber as usize]
    }

    /// `fiber` begins the job with this number.
    pub(crate) fn begin(&self, (core, fiber): (usize, u32), number: u64, now: Time) {
        let job = self.job(core, fiber);
        job.started.store(now.as_ns(), Ordering::Relaxed);
        job.reruns.store(0, Ordering::Relaxed);
        job.label.store(0, Ordering::Relaxed);
        job.number.store(number, Ordering::Relaxed);
    }

    /// The job of `fiber` has ended.
    pub(crate) fn end(&self, core: usize, fiber: u32) {
        self.job(core, fiber).number.store(0, Ordering::Relaxed);
    }

    /// `core` goes on with `fiber`.
    pub(crate) fn runs(&self, core: usize, fiber: u32, now: Time) {
        self.cores[core].since.store(now.as_ns(), Ordering::Relaxed);
        self.cores[core].running.store(fiber + 1, Ordering::Relaxed);
    }

    /// Notes that the fiber that `core` ran has halted.
    pub(crate) fn halts(&self, core: usize) {
        self.cores[core].running.store(0, Ordering::Relaxed);
    }

    /// The job of `fiber` calls itself `label`.
    pub(crate) fn label(&self, core: usize, fiber: u32, label: u64) {
        self.job(core, fiber).label.store(label, Ordering::Relaxed);
    }

    /// Notes that the job of `fiber` has run its transaction again `reruns` times.
    pub(crate) fn reran(&self, core: usize, fiber: u32, reruns: u32) {
        self.job(core, fiber).reruns.store(reruns, Ordering::Relaxed);
    }

    /// Returns the jobs that have been under way for at least `longer_than`. As far as the table
    /// knows, jobs that do not run wait for their cores.
    pub(crate) fn long(&self, now: Time, longer_than: Span) -> Vec<LongJob> {
        let lasts = |since: &AtomicU64| now.since(Time::from_ns(since.load(Ordering::Relaxed)));
        let duration = |span: Span| Duration::from_nanos(span.as_ns());
        let mut long = Vec::new();
        for (core, jobs) in self.cores.iter().enumerate() {
            let running = jobs.running.load(Ordering::Relaxed);
            for (fiber, job) in (0..).zip(&jobs.fibers) {
                let number = job.number.load(Ordering::Relaxed);
                let for_long = lasts(&job.started);
                if number == 0 || for_long < longer_than {
                    continue;
                }
                let reruns = job.reruns.load(Ordering::Relaxed);
                let does = match running == fiber + 1 {
                    true => Does::Runs(duration(lasts(&jobs.since))),
                    false => Does::WaitsForCore,
                };
                let label = job.label.load(Ordering::Relaxed);
                let lasts = duration(for_long);
                long.push(LongJob { core, fiber, number, lasts, reruns, does, label });
            }
        }
        long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn a_job_is_listed_from_when_it_is_long_until_it_ends() {
        let table = JobTable::new(2, 3);
        table.begin((1, 2), 7, us(10));
        table.runs(1, 2, us(15));
        table.label(1, 2, 42);
        let listed = |at| table.long(us(at), Span::from_us(100));
        assert_eq!(listed(109), []);
        let [job] = &listed(110)[..] else { panic!("one is long") };
        assert_eq!((job.core, job.number, job.label), (1, 7, 42));
        assert_eq!(job.does, Does::Runs(Duration::from_micros(95)));
        table.halts(1);
        table.reran(1, 2, 3);
        let said = listed(1_010)[0].to_string();
        assert_eq!(
            said,
            "job 7 of core 1, under way for 1.0ms, waits for its core, and has run its transaction 4 times"
        );
        table.end(1, 2);
        assert_eq!(listed(1_010), []);
        table.begin((1, 2), 8, us(0));
        assert_eq!(listed(100)[0].label, 0, "the label was that of another job");
    }
}
