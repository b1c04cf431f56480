//! A core of the engine: one pinned kernel thread that runs jobs on fibers.
//!
//! The loop asks the scheduler of [`ebbtide_core::schedule`] what to run, runs it until it misses
//! or ends, and drives the core's backside in between.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ebbtide_core::schedule::{Discipline, Next, Scheduler, Wakeup};
use ebbtide_core::{Span, Time};
use ebbtide_fiber::{Fiber, Label, StackPool};

use crate::core::engine_state::EngineState;
use crate::core::flash_memory::{FiberContext, FlashMemory, Local, Signal};
use crate::core::job::{Offer, Service, Timing};
use crate::core::job_error::JobError;
use crate::host::adaptive_spin::{self, AdaptiveSpin};
use crate::miss::Drive;
use crate::net::{NetEvent, Network};
use crate::sync::counters::CoreCounters;
use crate::sync::mailbox::Outcome;

/// A backside that no core has driven for this long is driven by another one. That core waits for
/// one of its pages, or for a frame.
const HELP_AFTER: Span = Span::from_us(200);

/// After this many resumed jobs in a row, a new one starts.
const RESUMED_IN_A_ROW_MAX: usize = 64;

/// A core with nothing to run polls at least this long before it sleeps.
const POLL_BEFORE_SLEEP: Span = Span::from_us(5);

/// The longest sleep: work from outside rouses a sleeper, so this is only a safety net.
const SLEEP_MAX: Duration = Duration::from_millis(100);

