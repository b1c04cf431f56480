//! [`World`]: jobs, a cache and a journal over a disk model, a step at a time.
//!
//! A step is a scheduling decision or a device event, drawn from a seed. Jobs on several cores
//! interleave between the steps of their transactions: reserving, bringing pages in, committing.

use ebbtide_core::PageId;
use ebbtide_core::durability::{Frozen, Io, Journal, Lsn, Mapped, Mistake, Page, WriteSet};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::disk::DiskModel;
use super::oracle::{State, Violation, WORDS_OF_PAGE};
use super::setting::{Setting, TRANSACTION_BYTES_MAX};

/// A job with a transaction.
#[derive(Debug)]
struct Job {
    set: WriteSet,
}

/// A page on its way to a slot.
#[derive(Debug)]
struct PageWrite {
    frozen: Frozen,
    slot: u32,
    number: u64,
}

/// What the journal has asked for.
#[derive(Debug)]
enum Under {
    Write(Vec<u64>),
    Flush,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(usize),
    Continue(usize),
    Evict(u64),
    EndPageWrite(usize),
    StartIo { flush: bool },
    EndIo,
    Checkpoint,
    Look(u64),
}

/// A running store.
#[derive(Debug)]
pub struct World {
    setting: Setting,
    pub(super) disk: DiskModel,
    pub(super) journal: Journal,
    frames: Vec<Option<Box<Page>>>,
    dirty: Vec<bool>,
    busy: Vec<bool>,
    jobs: Vec<Option<Job>>,
    page_writes: Vec<PageWrite>,
    io: Option<Under>,
    random: Pcg64Mcg,
    next_value: u64,
    /// The state after each transaction since recovery, with where it ends.
    pub(super) states: Vec<(Lsn, State)>,
    /// How many of these were acknowledged.
    pub(super) acknowledged: Lsn,
    /// Steps that wrote something or learnt of something written.
    pub(super) device_events: u64,
}

impl World {
    /// A world over a journal that has just recovered `state`.
    pub fn new(
        setting: Setting,
        disk: DiskModel,
        journal: Journal,
        state: State,
        seed: u64,
    ) -> World {
        let pages = setting.geometry.pages as usize;
        World {
            setting,
            disk,
            journal,
            frames: vec![None; pages],
            dirty: vec![false; pages],
            busy: vec![false; pages],
            jobs: (0..setting.jobs).map(|_| None).collect(),
            page_writes: Vec::new(),
            io: None,
            random: Pcg64Mcg::seed_from_u64(seed),
            next_value: state.newest_value() + 1,
            states: vec![(Lsn::ZERO, state)],
            acknowledged: Lsn::ZERO,
            device_events: 0,
        }
    }

    /// Whether writing has ended for good and nothing more can happen to the disk.
    pub fn has_ended(&self) -> bool {
        self.journal.ended().is_some() && self.io.is_none() && self.page_writes.is_empty()
    }

    /// Does one thing.
    ///
    /// # Errors
    /// When memory does not hold what was committed.
    pub fn step(&mut self) -> Result<(), Violation> {
        let step = self.draw();
        match step {
            Step::Begin(job) => self.begin(job),
            Step::Continue(job) => self.go_on(job)?,
            Step::Evict(page) => self.evict(page),
            Step::EndPageWrite(index) => self.end_page_write(index),
            Step::StartIo { flush } => self.start_io(flush),
            Step::EndIo => self.end_io(),
            Step::Checkpoint => self.journal.begin_checkpoint(),
            Step::Look(page) => self.look(page)?,
        }
        self.check_slots()
    }

