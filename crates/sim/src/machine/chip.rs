//! [`Chip`]: cores' clocks and everything an access meets on its way to memory.

use std::ops::Range;

use ebbtide_core::{Addr, LINE_BYTES, LineCache, PAGE_BYTES, PageId, Span, Time, Writeback};
use ebbtide_workloads::Wrong;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::WORK_UNITS;
use super::journal::{Journal, Missed};
use super::latency::Latencies;
use crate::config::{Cache, Config, ConfigError, PageTables};
use crate::contents::Contents;
use crate::hierarchy::{Noc, PageTable, Tlb, Translation};
use crate::memory_side::{Answer, Event, MemorySide, Request, Residency, Waiter};

/// The state that every job's accesses go through.
pub(crate) struct Chip {
    timing: Timing,
    /// What a job computes between its accesses, in all.
    pub(crate) work: Span,
    pub(crate) contents: Contents,
    pub(crate) cores: Vec<Core>,
    slices: Vec<LineCache>,
    noc: Noc,
    pub(crate) memory: Box<dyn MemorySide>,
    /// What memory and jobs told and the machine has not seen yet.
    pub(crate) events: Vec<Event>,
    /// Threads that wait for a word to change.
    parked: FxHashMap<Addr, Vec<Waiter>>,
    pub(crate) accesses: u64,
    /// Written lines that left the last-level cache.
    pub(crate) lines_written_back: u64,
    /// Time that cores waited for memory or for a job, in all.
    pub(crate) waited: Span,
    pub(crate) missed: MissedAccesses,
    pub(crate) latencies: Latencies,
    /// The first job that read something wrong.
    pub(crate) wrong: Option<Wrong>,
    /// Of misses, while somebody wants to know.
    pub(crate) journal: Option<Box<Journal>>,
    page_tables: PageTables,
    page_table: PageTable,
    /// Pages whose stores are flushed one by one.
    durable: Range<PageId>,
    controllers: usize,
}

/// A core's clock and private caches.
pub(crate) struct Core {
    pub(crate) now: Time,
    /// The running job leaves its fiber when the clock passes this.
    pub(crate) limit: Time,
    /// AstriFlash's forward-progress bit: the access that was missed must complete now.
    pub(crate) progress: bool,
    /// The page of the last miss.
    pub(crate) missed: PageId,
    /// The page that the core waited for has come, and this access gets its line whatever became
    /// of it since: so a core that waits makes progress (AstriFlash §IV-C3).
    pub(crate) granted: Option<PageId>,
    /// When the access that is being repeated was first issued.
    pub(crate) issued: Option<Time>,
    /// When the core began with the last access that missed, and when its line was there.
    begun: Time,
    done: Time,
    l1: LineCache,
    tlb: Tlb,
}

/// Accesses whose page had to come first, as far as a core that blocks could have hidden that: what a
/// core of AstriFlash's could overlap at most (SPEC A1: 128 entries to reorder, 32 in the store
/// buffer).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MissedAccesses {
    /// Loads.
    pub loads: u64,
    /// Of these, such as began within a reorder buffer of the last miss's end, and could have been
    /// under way beside it if they did not depend on it. Only of cores that run one job at a time.
    pub loads_close: u64,
    /// Stores, which a store buffer could take.
    pub stores: u64,
}

/// What accesses in no time brought about.
pub(crate) struct Warmth {
    residency: Residency,
    contents: Contents,
    private: Vec<(LineCache, Tlb)>,
    slices: Vec<LineCache>,
}

struct Timing {
    instruction: Span,
    cycle: Span,
    hidden: Span,
    llc_cycles: u64,
    tlb_second: Span,
}

/// How an access ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The line is there; the clock says when.
    Done,
    /// The page is not in memory, as the core learns at this time.
    Missed(Time),
    /// Memory takes no access now.
    Stalled,
}

