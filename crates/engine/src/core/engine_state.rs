//! The state of one engine that all its cores share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_utils::CachePadded;
use ebbtide_core::Span;
use parking_lot::Mutex;

use crate::miss::Backside;
use crate::miss::core_shared::CoreShared;
use crate::store::Claim;
use crate::sync::job_table::{Does, JobTable, LongJob};
use crate::sync::wait_queues::WaitQueues;

/// The shared half of an engine. What a core needs at every switch comes first, in one cache line.
#[repr(C, align(64))]
pub(crate) struct EngineState {
    /// One backside for each core. The first field, so that it is dropped first: the device may
    /// still be moving pages to and from the cache's frames. A queue ends only when all its
    /// requests have ended.
    pub(crate) backsides: Box<[Mutex<Backside>]>,
    pub(crate) pool: Arc<CoreShared>,
    /// The jobs under way.
    pub(crate) jobs: JobTable,
    pub(crate) wait_queues: WaitQueues,
    /// The events that each core was waiting for when it last went to sleep.
    pub(crate) prospects: Box<[CachePadded<Prospects>]>,
    /// Whether the engine follows programs' hints.
    pub(crate) hints: bool,
    /// The last field: the store is another engine's only when all requests have ended.
    pub(crate) _claim: Option<Claim>,
}

/// The events that a sleeping core is waiting for.
#[derive(Default)]
pub(crate) struct Prospects(AtomicU32);

impl Prospects {
    /// The core may start a job that comes from outside of the engine.
    const MAY_START: u32 = 1 << 31;

    /// `waiting` jobs of the core wait on words; it may start another job, or not.
    pub(crate) fn publish(&self, waiting: u32, may_start: bool) {
        let may_start = if may_start { Prospects::MAY_START } else { 0 };
        self.0.store(waiting | may_start, Ordering::Relaxed);
    }

    /// How many jobs wait on words; `None` if the core may start another.
    fn waiting(&self) -> Option<u32> {
        let published = self.0.load(Ordering::Relaxed);
        (published & Prospects::MAY_START == 0).then_some(published)
    }
}

impl EngineState {
    /// Returns the jobs that have been under way for at least `longer_than`, with their activity.
    pub(crate) fn long_jobs(&self, longer_than: Span) -> Vec<LongJob> {
        let mut long = self.jobs.long(self.pool.now(), longer_than);
        if long.is_empty() {
            return long;
        }
        let pages = self.pool.cache.waited_for().into_iter();
        let pages = pages.map(|(page, waiters)| (Does::WaitsForPage(page), waiters));
        let words = self.wait_queues.waited_on().into_iter();
        let words = words.map(|(at, waiters)| (Does::WaitsOnWord(at), waiters));
        let log = self.pool.persist.iter().flat_map(|persist| persist.waiting());
        for (does, waiters) in pages.chain(words).chain(log) {
            let waits = |job: &&mut LongJob| {
                waiters.iter().any(|w| (w.core as usize, w.fiber) == (job.core, job.fiber))
            };
            long.iter_mut().filter(waits).for_each(|job| job.does = does);
        }
        long
    }

    /// Detects a deadlock: no job will ever run again. Core `me` asks: it has nothing to run, and
    /// all its `waiting` jobs wait on words. Returns the number of jobs that wait on words on all
    /// cores.
    ///
    /// All other cores must be asleep with nothing under way at one moment. Each core is looked at
    /// twice. A core that has not gone to sleep again in between was asleep from the last first
    /// look to the first second look. So everything that was seen in between was true at the same
    /// time.
    pub(crate) fn deadlocked(&self, me: usize, waiting: u32) -> Option<u32> {
        let others = || (0..self.backsides.len()).filter(|&core| core != me);
        let look = |core| {
            let quiet = self.pool.mailboxes.is_quiet(core);
            (quiet, self.pool.counters.core(core).sleeps.get())
        };
        let first: Vec<(bool, u64)> = others().map(look).collect();
        if !first.iter().all(|(quiet, _)| *quiet) || !self.pool.mailboxes.is_empty(me) {
            return None;
        }
        let idle = |backside: &Mutex<Backside>| backside.try_lock().is_some_and(|b| b.is_idle());
        if !self.backsides.iter().all(idle) {
            return None;
        }
        let mut all_waiting = waiting;
        for core in others() {
            all_waiting += self.prospects[core].waiting()?;
        }
        others().map(look).eq(first).then_some(all_waiting)
    }
}

