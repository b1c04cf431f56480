//! Live counters, which any thread may read while the engine runs.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// One core's counters. Only that core's backside or fibers add to them, so a plain load and store
/// will do.
#[derive(Default)]
pub(crate) struct CoreCounters {
    pub(crate) accesses: Counter,
    pub(crate) misses: Counter,
    pub(crate) hits_under_miss: Counter,
    pub(crate) overwritten: Counter,
    pub(crate) evictions_clean: Counter,
    pub(crate) evictions_dirty: Counter,
    pub(crate) revived: Counter,
    pub(crate) revived_unwritten: Counter,
    pub(crate) flash_reads: Counter,
    pub(crate) flash_writes: Counter,
    pub(crate) write_requests: Counter,
    pub(crate) submissions: Counter,
    pub(crate) held_ns: Counter,
    pub(crate) retries: Counter,
    pub(crate) read_errors: Counter,
    pub(crate) write_errors: Counter,
    pub(crate) helped: Counter,
    pub(crate) jobs: Counter,
    pub(crate) jobs_failed: Counter,
    pub(crate) sleeps: Counter,
    pub(crate) idle_ns: Counter,
    pub(crate) starved: Counter,
    pub(crate) fetched_ahead: Counter,
    pub(crate) ahead_used: Counter,
    pub(crate) ahead_late: Counter,
    pub(crate) polluted: Counter,
}

/// A count that one thread at a time adds to and any thread reads.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline(always)]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts of the engine's work since it started, summed over cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Accesses to memory.
    pub accesses: u64,
    /// Accesses that found their page resident.
    pub hits: u64,
    /// Accesses that started a read from flash.
    pub misses: u64,
    /// Accesses that found their page in flight and waited with others.
    pub hits_under_miss: u64,
    /// Whole pages stored without a read of their old contents.
    pub overwritten: u64,
    /// Evicted frames whose page was unchanged.
    pub evictions_clean: u64,
    /// Evicted frames whose page had to be written back.
    pub evictions_dirty: u64,
    /// Evicted pages that a job asked for before their frames were reused, and that stayed in DRAM.
    pub revived: u64,
    /// Revived pages with a change whose write had not begun.
    pub revived_unwritten: u64,
    /// Pages read from flash.
    pub flash_reads: u64,
    /// Pages written to flash.
    pub flash_writes: u64,
    /// Requests that wrote them: pages that leave together are written together.
    pub write_requests: u64,
    /// Times requests were handed to the kernel.
    pub submissions: u64,
    /// Nanoseconds from misses to the submissions of their reads, added up.
    pub held_ns: u64,
    /// Requests tried again after an error or a short transfer.
    pub retries: u64,
    /// Reads that failed for good.
    pub read_errors: u64,
    /// Writes that failed for good; their pages stay in DRAM.
    pub write_errors: u64,
    /// Times a core drove the misses of another that was busy.
    pub helped: u64,
    /// Jobs that ended well.
    pub jobs: u64,
    /// Jobs that ended with an error.
    pub jobs_failed: u64,
    /// Times a core slept because nothing could run.
    pub sleeps: u64,
    /// Nanoseconds that cores had nothing to run, asleep or polling.
    pub idle_ns: u64,
    /// Misses that had to wait for a free frame.
    pub starved: u64,
    /// Reads started before a job asked for the page.
    pub fetched_ahead: u64,
    /// Prefetched pages that were used.
    pub ahead_used: u64,
    /// Used prefetched pages that came too late: a job had to wait for them.
    pub ahead_late: u64,
    /// Misses on pages that were evicted to make room for a prefetched page. Counted where there is
    /// a prefetcher.
    pub polluted: u64,
}

/// The counters of all cores.
pub struct Counters {
    cores: Box<[CachePadded<CoreCounters>]>,
    flash_read_ns: Box<[Mutex<Histogram<u64>>]>,
    stack_used_bytes: AtomicU64,
}

/// The longest flash read told apart from longer ones, in nanoseconds.
const READ_NS_MAX: u64 = 10_000_000_000;

impl Counters {
    pub(crate) fn new(cores: usize) -> Counters {
        let histogram = || {
            let histogram = Histogram::new_with_max(READ_NS_MAX, 2);
            Mutex::new(histogram.expect("the bounds of the histogram are valid"))
        };
        Counters {
            cores: (0..cores).map(|_| CachePadded::default()).collect(),
            flash_read_ns: (0..cores).map(|_| histogram()).collect(),
            stack_used_bytes: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn core(&self, core: usize) -> &CoreCounters {
        &self.cores[core]
    }

    /// Notes the most bytes of a stack that were used.
    pub(crate) fn stack_used(&self, bytes: usize) {
        self.stack_used_bytes.fetch_max(bytes as u64, Ordering::Relaxed);
    }

    /// The most bytes that any job has used of its stack, known when the cores have stopped. With
    /// some room above it, this is the size that stacks need
    /// ([`Options::stack_bytes`](crate::Options)).
    pub fn stack_used_bytes(&self) -> u64 {
        self.stack_used_bytes.load(Ordering::Relaxed)
    }

    /// Notes flash reads of `core`, from queueing to completion.
    pub(crate) fn flash_reads_took(&self, core: usize, ns: impl Iterator<Item = u64>) {
        let mut histogram = self.flash_read_ns[core].lock();
        for ns in ns {
            histogram.saturating_record(ns);
        }
    }

    /// Flash reads so far by how long they took, in nanoseconds, from the miss to the page's
    /// arrival.
    pub fn flash_read_ns(&self) -> Histogram<u64> {
        let mut all = self.flash_read_ns[0].lock().clone();
        for core in &self.flash_read_ns[1..] {
            all.add(&*core.lock()).expect("all cores' histograms have the same bounds");
        }
        all
    }

    /// Everything counted so far.
    pub fn snapshot(&self) -> Snapshot {
        let sum = |count: fn(&CoreCounters) -> &Counter| {
            self.cores.iter().map(|core| count(core).get()).sum::<u64>()
        };
        let (accesses, misses) = (sum(|c| &c.accesses), sum(|c| &c.misses));
        let hits_under_miss = sum(|c| &c.hits_under_miss);
        let overwritten = sum(|c| &c.overwritten);
        Snapshot {
            accesses,
            hits: accesses.saturating_sub(misses + hits_under_miss + overwritten),
            misses,
            hits_under_miss,
            overwritten,
            evictions_clean: sum(|c| &c.evictions_clean),
            evictions_dirty: sum(|c| &c.evictions_dirty),
            revived: sum(|c| &c.revived),
            revived_unwritten: sum(|c| &c.revived_unwritten),
            flash_reads: sum(|c| &c.flash_reads),
            flash_writes: sum(|c| &c.flash_writes),
            write_requests: sum(|c| &c.write_requests),
            submissions: sum(|c| &c.submissions),
            held_ns: sum(|c| &c.held_ns),
            retries: sum(|c| &c.retries),
            read_errors: sum(|c| &c.read_errors),
            write_errors: sum(|c| &c.write_errors),
            helped: sum(|c| &c.helped),
            jobs: sum(|c| &c.jobs),
            jobs_failed: sum(|c| &c.jobs_failed),
            sleeps: sum(|c| &c.sleeps),
            idle_ns: sum(|c| &c.idle_ns),
            starved: sum(|c| &c.starved),
            fetched_ahead: sum(|c| &c.fetched_ahead),
            ahead_used: sum(|c| &c.ahead_used),
            ahead_late: sum(|c| &c.ahead_late),
            polluted: sum(|c| &c.polluted),
        }
    }
}
