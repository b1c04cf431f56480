//! [`Machine`]: jobs, a cache and the journal of `ebbtide_core::durability` over a modelled SSD, in
//! virtual time.
//!
//! One core runs jobs one after the other. A job that waits for a page or for the log yields the
//! core. The journal is the engine's own, and this machine drives it, as the engine's log writer
//! does. Its device is [`Flash`], and its clock is the time of the events. Pages have no contents.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use ebbtide_core::durability::{
    Block, Disk, DiskError, Frozen, Geometry, Io, Journal, Limits, Lsn, Mapped, Page, Policy,
    RecoveryError, RecoveryOptions, WriteSet, format_filled, recover,
};
use ebbtide_core::{PageId, Span, Time, Watch};
use ebbtide_flash::{Command, Done, Flash, Kind};
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Words that a transaction like TPC-B's stores: of an account, a teller and a branch, and a row of
/// the history. 104 bytes.
const WORDS: [usize; 4] = [3, 3, 3, 4];

/// Bytes of words that are reserved in the log for a transaction.
const RESERVED_BYTES: usize = 104;

/// Pages of tellers, branches and the current end of the history. All jobs store to them.
const HOT_PAGES: u64 = 12;

/// The log is flushed at least this often, as in the engine.
const FLUSH_EVERY: Span = Span::from_us(1_000_000);

/// Maximum of log blocks in DRAM that are reserved or not yet written.
const BUFFER_BLOCKS_MAX: u64 = 4096;

/// A transaction that takes more than a minute counts as a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// A store in plain memory, to create the journal of a new store.
struct Blocks(HashMap<Block, Box<Page>>);

impl Disk for Blocks {
    fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError> {
        match self.0.get(&block) {
            Some(page) => into.copy_from_slice(&page[..]),
            None => into.fill(0),
        }
        Ok(())
    }

    fn write_block(&mut self, block: Block, page: &Page) -> Result<(), DiskError> {
        self.0.insert(block, Box::new(*page));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        Ok(())
    }
}

/// The machine and its load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) pages: u64,
    pub(super) frames: usize,
    pub(super) log_blocks: u64,
    pub(super) jobs: usize,
    pub(super) cpu: Span,
    pub(super) policy: Policy,
    pub(super) flush: Span,
    pub(super) seed: u64,
}

/// Counts since the machine began.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) commits: u64,
    pub(super) flushes: u64,
    pub(super) log_blocks: u64,
    pub(super) page_writes: u64,
    pub(super) page_reads: u64,
}

/// The purpose of a command of the device.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    Read(PageId),
    Write { frozen: Frozen, slot: u32, cleans: bool },
    Journal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The job has computed.
    Computed(usize),
    /// A flush that began at this time has ended.
    FlushEnded(Time),
    /// Something may be due.
    Look,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Waits for room in the log.
    Starved,
    /// Waits for pages.
    Fetching,
    Computing,
    /// Has computed, and waits for slots or for pages that are being written.
    Computed,
    /// Waits until its transaction may be acknowledged.
    Committed(Lsn),
}

#[derive(Debug)]
struct Job {
    began: Time,
    pages: [PageId; 4],
    stage: Stage,
}

#[derive(Debug, Default)]
struct Frame {
    used: u64,
    /// Jobs that pin the page until they have committed.
    pins: usize,
    dirty: bool,
    /// In flight to or from flash.
    busy: bool,
}

/// The state of the whole machine.
pub(super) struct Machine {
    setting: Setting,
    geometry: Geometry,
    journal: Journal,
    flash: Flash,
    now: Time,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    commands: HashMap<u64, Purpose>,
    next_tag: u64,
    jobs: Vec<Job>,
    frames: HashMap<PageId, Frame>,
    /// Frames that may be evicted, least recently used first.
    idle: BTreeSet<(u64, PageId)>,
    uses: u64,
    /// When the core becomes free.
    free_at: Time,
    /// Commands in flight of the journal's current write.
    journal_writes: usize,
    /// Whether the journal's last request is in flight.
    busy: bool,
    /// Pages that are being written on request of the journal.
    cleaning: usize,
    behind_since: Option<Time>,
    history: u64,
    random: Pcg64Mcg,
    pub(super) tally: Tally,
    /// Time from the beginning of a transaction to its acknowledgement, in ns.
    pub(super) latencies: Histogram<u64>,
}

