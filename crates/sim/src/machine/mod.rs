//! [`Machine`]: the loop that runs jobs on simulated cores over a memory side.

mod chip;
mod job_memory;
mod journal;
mod lane;
mod latency;
mod spent;
mod window;

use std::cell::RefCell;
use std::rc::Rc;

use ebbtide_core::{Archive, Span, Stopped, Time};
use ebbtide_fiber::StackPool;
use ebbtide_workloads::load::Poisson;
use ebbtide_workloads::{Accesses, Corrupt, Program, ShapeError, Touched, Workload};
use thiserror::Error;

pub use crate::hierarchy::Coherence;
pub use chip::MissedAccesses;
pub(crate) use journal::Missed;
pub use latency::Distribution;
pub(crate) use latency::Latencies;
pub use spent::{Breakdown, ServiceParts};

use crate::any_memory::Jobs;
use crate::config::{Config, ConfigError};
use crate::contents::Contents;
use crate::core_side::{CoreSide, Switching};
use crate::designs::Parts;
use crate::memory_side::{Counters, Event, NOBODY, Noted, PlainLru, Waiter};
use chip::{Chip, Past};
use job_memory::{Leave, WarmMemory};
use lane::{Chosen, Lane, State};
use spent::WaitsFor;

/// How jobs arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// A core always finds a new job.
    Saturating,
    /// Poisson arrivals into one queue per core.
    Poisson {
        /// Mean arrivals per second over all cores.
        jobs_per_s: f64,
        /// Seed of the arrival times.
        seed: u64,
    },
    /// Poisson arrivals into one queue for all cores. A free core takes the next job.
    PoissonShared {
        /// Mean arrivals per second.
        jobs_per_s: f64,
        /// Seed of the arrival times.
        seed: u64,
    },
}

/// Why a run failed.
#[derive(Debug, Error)]
pub enum SimError {
    /// The machine cannot be built.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A job read wrong contents: a fault of the simulator.
    #[error("a job read something wrong in simulated memory: {0}")]
    Corrupt(Corrupt),
    /// No core can run and memory has no event: a fault of the simulator.
    #[error("the simulated machine stands still at {0:?} with jobs unfinished")]
    Stuck(Time),
    /// The run takes longer than the clock can count.
    #[error(
        "the run takes more than {DAYS_MAX} days of simulated time: expected shorter times in the \
         configuration, more load or fewer jobs"
    )]
    TooLong,
    /// The program cannot be built.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The run was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The host has no memory for the stacks of simulated threads.
    #[error("no memory for the stacks of simulated threads: {0}")]
    Stacks(std::io::Error),
}

impl SimError {
    /// Returns true if the plan, rather than the run, is at fault.
    pub fn is_input(&self) -> bool {
        matches!(self, SimError::Config(_) | SimError::Shape(_) | SimError::TooLong)
    }
}

/// The most days of simulated time that a run may take. Events lie up to months ahead of the clock,
/// which overflows after 213 days.
pub(crate) const DAYS_MAX: u64 = 100;

/// The time at which a run is too long.
pub(crate) const LATEST: Time = Time::from_ns(DAYS_MAX * 24 * 3600 * 1_000_000_000);

/// A simulated machine that runs one program.
pub struct Machine {
    chip: Rc<RefCell<Chip>>,
    jobs: Rc<dyn Jobs>,
    lanes: Vec<Lane>,
    /// Queues of jobs: none, one for all cores, or one a core.
    arrivals: Vec<Arrivals>,
    switching: Option<Switching>,
    run_ahead: Span,
    /// Time that a core loses to an interrupt by another core.
    interrupt: Span,
    /// When each queued core continues, or [`NEVER`].
    turns: Vec<Time>,
    events: Vec<Event>,
    next_job: u64,
    now: Time,
    completed: u64,
}

/// The turn of a core that is not queued.
const NEVER: Time = Time::from_ps(u64::MAX);

/// Open-loop arrivals.
struct Arrivals {
    process: Poisson,
    start: Time,
    next: Time,
}

impl Arrivals {
    fn advance(&mut self) {
        let next = self.process.next().expect("arrivals never end");
        // The clock does not pass the latest time, so any later one will do.
        self.next = self.start + (next.min(LATEST) - Time::ZERO);
    }
}

