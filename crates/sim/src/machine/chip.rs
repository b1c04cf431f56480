//! [`Chip`]: the clocks of the cores, and the path of an access to memory.

use std::ops::Range;

use ebbtide_core::{Addr, Archive, LINE_BYTES, PAGE_BYTES, PageId, Span, Time};
use ebbtide_trace::LineId;
use ebbtide_workloads::Corrupt;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::WORK_UNITS;
use super::journal::{Journal, Missed};
use super::latency::Latencies;
use super::window::Window;
use crate::config::{Config, ConfigError, PageTables};
use crate::contents::Contents;
use crate::hierarchy::{Caches, Looked, PageTable, Tlb, Translation};
use crate::memory_side::{Answer, Event, MemorySide, NOBODY, Request, Waiter};

/// The state that all accesses of jobs pass through.
pub(crate) struct Chip {
    timing: Timing,
    /// Total time that a job computes between its accesses.
    pub(crate) work: Span,
    pub(crate) contents: Contents,
    pub(crate) cores: Vec<Core>,
    pub(crate) caches: Caches,
    pub(crate) memory: Box<dyn MemorySide>,
    /// Events of memory and jobs that the machine has not handled yet.
    pub(crate) events: Vec<Event>,
    /// Threads that wait for a word to change.
    parked: FxHashMap<Addr, Vec<Waiter>>,
    pub(crate) accesses: u64,
    /// Walks of page tables.
    pub(crate) walks: u64,
    /// Total time that cores waited for memory or for a job.
    pub(crate) waited: Span,
    pub(crate) missed: MissedAccesses,
    pub(crate) latencies: Latencies,
    /// The first job that read something wrong.
    pub(crate) wrong: Option<Corrupt>,
    /// The journal of single misses, if one is kept.
    pub(crate) journal: Option<Box<Journal>>,
    page_tables: PageTables,
    page_table: PageTable,
    /// Pages whose stores are flushed one by one.
    durable: Range<PageId>,
    /// Which accesses go past an absent page.
    past: Past,
    /// Whether a miss is a fault. A page that leaves memory then takes its lines on the chip with
    /// it.
    faults: bool,
    /// Buffer for pages that left.
    left: Vec<PageId>,
}

/// An operation on a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// A load.
    Load,
    /// A store, through the store buffer: the core goes on.
    Store,
    /// A compare-and-exchange: a store whose outcome the core needs, like the outcome of a load. It
    /// waits for all stores before it.
    Exchange,
    /// A load of a batch. No other load of the batch depends on it.
    Batched,
}

impl Op {
    /// Whether it needs to own the line.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Op::Store | Op::Exchange)
    }

    /// Whether the job needs its outcome.
    fn is_awaited(self) -> bool {
        matches!(self, Op::Load | Op::Exchange)
    }
}

/// Which accesses of a core go past an absent page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past {
    /// Stores and the loads of a batch: the core waits for memory.
    Batches,
    /// Stores: a load switches threads if its page takes long.
    Stores,
    /// None: each miss switches threads.
    Nothing,
}

/// The clock and the translations of a core.
pub(crate) struct Core {
    pub(crate) now: Time,
    /// The running job leaves its fiber when the clock passes this.
    pub(crate) limit: Time,
    /// AstriFlash's forward-progress bit: the repeated access must complete now (§IV-C3).
    pub(crate) progress: bool,
    /// Whether the page of the last miss is expected soon.
    pub(crate) brief: bool,
    /// The page of the last miss.
    pub(crate) missed: PageId,
    /// The pages that the core waited for and that have arrived: those of a walk, and the page of
    /// the access. The repeated access gets their lines even if they were evicted since, perhaps
    /// by each other, so that a blocked core makes progress (AstriFlash §IV-C3).
    pub(crate) granted: Vec<PageId>,
    /// When the access that is being repeated was first issued.
    pub(crate) issued: Option<Time>,
    /// When the current access began.
    begun: Time,
    /// When the last access that missed was complete.
    done: Time,
    tlb: Tlb,
    window: Window,
}

