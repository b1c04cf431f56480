//! Jobs from outside: any thread hands a closure to the engine's cores and waits for its result.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use ebbtide_core::Time;
use ebbtide_core::durability::{Lsn, TransactionError};
use parking_lot::{Condvar, Mutex};

use crate::api::engine::Engine;
use crate::api::engine_error::EngineError;
use crate::api::ticket::{Sender, Ticket, ticket};
use crate::core::flash_memory::FlashMemory;
use crate::core::job::{Offer, Service, Timing};
use crate::core::job_error::{JobError, discard};
use crate::core::worker::{check_not_in_a_job, in_a_job};
use crate::host::of_process::OfProcess;
use crate::persist::Persist;

/// When no job has ended for this time, [`Jobs::stop`] fails.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);

/// A running engine, to which every thread may submit jobs.
///
/// Jobs wait in one queue, first in, first out, for the next core with a free user-level thread.
/// The queue holds as many as can be under way ([`cores`](crate::Options::cores) ×
/// [`threads_per_core`](crate::Options::threads_per_core)). The DRAM budget has 256 bytes for each
/// of these jobs with its ticket and result. Larger data that jobs carry or return are not part of
/// the budget.
///
/// Dropping it does what [`stop`](Jobs::stop) does.
pub struct Jobs {
    engine: Arc<Engine>,
    injector: Arc<Injector>,
    runner: Option<OfProcess<JoinHandle<Result<(), EngineError>>>>,
}

impl Engine {
    /// Starts the cores, which run submitted jobs until they are stopped.
    ///
    /// # Errors
    /// When no core can be started. If only some can, they do the work and [`Jobs::stop`] returns
    /// the error.
    pub fn start(self: &Arc<Self>) -> Result<Jobs, EngineError> {
        let (cores, threads) = (self.options().cores, self.options().threads_per_core());
        let injector = Arc::new(Injector::new(cores, cores * threads));
        let (engine, queue) = (self.clone(), injector.clone());
        let runner = std::thread::Builder::new()
            .name("ebbtide-jobs".into())
            .spawn(move || {
                let _over = SaysItIsOver(&queue);
                engine.run(|core| Drain::new(core, &engine, &queue), drop).map(drop)
            })
            .map_err(|source| EngineError::Io { doing: "start the thread of the jobs", source })?;
        let mut jobs =
            Jobs { engine: self.clone(), injector, runner: Some(OfProcess::new(runner)) };
        if jobs.injector.is_up() {
            return Ok(jobs);
        }
        // Nothing ran, so it is over already: this gives the reason.
        jobs.join(STUCK_AFTER)?;
        unreachable!("an engine that nobody stopped is over only for a reason");
    }
}