/// Instructions that every job computes. [`Machine::set_work`] sets the time that they take.
pub const WORK_UNITS: u64 = 1 << 20;

/// Size of a simulated thread's stack in bytes.
const STACK_BYTES: usize = 64 * 1024;

/// Accesses of a warm-up that memory is told to expect together, so the host waits for its memory
/// only once.
const EXPECTED_TOGETHER: usize = 64;

/// Loads what `accesses` will need into the host's caches.
fn expect(chip: &Chip, lru: Option<&PlainLru>, accesses: &[Touched]) {
    let mut last = None;
    for page in accesses.iter().map(|one| one.at.page()) {
        if last.replace(page) != Some(page) {
            lru.inspect(|lru| lru.expect(page));
            chip.memory.expect(page);
        }
    }
}

impl Machine {
    /// The machine of `config`, made of `parts`, before its first job of `program`.
    ///
    /// # Errors
    /// [`SimError`] when it cannot be built.
    pub fn new(
        config: &Config,
        parts: Parts,
        program: impl Workload + Clone + 'static,
    ) -> Result<Machine, SimError> {
        let contents = Contents::new(program.clone());
        let past = match &parts.core_side {
            CoreSide::Block => Past::Batches,
            CoreSide::Switch(switching) if switching.stores_go_past => Past::Stores,
            CoreSide::Switch(_) => Past::Nothing,
        };
        let chip = Rc::new(RefCell::new(Chip::new(config, contents, parts.memory_side, past)?));
        let jobs: Rc<dyn Jobs> = Rc::new(program);
        let (cores, threads) = (config.cores.count, parts.core_side.threads());
        let mut stacks = StackPool::new(cores * threads, STACK_BYTES).map_err(SimError::Stacks)?;
        let lanes = (0..cores)
            .map(|core| {
                let stacks = (0..threads).map_while(|_| stacks.take());
                Lane::new(&parts.core_side, core, &chip, &jobs, stacks)
            })
            .collect();
        let mut machine = Machine {
            chip,
            jobs,
            lanes,
            arrivals: Vec::new(),
            switching: match parts.core_side {
                CoreSide::Block => None,
                CoreSide::Switch(switching) => Some(switching),
            },
            run_ahead: Span::from_ns(config.cores.run_ahead_ns),
            interrupt: Span::from_ns(config.os.interrupt_ns),
            turns: vec![NEVER; cores],
            events: Vec::new(),
            next_job: 0,
            now: Time::ZERO,
            completed: 0,
        };
        (0..cores).for_each(|core| machine.enqueue(core, Time::ZERO));
        Ok(machine)
    }

    /// [`new`](Machine::new) for a program chosen by its name. All programs are compiled here, and
    /// not again in every crate that builds machines.
    ///
    /// # Errors
    /// As [`new`](Machine::new).
    pub fn of_program(
        config: &Config,
        parts: Parts,
        program: Program,
    ) -> Result<Machine, SimError> {
        Machine::new(config, parts, program)
    }

    /// Number of threads of all cores.
    pub fn threads(&self) -> usize {
        self.lanes.iter().map(Lane::threads).sum()
    }

    /// Jobs completed in simulated time.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Runs `jobs` untimed jobs, to fill all caches, and `lru` if it is given. Jobs whose accesses
    /// do not depend on stored values read and store nothing.
    ///
    /// # Errors
    /// [`SimError::Corrupt`].
    pub fn warm(&mut self, jobs: u64, mut lru: Option<&mut PlainLru>) -> Result<(), SimError> {
        let mut chip = self.chip.borrow_mut();
        let (end, cores) = (self.next_job + jobs, self.lanes.len());
        let (mut accesses, mut ends) = (Accesses::default(), Vec::new());
        while self.next_job < end {
            accesses.clear();
            ends.clear();
            let mut job = self.next_job;
            while job < end
                && accesses.all().len() < EXPECTED_TOGETHER
                && self.jobs.accesses(job, &mut accesses)
            {
                ends.push(accesses.all().len());
                job += 1;
            }
            expect(&chip, lru.as_deref(), accesses.all());
            let mut start = 0;
            for &end in &ends {
                let core = self.next_job as usize % cores;
                let lru = lru.as_deref_mut();
                let mut memory = WarmMemory { chip: &mut chip, core, accesses: 0, lru };
                accesses.all()[start..end].iter().for_each(|one| memory.touch(one.at, one.write));
                start = end;
                self.next_job += 1;
            }
            if ends.is_empty() {
                // Stored values decide its accesses.
                let core = self.next_job as usize % cores;
                let lru = lru.as_deref_mut();
                let mut memory = WarmMemory { chip: &mut chip, core, accesses: 0, lru };
                self.jobs.run(self.next_job, &mut memory).map_err(SimError::Corrupt)?;
                self.next_job += 1;
            }
        }
        Ok(())
    }