    /// Draws what happens next from all that can.
    fn draw(&mut self) -> Step {
        loop {
            let pages = self.setting.geometry.pages;
            let page = self.random.random_range(0..pages);
            let step = match self.random.random_range(0..20) {
                0..8 => {
                    let job = self.random.random_range(0..self.jobs.len());
                    if self.jobs[job].is_some() { Step::Continue(job) } else { Step::Begin(job) }
                }
                8 => match self.journal.to_clean().first() {
                    Some(page) => Step::Evict(page.0),
                    None => Step::Evict(page),
                },
                9 => Step::Evict(page),
                10..13 if !self.page_writes.is_empty() => {
                    Step::EndPageWrite(self.random.random_range(0..self.page_writes.len()))
                }
                13..18 if self.io.is_some() => Step::EndIo,
                13..18 => Step::StartIo { flush: self.random.random_bool(0.4) },
                18 if self.journal.wants_checkpoint() || self.random.random_bool(0.1) => {
                    Step::Checkpoint
                }
                19 => Step::Look(page),
                _ => continue,
            };
            return step;
        }
    }

    fn begin(&mut self, job: usize) {
        let count = self.random.random_range(1..4);
        let mut set = WriteSet::default();
        // Now and then a transaction that does not fit in one block.
        let long = self.random.random_bool(0.05);
        for _ in 0..count {
            let page = self.random.random_range(0..self.setting.geometry.pages);
            let words = if long { 60 } else { 1 };
            for _ in 0..words {
                let word = WORDS_OF_PAGE[self.random.random_range(0..WORDS_OF_PAGE.len())];
                // The value is set when it is committed; what counts here is its place.
                set.store(PageId(page).start() + word * 8, &[0; 8]);
            }
            if long {
                let start = PageId(page).start();
                (0..PADDING_WORDS).for_each(|word| {
                    set.store(start + (PADDING_AT + word) * 8, &[0; 8]);
                });
            }
        }
        if matches!(self.journal.try_reserve(TRANSACTION_BYTES_MAX), Ok(true)) {
            self.jobs[job] = Some(Job { set });
        }
    }

    /// Brings in a page of the job's transaction, or commits it if all are there.
    fn go_on(&mut self, job: usize) -> Result<(), Violation> {
        let pages: Vec<PageId> =
            self.jobs[job].as_ref().expect("it has begun").set.pages().collect();
        if pages.iter().any(|page| self.busy[page.index()]) {
            return Ok(());
        }
        if let Some(absent) = pages.iter().find(|page| self.frames[page.index()].is_none()) {
            return self.look(absent.0);
        }
        if !self.journal.has_slots_for(pages.len()) {
            return Ok(());
        }
        let Job { set } = self.jobs[job].take().expect("it has begun");
        let mut valued = WriteSet::default();
        let mut state = self.states.last().expect("there is a first").1.clone();
        for (at, _) in set.words() {
            valued.store(at, &self.next_value.to_ne_bytes());
            state.set(at, self.next_value);
        }
        self.next_value += 1;
        let (frames, dirty) = (&mut self.frames, &mut self.dirty);
        let committed = self.journal.commit(&valued, || {
            for (at, word) in valued.words() {
                let page = frames[at.page().index()].as_mut().expect("all are there");
                page[at.page_offset()..at.page_offset() + 8].copy_from_slice(&word.to_ne_bytes());
                dirty[at.page().index()] = true;
            }
        });
        self.journal.release(TRANSACTION_BYTES_MAX);
        if let Ok(end) = committed {
            self.states.push((end, state));
        }
        Ok(())
    }

    /// Looks at a page, which is brought in if it is not there.
    fn look(&mut self, page: u64) -> Result<(), Violation> {
        let (page, index) = (PageId(page), page as usize);
        if self.busy[index] {
            return Ok(());
        }
        if self.frames[index].is_none() {
            if self.frames.iter().flatten().count() >= self.setting.frames {
                let victim = self.random.random_range(0..self.setting.geometry.pages);
                self.evict(victim);
                return Ok(());
            }
            let contents = match self.journal.map().get(page) {
                Mapped::Blank => Box::new([0; 4096]),
                Mapped::Slot { slot, .. } => {
                    Box::new(*self.disk.contents(self.setting.geometry.slot(slot)))
                }
                Mapped::Poisoned => return Err(Violation::new(format!("{page:?} is poisoned"))),
            };
            let sound = self.journal.is_sound(page, &contents)
                || self.setting.mistake == Some(Mistake::IgnoresChecksums);
            if !sound {
                return Err(Violation::new(format!("{page:?} was read back damaged")));
            }
            self.frames[index] = Some(contents);
        }
        let expected = self.states.last().expect("there is a first").1.page(page);
        let held = self.frames[index].as_ref().expect("it is there");
        if **held != *expected {
            return Err(Violation::new(format!("{page:?} does not hold what was committed")));
        }
        Ok(())
    }