thread_local! {
    static IN_A_CORE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is a core, so that only jobs call this.
pub(crate) fn in_a_job() -> bool {
    IN_A_CORE.get()
}

/// Keeps a job from blocking the core that it runs on.
pub(crate) fn check_not_in_a_job(doing: &str) {
    assert!(!in_a_job(), "{doing} inside a job would hold up its core for ever");
}

/// How a core runs its jobs.
pub(crate) struct Setup {
    pub(crate) core: usize,
    pub(crate) threads: usize,
    pub(crate) stack_bytes: usize,
    pub(crate) discipline: Discipline,
}

/// A fiber's job, and its result.
struct Slot<J> {
    job: Cell<Option<J>>,
    result: Cell<Option<(J, Result<(), JobError>)>>,
    started: Cell<Time>,
}

/// A core with its jobs. What every switch needs comes first, in few cache lines.
#[repr(C, align(64))]
pub(crate) struct Worker<S: Service> {
    local: Rc<Local>,
    service: Rc<S>,
    slots: Rc<[Slot<S::Job>]>,
    /// Jobs resumed since the service was last asked.
    resumed_in_a_row: usize,
    /// Jobs that the service has offered since it last had none.
    offered_in_a_row: usize,
    next_arrival: Option<Time>,
    scheduler: Scheduler<u32>,
    fibers: Vec<Fiber<(), Signal>>,
    network: Network,
    offered: Option<S::Job>,
    ended: bool,
    /// By fiber: names the job on its stack.
    labels: Vec<Label>,
    jobs_started: u64,
    stacks: StackPool,
    idle: Vec<u32>,
    helped_at: Time,
    /// How long it polls for jobs from outside.
    spin: AdaptiveSpin,
    own_wakes: Vec<(u32, Outcome)>,
    /// Fibers that have yielded.
    yielded: Vec<u32>,
    network_events: Vec<NetEvent>,
}

impl<S: Service> Worker<S> {
    /// A core with its stacks in place.
    pub(crate) fn new(
        shared: Arc<EngineState>,
        setup: &Setup,
        service: S,
    ) -> std::io::Result<Worker<S>> {
        IN_A_CORE.set(true);
        let threads = setup.threads;
        let has_sockets = shared.backsides[setup.core].lock().ring().sockets().is_some();
        let network = Network::new(has_sockets);
        service.attach(&network);
        let slot =
            |_| Slot { job: Cell::new(None), result: Cell::new(None), started: Cell::default() };
        Ok(Worker {
            local: Rc::new(Local::new(shared, setup.core, threads)),
            service: Rc::new(service),
            slots: (0..threads).map(slot).collect(),
            fibers: Vec::with_capacity(threads),
            labels: Vec::with_capacity(threads),
            jobs_started: 0,
            stacks: StackPool::new(threads, setup.stack_bytes)?,
            idle: Vec::with_capacity(threads),
            scheduler: Scheduler::new(setup.discipline, Wakeup::Notified, threads),
            offered: None,
            offered_in_a_row: 0,
            resumed_in_a_row: 0,
            next_arrival: None,
            ended: false,
            helped_at: Time::ZERO,
            spin: AdaptiveSpin::new(),
            own_wakes: Vec::with_capacity(threads),
            yielded: Vec::new(),
            network,
            network_events: Vec::new(),
        })
    }

    /// Runs jobs until the service reports its end and all jobs have ended.
    pub(crate) fn run(mut self) -> S {
        let shared = self.local.shared.clone();
        let presence = shared.pool.epochs.core(self.local.core);
        presence.awake();
        shared.pool.mailboxes.set_running(self.local.core, true);
        let mut now = shared.pool.now();
        loop {
            self.receive_wakes();
            match self.next(now) {
                Next::Resume(fiber) => {
                    self.resumed_in_a_row += 1;
                    self.drive(now, Drive::Busy { runnable: self.runnable() });
                    self.prefetch_next();
                    now = self.switch_to(fiber, now);
                }
                Next::Start => {
                    self.drive(now, Drive::Busy { runnable: self.runnable() });
                    self.prefetch_next();
                    let job = self.offered.take().expect("a new job is at hand");
                    now = self.start(job, now);
                    self.resume_yielded();
                }
                Next::Wait if !self.yielded.is_empty() => {
                    self.drive(now, Drive::Idle);
                    self.resume_yielded();
                }
                Next::Wait => {
                    if self.ended && self.scheduler.pending() == 0 && self.backside_idle() {
                        break;
                    }
                    now = self.wait(now);
                }
            }
        }
        presence.sleep();
        shared.prospects[self.local.core].publish(0, false);
        shared.pool.mailboxes.set_running(self.local.core, false);
        shared.pool.counters.stack_used(self.stacks.used_bytes_max());
        let Worker { service, fibers, .. } = self;
        // The fibers' bodies hold the service too; all are between jobs.
        drop(fibers);
        Rc::into_inner(service).expect("nobody else holds the service")
    }

    fn counters(&self) -> &CoreCounters {
        self.local.shared.pool.counters.core(self.local.core)
    }

    #[inline]
    fn receive_wakes(&mut self) {
        if !self.local.shared.pool.mailboxes.is_empty(self.local.core) {
            self.take_wakes();
        }
    }

    #[cold]
    fn take_wakes(&mut self) {
        while let Some((fiber, outcome)) = self.local.shared.pool.mailboxes.next(self.local.core) {
            self.local.fibers[fiber as usize].outcome.set(Some(outcome));
            self.scheduler.arrived(fiber);
        }
    }

    /// Returns the next action. No new job is taken while jobs under way can go on, because a new
    /// job must start at once. Otherwise it would wait here while another job computes, and no
    /// other core could take it.
    fn next(&mut self, now: Time) -> Next<u32> {
        let goes_on = self.scheduler.resumes_first()
            && self.resumed_in_a_row < RESUMED_IN_A_ROW_MAX
            && self.offered.is_none();
        if goes_on {
            self.service.passes();
            return self.scheduler.next(now, false);
        }
        self.resumed_in_a_row = 0;
        match self.has_new_job(now) {
            true => Next::Start,
            false => self.scheduler.next(now, false),
        }
    }

    /// Checks for a new job. Without a free thread none is taken, because another core may have a
    /// free one.
    fn has_new_job(&mut self, now: Time) -> bool {
        if self.offered.is_none()
            && !self.ended
            && self.scheduler.pending() < self.slots.len()
            && self.next_arrival.is_none_or(|at| at <= now)
        {
            self.next_arrival = None;
            match self.service.next(now) {
                Offer::Job(job) => {
                    self.offered = Some(job);
                    self.offered_in_a_row += 1;
                }
                none => {
                    self.offered_in_a_row = 0;
                    match none {
                        Offer::At(time) => self.next_arrival = Some(time),
                        Offer::End => self.ended = true,
                        Offer::Job(_) | Offer::Empty => {}
                    }
                }
            }
        }
        self.offered.is_some()
    }

    /// Returns the number of jobs that this core can run: jobs whose page is there, and new ones.
    /// New ones count while the service has always had another since the core last ran out of them.
    fn runnable(&self) -> usize {
        let ripe = self.scheduler.ripe();
        let free = self.slots.len() - self.scheduler.pending();
        ripe + free.min(self.offered_in_a_row)
    }

    /// Prefetches the data of the next job while one job runs.
    fn prefetch_next(&self) {
        if let Some(&fiber) = self.scheduler.next_ripe() {
            self.local.prefetch(fiber);
        }
    }

    /// Drives the core's backside at `now`, when the fiber that ran last has halted. A busy core
    /// does so only once that is due: until then its misses gather.
    fn drive(&mut self, now: Time, drive: Drive) {
        let missed = self.local.note_halt(now);
        if self.local.may_rest(missed, drive, now) && !self.network.has_requests() {
            return;
        }
        let mut backside = self.local.shared.backsides[self.local.core].lock();
        if self.network.has_requests() {
            let mut requests = self.network.take_requests();
            backside.ring().request_sockets(&mut requests, now);
            self.network.recycle(requests);
        }
        if self.local.await_others.get() == 0 && backside.may_rest(missed, drive, now) {
            self.local.rest.set(backside.rest());
            return;
        }
        self.local.settle(&mut backside);
        self.local.look_for_missed(&mut backside, now);
        backside.advance(self.local.core, now, drive);
        backside.take_own_wakes(&mut self.own_wakes);
        if let Some(sockets) = backside.ring().sockets() {
            sockets.take_events(&mut self.network_events);
        }
        let starved = backside.is_starved();
        self.local.rest.set(backside.rest());
        drop(backside);
        for (fiber, outcome) in self.own_wakes.drain(..) {
            self.local.fibers[fiber as usize].outcome.set(Some(outcome));
            self.scheduler.arrived(fiber);
        }
        self.network_events.drain(..).for_each(|event| self.service.network(event));
        let needs_others = self.local.await_others.get() > 0 || starved;
        if needs_others && now.since(self.helped_at) >= HELP_AFTER {
            self.help(now, starved);
        }
    }

    /// Drives other backsides that no core has driven for long and that bring a page for a fiber
    /// here. If this core is `starved`, it drives every such backside, because any may keep frames
    /// from the policy.
    fn help(&mut self, now: Time, starved: bool) {
        self.helped_at = now;
        let shared = &*self.local.shared;
        for (core, backside) in shared.backsides.iter().enumerate() {
            let has_what_is_needed = starved || self.local.awaited[core].get() > 0;
            if core == self.local.core
                || !has_what_is_needed
                || shared.pool.left_alone(core, now) < HELP_AFTER
            {
                continue;
            }
            let Some(mut backside) = backside.try_lock() else { continue };
            // A core that computes does not enter the kernel, so it does not take the completions
            // that are held back for it. This core has not entered it either, for requests it has
            // submitted for another.
            if backside.ring().has_held_back() {
                shared.pool.epochs.interrupt_all();
            }
            backside.advance(self.local.core, now, Drive::Help);
            self.counters().helped.add(1);
        }
    }

    fn backside_idle(&self) -> bool {
        self.local.backside().is_idle()
    }

    /// Lets the yielded jobs go on.
    fn resume_yielded(&mut self) {
        for fiber in self.yielded.drain(..) {
            self.local.fibers[fiber as usize].outcome.set(Some(Outcome::Retry));
            self.scheduler.arrived(fiber);
        }
    }

    /// Starts a job on an idle fiber, or on a new one.
    fn start(&mut self, job: S::Job, now: Time) -> Time {
        let fiber = match self.idle.pop() {
            Some(fiber) => fiber,
            None => self.new_fiber(),
        };
        let slot = &self.slots[fiber as usize];
        slot.job.set(Some(job));
        slot.started.set(now);
        self.jobs_started += 1;
        self.labels[fiber as usize].set_job(self.jobs_started);
        self.local.shared.jobs.begin((self.local.core, fiber), self.jobs_started, now);
        self.switch_to(fiber, now)
    }

    fn new_fiber(&mut self) -> u32 {
        let number = self.fibers.len() as u32;
        let stack = self.stacks.take().expect("there is a stack for every thread");
        self.labels.push(stack.label());
        let label = stack.label();
        let local = self.local.clone();
        let service = self.service.clone();
        let slots = self.slots.clone();
        self.fibers.push(Fiber::new(stack, move |suspend, ()| {
            let slot = &slots[number as usize];
            let mut memory = FlashMemory::new(&local, suspend, number);
            let context = FiberContext::new(&local, suspend, number);
            let _attached = context.attach(&label);
            loop {
                let mut job = slot.job.take().expect("a fiber is started with a job");
                // What the job leaves half-done lives in memory, which others see at any moment.
                let run = AssertUnwindSafe(|| service.run(&mut job, &mut memory));
                let result = catch_unwind(run).map_err(JobError::from_unwind);
                memory.publish_accesses();
                slot.result.set(Some((job, result)));
                suspend.suspend(Signal::Finished);
            }
        }));
        number
    }

    /// Runs a fiber until it halts or its job ends. Returns the time of that.
    fn switch_to(&mut self, fiber: u32, since: Time) -> Time {
        let jobs = &self.local.shared.jobs;
        jobs.runs(self.local.core, fiber, since);
        let signal = self.fibers[fiber as usize].resume(());
        jobs.halts(self.local.core);
        let now = self.local.shared.pool.now();
        match signal.expect("the body of a fiber never returns") {
            Signal::Halted => self.scheduler.halted(fiber, now),
            Signal::Yielded => {
                self.scheduler.halted(fiber, now);
                self.yielded.push(fiber);
            }
            Signal::Finished => {
                let slot = &self.slots[fiber as usize];
                let (job, result) = slot.result.take().expect("a finished job has a result");
                let counters = self.counters();
                let count = if result.is_ok() { &counters.jobs } else { &counters.jobs_failed };
                count.add(1);
                jobs.end(self.local.core, fiber);
                self.idle.push(fiber);
                let timing = Timing { started: slot.started.get(), finished: now };
                self.service.done(job, result, timing);
            }
        }
        now
    }

    /// Handles a core with nothing to run: drives requests under way, polls for a moment, then
    /// sleeps.
    fn wait(&mut self, since: Time) -> Time {
        self.drive(since, Drive::Idle);
        let mut now = self.local.shared.pool.now();
        // Only jobs from outside are worth more: the device wakes the core on its own CPU. A poll
        // takes a microsecond or more.
        let spins = self.scheduler.pending() == 0;
        let most = if spins { self.spin.begin() } else { 0 };
        let poll_until = since + POLL_BEFORE_SLEEP.max(Span::from_us(most.into()));
        let mut polls = 0;
        let came = loop {
            if self.something_to_do(now) {
                break true;
            }
            let arrives_soon = self.next_arrival.is_some_and(|at| at <= now + Span::from_us(60));
            if now >= poll_until && !arrives_soon {
                break false;
            }
            adaptive_spin::pause(polls);
            polls += 1;
            self.drive(now, Drive::Idle);
            now = self.local.shared.pool.now();
        };
        if spins {
            self.spin.ended(came.then_some(polls));
        }
        if !came {
            self.sleep(now);
            now = self.local.shared.pool.now();
        }
        self.counters().idle_ns.add(now.since(since).as_ns());
        now
    }

    fn something_to_do(&mut self, now: Time) -> bool {
        self.receive_wakes();
        self.scheduler.ripe() > 0
            || self.has_new_job(now) && self.scheduler.pending() < self.slots.len()
            || (self.ended && self.scheduler.pending() == 0 && self.backside_idle())
    }

    fn sleep(&mut self, now: Time) {
        let shared = &*self.local.shared;
        let mut at_most = SLEEP_MAX;
        if let Some(at) = self.next_arrival {
            // Waking takes a while; the rest is polled.
            at_most =
                at_most.min(Duration::from_nanos(at.since(now).as_ns().saturating_sub(50_000)));
        }
        if self.local.await_others.get() > 0 || self.needs_frames() {
            at_most = at_most.min(Duration::from_nanos(HELP_AFTER.as_ns()));
        }
        let waiting = self.local.word_waiters.get();
        let may_start = !self.ended && self.scheduler.pending() < self.slots.len();
        // What waits for the log will run again, and may wake others.
        let may_start = may_start || self.local.log_waiters.get() > 0;
        shared.prospects[self.local.core].publish(waiting, may_start);
        if waiting > 0 && !may_start && waiting as usize == self.scheduler.pending() {
            self.end_deadlock(waiting);
        }
        self.counters().sleeps.add(1);
        let presence = shared.pool.epochs.core(self.local.core);
        presence.sleep();
        let has_more = || self.service.has_more() || self.network.has_requests();
        shared.pool.mailboxes.sleep(self.local.core, at_most, has_more);
        presence.awake();
    }

    /// If no job will ever run again, ends one of this core's, which all wait on words.
    fn end_deadlock(&self, waiting: u32) {
        let shared = &*self.local.shared;
        if let Some(waiting) = shared.deadlocked(self.local.core, waiting)
            && let Some(waiter) = shared.wait_queues.take_one_of(self.local.core as u32)
        {
            shared.pool.mailboxes.wake(waiter, Outcome::Deadlocked(waiting));
        }
    }

    /// Whether pages wait for frames, which may come from anywhere.
    fn needs_frames(&self) -> bool {
        self.local.backside().waits_without_device()
    }
}