impl Chip {
    pub(crate) fn new(
        config: &Config,
        contents: Contents,
        memory: Box<dyn MemorySide>,
    ) -> Result<Chip, ConfigError> {
        let count = config.cores.count;
        let pages = contents.size_bytes() / PAGE_BYTES as u64;
        let cycles = |count| config.cores.cycles(count);
        let cycle = cycles(1);
        let core = || {
            Ok(Core {
                now: Time::ZERO,
                limit: Time::ZERO,
                progress: false,
                missed: PageId(0),
                granted: None,
                issued: None,
                begun: Time::ZERO,
                done: Time::ZERO,
                l1: tags(&config.l1, 1, "l1.size")?,
                tlb: Tlb::new(&config.tlb)?,
            })
        };
        let slice = tags(&config.llc, count, "llc.size")?;
        Ok(Chip {
            timing: Timing {
                instruction: Span::from_ps(cycle.as_ps() / config.cores.width),
                cycle,
                hidden: Span::from_ps(
                    cycles(config.cores.rob_entries).as_ps() / config.cores.width,
                ),
                llc_cycles: config.l1.latency_cycles + config.llc.latency_cycles,
                tlb_second: cycles(config.tlb.l2_latency_cycles),
            },
            work: Span::ZERO,
            page_table: PageTable::new(pages, config.tlb.walk_levels),
            contents,
            cores: (0..count).map(|_| core()).collect::<Result<_, ConfigError>>()?,
            slices: vec![slice; count],
            noc: Noc::new(&config.noc, count),
            durable: memory.durable(),
            memory,
            events: Vec::new(),
            parked: FxHashMap::default(),
            accesses: 0,
            lines_written_back: 0,
            waited: Span::ZERO,
            missed: MissedAccesses::default(),
            latencies: Latencies::default(),
            wrong: None,
            journal: None,
            page_tables: config.tlb.page_tables,
            controllers: config.dram.controllers,
        })
    }

    /// Computes for `instructions` of the [`WORK_UNITS`] that a job has.
    #[inline]
    pub(crate) fn work(&mut self, core: usize, instructions: u64) {
        let share = u128::from(instructions) * u128::from(self.work.as_ps());
        self.cores[core].now += Span::from_ps((share / u128::from(WORK_UNITS)) as u64);
    }

    /// Reaches for a line.
    #[inline]
    pub(crate) fn reach(&mut self, request: Request) -> Reach {
        let Request { page, write, waiter, .. } = request;
        let number = waiter.core as usize;
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
        let line = line_of(request);
        if write && self.durable.contains(&page) {
            // A store and the flush of its line: the caches keep what they have of it, unwritten.
            let start = core.now;
            if let Err(reach) = self.ask(request, start, start) {
                return reach;
            }
        } else if let Some(was_dirty) = core.l1.touch(line, write) {
            if write && !was_dirty {
                self.memory.dirtied(page);
            }
        } else {
            match self.fetch(line, request, begun) {
                Reach::Done => {}
                missed => return missed,
            }
        }
        let core = &mut self.cores[number];
        core.progress = false;
        self.accesses += 1;
        if let Some(issued) = core.issued.take() {
            self.latencies.missed(core.now - issued);
            if write {
                self.missed.stores += 1;
            } else {
                self.missed.loads += 1;
                let close = core.begun.since(core.done) <= self.timing.hidden;
                self.missed.loads_close += u64::from(close);
            }
            core.done = core.now;
            if let Some(journal) = &mut self.journal {
                journal.end(waiter, core.now);
            }
        }
        Reach::Done
    }