/// Accesses that missed, with upper bounds of the accesses that a core could have overlapped.
/// AstriFlash's cores (Table I) have 128 entries in the reorder buffer and 32 in the store buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MissedAccesses {
    /// Loads and exchanges. The core needs their outcome.
    pub loads: u64,
    /// Loads that began within a reorder buffer of the end of the last miss. They could have
    /// overlapped with it unless they depended on it. Only counted on cores that run one job at a
    /// time.
    pub loads_close: u64,
    /// Stores, which a store buffer could hold.
    pub stores: u64,
}

/// A line that arrives at the chip.
struct Ready {
    at: Time,
    /// Whether a store has carried its data to memory.
    posted: bool,
}

struct Timing {
    instruction: Span,
    cycle: Span,
    hidden: Span,
    tlb_second: Span,
}

/// The outcome of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The access is complete at the core's clock.
    Done,
    /// The page is absent, and the core learns that at this time.
    Missed(Time),
    /// Memory accepts no access now.
    Stalled,
    /// The core's miss registers or its store buffer accept no access now.
    Held,
}

impl Chip {
    /// The chip of `config` over `memory`. The accesses `past` go past an absent page, unless
    /// memory faults.
    pub(crate) fn new(
        config: &Config,
        contents: Contents,
        memory: Box<dyn MemorySide>,
        past: Past,
    ) -> Result<Chip, ConfigError> {
        let count = config.cores.count;
        let pages = contents.size_bytes() / PAGE_BYTES as u64;
        let cycles = |count| config.cores.cycles(count);
        let cycle = cycles(1);
        let (capabilities, window) = (memory.capabilities(), Window::new(&config.cores));
        let core = || {
            Ok(Core {
                now: Time::ZERO,
                limit: Time::ZERO,
                progress: false,
                brief: false,
                missed: PageId(0),
                granted: Vec::new(),
                issued: None,
                begun: Time::ZERO,
                done: Time::ZERO,
                tlb: Tlb::new(&config.tlb)?,
                window: Window::new(&config.cores),
            })
        };
        Ok(Chip {
            timing: Timing {
                instruction: Span::from_ps(cycle.as_ps() / config.cores.width),
                cycle,
                hidden: Span::from_ps(
                    cycles(config.cores.rob_entries).as_ps() / config.cores.width,
                ),
                tlb_second: cycles(config.tlb.l2_latency_cycles),
            },
            work: Span::ZERO,
            page_table: PageTable::new(pages, config.tlb.walk_levels),
            contents,
            cores: (0..count).map(|_| core()).collect::<Result<_, ConfigError>>()?,
            caches: Caches::new(config)?,
            past: if capabilities.faults || !window.buffers() { Past::Nothing } else { past },
            faults: capabilities.faults,
            left: Vec::new(),
            durable: capabilities.durable,
            memory,
            events: Vec::new(),
            parked: FxHashMap::default(),
            accesses: 0,
            walks: 0,
            waited: Span::ZERO,
            missed: MissedAccesses::default(),
            latencies: Latencies::default(),
            wrong: None,
            journal: None,
            page_tables: config.tlb.page_tables,
        })
    }

    /// Computes for `instructions` of a job's [`WORK_UNITS`].
    #[inline]
    pub(crate) fn work(&mut self, core: usize, instructions: u64) {
        let share = u128::from(instructions) * u128::from(self.work.as_ps());
        self.cores[core].now += Span::from_ps((share / u128::from(WORK_UNITS)) as u64);
    }

