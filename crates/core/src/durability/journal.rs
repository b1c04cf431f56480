//! [`Journal`]: the running half of the protocol, as a state machine without I/O.
//!
//! One lock around it gives all the orders that matter: a transaction takes its place in the log and
//! takes effect under it, so that both orders are the same. Whoever drives it asks [`next`](Journal::next)
//! what to write or flush, does that, and says how it ended.

use std::sync::Arc;

use super::base_map::{Mapped, PageMap, SlotTable};
use super::checkpoint::Checkpoint;
use super::geometry::{Block, Geometry, Page};
use super::log::Log;
use super::planted::{Mistake, Planted};
use super::record::{MAP_RECORD_BYTES, Map, encode_map, encode_stores, stores_bytes_max};
use super::slots::Slots;
use super::superblock::Superblock;
use super::unmapped::Unmapped;
use super::write_set::WriteSet;
use super::{Lsn, TransactionError};
use crate::addr::PageId;
use crate::placement::Run;

/// The most blocks that one [`Io::Write`] has.
const WRITE_BLOCKS_MAX: usize = 64;

/// The bounds of a journal, which depend on the DRAM that an engine has and not on the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes that one transaction may store, in whole words.
    pub transaction_bytes_max: usize,
    /// The most log blocks in DRAM that were not written yet or are reserved.
    pub buffer_blocks_max: u64,
    /// The most pages with stores that no copy on flash has. Transactions wait at this bound.
    pub unmapped_pages_max: usize,
    /// From this many pages with stores in DRAM alone on, some are to be written. With an eighth of the bound
    /// above, which may wait for their map records, it must be less than that bound.
    pub dirty_pages_max: usize,
}

/// What the device is to do next. Nothing else of the journal may be under way meanwhile.
#[derive(Debug)]
pub enum Io {
    /// Write these blocks, in any order.
    Write(Vec<(Block, Box<Page>)>),
    /// Make everything survive that was written before, by anyone.
    Flush,
}

/// What is under way.
#[derive(Debug, Clone, Copy)]
enum Doing {
    Log,
    Base,
    Superblock,
    Flush { log_through: u64 },
}

/// A page that is being written to a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frozen {
    /// The page.
    pub page: PageId,
    /// The copy has every record before this.
    pub covers: Lsn,
}

/// The log, the map and the slots of a persist part that is in use.
#[derive(Debug)]
pub struct Journal {
    geometry: Geometry,
    pub(super) log: Log,
    map: PageMap,
    pub(super) slots: Slots,
    pub(super) unmapped: Unmapped,
    /// The newest on the device.
    pub(super) superblock: Superblock,
    pub(super) checkpoint: Checkpoint,
    limits: Limits,
    /// Log blocks that transactions under way may need.
    reserved: u64,
    /// Where the newest transaction ends.
    committed: Lsn,
    doing: Option<Doing>,
    /// Blocks below this number belong to the group that the next flush makes durable. What is committed
    /// while they are written waits for the flush after it: to write it too would delay those that wait, and
    /// end one more block before it is full.
    group_end: Option<u64>,
    /// The last flush came after the last blocks of a base map: both are to go on.
    flushed_last: bool,
    /// The log from the horizon on stays, and so no new superblock is written.
    pub(super) pinned: bool,
    ended: Option<String>,
    record: Vec<u8>,
    pub(super) planted: Planted,
}

impl Journal {
    pub(super) fn new(
        geometry: Geometry,
        log: Log,
        map: PageMap,
        slots: Slots,
        superblock: Superblock,
        limits: Limits,
        planted: Planted,
    ) -> Journal {
        Journal {
            geometry,
            log,
            map,
            slots,
            unmapped: Unmapped::default(),
            superblock,
            checkpoint: Checkpoint::Idle,
            limits,
            reserved: 0,
            committed: Lsn::ZERO,
            doing: None,
            group_end: None,
            flushed_last: false,
            pinned: false,
            ended: None,
            record: Vec::new(),
            planted,
        }
    }

    /// Where all pages are.
    pub fn map(&self) -> &PageMap {
        &self.map
    }

    /// Asks `slots` from now on where pages are. It names the same slots as the [map](Journal::map), which
    /// frees its own table of them.
    pub fn keep_slots_in(&mut self, slots: Arc<dyn SlotTable>) {
        self.map.keep_slots_in(slots);
    }

