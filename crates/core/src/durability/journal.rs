//! [`Journal`]: the running half of the protocol, as a state machine without I/O.
//!
//! One lock around it gives all the orders that matter. A transaction takes its place in the log
//! and takes effect under that lock, so both orders are the same. The driver asks
//! [`next`](Journal::next) what to write or flush, does it, and reports how it ended.

use std::sync::Arc;

use super::base_map::{Mapped, PageMap, SlotTable};
use super::checkpoint::Checkpoint;
use super::geometry::{Block, Geometry, Page};
use super::log::Log;
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

/// The bounds of a journal. They depend on the DRAM of an engine and not on the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes that one transaction may store, in whole words.
    pub transaction_bytes_max: usize,
    /// What that bound depends on, for errors.
    pub transaction_bound: &'static str,
    /// The most log blocks in DRAM that were not written yet or are reserved.
    pub buffer_blocks_max: u64,
    /// The most pages whose newest stores are in no copy on flash. Transactions wait at this bound.
    pub unmapped_pages_max: usize,
    /// From this many pages with stores in DRAM alone on, some must be written. At most an eighth
    /// of the bound above may wait for map records; this plus that eighth must be below the bound.
    pub dirty_pages_max: usize,
}

/// The next operation of the device. Only one may be under way at a time.
#[derive(Debug)]
pub enum Io {
    /// Write these blocks, in any order.
    Write(Vec<(Block, Box<Page>)>),
    /// Make all earlier writes survive a loss of power.
    Flush,
}

/// The operation under way.
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
    /// The copy contains every record before this place in the log.
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
    /// The newest superblock on the device.
    pub(super) superblock: Superblock,
    pub(super) checkpoint: Checkpoint,
    limits: Limits,
    /// Log blocks that transactions under way may need.
    reserved: u64,
    /// Where the newest transaction ends.
    committed: Lsn,
    doing: Option<Doing>,
    /// Blocks below this number belong to the group that the next flush makes durable. A
    /// transaction that commits during their write waits for the flush after it. To add it would
    /// delay the jobs that wait for the group, and end one more block before it is full.
    group_end: Option<u64>,
    /// True if the last flush came after the last blocks of a base map. The next blocks of the map
    /// then go first, so that flushes and the checkpoint alternate.
    flushed_last: bool,
    /// True if the log from the horizon on must stay. No new superblock is written then.
    pub(super) pinned: bool,
    ended: Option<String>,
    record: Vec<u8>,
}