    /// Reaches for a line that the core's own cache does not hold, and puts it there.
    /// The core began with the access at `begun`.
    fn fetch(&mut self, line: u64, request: Request, begun: Time) -> Reach {
        let Request { page, write, waiter: Waiter { core, .. }, .. } = request;
        let number = core as usize;
        let start = self.cores[number].now;
        let (found, looked) = self.look_in_llc(number, line, start);
        let ready = if found {
            looked
        } else {
            match self.ask(request, start, looked) {
                Ok(ready) => {
                    self.latencies.hit(ready - start, ready - looked);
                    self.install_in_llc(line, false);
                    ready
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
        // A store leaves through the store buffer; a load is hidden for as long as the reorder
        // buffer takes to fill.
        if !write {
            let core = &mut self.cores[number];
            core.now = core
                .now
                .max(Time::from_ps(ready.as_ps().saturating_sub(self.timing.hidden.as_ps())));
        }
        if let Some(Writeback(old)) = self.cores[number].l1.install(line, write) {
            self.install_in_llc(old, true);
        }
        Reach::Done
    }

    /// Fetches the page-table entries of `page` one after the other, which nothing hides.
    #[cold]
    fn walk(&mut self, waiter: Waiter, page: PageId) -> Reach {
        let number = waiter.core as usize;
        for level in (0..self.page_table.levels()).rev() {
            let entry = self.page_table.entry(level, page);
            let line = entry.0 / LINE_BYTES as u64;
            let start = self.cores[number].now;
            let (found, looked) = self.look_in_llc(number, line, start);
            let ready = if found {
                looked
            } else {
                let ready = match self.page_tables {
                    PageTables::Flat => self.memory.flat(looked, entry.page()),
                    PageTables::Cached => {
                        match self.ask(Request::new(entry, false, waiter), start, looked) {
                            Ok(ready) => ready,
                            Err(reach) => return reach,
                        }
                    }
                };
                self.install_in_llc(line, false);
                ready
            };
            self.cores[number].now = ready;
        }
        Reach::Done
    }

    /// Asks memory for a line that no cache on the chip has, as was learned at `looked`; the access
    /// was issued at `start`. Gives when the line is there, or how the access ends instead.
    fn ask(&mut self, request: Request, start: Time, looked: Time) -> Result<Time, Reach> {
        let reach = match self.memory_access(request, looked) {
            Answer::Hit(ready) | Answer::Posted(ready) => return Ok(ready),
            Answer::Miss(reply) => Reach::Missed(reply),
            Answer::Stalled => Reach::Stalled,
        };
        self.cores[request.waiter.core as usize].issued.get_or_insert(start);
        Err(reach)
    }

    fn memory_access(&mut self, request: Request, at: Time) -> Answer {
        if self.memory.next_event().is_some_and(|due| due <= at) {
            self.memory.advance(at, &mut self.events);
        }
        let core = &mut self.cores[request.waiter.core as usize];
        if core.granted.take() == Some(request.page) {
            if request.write {
                self.memory.dirtied(request.page);
            }
            return Answer::Hit(self.memory.flat(at, request.page));
        }
        core.missed = request.page;
        let answer = self.memory.access(at, request);
        if let Answer::Posted(until) = answer {
            core.now = core.now.max(until);
        }
        answer
    }

    /// Whether the line's slice holds it, and when that is known at the core.
    #[inline]
    fn look_in_llc(&mut self, core: usize, line: u64, start: Time) -> (bool, Time) {
        let home = self.noc.home(line);
        let found = self.slices[home].touch(line, false).is_some();
        let mut cycles = self.timing.llc_cycles + self.noc.round_trip_cycles(core, home);
        if !found {
            let controller = (line * LINE_BYTES as u64 / PAGE_BYTES as u64) as usize;
            let tile = self.noc.controller_tile(controller % self.controllers);
            cycles += self.noc.round_trip_cycles(home, tile);
        }
        (found, start + Span::from_ps(cycles * self.timing.cycle.as_ps()))
    }

    /// Lines that leave the last-level cache written were reported when they were: memory knows.
    fn install_in_llc(&mut self, line: u64, dirty: bool) {
        let slice = &mut self.slices[self.noc.home(line)];
        if slice.touch(line, dirty).is_none() && slice.install(line, dirty).is_some() {
            self.lines_written_back += 1;
        }
    }

    /// An access in no time, which fills every cache on its way.
    pub(crate) fn warm(&mut self, request: Request) {
        let Request { page, write, waiter, .. } = request;
        let number = waiter.core as usize;
        let core = &mut self.cores[number];
        if core.tlb.look_up(page) == Translation::Walk && self.page_tables == PageTables::Cached {
            for level in (0..self.page_table.levels()).rev() {
                let entry = self.page_table.entry(level, page);
                self.memory.warm_line(Request::new(entry, false, waiter));
            }
        }
        let line = line_of(request);
        if write && self.durable.contains(&page) {
            return self.memory.warm(page, write);
        }
        if let Some(was_dirty) = core.l1.touch(line, write) {
            if write && !was_dirty {
                self.memory.dirtied(page);
            }
            return;
        }
        if let Some(Writeback(old)) = core.l1.install(line, write) {
            self.install_in_llc(old, true);
        }
        let slice = &mut self.slices[self.noc.home(line)];
        if slice.touch(line, false).is_some() {
            if write {
                self.memory.dirtied(page);
            }
            return;
        }
        slice.install(line, false);
        self.memory.warm_line(request);
    }

    /// What accesses in no time have brought about, unless memory keeps what cannot be handed on.
    pub(crate) fn warmth(&self) -> Option<Warmth> {
        Some(Warmth {
            residency: self.memory.residency()?,
            contents: self.contents.clone(),
            private: self.cores.iter().map(|core| (core.l1.clone(), core.tlb.clone())).collect(),
            slices: self.slices.clone(),
        })
    }

    /// Takes `warmth` in place of its own, if memory can.
    pub(crate) fn begin_with(&mut self, warmth: &Warmth) -> bool {
        if !self.memory.begin_with(&warmth.residency) {
            return false;
        }
        self.contents = warmth.contents.clone();
        for (core, (l1, tlb)) in self.cores.iter_mut().zip(&warmth.private) {
            (core.l1, core.tlb) = (l1.clone(), tlb.clone());
        }
        self.slices = warmth.slices.clone();
        true
    }

    /// Lets `enter` tell the journal, if there is one, of the miss that a thread has under way.
    pub(crate) fn tell(&mut self, core: usize, thread: usize, enter: impl FnOnce(&mut Missed)) {
        if let Some(journal) = &mut self.journal {
            let waiter = Waiter { core: core as u32, thread: thread as u32 };
            if let Some(missed) = journal.of(waiter) {
                enter(missed);
            }
        }
    }

    /// The thread waits for the word at `at` to change.
    pub(crate) fn park(&mut self, waiter: Waiter, at: Addr) {
        self.parked.entry(at).or_default().push(waiter);
    }

    /// Every thread that waits for the word at `at` can go on.
    pub(crate) fn wake(&mut self, core: usize, at: Addr) {
        let now = self.cores[core].now;
        for waiter in self.parked.remove(&at).unwrap_or_default() {
            self.events.push(Event::Arrived(waiter, now));
        }
    }

    /// A job of `core` says that it will need `page` soon.
    pub(crate) fn hint(&mut self, core: usize, page: PageId) {
        let now = self.cores[core].now;
        if page.0 < self.contents.size_bytes() / PAGE_BYTES as u64 {
            self.cores[core].now = self.memory.hint(now, page).max(now);
        }
    }

    /// No core keeps a translation of `page`.
    pub(crate) fn unmap(&mut self, page: PageId) {
        self.cores.iter_mut().for_each(|core| core.tlb.forget(page));
    }
}

/// The number of the line, counted over all pages.
#[inline]
fn line_of(request: Request) -> u64 {
    request.page.0 * (PAGE_BYTES / LINE_BYTES) as u64 + u64::from(request.line)
}

/// The tags of one of the `slices` that make up `cache`, which errors call `key`.
fn tags(cache: &Cache, slices: usize, key: &'static str) -> Result<LineCache, ConfigError> {
    let lines = cache.size.0 / LINE_BYTES as u64 / slices as u64;
    LineCache::new(lines, cache.ways).ok_or_else(|| ConfigError::Value {
        key,
        value: cache.size.to_string(),
        expected: format!("{slices} x {} ways x a power of two of 64-byte lines", cache.ways),
    })
}