    /// The sizes of the persist part.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The bounds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The number of this time that the store is open.
    pub fn boot(&self) -> u32 {
        self.superblock.boot
    }

    /// All transactions up to here are on the device.
    pub fn durable(&self) -> Lsn {
        if self.planted.is(Mistake::AcknowledgesBeforeFlush) {
            return self.log.written();
        }
        self.log.durable()
    }

    /// Where the newest transaction ends.
    pub fn committed(&self) -> Lsn {
        self.committed
    }

    /// Recovery would redo nothing of what was committed before this place in the log.
    pub fn horizon(&self) -> Lsn {
        self.superblock.horizon
    }

    /// Whether a copy of the store keeps a checkpoint from ending.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Ends all writing, for this reason.
    pub fn end(&mut self, reason: String) {
        self.ended.get_or_insert(reason);
    }

    /// Why nothing more can be written, if so.
    pub fn ended(&self) -> Option<TransactionError> {
        self.ended.clone().map(|reason| TransactionError::WritingEnded { reason })
    }

    /// Blocks of the log that recovery would read.
    pub fn log_blocks_used(&self) -> u64 {
        self.geometry.log_blocks - self.log.free_blocks()
    }

    /// The DRAM that a page with stores that no copy has takes here, in bytes.
    pub const UNMAPPED_PAGE_BYTES: usize = Unmapped::PAGE_BYTES_MAX;

    /// Pages with stores that no copy on flash has.
    pub fn unmapped_pages(&self) -> usize {
        self.unmapped.len()
    }

    /// Slots that hold no page now, or will not once the log is on the device.
    pub fn free_slots(&self) -> u64 {
        self.slots.free_count() + self.slots.leaving_count() as u64
    }

    /// Log blocks that a transaction of `bytes` bytes may need: one more than it fills, since a group
    /// may end in the middle of a block.
    pub fn blocks_for(bytes: usize) -> u64 {
        stores_bytes_max(bytes).div_ceil(super::log_block::PAYLOAD_BYTES) as u64 + 1
    }

    /// Reserves room in the log for a transaction of at most `bytes` bytes, to be given back by
    /// [`release`](Journal::release). If there is none, it may come with the next flush or checkpoint.
    /// Waiting for it must hold nothing that another transaction needs.
    ///
    /// # Errors
    /// When nothing can be written any more, or the size is beyond the bound.
    pub fn try_reserve(&mut self, bytes: usize) -> Result<bool, TransactionError> {
        if let Some(error) = self.ended() {
            return Err(error);
        }
        if bytes > self.limits.transaction_bytes_max {
            let (what, max) = (format!("{bytes} bytes"), self.limits.transaction_bytes_max as u64);
            return Err(TransactionError::TooLarge { what, max });
        }
        let blocks = Journal::blocks_for(bytes);
        // A quarter of the ring is left to map records, without which it would never be free again.
        let spends_all = self.planted.is(Mistake::SpendsRoomOfMaps);
        let of_maps = if spends_all { 0 } else { self.geometry.log_blocks / 4 };
        let room = self.log.free_blocks().saturating_sub(of_maps);
        let fits = self.reserved + blocks <= room
            && self.log.unwritten_blocks() + self.reserved + blocks
                <= self.limits.buffer_blocks_max
            && self.unmapped.len() < self.limits.unmapped_pages_max;
        if fits {
            self.reserved += blocks;
        }
        Ok(fits)
    }

    /// Gives back what was reserved for `bytes` bytes.
    pub fn release(&mut self, bytes: usize) {
        self.reserved -= Journal::blocks_for(bytes);
    }

    /// Whether a transaction that stores to `pages` more pages leaves recovery a free slot for every page
    /// that it may have to write. If not, some have to be written first.
    pub fn has_slots_for(&self, pages: usize) -> bool {
        let spare = self.geometry.slots - self.geometry.pages;
        (self.unmapped.len() + pages) as u64 <= spare
    }