    fn evict(&mut self, page: u64) {
        let index = page as usize;
        if self.busy[index] || self.frames[index].is_none() {
            return;
        }
        if !self.dirty[index] {
            self.frames[index] = None;
            return;
        }
        let Some(run) = self.journal.take_slots(1) else { return };
        self.busy[index] = true;
        let frozen = self.journal.freeze(PageId(page));
        let contents = self.frames[index].as_ref().expect("it is there");
        let number = self.disk.submit(self.setting.geometry.slot(run.first), contents);
        self.device_events += 1;
        self.page_writes.push(PageWrite { frozen, slot: run.first, number });
    }

    fn fails(&mut self) -> bool {
        self.setting.errors > 0.0 && self.random.random_bool(self.setting.errors)
    }

    fn end_page_write(&mut self, index: usize) {
        let PageWrite { frozen, slot, number } = self.page_writes.swap_remove(index);
        let page = frozen.page.index();
        self.device_events += 1;
        self.busy[page] = false;
        if self.fails() {
            self.disk.fail(number);
            return self.journal.write_failed(slot);
        }
        self.disk.complete(number);
        let contents = self.frames[page].as_ref().expect("it stays until it is written");
        let checksum = self.setting.geometry.checksum(&contents[..]);
        if self.journal.written(frozen, slot, checksum) {
            self.dirty[page] = false;
            if self.random.random_bool(0.7) {
                self.frames[page] = None;
            }
        }
    }

    fn start_io(&mut self, flush: bool) {
        self.io = match self.journal.next(flush) {
            None => return,
            Some(Io::Write(blocks)) => {
                let submit = |(block, page): &(_, Box<Page>)| self.disk.submit(*block, page);
                Some(Under::Write(blocks.iter().map(submit).collect()))
            }
            Some(Io::Flush) => {
                self.disk.begin_flush();
                Some(Under::Flush)
            }
        };
        self.device_events += 1;
    }

    fn end_io(&mut self) {
        let failed = self.fails();
        self.device_events += 1;
        match self.io.take().expect("something is under way") {
            Under::Write(numbers) if failed => {
                numbers.into_iter().for_each(|number| self.disk.fail(number));
            }
            Under::Write(numbers) => {
                numbers.into_iter().for_each(|number| self.disk.complete(number));
            }
            Under::Flush if failed => {}
            Under::Flush => self.disk.end_flush(),
        }
        self.journal.done(if failed { Err("injected".into()) } else { Ok(()) });
        self.acknowledged = self.acknowledged.max(self.journal.durable());
    }

    /// Every slot is free, about to be, or holds one page.
    fn check_slots(&self) -> Result<(), Violation> {
        let pages = (0..self.setting.geometry.pages).map(PageId);
        let mapped =
            pages.filter(|&page| matches!(self.journal.map().get(page), Mapped::Slot { .. }));
        let used = mapped.count() as u64 + self.page_writes.len() as u64;
        let (free, slots) = (self.journal.free_slots(), self.setting.geometry.slots);
        // Slots that failed are free again only when no other is.
        if self.setting.errors == 0.0 && used + free != slots {
            return Err(Violation::new(format!("{used} used and {free} free of {slots} slots")));
        }
        Ok(())
    }
}

/// Where in a page a long transaction stores, in words.
const PADDING_AT: u64 = 16;
/// How many words it stores there.
const PADDING_WORDS: u64 = 120;