    /// Does `op` on `words` of a line, one bit each.
    #[inline]
    pub(crate) fn reach(&mut self, request: Request, op: Op, words: u8) -> Reach {
        let Request { page, write, waiter, .. } = request;
        let request = Request { keeps: self.keeps(page), ..request };
        let number = waiter.core as usize;
        if write && self.cores[number].window.is_storing() && !self.makes_room(number, op) {
            return Reach::Held;
        }
        let core = &mut self.cores[number];
        let begun = core.now;
        if core.issued.is_none() {
            core.begun = begun;
        }
        core.now += self.timing.instruction;
        match core.tlb.look_up(page) {
            Translation::First => {}
            Translation::Second => core.now += self.timing.tlb_second,
            Translation::Walk => match self.walk(waiter, page) {
                Reach::Done => {}
                missed => {
                    self.cores[number].tlb.forget(page);
                    return missed;
                }
            },
        }
        let core = &mut self.cores[number];
        let line = request.line_id();
        if write && self.durable.contains(&page) {
            // A store and the flush of its line. The private cache keeps a clean copy if it has
            // one.
            let start = core.now;
            if let Err(reach) = self.ask(request, start, start) {
                return reach;
            }
            self.caches.store_past(number, line);
        } else if let Some(was_dirty) = self.caches.touch(number, line, write) {
            if write && !was_dirty {
                self.memory.dirtied(page);
                let alone = self.caches.own(number, line);
                self.wait(number, op, self.cores[number].now + self.span(alone));
            } else if write && self.cores[number].window.is_storing() {
                // It leaves the buffer after the stores before it.
                let core = &mut self.cores[number];
                core.window.store(core.now, core.now);
            }
            if !write && let Some(ready) = self.still_coming(number, line, words) {
                self.wait(number, op, ready);
            }
        } else {
            match self.fetch(line, request, op, (words, begun)) {
                Reach::Done => {}
                missed => return missed,
            }
        }
        let core = &mut self.cores[number];
        core.progress = false;
        self.accesses += 1;
        if let Some(issued) = core.issued.take() {
            core.granted.clear();
            self.latencies.missed(core.now - issued);
            if op.is_awaited() {
                self.missed.loads += 1;
                let close = core.begun.since(core.done) <= self.timing.hidden;
                self.missed.loads_close += u64::from(close);
            } else {
                self.missed.stores += 1;
            }
            core.done = core.now;
            if let Some(journal) = &mut self.journal {
                journal.end(waiter, core.now);
            }
        }
        Reach::Done
    }

    /// Whether stores to `page` stay on the chip until their lines leave it.
    #[inline]
    fn keeps(&self, page: PageId) -> bool {
        !self.faults && !self.durable.contains(&page)
    }

    /// When `words` of a line in the private cache of `core` really arrive, if they are still in
    /// flight.
    #[inline]
    fn still_coming(&self, core: usize, line: LineId, words: u8) -> Option<Time> {
        let core = &self.cores[core];
        core.window.arrival(line, words, core.now)
    }

    /// Drains stores from the buffer of `core`. A store needs room for one entry, an exchange an
    /// empty buffer. Returns whether that is possible without an absent page.
    fn makes_room(&mut self, core: usize, op: Op) -> bool {
        let Core { now, window, .. } = &mut self.cores[core];
        loop {
            let from = match op {
                Op::Exchange => window.drained(*now),
                _ => window.room(*now),
            };
            match from {
                Some(at) if at <= *now => return true,
                Some(at) => *now = at,
                None => return false,
            }
        }
    }