    /// Appends a transaction for which there is a reservation, lets `apply` store it in memory, and
    /// gives where it ends. Whoever calls this holds all latches that the transaction took.
    ///
    /// # Errors
    /// When nothing can be written any more. Nothing is applied then.
    pub fn commit(
        &mut self,
        set: &WriteSet,
        apply: impl FnOnce(),
    ) -> Result<Lsn, TransactionError> {
        if let Some(error) = self.ended() {
            return Err(error);
        }
        if set.is_empty() {
            return Ok(self.committed);
        }
        self.record.clear();
        encode_stores(set, &mut self.record);
        let start = self.log.append(&self.record);
        set.pages().for_each(|page| self.unmapped.note_store(page, start));
        self.committed = self.log.tail();
        apply();
        Ok(self.committed)
    }

    /// Takes a run of at most `count_max` slots to write pages to. `None` if no slot is free: a flush
    /// may free some ([`wants_flush`](Journal::wants_flush)).
    pub fn take_slots(&mut self, count_max: u32) -> Option<Run> {
        if self.ended.is_some() {
            return None;
        }
        self.slots.take(count_max)
    }

    /// As [`take_slots`](Journal::take_slots), for groups of pages of these sizes: pages of a group get
    /// neighbouring slots if there are some ([`Placement::take_for`](crate::Placement::take_for)).
    pub fn take_slots_for(&mut self, groups: &[u32]) -> Option<Run> {
        if self.ended.is_some() {
            return None;
        }
        self.slots.take_for(groups)
    }

    /// `page`, which nobody can store to until its copy is made, is about to be written.
    pub fn freeze(&mut self, page: PageId) -> Frozen {
        self.unmapped.freeze(page);
        Frozen { page, covers: self.log.tail() }
    }

    /// The copy of `page` was written to `slot`. Where it was before is free once the log says so on the
    /// device. False if that cannot be logged; the slot is then free again.
    /// `checksum` is that of the copy ([`Geometry::checksum`]).
    pub fn written(&mut self, frozen: Frozen, slot: u32, checksum: u32) -> bool {
        let Frozen { page, covers } = frozen;
        // The one being filled may end in the middle of it.
        let needed = MAP_RECORD_BYTES.div_ceil(super::log_block::PAYLOAD_BYTES) as u64 + 1;
        if self.ended.is_some() || self.log.free_blocks() < needed {
            self.slots.release(slot);
            return false;
        }
        let covers = if self.planted.is(Mistake::CoversTooMuch) {
            // As if the copy were made now, of the live page.
            Lsn(self.log.tail().0 + 4096)
        } else {
            covers
        };
        self.record.clear();
        encode_map(&Map { page, slot, checksum, covers }, &mut self.record);
        self.log.append(&self.record);
        let end = self.log.tail();
        self.unmapped.note_mapped(page, end);
        if self.planted.is(Mistake::ForgetsStoresAtMap) {
            self.unmapped.settle(end);
        }
        let old = self.map.get(page);
        self.map.set(page, Mapped::Slot { slot, checksum });
        if let Mapped::Slot { slot: old, .. } = old {
            if self.planted.is(Mistake::FreesSlotAtOnce) {
                self.slots.release(old);
            } else {
                self.slots.leave(old, end);
            }
        }
        true
    }

    /// `slot` could not be written. The page has to be written to another one.
    pub fn write_failed(&mut self, slot: u32) {
        self.slots.retire(slot);
    }

    /// Whether `contents`, read from where the map says that `page` is, are what was written there.
    pub fn is_sound(&self, page: PageId, contents: &Page) -> bool {
        match self.map.get(page) {
            Mapped::Slot { checksum, .. } => self.geometry.checksum(contents) == checksum,
            Mapped::Blank => contents.iter().all(|&byte| byte == 0),
            Mapped::Poisoned => false,
        }
    }

    /// Begins a checkpoint, unless one is under way: the pages that were stored to so far are written,
    /// then the map, so that the log before is not needed any more.
    pub fn begin_checkpoint(&mut self) {
        if matches!(self.checkpoint, Checkpoint::Idle) && self.ended.is_none() {
            self.checkpoint = Checkpoint::Cleaning { target: self.log.tail() };
        }
    }

    /// Whether a checkpoint is under way.
    pub fn in_checkpoint(&self) -> bool {
        !matches!(self.checkpoint, Checkpoint::Idle)
    }

    /// Whether so much of the log is used that a checkpoint should begin.
    pub fn wants_checkpoint(&self) -> bool {
        self.log.free_blocks() <= self.geometry.log_blocks / 2
    }

