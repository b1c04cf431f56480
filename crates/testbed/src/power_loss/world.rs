//! [`World`]: jobs, a cache and a journal over a disk model, one step at a time.
//!
//! A step is a scheduling decision or a device event, drawn from a seed. Jobs on several cores
//! interleave between the steps of their transactions: reserving, bringing pages in, committing.

use ebbtide_core::PageId;
use ebbtide_core::durability::{Frozen, Io, Journal, Lsn, Mapped, Page, StoredWord, WriteSet};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::disk::DiskModel;
use super::oracle::{COUNT_WORD, READ_WORD, State, Violation, WORDS_OF_PAGE};
use super::setting::{EngineMistake, Setting, TRANSACTION_BYTES_MAX};

/// A job with a transaction. It holds the latches of the pages that it stores to, and reads the
/// count of one more without a latch.
#[derive(Debug)]
struct Job {
    set: WriteSet,
    /// The page that it reads without a latch.
    also: PageId,
    read: Option<Read>,
}

/// The values that a job has read.
#[derive(Debug)]
struct Read {
    /// The counts of the pages that it stores to.
    counts: Vec<u64>,
    /// The count of the other page, and how many stores that page had had then.
    also: u64,
    version: u64,
}

/// A page on its way to a slot.
#[derive(Debug)]
struct PageWrite {
    frozen: Frozen,
    slot: u32,
    number: u64,
    checksum: u32,
}