impl Machine {
    /// The machine with all pages on `flash`, and nothing in DRAM.
    ///
    /// # Errors
    /// When the store is impossible.
    pub(super) fn new(setting: Setting, flash: Flash) -> Result<Machine, RecoveryError> {
        let Setting { pages, frames, log_blocks, jobs, seed, .. } = setting;
        let slots = pages + pages / 2;
        let geometry = Geometry { id: seed | 1, pages, slots, log_blocks };
        let checksums = vec![0; pages as usize];
        let mut blocks = Blocks(format_filled(&geometry, &checksums).into_iter().collect());
        let unmapped_pages_max = frames.min(pages as usize / 4).max(1);
        let limits = Limits {
            transaction_bytes_max: RESERVED_BYTES,
            buffer_blocks_max: BUFFER_BLOCKS_MAX,
            unmapped_pages_max,
            dirty_pages_max: (frames - frames / 8).min(unmapped_pages_max / 4 * 3),
        };
        let options = RecoveryOptions { pages_at_once: 1, limits };
        let (journal, _) = recover(geometry, &mut blocks, &options, Watch::unattended())?;
        let mut machine = Machine {
            setting,
            geometry,
            journal,
            flash,
            now: Time::ZERO,
            events: BinaryHeap::new(),
            commands: HashMap::new(),
            next_tag: 0,
            jobs: Vec::new(),
            frames: HashMap::new(),
            idle: BTreeSet::new(),
            uses: 0,
            free_at: Time::ZERO,
            journal_writes: 0,
            busy: false,
            cleaning: 0,
            behind_since: None,
            history: 0,
            random: Pcg64Mcg::seed_from_u64(seed),
            tally: Tally::default(),
            latencies: Histogram::new_with_max(LATENCY_NS_MAX, 3)
                .expect("three digits are possible"),
        };
        for index in 0..jobs {
            let job = machine.drawn();
            machine.jobs.push(job);
            machine.begin(index);
        }
        Ok(machine)
    }

    pub(super) fn now(&self) -> Time {
        self.now
    }

    pub(super) fn flash(&self) -> &Flash {
        &self.flash
    }

    /// Resets the counts.
    pub(super) fn forget(&mut self) {
        self.tally = Tally::default();
        self.latencies.reset();
    }

    /// Runs until `commits` more transactions are acknowledged. Returns false if the machine stops
    /// earlier: the log or the cache is too small for the jobs.
    pub(super) fn run(&mut self, commits: u64) -> bool {
        let until = self.tally.commits + commits;
        let mut done = Vec::new();
        while self.tally.commits < until {
            self.drive_journal();
            let event = self.events.peek().map(|Reverse((at, _))| *at);
            let device = self.flash.next_event();
            let Some(next) = event.into_iter().chain(device).min() else { return false };
            self.now = next.max(self.now);
            self.flash.advance(self.now, &mut done);
            done.drain(..).for_each(|done| self.device_done(done));
            while let Some(&Reverse((at, event))) = self.events.peek()
                && at <= self.now
            {
                self.events.pop();
                match event {
                    Event::Computed(index) => self.commit(index),
                    Event::FlushEnded(began) => {
                        self.journal_done();
                        let behind = self.journal.committed() > self.journal.durable();
                        self.behind_since = behind.then_some(began);
                    }
                    Event::Look => {}
                }
            }
        }
        true
    }

    fn at(&mut self, time: Time, event: Event) {
        self.events.push(Reverse((time, event)));
    }

    fn submit(&mut self, kind: Kind, block: Block, purpose: Purpose) {
        self.next_tag += 1;
        self.commands.insert(self.next_tag, purpose);
        let command = Command { tag: self.next_tag, kind, page: PageId(block.0) };
        self.flash.submit(self.now, command);
    }

    fn drawn(&mut self) -> Job {
        // A page of the history has 128 rows of 32 bytes, and its pages lie behind the hot ones.
        let account = self.random.random_range(HOT_PAGES..self.setting.pages);
        let teller = self.random.random_range(0..HOT_PAGES - 1);
        let history = HOT_PAGES + self.history / 128 % (self.setting.pages - HOT_PAGES);
        self.history += 1;
        let pages = [account, teller, HOT_PAGES - 1, history].map(PageId);
        Job { began: self.now, pages, stage: Stage::Starved }
    }