    /// Saves all state that [`warm`](Machine::warm) changes to `archive`, or restores it from
    /// there. Restoring needs a machine that warms up in the same way.
    pub(crate) fn state(&mut self, archive: &mut Archive<'_>) {
        self.chip.borrow_mut().state(archive);
        archive.part(&mut self.next_job);
    }

    /// Whether untimed jobs leave the chip as they would over DRAM.
    pub(crate) fn warms_as_in_dram(&self) -> bool {
        self.chip.borrow().warms_as_in_dram()
    }

    /// Whether untimed jobs store contents.
    pub(crate) fn stores_in_warm_up(&self) -> bool {
        self.jobs.writes() && !self.jobs.accesses(0, &mut Accesses::default())
    }

    /// Continues after the untimed jobs of `other`, a machine of the same chip and program over
    /// another memory.
    pub(crate) fn continue_from(&mut self, other: &mut Machine) {
        let bytes = Archive::bytes_of(|archive| other.chip.borrow_mut().own_state(archive));
        let mut chip = self.chip.borrow_mut();
        let whole = Archive::restore(&bytes, |archive| chip.own_state(archive));
        assert!(whole, "machines of the same chip and program");
        self.next_job = other.next_job;
    }

    /// Sets the total time that a job computes between its accesses.
    pub fn set_work(&mut self, time: Span) {
        self.chip.borrow_mut().work = time;
    }

    /// Sets how jobs arrive.
    pub fn set_load(&mut self, load: Load) {
        let (queues, jobs_per_s, seed) = match load {
            Load::Saturating => (0, 0.0, 0),
            Load::Poisson { jobs_per_s, seed } => (self.lanes.len() as u64, jobs_per_s, seed),
            Load::PoissonShared { jobs_per_s, seed } => (1, jobs_per_s, seed),
        };
        let queue = |queue: u64| {
            let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ queue;
            let process = Poisson::new(jobs_per_s / queues as f64, seed);
            let mut arrivals = Arrivals { process, start: self.now, next: self.now };
            arrivals.advance();
            arrivals
        };
        self.arrivals = (0..queues).map(queue).collect();
    }

    /// The queue that `core` takes its jobs from, if there is one.
    fn queue_of(&mut self, core: usize) -> Option<&mut Arrivals> {
        let last = self.arrivals.len().checked_sub(1)?;
        Some(&mut self.arrivals[core.min(last)])
    }

    /// Runs until `jobs` more jobs are complete. Returns the simulated time that took.
    ///
    /// # Errors
    /// [`SimError::Corrupt`], [`SimError::Stuck`] and [`SimError::TooLong`].
    pub fn run(&mut self, jobs: u64) -> Result<Span, SimError> {
        let start = self.now;
        let target = self.completed + jobs;
        while self.completed < target {
            let memory = self.chip.borrow().memory.next_event();
            let (core, next) = self.next_turns();
            match (memory, core) {
                (Some(due), core) if core.is_none_or(|(at, _)| due <= at) => {
                    self.pass_to(due)?;
                    let mut chip = self.chip.borrow_mut();
                    let Chip { memory, events, .. } = &mut *chip;
                    memory.advance(self.now, events);
                }
                (memory, Some((at, core))) => {
                    self.pass_to(at)?;
                    self.turns[core] = NEVER;
                    let horizon = next.into_iter().chain(memory).min();
                    self.take_turn(core, at, horizon.unwrap_or(at).max(at) + self.run_ahead);
                }
                (_, None) => return Err(SimError::Stuck(self.now)),
            }
            self.settle();
            if let Some(wrong) = self.chip.borrow_mut().wrong.take() {
                return Err(SimError::Corrupt(wrong));
            }
        }
        Ok(self.now.since(start))
    }