/// The operations that the journal has asked for.
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
    /// Pages that a job has latched, and how often each was stored to.
    latched: Vec<bool>,
    versions: Vec<u64>,
    /// Stores that were committed and are not in memory yet: a planted mistake.
    late: Vec<WriteSet>,
    jobs: Vec<Option<Job>>,
    page_writes: Vec<PageWrite>,
    io: Option<Under>,
    random: Pcg64Mcg,
    next_value: u64,
    /// The state after each transaction since recovery, with where it ends.
    pub(super) states: Vec<(Lsn, State)>,
    /// The place up to which these were acknowledged.
    pub(super) acknowledged: Lsn,
    /// Steps that wrote something, or were told of a write.
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
            latched: vec![false; pages],
            versions: vec![0; pages],
            late: Vec::new(),
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

    /// Returns true if writing has ended for good and nothing more can happen to the disk.
    pub fn has_ended(&self) -> bool {
        self.journal.ended().is_some() && self.io.is_none() && self.page_writes.is_empty()
    }

    /// Performs one step.
    ///
    /// # Errors
    /// When memory does not hold what was committed.
    pub fn step(&mut self) -> Result<(), Violation> {
        if !self.late.is_empty() && self.random.random_bool(0.5) {
            self.apply_late();
        }
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

    /// Draws the next step from all that are possible.
    fn draw(&mut self) -> Step {
        loop {
            let pages = self.setting.geometry.pages;
            let page = self.random.random_range(0..pages);
            let step = match self.random.random_range(0..20) {
                0..8 => {
                    let job = self.random.random_range(0..self.jobs.len());
                    if self.jobs[job].is_some() { Step::Continue(job) } else { Step::Begin(job) }
                }
                8 => match self.journal.next_to_clean().first() {
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
        let mut set = WriteSet::default();
        // Now and then a transaction that does not fit in one block.
        let long = self.random.random_bool(0.05);
        let count = self.random.random_range(1..if long { 3 } else { 4 });
        for _ in 0..count {
            let page = self.random.random_range(0..self.setting.geometry.pages);
            let word = WORDS_OF_PAGE[self.random.random_range(0..WORDS_OF_PAGE.len())];
            // The value is set when it is committed; only its place matters here.
            set.store(PageId(page).start() + word * 8, &[0; 8]);
            if long {
                LONG_WORDS.step_by(2).for_each(|word| {
                    set.store(PageId(page).start() + word * 8, &[0; 8]);
                });
            }
        }
        set.pages().collect::<Vec<_>>().into_iter().for_each(|page| {
            set.store(page.start() + COUNT_WORD * 8, &[0; 8]);
            set.store(page.start() + READ_WORD * 8, &[0; 8]);
        });
        if set.pages().any(|page| self.latched[page.index()]) {
            return;
        }
        if matches!(self.journal.try_reserve(TRANSACTION_BYTES_MAX), Ok(true)) {
            set.pages().for_each(|page| self.latched[page.index()] = true);
            let also = PageId(self.random.random_range(0..self.setting.geometry.pages));
            self.jobs[job] = Some(Job { set, also, read: None });
        }
    }

    fn makes(&self, mistake: EngineMistake) -> bool {
        self.setting.engine_mistake == Some(mistake)
    }

    fn count_of(&self, page: PageId) -> u64 {
        let frame = self.frames[page.index()].as_ref().expect("it is there");
        let word = frame[COUNT_WORD as usize * 8..].first_chunk();
        u64::from_ne_bytes(*word.expect("a page is made of words"))
    }

    /// Reads the values that the job's stores depend on. All its pages are there.
    fn read(&self, job: &Job) -> Read {
        Read {
            counts: job.set.pages().map(|page| self.count_of(page)).collect(),
            also: self.count_of(job.also),
            version: self.versions[job.also.index()],
        }
    }

    fn release(&mut self, set: &WriteSet) {
        set.pages().for_each(|page| self.latched[page.index()] = false);
    }

    /// Goes on with a job: brings in a page of its transaction; or reads, if all pages are there;
    /// or commits.
    fn go_on(&mut self, job: usize) -> Result<(), Violation> {
        let under_way = self.jobs[job].as_ref().expect("it has begun");
        let pages: Vec<PageId> = under_way.set.pages().chain([under_way.also]).collect();
        if pages.iter().any(|page| self.busy[page.index()]) {
            return Ok(());
        }
        if let Some(absent) = pages.iter().find(|page| self.frames[page.index()].is_none()) {
            return self.look(absent.0);
        }
        let mut under_way = self.jobs[job].take().expect("it has begun");
        let also = under_way.also;
        let is_old = |read: &Read| read.version != self.versions[also.index()];
        let again = under_way.read.as_ref().is_none_or(is_old);
        if again && (under_way.read.is_none() || !self.makes(EngineMistake::SkipsSecondLook)) {
            under_way.read = Some(self.read(&under_way));
            if self.makes(EngineMistake::ReleasesLatchesEarly) {
                self.release(&under_way.set);
            }
            self.jobs[job] = Some(under_way);
        } else if !self.journal.has_slots_for(pages.len() - 1) {
            self.jobs[job] = Some(under_way);
        } else {
            self.commit(under_way);
        }
        Ok(())
    }

    fn commit(&mut self, job: Job) {
        let Job { set, also, read } = job;
        let read = read.expect("it was read");
        let pages: Vec<PageId> = set.pages().collect();
        // The new contents of memory come from the values read. The expected ones come from the
        // state before.
        let before = &self.states.last().expect("there is a first").1;
        let (mut state, mut valued) = (before.clone(), WriteSet::default());
        for StoredWord { at, .. } in set.words() {
            let index = pages.binary_search(&at.page()).expect("it is one of them");
            let (value, right) = match at.page_offset() as u64 / 8 {
                COUNT_WORD => (read.counts[index] + 1, before.get(at) + 1),
                READ_WORD => (read.also, before.get(also.start() + COUNT_WORD * 8)),
                _ => (self.next_value, self.next_value),
            };
            valued.store(at, &value.to_ne_bytes());
            state.set(at, right);
        }
        self.next_value += 1;
        let late = [EngineMistake::AppliesLater, EngineMistake::AppliesOutOfOrder];
        let is_late = late.iter().any(|mistake| self.makes(*mistake));
        let (frames, dirty) = (&mut self.frames, &mut self.dirty);
        let committed = self.journal.commit(&valued, || {
            if !is_late {
                apply(&valued, frames, dirty);
            }
        });
        self.journal.release(TRANSACTION_BYTES_MAX);
        self.release(&set);
        if let Ok(end) = committed {
            self.states.push((end, state));
            pages.iter().for_each(|page| self.versions[page.index()] += 1);
            if is_late {
                self.late.push(valued);
            }
        }
    }

    /// Applies the stores that were committed before.
    fn apply_late(&mut self) {
        let in_order = self.makes(EngineMistake::AppliesLater);
        let index = if in_order { 0 } else { self.random.random_range(0..self.late.len()) };
        let set = self.late.remove(index);
        if set.pages().all(|page| self.frames[page.index()].is_some()) {
            apply(&set, &mut self.frames, &mut self.dirty);
        }
    }

    /// Reads a page, and brings it in if it is not there.
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
            if !self.journal.is_sound(page, &contents) {
                return Err(Violation::new(format!("{page:?} was read back damaged")));
            }
            self.frames[index] = Some(contents);
        }
        if self.late.iter().any(|set| set.pages().any(|stored| stored == page)) {
            return Ok(());
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
        if self.page_writes.iter().any(|write| write.frozen.page == PageId(page)) {
            return;
        }
        let Some(run) = self.journal.take_slots(1) else { return };
        self.busy[index] = !self.makes(EngineMistake::WritesLivePages);
        let frozen = self.journal.freeze(PageId(page));
        let contents = self.frames[index].as_ref().expect("it is there");
        let number = self.disk.submit(self.setting.geometry.slot(run.first), contents);
        self.device_events += 1;
        let checksum = self.setting.geometry.checksum(&contents[..]);
        self.page_writes.push(PageWrite { frozen, slot: run.first, number, checksum });
    }

    fn fails(&mut self) -> bool {
        self.setting.errors > 0.0 && self.random.random_bool(self.setting.errors)
    }

    fn end_page_write(&mut self, index: usize) {
        let PageWrite { frozen, slot, number, checksum } = self.page_writes.swap_remove(index);
        let page = frozen.page.index();
        self.device_events += 1;
        self.busy[page] = false;
        if self.fails() {
            self.disk.fail(number);
            return self.journal.write_failed(slot);
        }
        self.disk.complete(number);
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

    /// Takes the next step towards closing the store. Returns false when it is closed.
    pub fn close_step(&mut self) -> bool {
        if self.io.is_some() {
            self.end_io();
            return true;
        }
        self.start_io(true);
        self.io.is_some() || self.journal.close()
    }

    /// Completes the operations under way and takes a checkpoint. That must be possible even if
    /// everything is full, and leave room for another transaction.
    ///
    /// # Errors
    /// When there is none after many steps.
    pub fn settle(&mut self) -> Result<(), Violation> {
        let mut checkpoints = 0;
        for _ in 0..SETTLING_STEPS {
            if self.journal.ended().is_some() {
                return Ok(());
            }
            while !self.late.is_empty() {
                self.apply_late();
            }
            for job in 0..self.jobs.len() {
                if self.jobs[job].is_some() {
                    self.go_on(job)?;
                }
            }
            for page in self.journal.next_to_clean() {
                self.evict(page.0);
            }
            match (&self.io, self.page_writes.is_empty()) {
                (_, false) => self.end_page_write(0),
                (Some(_), true) => self.end_io(),
                (None, true) => self.start_io(true),
            }
            if self.journal.in_checkpoint() {
                continue;
            }
            let idle = self.io.is_none() && self.jobs.iter().all(Option::is_none);
            if idle && checkpoints > 0 {
                let reserved = self.journal.try_reserve(TRANSACTION_BYTES_MAX);
                if matches!(reserved, Ok(true)) {
                    self.journal.release(TRANSACTION_BYTES_MAX);
                    return self.check_slots();
                }
            }
            self.journal.begin_checkpoint();
            checkpoints += 1;
        }
        let blocks = self.journal.log_blocks_used();
        Err(Violation::new(format!("nothing goes on: {blocks} log blocks are in use")))
    }

    /// Checks that every slot is free, about to be, or holds one page.
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

/// A long transaction stores to every second of these words of a page. Each is a run of its own in
/// the log.
const LONG_WORDS: std::ops::Range<u64> = 16..496;

/// The most steps to complete the operations under way.
const SETTLING_STEPS: u64 = 5_000;

fn apply(set: &WriteSet, frames: &mut [Option<Box<Page>>], dirty: &mut [bool]) {
    for StoredWord { at, word, .. } in set.words() {
        let page = frames[at.page().index()].as_mut().expect("all are there");
        page[at.page_offset()..at.page_offset() + 8].copy_from_slice(&word.to_ne_bytes());
        dirty[at.page().index()] = true;
    }
}
