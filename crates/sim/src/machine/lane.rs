//! [`Lane`]: the threads, the scheduler and the state of a core.

use std::cell::RefCell;
use std::rc::Rc;

use ebbtide_core::schedule::{Next, Scheduler, Wakeup};
use ebbtide_core::{PageId, Span, Time};
use ebbtide_fiber::{Fiber, Stack};

use super::chip::Chip;
use super::job_memory::{JobMemory, Leave};
use super::spent::{Waited, WaitsFor};
use crate::any_memory::Jobs;
use crate::core_side::{CoreSide, Switching};
use crate::memory_side::Waiter;

/// The threads of a core, and the events that they wait for.
pub(crate) struct Lane {
    threads: Vec<Thread>,
    free: Vec<usize>,
    scheduler: Option<Scheduler<usize>>,
    looks_after_jobs: bool,
    /// Whether the last thread that ran has halted before the end of its job.
    has_halted: bool,
    pub(crate) current: Option<usize>,
    pub(crate) state: State,
}

/// The state of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It continues at its turn in the machine's queue.
    Queued,
    /// Its current thread waits, and blocks the core.
    Blocked,
    /// It has nothing to run until its turn in the queue, if it has a turn.
    Idle,
}

struct Thread {
    fiber: Fiber<u64, Leave>,
    job: u64,
    arrived: Time,
    started: Time,
    /// Whether the thread waits for an event.
    waits: bool,
    /// The cause of the thread's wait, its start, and its end.
    stopped: Option<(WaitsFor, Time, Option<Time>)>,
    waited: Waited,
    /// When the access that the thread waits for was issued.
    issued: Option<Time>,
    /// The page that blocks the thread and its core.
    wanted: Option<PageId>,
}

/// The choice of a thread.
pub(crate) enum Chosen {
    /// The thread starts the next job.
    Start(usize),
    /// The thread continues.
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
            let waiter = Waiter { core: core as u32, thread: number as u32, slot: 0 };
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
        let (scheduler, looks_after_jobs) = match core_side {
            CoreSide::Block => (None, true),
            CoreSide::Switch(switching) => {
                let Switching { threads, discipline, arrivals, .. } = *switching;
                (Some(Scheduler::new(discipline, arrivals, threads)), switching.looks_after_jobs)
            }
        };
        let free = (0..threads.len()).rev().collect();
        Lane {
            threads,
            free,
            scheduler,
            looks_after_jobs,
            has_halted: false,
            current: None,
            state: State::Idle,
        }
    }

    /// Number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// The thread to run. `new_job` is true if a new job is available.
    pub(crate) fn choose(&mut self, now: Time, new_job: bool) -> Option<Chosen> {
        let next = match &mut self.scheduler {
            Some(scheduler) if self.looks_after_jobs || self.has_halted => {
                scheduler.next(now, new_job)
            }
            Some(scheduler) => scheduler.next_new(new_job),
            None if new_job => Next::Start,
            None => Next::Wait,
        };
        match next {
            Next::Start => self.free.pop().map(Chosen::Start),
            Next::Resume(thread) => Some(Chosen::Resume(thread)),
            Next::Wait => None,
        }
    }

    /// Assigns job `job`, which arrived at `arrived`, to `thread`.
    pub(crate) fn start(&mut self, thread: usize, job: u64, arrived: Time, now: Time) {
        let thread = &mut self.threads[thread];
        (thread.job, thread.arrived, thread.started) = (job, arrived, now);
        thread.waited = Waited::default();
    }

    /// Runs `thread` until it leaves its fiber.
    pub(crate) fn run(&mut self, thread: usize, chip: &RefCell<Chip>, core: usize) -> Leave {
        let thread = &mut self.threads[thread];
        thread.waits = false;
        self.has_halted = false;
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

    /// Ends the job of `thread`. Returns the times since its start and since its arrival, and its
    /// waits.
    pub(crate) fn finish(&mut self, thread: usize, now: Time) -> (Span, Span, Waited) {
        self.free.push(thread);
        let thread = &self.threads[thread];
        (now.since(thread.started), now.since(thread.arrived), thread.waited)
    }

    /// Blocks the core from `now` on for `thread`, which waits for `page` if it missed one.
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

    /// Halts `thread` from `now` on while others run.
    pub(crate) fn halt(&mut self, thread: usize, what: WaitsFor, now: Time) {
        self.stop(thread, what, now);
        self.current = None;
        let scheduler = self.scheduler.as_mut().expect("only a core that switches halts threads");
        scheduler.halted(thread, now);
        self.has_halted = true;
    }

    /// The page that `thread` blocked its core for. Only the first call returns it.
    pub(crate) fn take_wanted(&mut self, thread: usize) -> Option<PageId> {
        self.threads[thread].wanted.take()
    }

    /// Marks `thread` as ready at `at`. Returns when its access was issued, if it waited for a
    /// page.
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

/// Runs one job after another. The fiber is resumed with the number of the next job.
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