    /// Continues a job that waits for room or begins.
    fn begin(&mut self, index: usize) {
        match self.journal.try_reserve(RESERVED_BYTES) {
            Ok(true) => {}
            // The modelled device does not fail.
            Ok(false) | Err(_) => return,
        }
        self.jobs[index].stage = Stage::Fetching;
        for page in self.jobs[index].pages {
            self.fetch(page);
        }
        self.compute_if_ready(index);
    }

    /// Pins a page, and reads it unless it is present.
    fn fetch(&mut self, page: PageId) {
        if let Some(frame) = self.frames.get_mut(&page) {
            self.idle.remove(&(frame.used, page));
            frame.pins += 1;
            return;
        }
        self.frames.insert(page, Frame { pins: 1, busy: true, ..Frame::default() });
        if let Some(block) = self.block_of(page) {
            self.tally.page_reads += 1;
            self.submit(Kind::Read, block, Purpose::Read(page));
        }
        self.give_up_frames();
    }

    fn block_of(&self, page: PageId) -> Option<Block> {
        match self.journal.map().get(page) {
            Mapped::Slot { slot, .. } => Some(self.geometry.slot(slot)),
            Mapped::Blank | Mapped::Poisoned => None,
        }
    }

    fn has_pages(&self, index: usize) -> bool {
        let is_there = |page: &PageId| self.frames.get(page).is_some_and(|frame| !frame.busy);
        self.jobs[index].pages.iter().all(is_there)
    }

    /// Continues a job that may have waited for an event that has come.
    fn go_on(&mut self, index: usize) {
        match self.jobs[index].stage {
            Stage::Starved => self.begin(index),
            Stage::Fetching => self.compute_if_ready(index),
            Stage::Computed => self.commit(index),
            Stage::Committed(_) => self.acknowledge(index),
            Stage::Computing => {}
        }
    }

    fn compute_if_ready(&mut self, index: usize) {
        if !self.has_pages(index) {
            return;
        }
        self.jobs[index].stage = Stage::Computing;
        self.free_at = self.free_at.max(self.now) + self.setting.cpu;
        self.at(self.free_at, Event::Computed(index));
    }

    fn commit(&mut self, index: usize) {
        self.jobs[index].stage = Stage::Computed;
        if !self.has_pages(index) {
            // One of them is being written, and its copy must be consistent.
            return;
        }
        let pages = self.jobs[index].pages;
        if !self.journal.has_slots_for(pages.len()) {
            return self.journal.begin_checkpoint();
        }
        let mut set = WriteSet::default();
        for (page, words) in pages.iter().zip(WORDS) {
            let word = self.random.random_range(0..64u64) * 64;
            let value = self.random.random::<u64>();
            (0..words as u64).for_each(|one| {
                set.store(page.start() + word + one * 8, &(value + one).to_ne_bytes());
            });
        }
        let committed = self.journal.commit(&set, || ());
        let lsn = committed.expect("the device does not fail");
        self.journal.release(RESERVED_BYTES);
        self.behind_since.get_or_insert(self.now);
        for page in pages {
            self.uses += 1;
            if let Some(frame) = self.frames.get_mut(&page) {
                frame.dirty = true;
                frame.pins -= 1;
                frame.used = self.uses;
                if frame.pins == 0 {
                    self.idle.insert((frame.used, page));
                }
            }
        }
        self.jobs[index].stage = Stage::Committed(lsn);
        self.give_up_frames();
        self.acknowledge(index);
    }

    fn is_acknowledged(&self, lsn: Lsn) -> bool {
        let behind = self.behind_since.map_or(Span::ZERO, |since| self.now.since(since));
        match self.setting.policy {
            Policy::None => true,
            Policy::Every(span) if behind <= span => true,
            Policy::Every(_) | Policy::Always => lsn <= self.journal.durable(),
        }
    }

    fn acknowledge(&mut self, index: usize) {
        let Stage::Committed(lsn) = self.jobs[index].stage else { return };
        if !self.is_acknowledged(lsn) {
            return;
        }
        self.tally.commits += 1;
        self.latencies.saturating_record(self.now.since(self.jobs[index].began).as_ns());
        self.jobs[index] = self.drawn();
        self.begin(index);
    }