    /// Fetches a line that is not in the private cache, and puts it there. The access to `words` of
    /// the line began at `begun`.
    fn fetch(
        &mut self,
        line: LineId,
        mut request: Request,
        op: Op,
        (words, begun): (u8, Time),
    ) -> Reach {
        let Request { page, write, waiter: Waiter { core, .. }, .. } = request;
        let number = core as usize;
        let window = &mut self.cores[number].window;
        if window.is_missing() {
            let joined = match op {
                Op::Load => window.forwards(line, words),
                Op::Batched => window.forwards(line, words) || window.shares(line),
                Op::Store => window.joins(line, words),
                Op::Exchange => false,
            };
            if joined {
                return Reach::Done;
            }
        }
        let start = self.cores[number].now;
        let Looked { found, cycles } = self.caches.look(number, line);
        let looked = start + self.span(cycles);
        let mut is_kept = true;
        let ready = if found {
            // A line that was fetched ahead may still be in flight.
            self.cores[number].window.arrival(line, words, looked).unwrap_or(looked)
        } else {
            let goes_past = match self.past {
                Past::Batches => !op.is_awaited(),
                Past::Stores => op == Op::Store,
                Past::Nothing => false,
            };
            let mut start = start;
            if !op.is_awaited() {
                let Core { now, window, .. } = &mut self.cores[number];
                loop {
                    match window.register_from(*now) {
                        Some(at) if at <= *now => break,
                        Some(at) => *now = at,
                        None => return Reach::Held,
                    }
                }
                start = *now;
                if goes_past {
                    request.waiter = window.waiter(request.waiter);
                }
            }
            let looked = start + self.span(cycles);
            match self.ask(request, start, looked) {
                Ok(Ready { at: ready, posted }) => {
                    is_kept = !posted;
                    self.latencies.hit(ready - start, ready - looked);
                    self.caches.bring(line);
                    if !op.is_awaited() {
                        let words = if write { words } else { 0 };
                        self.cores[number].window.comes(line, ready, words);
                    }
                    ready
                }
                Err(Reach::Missed(_)) if goes_past => {
                    let core = &mut self.cores[number];
                    let issued = core.issued.take().unwrap_or(start);
                    core.window.hold(request, write.then_some(words), issued);
                    if write {
                        self.missed.stores += 1;
                    } else {
                        self.missed.loads += 1;
                    }
                    return Reach::Done;
                }
                Err(reach) => {
                    if let (Reach::Missed(reply), Some(journal)) = (reach, &mut self.journal) {
                        journal.begin(Missed::new(request, [begun, start, looked, reply]));
                    }
                    return reach;
                }
            }
        };
        if write && found {
            self.memory.dirtied(page);
        }
        let alone = self.caches.fill(number, line, write);
        if !is_kept {
            self.caches.clean(number, line);
        }
        self.wait(number, op, ready.max(looked + self.span(alone)));
        self.fetch_ahead(request, start);
        self.write_back(number);
        Reach::Done
    }

    /// Fetches the lines that the core's prefetcher expects after an access to the line of
    /// `request` at `now`, if they are not on the chip. They enter the last level.
    fn fetch_ahead(&mut self, request: Request, now: Time) {
        let Request { page, waiter, .. } = request;
        let number = waiter.core as usize;
        let ahead = self.cores[number].window.streamed(now, page, request.line);
        for (asked, line) in (0..).zip(ahead.lines()) {
            let waiter = Waiter { slot: NOBODY, ..waiter };
            let wanted = Request { line, write: false, waiter, ..request };
            let line = wanted.line_id();
            if self.caches.is_on_chip(number, line) {
                continue;
            }
            let Answer::Hit(ready) = self.enter_memory(wanted, now) else {
                return self.cores[number].window.not_streamed(ahead, asked);
            };
            self.caches.bring(line);
            self.cores[number].window.comes(line, ready, 0);
        }
    }

    /// Ends the batch of `core`. Every load of it has its line, at the core's clock.
    pub(crate) fn end_batch(&mut self, core: usize) -> Reach {
        let Some(ready) = self.cores[core].window.batch_over() else { return Reach::Held };
        self.wait(core, Op::Load, ready);
        Reach::Done
    }

    /// Requests the pages of loads that were in flight when another load of their batch missed. The
    /// core drops these loads and repeats them.
    pub(crate) fn asked_already(&mut self, core: usize, requests: impl Iterator<Item = Request>) {
        // The load that missed has a register itself.
        let others = self.cores[core].window.registers().saturating_sub(1);
        if self.faults {
            return;
        }
        for request in requests.take(others) {
            let waiter = Waiter { slot: NOBODY, ..request.waiter };
            if !self.caches.is_on_chip(core, request.line_id()) {
                let now = self.cores[core].now;
                self.enter_memory(Request { waiter, ..request }, now);
            }
        }
    }

    /// Handles the arrival at `at` of the page that the register of `waiter` waits for. Returns
    /// whether the core was blocked for it.
    pub(crate) fn line_arrived(&mut self, waiter: Waiter, at: Time) -> bool {
        let number = waiter.core as usize;
        let Some(register) = self.cores[number].window.register(waiter.slot) else { return false };
        let (request, issued) = (register.request, register.issued);
        let Request { page, write, .. } = request;
        let line = request.line_id();
        let ready = self.memory.flat(at, page);
        match self.caches.touch(number, line, write) {
            Some(true) => {}
            Some(false) if write => {
                self.caches.own(number, line);
            }
            Some(false) => {}
            None => {
                self.caches.install_in_llc(line, false);
                self.caches.fill(number, line, write);
            }
        }
        self.write_back(number);
        self.latencies.arrived(at.since(issued));
        self.latencies.missed(ready.since(issued));
        let window = &mut self.cores[number].window;
        window.arrived(waiter.slot, ready);
        window.is_over()
    }

