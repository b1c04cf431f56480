//! The options of an engine, and their checks.

use std::time::Duration;

use ebbtide_core::PAGE_BYTES;
use ebbtide_core::durability::Policy;
use ebbtide_core::replacement::PolicyKind;
use ebbtide_fiber::{STACK_BYTES_MAX, STACK_BYTES_MIN};

use crate::api::engine_error::EngineError;
use crate::api::tuning::Tuning;
use crate::cache::{CORES_MAX, FIBERS_MAX};
use crate::device::path::DevicePath;
use crate::host::affinity;

/// Bytes of a user-level thread in addition to its stack: its fiber, job and places in queues.
pub(crate) const THREAD_BYTES: usize = 512;

/// Bytes of a job that waits in the queue of [`Jobs`](crate::Jobs), with its ticket and a result. A
/// closure with more than a few words takes more.
pub(crate) const QUEUED_JOB_BYTES: usize = 256;

/// Bytes that the kernel needs for a mapped stack: page tables and the mapping's own record.
pub(crate) const STACK_KERNEL_BYTES: usize = 1 << 10;

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The DRAM budget in bytes. It includes frames, page states, the policy's memory, stacks and
    /// buffers.
    pub dram_bytes: usize,
    /// Cores to run jobs on, each a kernel thread.
    pub cores: usize,
    /// The CPUs to pin the cores to, one for each. If empty, the kernel places them.
    pub cpus: Vec<usize>,
    /// Stack of a job in bytes. The default is 64 KiB, three times the deepest use of the shipped
    /// programs. [`Counters::stack_used_bytes`](crate::Counters::stack_used_bytes) returns how much
    /// jobs have used.
    pub stack_bytes: usize,
    /// How misses are treated.
    pub tuning: Tuning,
    /// The longest time that a request of a busy core waits for others to join it. With `None` it
    /// waits while the core's ready jobs hide the device's time for a read.
    pub hold: Option<Duration>,
    /// When a transaction on a store with a log is acknowledged. `None` means [`Policy::Always`],
    /// and suits all stores, because a store without a log acknowledges nothing.
    pub durability: Option<Policy>,
    /// The way to the drive. `None` chooses it by the kind of file or device.
    pub device_path: Option<DevicePath>,
}

/// The most user-level threads of a core by default. They cover a read of 500 µs when a core misses
/// every 4 µs.
const THREADS_MAX: usize = 256;

/// The fewest user-level threads of a core by default. Fewer threads hide little of a read.
const THREADS_MIN: usize = 8;

/// Frames that a job needs for its pages. With fewer, jobs evict each other's pages, and throughput
/// falls as more jobs are under way.
const FRAMES_PER_THREAD: usize = 64;

impl Options {
    /// The defaults, with a budget of `dram_bytes`.
    pub fn new(dram_bytes: usize) -> Options {
        Options {
            dram_bytes,
            cores: 1,
            cpus: Vec::new(),
            stack_bytes: 64 << 10,
            tuning: Tuning::default(),
            hold: None,
            durability: None,
            device_path: None,
        }
    }

    /// User-level threads a core.
    pub fn threads_per_core(&self) -> usize {
        self.tuning.threads.unwrap_or_else(|| self.threads_that_fit())
    }

    /// The number of threads that a core should have under this budget. They take at most an eighth
    /// of it, and every job under way finds frames for its pages.
    fn threads_that_fit(&self) -> usize {
        let share = self.dram_bytes / self.cores.max(1);
        let by_memory = share / 8 / self.thread_bytes();
        let by_frames = share / PAGE_BYTES / FRAMES_PER_THREAD;
        by_memory.min(by_frames).clamp(THREADS_MIN, THREADS_MAX)
    }

    /// Bytes of a thread: its stack, and the records of its job.
    pub(crate) fn thread_bytes(&self) -> usize {
        self.stack_bytes.saturating_add(STACK_KERNEL_BYTES + THREAD_BYTES + QUEUED_JOB_BYTES)
    }

    /// The most pages that a core fetches ahead of demand at once. That is a few for every job
    /// under way, so that the pages of one request are read together.
    pub fn ahead_max(&self) -> usize {
        let few = AHEAD_PER_THREAD.saturating_mul(self.threads_per_core());
        few.clamp(2 * self.tuning.batch_max, 8 * self.tuning.batch_max)
    }
}

/// Pages that may be on their way ahead of demand for each job under way.
const AHEAD_PER_THREAD: usize = 4;

/// The longest time that requests may wait for others.
const HOLD_MAX: Duration = Duration::from_secs(24 * 3600);