    /// How many pages should be written because too many have stores that are in DRAM alone.
    fn wants_cleaned(&self) -> usize {
        let without_copy = self.unmapped.len().saturating_sub(self.unmapped.mapping_len());
        without_copy.saturating_sub(self.limits.dirty_pages_max)
    }

    /// Whether so many pages wait for their map records to be on the device that it is time. When the
    /// log is nearly full, that is left to the checkpoint: every flush ends a block.
    fn wants_settled(&self) -> bool {
        self.unmapped.mapping_len() >= self.limits.unmapped_pages_max.div_ceil(8)
            && !self.wants_checkpoint()
    }

    /// Whether there are pages to write because too many have stores that are in DRAM alone.
    pub fn wants_cleaning(&self) -> bool {
        self.wants_cleaned() > 0
    }

    /// Whether whoever writes the log has something to do, beside cleaning, that is more urgent than the
    /// next flush in time.
    pub fn wants_attention(&self) -> bool {
        self.wants_write()
            || self.wants_settled()
            || self.wants_checkpoint() && !self.in_checkpoint()
    }

    /// Whether so many full blocks are in DRAM that they should be written.
    pub fn wants_write(&self) -> bool {
        let many = (self.limits.buffer_blocks_max / 4).clamp(1, WRITE_BLOCKS_MAX as u64);
        self.log.unwritten_blocks() >= many
    }

    /// Pages that should be written: a checkpoint under way waits for them, or too many have stores that
    /// no copy has.
    pub fn next_to_clean(&mut self) -> Vec<PageId> {
        match self.checkpoint {
            Checkpoint::Cleaning { target } => self.unmapped.to_clean(target).collect(),
            _ => match self.wants_cleaned() {
                0 => Vec::new(),
                count => self.unmapped.next_to_clean(self.log.tail(), count),
            },
        }
    }

    /// Whether something waits for a flush that nobody has asked for.
    pub fn wants_flush(&self) -> bool {
        let waits = match self.checkpoint {
            Checkpoint::Cleaning { target } => {
                self.unmapped.first().is_some_and(|first| first < target)
                    && self.unmapped.to_clean(target).next().is_none()
            }
            Checkpoint::BaseWritten { superblock: Some(_), .. } => !self.pinned,
            Checkpoint::BaseWritten { .. } | Checkpoint::SuperblockWritten { .. } => true,
            Checkpoint::Idle | Checkpoint::Base { .. } => false,
        };
        waits || self.wants_settled() || self.slots.wants_flush()
    }

    /// What to do next; `flush` asks that all that is committed becomes durable. Call
    /// [`done`](Journal::done) when it is done.
    ///
    /// # Panics
    /// When something is under way.
    pub fn next(&mut self, flush: bool) -> Option<Io> {
        assert!(self.doing.is_none(), "one thing at a time");
        if self.ended.is_some() {
            return None;
        }
        self.advance_checkpoint();
        // Map records alone wait for the next group: every flush ends a block.
        let flush = flush && self.committed > self.log.durable() || self.wants_flush();
        if flush && self.group_end.is_none() {
            self.log.seal();
            self.group_end = Some(self.log.sealed_to()).filter(|&end| end > self.log.flushed_to());
        }
        let is_written = self.group_end.is_some_and(|end| self.log.flushes_to() >= end);
        let blocks = if flush && is_written { None } else { self.log.take(WRITE_BLOCKS_MAX) };
        if let Some(blocks) = blocks {
            self.doing = Some(Doing::Log);
            let places = (blocks.first..).map(|number| self.geometry.log(number));
            return Some(Io::Write(places.zip(blocks.blocks).collect()));
        }
        let unflushed = self.log.durable() < self.log.written();
        if flush && unflushed && !self.flushed_last {
            return Some(self.begin_flush());
        }
        if let Some(blocks) = self.checkpoint.base_blocks(
            &self.geometry,
            &self.map,
            self.superblock.generation + 1,
            1 - self.superblock.base.unwrap_or(1),
        ) {
            self.doing = Some(Doing::Base);
            self.flushed_last = false;
            return Some(Io::Write(blocks));
        }
        if let Some(superblock) = self.checkpoint.superblock().filter(|_| !self.pinned) {
            self.doing = Some(Doing::Superblock);
            let mut page = Box::new([0; crate::addr::PAGE_BYTES]);
            superblock.encode(&self.geometry, &mut page);
            let places = superblock.places(&self.geometry);
            return Some(Io::Write(places.map(|place| (place, page.clone())).to_vec()));
        }
        let waits = self.checkpoint.waits_for_flush();
        (flush && (unflushed || waits)).then(|| self.begin_flush())
    }