    /// Sets the clock to `at`, if that is later.
    fn pass_to(&mut self, at: Time) -> Result<(), SimError> {
        self.now = self.now.max(at);
        if self.now < LATEST { Ok(()) } else { Err(SimError::TooLong) }
    }

    /// The first core to continue, with its time, and the time of the core after it. Of several
    /// cores with equal times, the one with the lowest number is first.
    fn next_turns(&self) -> (Option<(Time, usize)>, Option<Time>) {
        // There are few cores, so looking at all is faster than a priority queue.
        let (mut first, mut second) = ((NEVER, 0), NEVER);
        for (&at, core) in self.turns.iter().zip(0..) {
            second = second.min(at.max(first.0));
            if at < first.0 {
                first = (at, core);
            }
        }
        ((first.0 < NEVER).then_some(first), (second < NEVER).then_some(second))
    }

    /// Runs `core` from `at` until its clock passes `limit` or it has nothing to run.
    fn take_turn(&mut self, core: usize, at: Time, limit: Time) {
        {
            let mut chip = self.chip.borrow_mut();
            let clock = &mut chip.cores[core];
            let waited = at.since(clock.now);
            clock.now = clock.now.max(at);
            clock.limit = limit;
            chip.waited = chip.waited.saturating_add(waited);
        }
        loop {
            let now = self.clock(core);
            if now > limit {
                return self.enqueue(core, now);
            }
            let Some(thread) = self.lanes[core].current.or_else(|| self.dispatch(core)) else {
                if let Some(next) = self.queue_of(core).map(|queue| queue.next) {
                    self.enqueue(core, next.max(now));
                }
                self.lanes[core].state = State::Idle;
                return;
            };
            match self.lanes[core].run(thread, &self.chip, core) {
                Leave::RanAhead => self.lanes[core].current = Some(thread),
                Leave::Done => self.finish(core, thread),
                Leave::Stalled | Leave::Held => {
                    let now = self.clock(core);
                    return self.lanes[core].block(thread, None, WaitsFor::Memory, now);
                }
                Leave::Missed(reply) => {
                    if self.missed(core, thread, reply) {
                        return;
                    }
                }
                Leave::Waits => {
                    let now = self.clock(core);
                    if self.switching.is_none() {
                        return self.lanes[core].block(thread, None, WaitsFor::Word, now);
                    }
                    self.lanes[core].halt(thread, WaitsFor::Word, now);
                }
            }
        }
    }

    /// Chooses what `core` runs next, and charges the switch.
    fn dispatch(&mut self, core: usize) -> Option<usize> {
        let now = self.clock(core);
        let arrival = self.queue_of(core).map(|queue| queue.next);
        let new_job = arrival.is_none_or(|next| next <= now);
        let lane = &mut self.lanes[core];
        match lane.choose(now, new_job)? {
            Chosen::Resume(thread) => {
                let mut chip = self.chip.borrow_mut();
                if let Some(switching) = &self.switching {
                    chip.cores[core].now += switching.switch_in;
                    chip.cores[core].progress = switching.forward_progress;
                }
                let resumed = chip.cores[core].now;
                chip.tell(core, thread, |missed| (missed.chosen, missed.resumed) = (now, resumed));
                Some(thread)
            }
            Chosen::Start(thread) => {
                lane.start(thread, self.next_job, arrival.unwrap_or(now), now);
                self.next_job += 1;
                if let Some(queue) = self.queue_of(core) {
                    queue.advance();
                }
                Some(thread)
            }
        }
    }

    fn finish(&mut self, core: usize, thread: usize) {
        let now = self.clock(core);
        let lane = &mut self.lanes[core];
        lane.current = None;
        let (service, response, waited) = lane.finish(thread, now);
        self.chip.borrow_mut().latencies.job(service, response, waited);
        self.completed += 1;
    }