/// Whether an engine can be set up like this.
pub(crate) fn check(options: &Options) -> Result<(), EngineError> {
    let bad = |what, expected| Err(EngineError::BadOption { what, expected });
    if options.cores == 0 || options.cores > CORES_MAX {
        return bad("the number of cores", "1 to 1024");
    }
    if !Tuning::THREADS.contains(&options.threads_per_core()) {
        return bad("the number of threads per core", "1 to 65536");
    }
    if options.cores * options.threads_per_core() > FIBERS_MAX {
        return bad("the number of threads of all cores", "at most 4194303");
    }
    if !(STACK_BYTES_MIN..=STACK_BYTES_MAX).contains(&options.stack_bytes) {
        return bad("the stack of a job", "8 KiB to 1 GiB");
    }
    if !Tuning::BATCHES.contains(&options.tuning.batch_max) {
        return bad("the submission batch", "1 to 4096 requests");
    }
    if options.tuning.policy_parts.is_some_and(|parts| !Tuning::POLICY_PARTS.contains(&parts)) {
        return bad("the parts of the replacement policy", "1 to 1024");
    }
    if options.hold.is_some_and(|hold| hold > HOLD_MAX) {
        return bad("the time a request waits for others", "at most a day");
    }
    if !options.cpus.is_empty() && options.cpus.len() != options.cores {
        return bad("the list of CPUs", "empty, or one for every core");
    }
    check_cpus(&options.cpus)?;
    check_replacement(options.tuning.replacement)
}

/// Whether this process may run on all of `cpus`.
fn check_cpus(cpus: &[usize]) -> Result<(), EngineError> {
    if cpus.is_empty() {
        return Ok(());
    }
    let allowed = affinity::allowed()
        .map_err(|source| EngineError::Io { doing: "ask which CPUs there are", source })?;
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(&cpu) => Err(EngineError::NoCpu { cpu, allowed }),
        None => Ok(()),
    }
}

/// Whether the kernel lets this process map all the stacks.
pub(crate) fn check_mappings(options: &Options) -> Result<(), EngineError> {
    let Ok(text) = std::fs::read_to_string("/proc/sys/vm/max_map_count") else { return Ok(()) };
    let Ok(mappings_max) = text.trim().parse::<usize>() else { return Ok(()) };
    let stacks = options.cores * options.threads_per_core();
    // A stack and its guard are two mappings; the rest of a process needs some as well.
    let stacks_max = mappings_max.saturating_sub(1024) / 2;
    if stacks > stacks_max {
        return Err(EngineError::TooManyStacks { stacks, stacks_max });
    }
    Ok(())
}

/// Checks that an engine can run `policy`.
///
/// # Errors
/// When the policy needs hits that the hit path does not report, or one set of all frames is too
/// large for it.
pub fn check_replacement(policy: PolicyKind) -> Result<(), EngineError> {
    if policy.needs_every_hit() {
        return Err(EngineError::NeedsEveryHit(policy.name()));
    }
    if policy.searches_set() {
        return Err(EngineError::SearchesSet(policy.name()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_this_process_may_not_run_on_is_named_with_those_that_it_may() {
        let allowed = affinity::allowed().unwrap();
        let on = |cpu| check(&Options { cpus: vec![cpu], ..Options::new(8 << 20) });
        on(allowed[0]).unwrap();
        for cpu in [allowed[allowed.len() - 1] + 1, usize::MAX] {
            let error = on(cpu).unwrap_err().to_string();
            let text = format!("CPU {cpu} is not among those that this process may run on: ");
            assert!(error.starts_with(&text), "{error}");
        }
    }

    #[test]
    fn a_small_budget_gets_few_threads_and_a_great_one_no_more_than_hide_a_read() {
        let threads = |mib: usize| Options::new(mib << 20).threads_per_core();
        assert_eq!([1, 4, 8, 64, 1024].map(threads), [8, 8, 15, 124, 256]);
        let shared = Options { cores: 4, ..Options::new(64 << 20) };
        assert_eq!(shared.threads_that_fit(), threads(16));
    }

    #[test]
    fn a_thread_may_have_four_pages_ahead_of_demand_but_all_two_batches_at_least_and_eight_at_most()
    {
        let mut options = Options::new(64 << 20);
        let ahead = [1, 16, 17, 64, 65].map(|threads| {
            (options.tuning.threads, options.tuning.batch_max) = (Some(threads), 32);
            options.ahead_max()
        });
        assert_eq!(ahead, [64, 64, 68, 256, 256]);
    }

    #[test]
    fn jobs_on_small_stacks_are_no_more_than_find_frames_for_their_pages() {
        let threads = |mib: usize| {
            Options { stack_bytes: 16 << 10, ..Options::new(mib << 20) }.threads_per_core()
        };
        assert_eq!([1, 4, 8, 61].map(threads), [8, 16, 32, 244]);
    }
}