    /// Begins to close the store, once [`next`](Journal::next) has nothing to do: the last superblock says
    /// where the log ends, so that damage there is told from its end. True if there is something to write
    /// for that; call it again when that is done. Nothing may be committed from then on.
    pub fn close(&mut self) -> bool {
        let end = self.log.durable();
        let begins = self.ended.is_none()
            && !self.pinned
            && matches!(self.checkpoint, Checkpoint::Idle | Checkpoint::Cleaning { .. })
            && self.superblock.log_end < end
            && !self.planted.is(Mistake::ForgetsLogEnd);
        if begins {
            let generation = self.superblock.generation + 1;
            let superblock = Superblock { generation, log_end: end, ..self.superblock };
            self.checkpoint = Checkpoint::closing(superblock);
        }
        begins
    }

    /// Whether a superblock is being written.
    pub(super) fn writes_superblock(&self) -> bool {
        matches!(self.doing, Some(Doing::Superblock))
    }

    fn begin_flush(&mut self) -> Io {
        self.doing = Some(Doing::Flush { log_through: self.log.flushes_to() });
        self.flushed_last = true;
        Io::Flush
    }

    /// What [`next`](Journal::next) gave is done. A write or a flush that failed ends all writing: what
    /// is on the device is no longer known, and trying again would not tell.
    pub fn done(&mut self, result: Result<(), String>) {
        let doing = self.doing.take().expect("something is under way");
        if let Err(reason) = result {
            if self.planted.is(Mistake::RetriesFlush) && matches!(doing, Doing::Flush { .. }) {
                return self.done_well(doing);
            }
            self.ended = Some(reason);
            return;
        }
        self.done_well(doing);
    }

    fn done_well(&mut self, doing: Doing) {
        match doing {
            Doing::Log => self.log.note_written(),
            Doing::Base => self.checkpoint.base_written(&self.geometry, self.log.tail()),
            Doing::Superblock => {
                self.checkpoint.superblock_written();
                if self.planted.is(Mistake::ReusesLogEarly)
                    && let Checkpoint::SuperblockWritten { superblock } = self.checkpoint
                {
                    self.log.note_superblock(superblock.generation, superblock.horizon);
                }
            }
            Doing::Flush { log_through } => {
                self.log.note_flushed(log_through);
                self.group_end = self.group_end.filter(|&end| end > log_through);
                let durable = self.log.durable();
                self.slots.settle(durable);
                if self.planted.is(Mistake::ReleasesHeldSlots) {
                    self.slots.free_all_left();
                }
                self.unmapped.settle(durable);
                if let Some(superblock) = self.checkpoint.flushed() {
                    self.superblock = superblock;
                    self.log.note_superblock(superblock.generation, superblock.horizon);
                }
            }
        }
    }

    /// Moves a checkpoint on that waits for no device.
    fn advance_checkpoint(&mut self) {
        match self.checkpoint {
            Checkpoint::Cleaning { target }
                if self.unmapped.first().is_none_or(|first| first >= target)
                    || self.planted.is(Mistake::HorizonTooLate) =>
            {
                self.checkpoint = Checkpoint::Base { start: self.log.tail(), index: 0 };
            }
            Checkpoint::BaseWritten { start, end, flushed, superblock: None } => {
                let durable = self.log.durable() >= end;
                let early = self.planted.is(Mistake::NamesBaseBeforeFlush);
                if !(durable && flushed || early) {
                    return;
                }
                let first = self.unmapped.first().unwrap_or(start);
                let late = self.planted.is(Mistake::HorizonTooLate);
                let horizon = if late { start } else { start.min(first) };
                let generation = self.superblock.generation + 1;
                let superblock = Superblock {
                    generation,
                    base: Some(1 - self.superblock.base.unwrap_or(1)),
                    base_generation: generation,
                    horizon,
                    log_boot: self.superblock.boot,
                    log_end: self.log.durable(),
                    ..self.superblock
                };
                self.checkpoint =
                    Checkpoint::BaseWritten { start, end, flushed, superblock: Some(superblock) };
            }
            _ => {}
        }
    }
}
