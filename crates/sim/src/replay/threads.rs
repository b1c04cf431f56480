//! [`replay_by_thread`]: each thread of a trace on a core of its own.

use std::collections::VecDeque;
use std::time::Instant;

use ebbtide_core::{PAGE_BYTES, Span, Time};
use ebbtide_trace::{Access, Op, Source};
use rustc_hash::FxHashSet;

use super::{Door, Replay, ReplayError, check_is_in_time, check_is_within};
use crate::config::Config;
use crate::designs;
use crate::memory_side::{Answer, Event, MemorySide, Request};

/// Entries of the trace that are read ahead of the oldest one that has not run. Threads overlap if
/// their entries are closer together than this.
const AHEAD: usize = 1 << 18;

/// Replays each thread of `trace` on a core: the number of the thread modulo `cores.count`. The
/// memory starts empty.
///
/// A trace has one clock for all threads. The time that passes before an entry is computing of the
/// entry's thread. A core computes for that time, and then waits for the line if it reads. Threads
/// of the same core run in the order of the trace. A thread begins once the entry before its first
/// one has run. A trace does not say that one thread waits for another, so nothing else orders
/// threads.
///
/// # Errors
/// As [`replay`](super::replay).
pub fn replay_by_thread(config: &Config, trace: &mut dyn Source) -> Result<Replay, ReplayError> {
    let clock = Instant::now();
    let mut cores = Cores::new(config, designs::compose(config)?.memory_side);
    let mut entries = Entries::new(config, trace);
    loop {
        cores.read_ahead(&mut entries)?;
        match (cores.next(), cores.door.memory.next_event()) {
            (Some((at, core)), event) if event.is_none_or(|due| due > at) => {
                check_is_in_time(at)?;
                cores.run(core, at);
            }
            (_, Some(due)) if !cores.is_done(&entries) => {
                check_is_in_time(due)?;
                cores.advance(due);
            }
            _ if cores.is_done(&entries) => break,
            (_, _) => unreachable!("the oldest entry that has not run waits for no other"),
        }
    }
    if entries.accesses == 0 {
        return Err(ReplayError::Empty);
    }
    let count = cores.cores.len();
    let replay = cores.door.finish(config, entries.accesses, Time::ZERO, clock);
    Ok(Replay { cores: Some(count), ..replay })
}

/// An entry of the trace that has not run.
struct Entry {
    access: Access,
    /// Place in the trace.
    number: u64,
    /// Time that its thread computes before it.
    work: Span,
    /// The core of the entry before it, if its thread begins with it.
    after: Option<usize>,
}

/// The entries of a trace, each for its core.
struct Entries<'a> {
    trace: &'a mut dyn Source,
    config: &'a Config,
    batch: Vec<Access>,
    ended: bool,
    /// Entries read.
    count: u64,
    accesses: u64,
    /// Time of the last entry in the trace, and its core.
    last: Option<(Time, usize)>,
    /// The threads that have begun.
    begun: FxHashSet<u32>,
}

impl<'a> Entries<'a> {
    fn new(config: &'a Config, trace: &'a mut dyn Source) -> Entries<'a> {
        Entries {
            trace,
            config,
            batch: Vec::new(),
            ended: false,
            count: 0,
            accesses: 0,
            last: None,
            begun: FxHashSet::default(),
        }
    }

    /// Reads a batch and calls `take` with the core of each entry and the entry.
    fn read(
        &mut self,
        cores: usize,
        mut take: impl FnMut(usize, Entry),
    ) -> Result<(), ReplayError> {
        self.ended = !self.trace.fill(&mut self.batch)?;
        let pages = self.config.dataset.size.0 / PAGE_BYTES as u64;
        for &access in &self.batch {
            check_is_within(&access, pages, self.config)?;
            let core = access.thread as usize % cores;
            let begins = self.begun.insert(access.thread);
            let (before, at) = (self.last.replace((access.at, core)), access.at);
            let work = before.map_or(Span::ZERO, |(before, _)| at.since(before));
            let after = before.filter(|_| begins).map(|(_, core)| core);
            take(core, Entry { access, number: self.count, work, after });
            self.count += 1;
            self.accesses += u64::from(access.op != Op::Hint);
        }
        Ok(())
    }
}

/// A core with the entries of its threads.
#[derive(Default)]
struct Core {
    /// The entries that have not run, in the order of the trace.
    entries: VecDeque<Entry>,
    /// Until when the core is busy.
    now: Time,
    /// Entries of the whole trace up to the last one that ran here.
    done: u64,
    /// When the next entry was ready first, if memory did not accept it.
    due: Option<Time>,
    waits: Waits,
}