impl Journal {
    pub(super) fn new(
        geometry: Geometry,
        log: Log,
        map: PageMap,
        slots: Slots,
        superblock: Superblock,
        limits: Limits,
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
        }
    }

    /// Returns the map of all pages.
    pub fn map(&self) -> &PageMap {
        &self.map
    }

    /// Asks `slots` for the slots of pages from now on. It names the same slots as the
    /// [map](Journal::map), which frees its own table.
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

    /// Returns how many times the store was opened.
    pub fn boot(&self) -> u32 {
        self.superblock.boot
    }

    /// Returns the place up to which all transactions are on the device.
    pub fn durable(&self) -> Lsn {
        self.log.durable()
    }

    /// Returns the place where the newest transaction ends.
    pub fn committed(&self) -> Lsn {
        self.committed
    }

    /// Returns the horizon: recovery would redo no transaction before this place in the log.
    pub fn horizon(&self) -> Lsn {
        self.superblock.horizon
    }

    /// Returns true if a copy of the store keeps a checkpoint from ending.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Ends all writing, with this reason.
    pub fn end(&mut self, reason: String) {
        self.ended.get_or_insert(reason);
    }

    /// Returns why nothing more can be written, if that is so.
    pub fn ended(&self) -> Option<TransactionError> {
        self.ended.clone().map(|reason| TransactionError::WritingEnded { reason })
    }

    /// Returns the blocks of the log that recovery would read.
    pub fn log_blocks_used(&self) -> u64 {
        self.geometry.log_blocks - self.log.free_blocks()
    }

    /// DRAM in bytes for a page with stores that are in no copy.
    pub const UNMAPPED_PAGE_BYTES: usize = Unmapped::PAGE_BYTES_MAX;

    /// Returns the number of slots that hold no page now, or will hold none once the log is on the
    /// device.
    pub fn free_slots(&self) -> u64 {
        self.slots.free_count() + self.slots.leaving_count() as u64
    }

    /// Returns the log blocks that a transaction of `bytes` bytes may need. That is one more than
    /// it fills, since a group may end in the middle of a block.
    pub fn blocks_for(bytes: usize) -> u64 {
        stores_bytes_max(bytes).div_ceil(super::log_block::PAYLOAD_BYTES) as u64 + 1
    }

    /// Reserves room in the log for a transaction of at most `bytes` bytes.
    /// [`release`](Journal::release) returns the reservation. Without room this is false; room may
    /// come with the next flush or checkpoint. A job that waits for it must hold nothing that
    /// another transaction needs.
    ///
    /// # Errors
    /// When nothing can be written any more, or the size is beyond the bound.
    pub fn try_reserve(&mut self, bytes: usize) -> Result<bool, TransactionError> {
        if let Some(error) = self.ended() {
            return Err(error);
        }
        if bytes > self.limits.transaction_bytes_max {
            let Limits { transaction_bytes_max, transaction_bound: bound, .. } = self.limits;
            let (what, max) = (format!("{bytes} bytes"), transaction_bytes_max as u64);
            return Err(TransactionError::TooLarge { what, max, bound });
        }
        let blocks = Journal::blocks_for(bytes);
        // A quarter of the ring is left to map records. Without them the ring would never become
        // free again.
        let of_maps = self.geometry.log_blocks / 4;
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

    /// Returns the reservation for `bytes` bytes.
    pub fn release(&mut self, bytes: usize) {
        self.reserved -= Journal::blocks_for(bytes);
    }

    /// Returns true if recovery still has a free slot for every page to write after a transaction
    /// that stores to `pages` more pages. If false, some pages must be written first.
    pub fn has_slots_for(&self, pages: usize) -> bool {
        let spare = self.geometry.slots - self.geometry.pages;
        (self.unmapped.len() + pages) as u64 <= spare
    }

    /// Appends a transaction that has a reservation, and lets `apply` store it in memory. Returns
    /// where it ends. The caller must hold all latches that the transaction took.
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

    /// Takes a run of at most `count_max` slots to write pages to. `None` if no slot is free: a
    /// flush may free some ([`wants_flush`](Journal::wants_flush)).
    pub fn take_slots(&mut self, count_max: u32) -> Option<Run> {
        if self.ended.is_some() {
            return None;
        }
        self.slots.take(count_max)
    }

    /// As [`take_slots`](Journal::take_slots), for groups of pages of these sizes: pages of a group
    /// get neighbouring slots if there are some
    /// ([`Placement::take_for`](crate::Placement::take_for)).
    pub fn take_slots_for(&mut self, groups: &[u32]) -> Option<Run> {
        if self.ended.is_some() {
            return None;
        }
        self.slots.take_for(groups)
    }

    /// Notes that `page` is about to be written. No job may store to it until its copy is made.
    pub fn freeze(&mut self, page: PageId) -> Frozen {
        self.unmapped.freeze(page);
        Frozen { page, covers: self.log.tail() }
    }

    /// Notes that the copy of `page` was written to `slot`. The old slot is free once the record of
    /// that is on the device. `checksum` is that of the copy ([`Geometry::checksum`]). Returns
    /// false if that cannot be logged; the slot is then free again.
    pub fn written(&mut self, frozen: Frozen, slot: u32, checksum: u32) -> bool {
        let Frozen { page, covers } = frozen;
        // The block being filled may end in the middle of it.
        let needed = MAP_RECORD_BYTES.div_ceil(super::log_block::PAYLOAD_BYTES) as u64 + 1;
        if self.ended.is_some() || self.log.free_blocks() < needed {
            self.slots.release(slot);
            return false;
        }
        self.record.clear();
        encode_map(&Map { page, slot, checksum, covers }, &mut self.record);
        self.log.append(&self.record);
        let end = self.log.tail();
        self.unmapped.note_mapped(page, end);
        let old = self.map.get(page);
        self.map.set(page, Mapped::Slot { slot, checksum });
        if let Mapped::Slot { slot: old, .. } = old {
            self.slots.leave(old, end);
        }
        true
    }

    /// Notes that `slot` could not be written. The page must be written to another one.
    pub fn write_failed(&mut self, slot: u32) {
        self.slots.retire(slot);
    }

    /// Returns true if `contents`, read from the slot of `page`, match its checksum.
    pub fn is_sound(&self, page: PageId, contents: &Page) -> bool {
        match self.map.get(page) {
            Mapped::Slot { checksum, .. } => self.geometry.checksum(contents) == checksum,
            Mapped::Blank => contents.iter().all(|&byte| byte == 0),
            Mapped::Poisoned => false,
        }
    }

    /// Begins a checkpoint, unless one is under way. It writes the pages stored to so far and then
    /// the map. Afterwards the log before this point is no longer needed.
    pub fn begin_checkpoint(&mut self) {
        if matches!(self.checkpoint, Checkpoint::Idle) && self.ended.is_none() {
            self.checkpoint = Checkpoint::Cleaning { target: self.log.tail() };
        }
    }

    /// Returns true if a checkpoint is under way.
    pub fn in_checkpoint(&self) -> bool {
        !matches!(self.checkpoint, Checkpoint::Idle)
    }

    /// True if the log is full enough that a checkpoint should begin.
    pub fn wants_checkpoint(&self) -> bool {
        self.log.free_blocks() <= self.geometry.log_blocks / 2
    }

    /// Returns how many pages should be written because too many have stores in DRAM alone.
    fn wants_cleaned(&self) -> usize {
        let without_copy = self.unmapped.len().saturating_sub(self.unmapped.mapping_len());
        without_copy.saturating_sub(self.limits.dirty_pages_max)
    }

    /// True if enough pages wait for their map records to be on the device. When the log is nearly
    /// full, the checkpoint does that work instead, because every flush ends a block.
    fn wants_settled(&self) -> bool {
        self.unmapped.mapping_len() >= self.limits.unmapped_pages_max.div_ceil(8)
            && !self.wants_checkpoint()
    }

    /// Returns true if pages should be written because too many have stores in DRAM alone.
    pub fn wants_cleaning(&self) -> bool {
        self.wants_cleaned() > 0
    }

    /// True if the thread that writes the log has work more urgent than the next timed flush.
    /// Cleaning does not count.
    pub fn wants_attention(&self) -> bool {
        self.wants_write()
            || self.wants_settled()
            || self.wants_checkpoint() && !self.in_checkpoint()
    }

    /// True if the thread that writes the log has work because a copy was written: a flush frees
    /// slots or room for transactions, or a checkpoint of few pages goes on.
    pub fn wants_settling(&self) -> bool {
        let cleaned = match self.checkpoint {
            Checkpoint::Cleaning { target } => self.unmapped.is_cleaned(target),
            _ => false,
        };
        cleaned || self.wants_settled() || self.slots.wants_flush()
    }

    /// True if enough full blocks are in DRAM that they should be written.
    pub fn wants_write(&self) -> bool {
        let many = (self.limits.buffer_blocks_max / 4).clamp(1, WRITE_BLOCKS_MAX as u64);
        self.log.unwritten_blocks() >= many
    }

    /// Returns pages to write. Either a checkpoint under way waits for them, or too many pages have
    /// stores that no copy has. Returns none after the log has ended, because no write would count.
    pub fn next_to_clean(&mut self) -> Vec<PageId> {
        match self.checkpoint {
            _ if self.ended.is_some() => Vec::new(),
            Checkpoint::Cleaning { target } => self.unmapped.to_clean(target).collect(),
            _ => match self.wants_cleaned() {
                0 => Vec::new(),
                count => self.unmapped.next_to_clean(self.log.tail(), count),
            },
        }
    }

    /// True if a record waits for a flush that no job has asked for.
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

    /// Returns the next operation. `flush` asks that all committed transactions become durable.
    /// Call [`done`](Journal::done) after it.
    ///
    /// # Panics
    /// When an operation is under way.
    pub fn next(&mut self, flush: bool) -> Option<Io> {
        assert!(self.doing.is_none(), "one operation at a time");
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

    /// Begins to close the store. Call it once [`next`](Journal::next) has nothing left. The last
    /// superblock records where the log ends, so that damage there can be told from its end.
    /// Returns true if there is something to write; call it again after that. Nothing may be
    /// committed from then on.
    pub fn close(&mut self) -> bool {
        let end = self.log.durable();
        let begins = self.ended.is_none()
            && !self.pinned
            && matches!(self.checkpoint, Checkpoint::Idle | Checkpoint::Cleaning { .. })
            && self.superblock.log_end < end;
        if begins {
            let generation = self.superblock.generation + 1;
            let superblock = Superblock { generation, log_end: end, ..self.superblock };
            self.checkpoint = Checkpoint::closing(superblock);
        }
        begins
    }

    /// Returns true if a superblock is being written.
    pub(super) fn writes_superblock(&self) -> bool {
        matches!(self.doing, Some(Doing::Superblock))
    }

    fn begin_flush(&mut self) -> Io {
        self.doing = Some(Doing::Flush { log_through: self.log.flushes_to() });
        self.flushed_last = true;
        Io::Flush
    }

    /// Notes that the operation that [`next`](Journal::next) returned has ended. A failed write or
    /// flush ends all writing. The contents of the device are then unknown, and a retry would not
    /// reveal them.
    pub fn done(&mut self, result: Result<(), String>) {
        let doing = self.doing.take().expect("an operation is under way");
        if let Err(reason) = result {
            self.ended = Some(reason);
            return;
        }
        match doing {
            Doing::Log => self.log.note_written(),
            Doing::Base => self.checkpoint.base_written(&self.geometry, self.log.tail()),
            Doing::Superblock => self.checkpoint.superblock_written(),
            Doing::Flush { log_through } => {
                self.log.note_flushed(log_through);
                self.group_end = self.group_end.filter(|&end| end > log_through);
                let durable = self.log.durable();
                self.slots.settle(durable);
                self.unmapped.settle(durable);
                if let Some(superblock) = self.checkpoint.flushed() {
                    self.superblock = superblock;
                    self.log.note_superblock(superblock.generation, superblock.horizon);
                }
            }
        }
    }

    /// Advances a checkpoint whose next step needs no device.
    fn advance_checkpoint(&mut self) {
        match self.checkpoint {
            Checkpoint::Cleaning { target }
                if self.unmapped.first().is_none_or(|first| first >= target) =>
            {
                self.checkpoint = Checkpoint::Base { start: self.log.tail(), index: 0 };
            }
            Checkpoint::BaseWritten { start, end, flushed, superblock: None } => {
                if self.log.durable() < end || !flushed {
                    return;
                }
                let first = self.unmapped.first().unwrap_or(start);
                let horizon = start.min(first);
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