    /// Makes `core` wait for its line, which arrives at `ready`. The core does not wait for a
    /// store, because the store leaves through the store buffer. The reorder buffer hides a part of
    /// any other wait.
    #[inline]
    fn wait(&mut self, core: usize, op: Op, ready: Time) {
        let core = &mut self.cores[core];
        match op {
            Op::Store => core.window.store(core.now, ready),
            Op::Batched => core.window.loads_until(ready),
            Op::Load | Op::Exchange => {
                let hidden = self.timing.hidden.as_ps();
                core.now = core.now.max(Time::from_ps(ready.as_ps().saturating_sub(hidden)));
            }
        }
    }

    /// The time of `cycles` cycles.
    #[inline]
    fn span(&self, cycles: u64) -> Span {
        Span::from_ps(cycles * self.timing.cycle.as_ps())
    }

    /// Fetches the page-table entries of `page` one after another. The core hides none of that
    /// time.
    #[cold]
    fn walk(&mut self, waiter: Waiter, page: PageId) -> Reach {
        let number = waiter.core as usize;
        self.walks += 1;
        for level in (0..self.page_table.levels()).rev() {
            let entry = self.page_table.entry(level, page);
            let line = entry.0 / LINE_BYTES as u64;
            let start = self.cores[number].now;
            let Looked { found, cycles } = self.caches.look_in_llc(number, line);
            let looked = start + self.span(cycles);
            let ready = if found {
                looked
            } else {
                let ready = match self.page_tables {
                    PageTables::Flat => self.memory.flat(looked, entry.page()),
                    PageTables::Cached => {
                        match self.ask(Request::new(entry, false, waiter), start, looked) {
                            Ok(ready) => ready.at,
                            Err(reach) => return reach,
                        }
                    }
                };
                self.caches.bring(line);
                self.write_back(number);
                ready
            };
            self.cores[number].now = ready;
        }
        Reach::Done
    }

    /// Requests from memory a line that the chip does not hold, as known at `looked`. The access
    /// was issued at `start`. Returns when the line arrives, or the outcome of the access if it
    /// does not.
    fn ask(&mut self, request: Request, start: Time, looked: Time) -> Result<Ready, Reach> {
        let answer = self.memory_access(request, looked);
        let reach = match answer {
            Answer::Hit(at) => return Ok(Ready { at, posted: false }),
            Answer::Posted(at) => return Ok(Ready { at, posted: true }),
            Answer::Miss(reply) | Answer::Brief(reply) => Reach::Missed(reply),
            Answer::Stalled => Reach::Stalled,
        };
        let core = &mut self.cores[request.waiter.core as usize];
        core.issued.get_or_insert(start);
        core.brief = matches!(answer, Answer::Brief(_));
        Err(reach)
    }

    fn memory_access(&mut self, request: Request, at: Time) -> Answer {
        let core = &mut self.cores[request.waiter.core as usize];
        if core.granted.contains(&request.page) {
            if request.write {
                self.memory.dirtied(request.page);
            }
            return Answer::Hit(self.memory.flat(at, request.page));
        }
        core.missed = request.page;
        self.enter_memory(request, at)
    }

    /// Sends `request` to memory, which first handles its events up to then.
    fn enter_memory(&mut self, request: Request, at: Time) -> Answer {
        self.advance_memory(at);
        let answer = self.memory.access(at, request);
        self.drop_left();
        let core = &mut self.cores[request.waiter.core as usize];
        if let Answer::Posted(until) = answer {
            core.now = core.now.max(until);
        }
        answer
    }

    fn advance_memory(&mut self, at: Time) {
        if self.memory.next_event().is_some_and(|due| due <= at) {
            self.memory.advance(at, &mut self.events);
        }
    }

    /// Writes the dirty lines that left the chip back to memory. Fetches of `core` evicted them.
    #[inline]
    fn write_back(&mut self, core: usize) {
        while let Some(line) = self.caches.take_leaving() {
            let at = self.cores[core].now;
            self.advance_memory(at);
            self.memory.write_back(at, written_back(core, line));
        }
    }