    /// Handles a miss of `thread`. Returns whether it blocks the core.
    fn missed(&mut self, core: usize, thread: usize, reply: Time) -> bool {
        let mut chip = self.chip.borrow_mut();
        let clock = &mut chip.cores[core];
        clock.now = clock.now.max(reply);
        let must_progress = clock.progress || clock.brief;
        let lane = &mut self.lanes[core];
        match &self.switching {
            Some(switching) if !must_progress => {
                clock.now += switching.flush;
                let flushed = clock.now;
                lane.halt(thread, WaitsFor::Memory, flushed);
                clock.now += switching.switch_out;
                let left = clock.now;
                chip.tell(core, thread, |missed| (missed.flushed, missed.left) = (flushed, left));
                false
            }
            _ => {
                lane.block(thread, Some(clock.missed), WaitsFor::Memory, clock.now);
                true
            }
        }
    }

    /// Handles the events of memory and jobs.
    fn settle(&mut self) {
        std::mem::swap(&mut self.events, &mut self.chip.borrow_mut().events);
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                Event::Arrived(Waiter { slot: NOBODY, .. }, _)
                | Event::Unstalled(Waiter { slot: NOBODY, .. }, _) => {}
                Event::Arrived(waiter @ Waiter { slot: 1.., .. }, at) => {
                    let blocked = self.chip.borrow_mut().line_arrived(waiter, at);
                    if blocked {
                        self.go_on(waiter.core as usize, at);
                    }
                }
                Event::Arrived(waiter, at) => self.arrived(waiter, at),
                Event::Unstalled(Waiter { core, .. }, at) => self.unblock(core as usize, at),
                Event::Unmapped(page) => self.chip.borrow_mut().unmap(page),
                Event::Interrupted(by) => self.interrupted(by),
            }
        }
        self.events = events;
    }

    fn arrived(&mut self, waiter: Waiter, at: Time) {
        let (core, thread) = (waiter.core as usize, waiter.thread as usize);
        let lane = &mut self.lanes[core];
        if let Some(issued) = lane.arrived(thread, at) {
            let mut chip = self.chip.borrow_mut();
            chip.latencies.arrived(at.since(issued));
            chip.tell(core, thread, |missed| missed.arrived = at);
        }
        match lane.state {
            State::Blocked if lane.current == Some(thread) => {
                self.chip.borrow_mut().cores[core].granted.extend(lane.take_wanted(thread));
                self.unblock(core, at);
            }
            State::Idle => self.enqueue(core, at),
            _ => {}
        }
    }

    /// Charges the interrupt to every running core except `by`, which shot down translations. A
    /// waiting core handles it while it waits.
    fn interrupted(&mut self, by: Option<u32>) {
        let mut chip = self.chip.borrow_mut();
        for (core, lane) in self.lanes.iter().enumerate() {
            if by != Some(core as u32) && lane.state == State::Queued {
                chip.cores[core].now += self.interrupt;
            }
        }
    }

    /// Lets `core` continue at `at`. It was blocked for its miss registers or its store buffer.
    fn go_on(&mut self, core: usize, at: Time) {
        if let Some(thread) = self.lanes[core].current {
            self.lanes[core].arrived(thread, at);
        }
        self.unblock(core, at);
    }

    fn unblock(&mut self, core: usize, at: Time) {
        if self.lanes[core].state == State::Blocked {
            self.enqueue(core, at);
        }
    }

    /// Queues `core` for `at`, or for its clock if that is later. It then has no other turn.
    fn enqueue(&mut self, core: usize, at: Time) {
        let at = at.max(self.clock(core));
        let lane = &mut self.lanes[core];
        lane.state = State::Queued;
        self.turns[core] = at;
    }

    fn clock(&self, core: usize) -> Time {
        self.chip.borrow().cores[core].now
    }

    /// Runs up to `jobs` more jobs, until the journal has `enough` single misses. Returns the
    /// misses.
    ///
    /// # Errors
    /// As [`Machine::run`].
    pub(crate) fn run_noting(&mut self, jobs: u64, enough: usize) -> Result<Story, SimError> {
        {
            let mut chip = self.chip.borrow_mut();
            chip.journal = Some(Box::default());
            chip.memory.keep_notes(true);
        }
        let target = self.completed + jobs;
        let seen = |machine: &Machine| {
            machine.chip.borrow().journal.as_ref().map_or(0, |journal| journal.over.len())
        };
        while self.completed < target && seen(self) < enough {
            self.run(1)?;
        }
        let mut chip = self.chip.borrow_mut();
        let misses = chip.journal.take().map(|journal| journal.over).unwrap_or_default();
        let notes = chip.memory.keep_notes(false);
        Ok(Story { misses, notes })
    }

    /// The memory's counters since the last call of this or of
    /// [`take_measured`](Machine::take_measured). This call is far cheaper and resets nothing else.
    pub fn take_counters(&mut self) -> Counters {
        self.chip.borrow_mut().memory.take_counters()
    }

    /// The flash device's counters since the start, if there is a device.
    pub(crate) fn flash_counters(&self) -> Option<ebbtide_flash::Counters> {
        self.chip.borrow().memory.flash().map(|flash| *flash.counters())
    }

    /// Busy time of all planes of the flash device since the start, and their number.
    pub(crate) fn planes_busy(&self) -> (Span, u64) {
        let chip = self.chip.borrow();
        let planes = chip.memory.flash().into_iter().flat_map(|flash| flash.plane_busy());
        planes.fold((Span::ZERO, 0), |(busy, count), plane| (busy.saturating_add(plane), count + 1))
    }

    /// Accesses of jobs since the last call of this or of
    /// [`take_measured`](Machine::take_measured). This call resets nothing else.
    pub(crate) fn take_accesses(&mut self) -> u64 {
        std::mem::take(&mut self.chip.borrow_mut().accesses)
    }

    /// Everything that the machine measured since the last call.
    pub fn take_measured(&mut self) -> Measured {
        let mut chip = self.chip.borrow_mut();
        let latencies = std::mem::take(&mut chip.latencies);
        Measured {
            accesses: std::mem::take(&mut chip.accesses),
            page_walks: std::mem::take(&mut chip.walks),
            lines_written_back: chip.caches.take_written_back(),
            coherence: chip.caches.take_coherence(),
            waited: std::mem::take(&mut chip.waited),
            counters: chip.memory.take_counters(),
            flash: chip.memory.flash().map(|flash| *flash.counters()),
            drives: chip
                .memory
                .flash()
                .into_iter()
                .flat_map(|flash| flash.drive_counters())
                .collect(),
            lifetime: chip.memory.flash().and_then(|flash| flash.lifetime(self.now - Time::ZERO)),
            access: latencies.access(),
            device: latencies.device(),
            service: latencies.service(),
            service_parts: latencies.service_parts(),
            missed: std::mem::take(&mut chip.missed),
            response: latencies.response(),
        }
    }
}

