//! [`Lane`]: a core as the machine's loop sees it: its threads, its scheduler, its job queue.

use std::cell::RefCell;
use std::rc::Rc;

use ebbtide_core::schedule::{Next, Scheduler, Wakeup};
use ebbtide_core::{PageId, Span, Time};
use ebbtide_fiber::{Fiber, Stack};

use super::chip::Chip;
use super::job_memory::{JobMemory, Jobs, Leave};
use super::spent::{Waited, WaitsFor};
use crate::core_side::{CoreSide, Switching};
use crate::memory_side::Waiter;

/// A core's threads and what they wait for.
pub(crate) struct Lane {
    threads: Vec<Thread>,
    free: Vec<usize>,
    scheduler: Option<Scheduler<usize>>,
    pub(crate) current: Option<usize>,
    pub(crate) state: State,
    /// Counts the lane's entries in the machine's queue: only the last one is good.
    pub(crate) turn: u64,
}

/// What a core is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It goes on at its turn in the machine's queue.
    Queued,
    /// Its current thread waits, and the core with it.
    Blocked,
    /// It has nothing to run, before the turn in the queue if there is one.
    Idle,
}

struct Thread {
    fiber: Fiber<u64, Leave>,
    job: u64,
    arrived: Time,
    started: Time,
    /// Whether an event must tell that it can go on.
    waits: bool,
    /// What it stopped for, since when, and when that was over.
    stopped: Option<(WaitsFor, Time, Option<Time>)>,
    waited: Waited,
    /// When the access it waits for was issued.
    issued: Option<Time>,
    /// The page that its core waits for with it.
    wanted: Option<PageId>,
}

/// A thread was chosen.
pub(crate) enum Chosen {
    /// It starts the next job.
    Start(usize),
    /// It goes on.
    Resume(usize),
}

impl Lane {
    pub(crate) fn new(
        core_side: &CoreSide,
        core: usize,
        chip: &Rc<RefCell<Chip>>,
        jobs: &Rc<dyn Jobs>,
        stacks: impl Iterator<Item = Stack>,
    ) -> Lane {
        let thread = |(number, stack)| {
            let waiter = Waiter { core: core as u32, thread: number as u32 };
            Thread {
                fiber: job_loop(stack, waiter, chip.clone(), jobs.clone()),
                job: 0,
                arrived: Time::ZERO,
                started: Time::ZERO,
                waits: false,
                stopped: None,
                waited: Waited::default(),
                issued: None,
                wanted: None,
            }
        };
        let threads: Vec<Thread> = (0..).zip(stacks).map(thread).collect();
        let scheduler = match core_side {
            CoreSide::Block => None,
            CoreSide::Switch(Switching { threads, discipline, arrivals, .. }) => {
                Some(Scheduler::new(*discipline, *arrivals, *threads))
            }
        };
        let free = (0..threads.len()).rev().collect();
        Lane { threads, free, scheduler, current: None, state: State::Idle, turn: 0 }
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// What to run, given whether a new job is at hand.
    pub(crate) fn choose(&mut self, now: Time, new_job: bool) -> Option<Chosen> {
        let next = match &mut self.scheduler {
            Some(scheduler) => scheduler.next(now, new_job),
            None if new_job => Next::Start,
            None => Next::Wait,
        };
        match next {
            Next::Start => self.free.pop().map(Chosen::Start),
            Next::Resume(thread) => Some(Chosen::Resume(thread)),
            Next::Wait => None,
        }
    }

    /// `thread` will run job `job`, which arrived at `arrived`.
    pub(crate) fn start(&mut self, thread: usize, job: u64, arrived: Time, now: Time) {
        let thread = &mut self.threads[thread];
        (thread.job, thread.arrived, thread.started) = (job, arrived, now);
        thread.waited = Waited::default();
    }

    /// Runs `thread` until it leaves its fiber.
    pub(crate) fn run(&mut self, thread: usize, chip: &RefCell<Chip>, core: usize) -> Leave {
        let thread = &mut self.threads[thread];
        thread.waits = false;
        {
            let clock = &mut chip.borrow_mut().cores[core];
            if let Some((what, since, over)) = thread.stopped.take() {
                thread.waited.add(what, since, over, clock.now);
            }
            clock.issued = thread.issued.take();
        }
        let leave = thread.fiber.resume(thread.job).expect("a job loop never ends");
        thread.issued = chip.borrow_mut().cores[core].issued.take();
        leave
    }

    /// The job of `thread` is done: how long since its start and since its arrival, and what it
    /// waited for.
    pub(crate) fn finish(&mut self, thread: usize, now: Time) -> (Span, Span, Waited) {
        self.free.push(thread);
        let thread = &self.threads[thread];
        (now.since(thread.started), now.since(thread.arrived), thread.waited)
    }

    /// `thread` waits on its core from `now` on, for `page` if it missed one.
    pub(crate) fn block(&mut self, thread: usize, page: Option<PageId>, what: WaitsFor, now: Time) {
        self.stop(thread, what, now);
        self.threads[thread].wanted = page;
        self.current = Some(thread);
        self.state = State::Blocked;
    }

    fn stop(&mut self, thread: usize, what: WaitsFor, now: Time) {
        let thread = &mut self.threads[thread];
        thread.waits = true;
        thread.stopped = Some((what, now, None));
    }

    /// `thread` waits from `now` on while others run.
    pub(crate) fn halt(&mut self, thread: usize, what: WaitsFor, now: Time) {
        self.stop(thread, what, now);
        self.current = None;
        let scheduler = self.scheduler.as_mut().expect("only a core that switches halts threads");
        scheduler.halted(thread, now);
    }

    /// The page that the core waited for with `thread`, once.
    pub(crate) fn take_wanted(&mut self, thread: usize) -> Option<PageId> {
        self.threads[thread].wanted.take()
    }

    /// What `thread` waited for is there at `at`. Gives when its access was issued, if it waited for
    /// that.
    pub(crate) fn arrived(&mut self, thread: usize, at: Time) -> Option<Time> {
        if !std::mem::replace(&mut self.threads[thread].waits, false) {
            return None;
        }
        if let Some((_, _, over)) = &mut self.threads[thread].stopped {
            *over = Some(at);
        }
        if self.current != Some(thread)
            && let Some(scheduler) = &mut self.scheduler
            && scheduler.arrivals() == Wakeup::Notified
        {
            scheduler.arrived(thread);
        }
        self.threads[thread].issued
    }
}

/// Runs one job after the other, whichever number it is resumed with.
fn job_loop(
    stack: Stack,
    waiter: Waiter,
    chip: Rc<RefCell<Chip>>,
    jobs: Rc<dyn Jobs>,
) -> Fiber<u64, Leave> {
    Fiber::new(stack, move |suspend, mut job: u64| {
        loop {
            let mut memory = JobMemory { chip: &chip, waiter, suspend, accesses: 0 };
            if let Err(wrong) = jobs.run(job, &mut memory) {
                chip.borrow_mut().wrong.get_or_insert(wrong);
            }
            job = suspend.suspend(Leave::Done);
        }
    })
}