    /// Drops the lines of pages that left memory. The lines left with them.
    #[inline]
    fn drop_left(&mut self) {
        if self.faults {
            self.memory.take_left(&mut self.left);
            self.left.drain(..).for_each(|page| self.caches.drop_page(page));
        }
    }

    /// Does an untimed access that fills every cache on its way.
    pub(crate) fn warm(&mut self, request: Request) {
        let Request { page, write, waiter, .. } = request;
        let request = Request { keeps: self.keeps(page), ..request };
        let number = waiter.core as usize;
        let core = &mut self.cores[number];
        if core.tlb.look_up(page) == Translation::Walk && self.page_tables == PageTables::Cached {
            for level in (0..self.page_table.levels()).rev() {
                let entry = self.page_table.entry(level, page);
                self.memory.warm(Request::new(entry, false, waiter));
            }
        }
        let line = request.line_id();
        if write && self.durable.contains(&page) {
            self.caches.store_past(number, line);
            return self.memory.warm(request);
        }
        if let Some(was_dirty) = self.caches.touch(number, line, write) {
            if write && !was_dirty {
                self.memory.dirtied(page);
                self.caches.own(number, line);
            }
            return;
        }
        if !self.caches.look(number, line).found {
            self.caches.bring(line);
            self.memory.warm(request);
        } else if write {
            self.memory.dirtied(page);
        }
        self.drop_left();
        self.caches.fill(number, line, write);
        while let Some(line) = self.caches.take_leaving() {
            self.memory.warm_back(written_back(number, line));
        }
    }

    /// Saves all state that a warm-up changes to `archive`, or restores it from there. Restoring
    /// needs a chip that warms up in the same way.
    pub(crate) fn state(&mut self, archive: &mut Archive<'_>) {
        self.memory.state(archive);
        self.own_state(archive);
    }

    /// Whether untimed jobs leave the chip as they would over DRAM: memory takes no line from it.
    pub(crate) fn warms_as_in_dram(&self) -> bool {
        !self.faults && self.durable.is_empty()
    }

    /// The same without the state of memory.
    pub(crate) fn own_state(&mut self, archive: &mut Archive<'_>) {
        self.contents.state(archive);
        archive.part(&mut self.caches);
        for core in &mut self.cores {
            archive.part(&mut core.tlb);
        }
    }

    /// Calls `enter` on the journal's entry of a thread's current miss, if there is one.
    pub(crate) fn tell(&mut self, core: usize, thread: usize, enter: impl FnOnce(&mut Missed)) {
        if let Some(journal) = &mut self.journal {
            let waiter = Waiter { core: core as u32, thread: thread as u32, slot: 0 };
            if let Some(missed) = journal.of(waiter) {
                enter(missed);
            }
        }
    }

    /// Parks the thread until the word at `at` changes.
    pub(crate) fn park(&mut self, waiter: Waiter, at: Addr) {
        self.parked.entry(at).or_default().push(waiter);
    }

    /// Wakes every thread that waits for the word at `at`.
    pub(crate) fn wake(&mut self, core: usize, at: Addr) {
        let now = self.cores[core].now;
        for waiter in self.parked.remove(&at).unwrap_or_default() {
            self.events.push(Event::Arrived(waiter, now));
        }
    }

    /// A job of `core` announces that it will need `page` soon.
    pub(crate) fn hint(&mut self, core: usize, page: PageId) {
        let now = self.cores[core].now;
        if page.0 < self.contents.size_bytes() / PAGE_BYTES as u64 {
            self.cores[core].now = self.memory.hint(now, page).max(now);
            self.drop_left();
        }
    }

    /// Drops all translations of `page`.
    pub(crate) fn unmap(&mut self, page: PageId) {
        self.cores.iter_mut().for_each(|core| core.tlb.forget(page));
    }
}

/// The request for the write-back of `line` by `core`.
fn written_back(core: usize, line: LineId) -> Request {
    let waiter = Waiter { core: core as u32, thread: 0, slot: NOBODY };
    Request::new(Addr(line * LINE_BYTES as u64), true, waiter)
}