/// Single misses over a part of a run.
pub(crate) struct Story {
    /// Their steps on their cores.
    pub(crate) misses: Vec<Missed>,
    /// Their stages in memory.
    pub(crate) notes: Vec<Noted>,
}

/// What a machine measured over a part of a run.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Accesses of jobs.
    pub accesses: u64,
    /// Accesses that no TLB translated.
    pub page_walks: u64,
    /// Dirty lines that left the last-level cache.
    pub lines_written_back: u64,
    /// Coherence of private caches.
    pub coherence: Coherence,
    /// Total time that cores waited for memory beyond the chip or for a job.
    pub waited: Span,
    /// Counters of the memory side.
    pub counters: Counters,
    /// Counters of the flash device since the start, if there is one.
    pub flash: Option<ebbtide_flash::Counters>,
    /// Counters of each drive since the start. Empty without a modelled SSD.
    pub drives: Vec<ebbtide_flash::DriveCounters>,
    /// Lifetime of the flash at its write rate since the start.
    pub lifetime: Option<ebbtide_flash::Lifetime>,
    /// Latency of accesses that left the chip.
    pub access: Distribution,
    /// The part of that latency in memory.
    pub device: Distribution,
    /// Service time of jobs, from their start.
    pub service: Distribution,
    /// The parts of the service time.
    pub service_parts: ServiceParts,
    /// Accesses that missed.
    pub missed: MissedAccesses,
    /// Response time of jobs, from their arrival.
    pub response: Distribution,
}