    /// Evicts frames down to the limit, and writes the dirty ones.
    fn give_up_frames(&mut self) {
        let mut excess = self.frames.len().saturating_sub(self.setting.frames);
        while excess > 0
            && let Some((_, page)) = self.idle.pop_first()
        {
            excess -= 1;
            if self.frames.get(&page).is_some_and(|frame| frame.dirty) {
                self.write(page, false);
            } else {
                self.frames.remove(&page);
            }
        }
    }

    /// Writes a page, if a slot is free. No job stores to it during the write.
    fn write(&mut self, page: PageId, cleans: bool) -> bool {
        let Some(frame) = self.frames.get_mut(&page) else { return false };
        let Some(run) = self.journal.take_slots(1) else {
            if frame.pins == 0 {
                self.idle.insert((frame.used, page));
            }
            return false;
        };
        frame.busy = true;
        self.tally.page_writes += 1;
        let frozen = self.journal.freeze(page);
        let (slot, block) = (run.first, self.geometry.slot(run.first));
        self.submit(Kind::Write, block, Purpose::Write { frozen, slot, cleans });
        true
    }

    fn device_done(&mut self, done: Done) {
        let purpose = self.commands.remove(&done.tag).expect("it was submitted");
        let page = match purpose {
            Purpose::Journal => {
                self.journal_writes -= 1;
                if self.journal_writes == 0 {
                    self.journal_done();
                }
                return;
            }
            Purpose::Read(page) => page,
            Purpose::Write { frozen, slot, cleans } => {
                self.cleaning -= usize::from(cleans);
                let logged = self.journal.written(frozen, slot, 0);
                if let Some(frame) = self.frames.get_mut(&frozen.page) {
                    frame.dirty &= !logged;
                }
                frozen.page
            }
        };
        if let Some(frame) = self.frames.get_mut(&page) {
            frame.busy = false;
            if frame.pins == 0 {
                self.idle.insert((frame.used, page));
            }
        }
        self.give_up_frames();
        for index in 0..self.jobs.len() {
            if self.jobs[index].pages.contains(&page) {
                self.go_on(index);
            }
        }
    }

    /// Starts the next request of the journal, unless one is in flight.
    fn drive_journal(&mut self) {
        if self.busy {
            return;
        }
        if self.journal.wants_checkpoint() {
            self.journal.begin_checkpoint();
        }
        if self.cleaning == 0 {
            for page in self.journal.next_to_clean() {
                let writable = |frame: &&Frame| frame.dirty && !frame.busy;
                if let Some(frame) = self.frames.get(&page).filter(writable) {
                    self.idle.remove(&(frame.used, page));
                    self.cleaning += usize::from(self.write(page, true));
                }
            }
        }
        let flush_every = match self.setting.policy {
            Policy::Every(span) => Span::from_ps(span.as_ps() / 2).min(FLUSH_EVERY),
            Policy::None | Policy::Always => FLUSH_EVERY,
        };
        let due_at = self.behind_since.map(|since| since + flush_every);
        let unacknowledged = |job: &Job| matches!(job.stage, Stage::Committed(_));
        let flush = due_at.is_some_and(|at| at <= self.now) || self.jobs.iter().any(unacknowledged);
        match self.journal.next(flush) {
            Some(Io::Write(blocks)) => {
                self.busy = true;
                self.journal_writes = blocks.len();
                self.tally.log_blocks += blocks.len() as u64;
                for (block, _) in blocks {
                    self.submit(Kind::Write, block, Purpose::Journal);
                }
            }
            Some(Io::Flush) => {
                self.busy = true;
                self.tally.flushes += 1;
                self.at(self.now + self.setting.flush, Event::FlushEnded(self.now));
            }
            None => {
                // One event at that time is enough.
                let due_at = due_at.filter(|at| *at > self.now);
                let asked = |at: &Time| {
                    self.events.iter().any(|Reverse(known)| *known == (*at, Event::Look))
                };
                if let Some(at) = due_at.filter(|at| !asked(at)) {
                    self.at(at, Event::Look);
                }
            }
        }
    }

    fn journal_done(&mut self) {
        self.busy = false;
        self.journal.done(Ok(()));
        (0..self.jobs.len()).for_each(|index| self.go_on(index));
    }
}