impl Jobs {
    /// Submits a job; waits while too many are queued. From inside a job, use
    /// [`try_submit`](Jobs::try_submit).
    ///
    /// # Panics
    /// When it would have to wait inside a job, whose core would wait with it.
    pub fn submit<T, F>(&self, job: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut FlashMemory<'_>) -> T + Send + 'static,
    {
        self.wait_for_room();
        self.enqueue(job)
    }

    /// Submits a job, also if too many are queued.
    pub(crate) fn submit_now<T, F>(&self, job: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut FlashMemory<'_>) -> T + Send + 'static,
    {
        self.injector.admit();
        self.enqueue(job)
    }

    /// As [`submit_commit`](Jobs::submit_commit), also if too many jobs are queued.
    pub(crate) fn submit_commit_now<T, F>(&self, job: F) -> Ticket<Result<T, TransactionError>>
    where
        T: Send + 'static,
        F: FnOnce(&mut FlashMemory<'_>) -> Result<(T, Lsn), TransactionError> + Send + 'static,
    {
        self.injector.admit();
        self.enqueue_commit(job)
    }

    /// Adds a job to the queue; waits while too many are queued.
    pub(crate) fn push_waiting(&self, job: Box<dyn Job>) {
        self.wait_for_room();
        self.push(job);
    }

    fn wait_for_room(&self) {
        if !self.injector.try_admit() {
            check_not_in_a_job("waiting for room in the queue");
            self.injector.wait_for_room(None);
        }
    }

    /// Submits a job. Waits at most `at_most` for room in the queue.
    ///
    /// # Errors
    /// Returns the job if there was no room.
    pub(crate) fn submit_within<T, F>(&self, at_most: Duration, job: F) -> Result<Ticket<T>, F>
    where
        T: Send + 'static,
        F: FnOnce(&mut FlashMemory<'_>) -> T + Send + 'static,
    {
        let admitted = self.injector.try_admit()
            || self.injector.wait_for_room(Some(Instant::now() + at_most));
        if admitted { Ok(self.enqueue(job)) } else { Err(job) }
    }

    /// Submits a job if there is room in the queue.
    ///
    /// # Errors
    /// Returns the job if there is no room.
    pub fn try_submit<T, F>(&self, job: F) -> Result<Ticket<T>, F>
    where
        T: Send + 'static,
        F: FnOnce(&mut FlashMemory<'_>) -> T + Send + 'static,
    {
        if self.injector.try_admit() { Ok(self.enqueue(job)) } else { Err(job) }
    }

    /// Submits a job that ends in a [transaction](ebbtide_core::Memory::transaction) and returns
    /// its result. The job's thread is free as soon as it ends. Its ticket completes when the
    /// transaction may be acknowledged under the engine's policy. Waits while too many jobs are
    /// queued.
    ///
    /// # Panics
    /// As [`submit`](Jobs::submit).
    pub fn submit_commit<T, F>(&self, job: F) -> Ticket<Result<T, TransactionError>>
    where
        T: Send + 'static,
        F: FnOnce(&mut FlashMemory<'_>) -> Result<(T, Lsn), TransactionError> + Send + 'static,
    {
        self.wait_for_room();
        self.enqueue_commit(job)
    }

    /// Writes all that was committed so far from the log to its pages, and waits for that. The next
    /// opening of the store then has nothing of it to redo. Returns `false` where nothing survives,
    /// and while a copy of the store is made, because the copy needs the log.
    ///
    /// # Errors
    /// When writing has ended. What is durable stays so.
    ///
    /// # Panics
    /// Inside a job, whose core would wait for itself.
    pub fn checkpoint(&self) -> Result<bool, TransactionError> {
        self.checkpoint_within(Duration::MAX)
    }

    /// As [`checkpoint`](Jobs::checkpoint), but also returns `false` when it would take longer than
    /// `patience`.
    ///
    /// # Errors
    /// As [`checkpoint`](Jobs::checkpoint).
    ///
    /// # Panics
    /// As [`checkpoint`](Jobs::checkpoint).
    pub fn checkpoint_within(&self, patience: Duration) -> Result<bool, TransactionError> {
        check_not_in_a_job("waiting for a checkpoint");
        self.engine.persist().map_or(Ok(false), |persist| persist.checkpoint(patience))
    }

    /// The engine, for its counters, budget and notices.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Lets all submitted jobs end, then stops the cores. The cache keeps its pages, and the engine
    /// can be started again. Fails when no job has ended for [`STUCK_AFTER`].
    ///
    /// # Errors
    /// When some core could not be started; all jobs were run by the others. [`EngineError::Stuck`]
    /// names the jobs that do not end. Their cores go on with them, and the engine stays as it is.
    pub fn stop(self) -> Result<(), EngineError> {
        self.stop_within(STUCK_AFTER)
    }

    /// As [`stop`](Jobs::stop), with another time that may pass without the end of a job.
    ///
    /// # Errors
    /// As [`stop`](Jobs::stop).
    pub fn stop_within(mut self, patience: Duration) -> Result<(), EngineError> {
        check_not_in_a_job("stopping the engine");
        self.join(patience)
    }

    fn enqueue<T, F>(&self, job: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut FlashMemory<'_>) -> T + Send + 'static,
    {
        let (sender, ticket) = ticket();
        self.push(Box::new(Closure::new(job, sender)));
        ticket
    }

    fn enqueue_commit<T, F>(&self, job: F) -> Ticket<Result<T, TransactionError>>
    where
        T: Send + 'static,
        F: FnOnce(&mut FlashMemory<'_>) -> Result<(T, Lsn), TransactionError> + Send + 'static,
    {
        let (sender, ticket) = ticket();
        let persist = self.engine.persist().cloned();
        self.push(Box::new(Committing { job: Some(job), value: None, sender, persist }));
        ticket
    }

    fn push(&self, job: Box<dyn Job>) {
        self.injector.jobs.push(job);
        self.injector.rouse_one(&self.engine);
        if self.injector.over.load(Ordering::SeqCst) {
            self.injector.discard();
        }
    }

    fn close(&self) {
        self.injector.closed.store(true, Ordering::SeqCst);
        (0..self.engine.options().cores).for_each(|core| self.engine.rouse(core));
    }

    fn join(&mut self, patience: Duration) -> Result<(), EngineError> {
        let Some(runner) = self.runner.take() else { return Ok(()) };
        let runner = runner.into_inner().map_err(EngineError::Forked)?;
        self.close();
        let ended = || {
            let counters = self.engine.counters().snapshot();
            counters.jobs + counters.jobs_failed
        };
        if !self.injector.wait_until_over(patience, ended) {
            let jobs = self.engine.long_jobs(Duration::ZERO);
            let jobs = jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            return Err(EngineError::Stuck { patience, jobs });
        }
        runner.join().unwrap_or_else(|payload| resume_unwind(payload))
    }
}

/// Shows what every core is doing and the fibers that wait for each page or word, as [`Engine`]
/// does.
impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        if !in_a_job() {
            // A program that wants to see an error calls `stop`.
            let _ = catch_unwind(AssertUnwindSafe(|| self.join(STUCK_AFTER)));
        } else if let Some(Ok(_runner)) = self.runner.take().map(OfProcess::into_inner) {
            // A job that drops the last handle cannot wait for itself: the cores then stop on their
            // own.
            self.close();
        }
    }
}

/// A job of any type.
pub(crate) trait Job: Send {
    fn run(&mut self, memory: &mut FlashMemory<'_>);
    fn finish(self: Box<Self>, result: Result<(), JobError>);
}

/// A job that is a closure.
pub(crate) struct Closure<T, F> {
    job: Option<F>,
    value: Option<T>,
    sender: Sender<T>,
}

impl<T, F> Closure<T, F> {
    pub(crate) fn new(job: F, sender: Sender<T>) -> Closure<T, F> {
        Closure { job: Some(job), value: None, sender }
    }
}

impl<T: Send, F: FnOnce(&mut FlashMemory<'_>) -> T + Send> Job for Closure<T, F> {
    fn run(&mut self, memory: &mut FlashMemory<'_>) {
        let job = self.job.take().expect("a job is run once");
        self.value = Some(job(memory));
    }

    fn finish(mut self: Box<Self>, result: Result<(), JobError>) {
        let value = self.value.take();
        let result = result.map(|()| value.expect("a job that ended well has given a value"));
        self.sender.send(result);
    }
}

/// A job that ends in a transaction.
struct Committing<T, F> {
    job: Option<F>,
    value: Option<Result<(T, Lsn), TransactionError>>,
    sender: Sender<Result<T, TransactionError>>,
    persist: Option<Arc<Persist>>,
}

impl<T, F> Job for Committing<T, F>
where
    T: Send + 'static,
    F: FnOnce(&mut FlashMemory<'_>) -> Result<(T, Lsn), TransactionError> + Send,
{
    fn run(&mut self, memory: &mut FlashMemory<'_>) {
        let job = self.job.take().expect("a job is run once");
        self.value = Some(job(memory));
    }

    fn finish(self: Box<Self>, result: Result<(), JobError>) {
        let Committing { value, sender, persist, .. } = *self;
        match (result, value, persist) {
            (Ok(()), Some(Ok((value, lsn))), Some(persist)) => {
                let tell = move |durable: Result<(), _>| match durable {
                    Ok(()) => sender.send(Ok(Ok(value))),
                    // The value goes afterwards: that may panic.
                    Err(error) => sender.send(Ok(Err(error))),
                };
                persist.when_durable(lsn, Box::new(tell));
            }
            (Ok(()), Some(value), _) => sender.send(Ok(value.map(|(value, _)| value))),
            (Ok(()), None, _) => unreachable!("a job that ended well has given a value"),
            (Err(error), ..) => sender.send(Err(error)),
        }
    }
}

/// The queue of submitted jobs, with the idle cores and the threads that wait for room.
struct Injector {
    jobs: SegQueue<Box<dyn Job>>,
    /// Jobs in the queue or about to be.
    queued: AtomicUsize,
    queued_max: usize,
    /// No more jobs will come.
    closed: AtomicBool,
    /// No core runs any more.
    over: AtomicBool,
    /// Marks of the cores that sleep or are about to. A new job rouses one of them.
    idle: Box<[CachePadded<AtomicBool>]>,
    /// Threads that wait for room in the queue.
    blocked: AtomicUsize,
    up: Mutex<bool>,
    news: Condvar,
}

impl Injector {
    fn new(cores: usize, queued_max: usize) -> Injector {
        Injector {
            jobs: SegQueue::new(),
            queued: AtomicUsize::new(0),
            queued_max,
            closed: AtomicBool::new(false),
            over: AtomicBool::new(false),
            idle: (0..cores).map(|_| CachePadded::default()).collect(),
            blocked: AtomicUsize::new(0),
            up: Mutex::new(false),
            news: Condvar::new(),
        }
    }

    /// Waits until a core runs (`true`) or none will.
    fn is_up(&self) -> bool {
        let mut up = self.up.lock();
        while !*up && !self.over.load(Ordering::SeqCst) {
            self.news.wait(&mut up);
        }
        *up
    }

    /// Waits until the cores have ended. Returns `false` if `patience` passes without a change of
    /// `ended`, the number of jobs that have ended.
    fn wait_until_over(&self, patience: Duration, ended: impl Fn() -> u64) -> bool {
        let (mut seen, mut since) = (ended(), Instant::now());
        let mut up = self.up.lock();
        while !self.over.load(Ordering::SeqCst) {
            let left = patience.saturating_sub(since.elapsed());
            if self.news.wait_for(&mut up, left).timed_out() && !self.over.load(Ordering::SeqCst) {
                let now = ended();
                if now == seen {
                    return false;
                }
                (seen, since) = (now, Instant::now());
            }
        }
        true
    }

    /// Takes a place in the queue, also if there is none.
    fn admit(&self) {
        self.queued.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes one of the places in the queue. When the cores have ended there is always room.
    fn try_admit(&self) -> bool {
        let more = |queued| (queued < self.queued_max).then_some(queued + 1);
        self.queued.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
            || self.over.load(Ordering::SeqCst)
    }

    /// Waits for a place in the queue, at most until `until`, and takes it. Returns true if it did.
    fn wait_for_room(&self, until: Option<Instant>) -> bool {
        let mut up = self.up.lock();
        self.blocked.fetch_add(1, Ordering::SeqCst);
        // A core that makes room after a look finds us blocked, and notifies us under the lock. A
        // notice that comes as the time runs out is not lost: the place is looked for again.
        let mut timed_out = false;
        let mut admitted = self.try_admit();
        while !admitted && !timed_out {
            match until {
                None => self.news.wait(&mut up),
                Some(until) => timed_out = self.news.wait_until(&mut up, until).timed_out(),
            }
            admitted = self.try_admit();
        }
        self.blocked.fetch_sub(1, Ordering::SeqCst);
        admitted
    }

    /// The job that has waited longest, for a core.
    fn take(&self) -> Option<Box<dyn Job>> {
        let job = self.jobs.pop()?;
        self.queued.fetch_sub(1, Ordering::SeqCst);
        if self.blocked.load(Ordering::SeqCst) > 0 {
            let _up = self.up.lock();
            self.news.notify_one();
        }
        Some(job)
    }

    /// Makes sure that a core looks at a job just queued. A sleeping core is roused if there is
    /// one. Otherwise the next core that asks for work finds the job, and every core asks before it
    /// sleeps.
    fn rouse_one(&self, engine: &Engine) {
        // Pairs with the fence in `has_more`: either we see the core idle or it sees the job.
        fence(Ordering::SeqCst);
        let claim = |idle: &CachePadded<AtomicBool>| {
            idle.load(Ordering::Relaxed) && idle.swap(false, Ordering::SeqCst)
        };
        if let Some(core) = self.idle.iter().position(claim) {
            engine.rouse(core);
        }
    }

    /// Drops jobs that no core will run. Their tickets return an error.
    fn discard(&self) {
        while let Some(job) = self.jobs.pop() {
            discard(job);
        }
    }
}

/// Notifies all waiting threads when the cores have ended, also by a panic.
struct SaysItIsOver<'a>(&'a Injector);

impl Drop for SaysItIsOver<'_> {
    fn drop(&mut self) {
        let up = self.0.up.lock();
        self.0.over.store(true, Ordering::SeqCst);
        self.0.news.notify_all();
        drop(up);
        self.0.discard();
    }
}

/// One core's handle of the queue.
struct Drain {
    core: usize,
    engine: Arc<Engine>,
    injector: Arc<Injector>,
    up: Cell<bool>,
    /// The core has a job in hand that waits for a thread, or knows that there will be none.
    satisfied: Cell<bool>,
    /// The core was about to sleep since it last looked at the queue.
    slept: Cell<bool>,
}

impl Drain {
    fn new(core: usize, engine: &Arc<Engine>, injector: &Arc<Injector>) -> Drain {
        let (engine, injector) = (engine.clone(), injector.clone());
        let [up, satisfied, slept] = [(); 3].map(|()| Cell::new(false));
        Drain { core, engine, injector, up, satisfied, slept }
    }
}

impl Service for Drain {
    type Job = Box<dyn Job>;

    fn next(&self, _now: Time) -> Offer<Box<dyn Job>> {
        let injector = &*self.injector;
        if !self.up.replace(true) {
            *injector.up.lock() = true;
            injector.news.notify_all();
        }
        self.slept.set(false);
        let idle = &injector.idle[self.core];
        if idle.load(Ordering::Relaxed) {
            // Before the look at the queue: a thread that saw us idle has queued its job before.
            idle.swap(false, Ordering::SeqCst);
        }
        // Before the look at the queue: the last job was queued before this was set.
        let closed = injector.closed.load(Ordering::SeqCst);
        let Some(job) = injector.take() else {
            self.satisfied.set(closed);
            return if closed { Offer::End } else { Offer::Empty };
        };
        self.satisfied.set(true);
        if !injector.jobs.is_empty() {
            // Jobs that came while we were being roused relied on us; we may be busy for long.
            injector.rouse_one(&self.engine);
        }
        Offer::Job(job)
    }

    fn run(&self, job: &mut Box<dyn Job>, memory: &mut FlashMemory<'_>) {
        self.satisfied.set(false);
        job.run(memory);
    }

    fn done(&self, job: Box<dyn Job>, result: Result<(), JobError>, _timing: Timing) {
        // A value whose ticket is gone is dropped here. If that panics, no job is at fault.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job.finish(result))) {
            discard(payload);
        }
    }

    fn passes(&self) {
        // From now on no job that comes relies on this core. One that came before did: another may
        // be idle.
        if self.slept.replace(false) {
            self.injector.idle[self.core].swap(false, Ordering::SeqCst);
            if !self.injector.jobs.is_empty() {
                self.injector.rouse_one(&self.engine);
            }
        }
    }

    fn has_more(&self) -> bool {
        self.slept.set(true);
        if self.satisfied.get() {
            return false;
        }
        self.injector.idle[self.core].store(true, Ordering::Relaxed);
        // Pairs with the fence in `rouse_one`.
        fence(Ordering::SeqCst);
        !self.injector.jobs.is_empty() || self.injector.closed.load(Ordering::SeqCst)
    }
}