/// Shows the fibers that wait, and for which page or word, for programs that hang.
impl fmt::Debug for EngineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineState")
            .field(
                "cores",
                &self
                    .backsides
                    .iter()
                    .enumerate()
                    .map(|core| CoreState(self, core))
                    .collect::<Vec<_>>(),
            )
            .field("jobs", &self.long_jobs(Span::ZERO))
            .field("pages_waited_for", &self.pool.cache.waited_for())
            .field("words_waited_on", &self.wait_queues.waited_on())
            .field("counters", &self.pool.counters.snapshot())
            .finish_non_exhaustive()
    }
}

/// A core by its number and backside.
struct CoreState<'a>(&'a EngineState, (usize, &'a Mutex<Backside>));

impl fmt::Debug for CoreState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CoreState(state, (core, backside)) = self;
        let mut fields = f.debug_struct("Core");
        fields.field("number", core);
        fields.field("sleeps_without_messages", &state.pool.mailboxes.is_quiet(*core));
        match backside.try_lock() {
            Some(backside) => fields.field("backside", &*backside),
            None => fields.field("backside", &"locked"),
        };
        fields.finish()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use std::io;
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::device::ram::{Latency, Ram};
    use crate::device::{Completion, Device, Queue, Request, Sleeper};
    use crate::{Engine, Options};

    /// What happens while a core looks whether its device is idle.
    type Happens = Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>;

    struct Watched(Ram, Happens);
    struct WatchedQueue(Box<dyn Queue>, Happens);

    impl Device for Watched {
        fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>> {
            Ok(Box::new(WatchedQueue(self.0.queue(depth)?, self.1.clone())))
        }
        fn name(&self) -> &'static str {
            self.0.name()
        }
    }

    impl Queue for WatchedQueue {
        fn push(&mut self, request: Request) {
            self.0.push(request);
        }
        fn submit(&mut self) {
            self.0.submit();
        }
        fn reap(&mut self, completions: &mut Vec<Completion>) {
            self.0.reap(completions);
        }
        fn unsubmitted(&self) -> usize {
            self.0.unsubmitted()
        }
        fn in_flight(&self) -> usize {
            if let Some(happens) = self.1.get() {
                happens();
            }
            self.0.in_flight()
        }
        fn sleeper(&self) -> Arc<dyn Sleeper> {
            self.0.sleeper()
        }
    }

    /// A core that runs a job between two looks may have woken waiting jobs.
    #[test]
    fn a_core_that_wakes_up_between_two_looks_is_no_part_of_a_deadlock() {
        let happens = Happens::default();
        let device = Watched(Ram::new(64, Latency::Looks(0), |_, _| {}), happens.clone());
        let options = Options { cores: 2, ..Options::new(8 << 20) };
        let engine = Engine::over_device(Arc::new(device), 64, &options).expect("it fits");
        let state = engine.state().clone();
        (0..2).for_each(|core| state.pool.mailboxes.set_running(core, false));
        state.prospects[1].publish(2, false);
        assert_eq!(state.deadlocked(0, 3), Some(5));
        let wakes = Arc::new(AtomicBool::new(true));
        let (other, see) = (state.clone(), wakes.clone());
        let wake = move || {
            if see.load(Ordering::SeqCst) {
                other.pool.counters.core(1).sleeps.add(1);
            }
        };
        assert!(happens.set(Box::new(wake)).is_ok());
        assert_eq!(state.deadlocked(0, 3), None);
        wakes.store(false, Ordering::SeqCst);
        assert_eq!(state.deadlocked(0, 3), Some(5));
    }
}