/// What a core waits for.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Waits {
    #[default]
    Nothing,
    /// The line of the access with this number among those in flight.
    Line(u32),
    /// Room in memory.
    Room,
}

/// The cores and their memory.
struct Cores {
    cores: Vec<Core>,
    door: Door,
    /// Entries of all cores that have not run.
    queued: usize,
}

impl Cores {
    fn new(config: &Config, memory: Box<dyn MemorySide>) -> Cores {
        let cores = (0..config.cores.count).map(|_| Core::default()).collect();
        Cores { cores, door: Door::new(memory), queued: 0 }
    }

    /// Reads entries while a core has none, as far ahead as permitted.
    fn read_ahead(&mut self, entries: &mut Entries<'_>) -> Result<(), ReplayError> {
        let Cores { cores, door, queued } = self;
        while !entries.ended
            && *queued < AHEAD
            && cores.iter().any(|core| core.entries.is_empty() && core.waits == Waits::Nothing)
        {
            entries.read(cores.len(), |core, entry| {
                let core = &mut cores[core];
                if core.entries.is_empty() && core.waits == Waits::Nothing {
                    // A core without entries has not run ahead.
                    core.now = core.now.max(door.now);
                }
                core.entries.push_back(entry);
                *queued += 1;
            })?;
        }
        Ok(())
    }

    /// The core whose next entry is ready first, and when.
    fn next(&self) -> Option<(Time, usize)> {
        let ready = self.cores.iter().enumerate().filter_map(|(number, core)| {
            let entry = core.entries.front().filter(|_| core.waits == Waits::Nothing)?;
            let may_begin = entry.after.is_none_or(|after| {
                // The entry before it has run.
                after == number || self.cores[after].done >= entry.number
            });
            may_begin.then(|| (core.now + entry.work, number))
        });
        ready.min()
    }

    /// Whether everything has run and arrived.
    fn is_done(&self, entries: &Entries<'_>) -> bool {
        entries.ended && self.queued == 0 && !self.door.is_waiting()
    }

    /// Handles the events of memory up to `due`.
    fn advance(&mut self, due: Time) {
        let Cores { cores, door, .. } = self;
        door.now = door.now.max(due);
        door.advance_telling(door.now, |event| match event {
            Event::Arrived(waiter, at) => {
                let core = &mut cores[waiter.core as usize];
                if core.waits == Waits::Line(waiter.thread) {
                    (core.waits, core.now) = (Waits::Nothing, at);
                }
            }
            Event::Unstalled(waiter, at) => {
                let core = &mut cores[waiter.core as usize];
                if core.waits == Waits::Room {
                    (core.waits, core.now) = (Waits::Nothing, core.now.max(at));
                }
            }
            Event::Unmapped(_) | Event::Interrupted(_) => {}
        });
        door.unstalled.clear();
    }

    /// Runs the next entry of `core` at `at`.
    fn run(&mut self, core: usize, at: Time) {
        self.advance(at);
        let Cores { cores, door, queued } = self;
        let now = door.now;
        let waiter = door.next_waiter(core as u32);
        let own = &mut cores[core];
        let Some(entry) = own.entries.front_mut() else { return };
        own.now = now;
        if entry.access.op == Op::Hint {
            own.now = door.memory.hint(now, entry.access.address.page());
        } else {
            let access = Access { at: own.due.unwrap_or(at), ..entry.access };
            let request = Request::new(access.address, access.is_write(), waiter);
            let answer = door.memory.access(now, request);
            if !door.is_accepted(&access, answer) {
                own.due.get_or_insert(at);
                (entry.work, own.waits) = (Span::ZERO, Waits::Room);
                return;
            }
            match answer {
                Answer::Posted(until) => own.now = until,
                Answer::Hit(ready) if !access.is_write() => own.now = ready,
                Answer::Miss(_) | Answer::Brief(_) if !access.is_write() => {
                    own.waits = Waits::Line(waiter.thread);
                }
                _ => {}
            }
        }
        own.done = entry.number + 1;
        own.due = None;
        own.entries.pop_front();
        *queued -= 1;
        self.begin_after(core, now);
    }

    /// Lets the thread begin at `now` whose first entry follows the last one of `core`.
    fn begin_after(&mut self, core: usize, now: Time) {
        let done = self.cores[core].done;
        for other in &mut self.cores {
            if let Some(entry) = other.entries.front_mut()
                && entry.after == Some(core)
                && entry.number == done
            {
                (entry.after, other.now) = (None, other.now.max(now));
            }
        }
    }
}
