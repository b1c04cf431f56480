//! [`Log`]: the end of the log that is being written.
//!
//! Records go into blocks in DRAM. Full blocks are *sealed* and then written once, in order. So is
//! the last block when a group must become durable. No block is ever written twice, so the blocks
//! on the device stay as they were.

use std::collections::VecDeque;

use super::Lsn;
use super::geometry::{Geometry, Page};
use super::log_block::{HEADER_BYTES, Header};
use crate::addr::PAGE_BYTES;

/// Sealed blocks on their way to the device, in order.
#[derive(Debug)]
pub struct LogBlocks {
    /// The number of the first.
    pub first: u64,
    /// Their contents.
    pub blocks: Vec<Box<Page>>,
}

/// The end of the log.
#[derive(Debug)]
pub(super) struct Log {
    geometry: Geometry,
    boot: u32,
    /// The generation of the newest superblock on the device.
    generation: u64,
    /// The block being filled, whose number is `number`.
    filling: Box<Page>,
    number: u64,
    end: usize,
    first_record: Option<usize>,
    /// The checksum of the block before.
    previous: u32,
    sealed: VecDeque<Box<Page>>,
    /// Blocks below `taken` were handed out to be written. Blocks below the next field are written,
    /// and below the last on the device.
    taken: u64,
    written: u64,
    flushed: u64,
    /// The first block that recovery still needs.
    horizon: u64,
}

impl Log {
    /// A log that continues with block `number`. The block before has the checksum `previous`, and
    /// all blocks before are on the device.
    pub(super) fn new(
        geometry: Geometry,
        boot: u32,
        generation: u64,
        number: u64,
        previous: u32,
        horizon: Lsn,
    ) -> Log {
        Log {
            geometry,
            boot,
            generation,
            filling: Box::new([0; PAGE_BYTES]),
            number,
            end: HEADER_BYTES,
            first_record: None,
            previous,
            sealed: VecDeque::new(),
            taken: number,
            written: number,
            flushed: number,
            horizon: horizon.block(),
        }
    }

    /// Returns the place where the next record begins.
    pub(super) fn tail(&self) -> Lsn {
        Lsn::at(self.number, self.end)
    }

    /// Returns the place up to which all records are on the device.
    pub(super) fn durable(&self) -> Lsn {
        Lsn::at(self.flushed, HEADER_BYTES)
    }

    /// Returns the place up to which all records were written, though perhaps not flushed.
    pub(super) fn written(&self) -> Lsn {
        Lsn::at(self.written, HEADER_BYTES)
    }

    /// Returns how many blocks can still be filled before the ring is full.
    pub(super) fn free_blocks(&self) -> u64 {
        (self.horizon + self.geometry.log_blocks).saturating_sub(self.number)
    }

    /// Returns how many blocks in DRAM were not written yet.
    pub(super) fn unwritten_blocks(&self) -> u64 {
        self.number - self.written
    }

    /// Appends a record. Returns where it begins; it ends at the tail.
    ///
    /// # Panics
    /// If the ring is full, which reservations keep from happening.
    pub(super) fn append(&mut self, record: &[u8]) -> Lsn {
        let start = self.tail();
        self.first_record.get_or_insert(self.end);
        let mut rest = record;
        while !rest.is_empty() {
            assert!(self.free_blocks() > 0, "the log is full: more was appended than reserved");
            let (piece, later) = rest.split_at(rest.len().min(PAGE_BYTES - self.end));
            self.filling[self.end..self.end + piece.len()].copy_from_slice(piece);
            self.end += piece.len();
            rest = later;
            if self.end == PAGE_BYTES {
                self.seal();
            }
        }
        start
    }

    /// Ends the block being filled, if it holds anything.
    pub(super) fn seal(&mut self) {
        if self.end == HEADER_BYTES {
            return;
        }
        let header = Header {
            number: self.number,
            previous: self.previous,
            boot: self.boot,
            flushed: self.flushed,
            generation: self.generation,
            end: self.end,
            first_record: self.first_record,
        };
        self.previous = header.seal(&self.geometry, &mut self.filling);
        let filled = std::mem::replace(&mut self.filling, Box::new([0; PAGE_BYTES]));
        self.sealed.push_back(filled);
        self.number += 1;
        self.end = HEADER_BYTES;
        self.first_record = None;
    }

    /// Takes at most `count_max` sealed blocks to write, once those taken before are written.
    pub(super) fn take(&mut self, count_max: usize) -> Option<LogBlocks> {
        if self.sealed.is_empty() || self.taken != self.written {
            return None;
        }
        let first = self.taken;
        let blocks: Vec<Box<Page>> =
            self.sealed.drain(..self.sealed.len().min(count_max)).collect();
        self.taken += blocks.len() as u64;
        Some(LogBlocks { first, blocks })
    }

    /// Notes that the blocks taken for writing are written.
    pub(super) fn note_written(&mut self) {
        self.written = self.taken;
    }

    /// The number below which all blocks are sealed.
    pub(super) fn sealed_to(&self) -> u64 {
        self.number
    }

    /// The number below which all blocks are on the device.
    pub(super) fn flushed_to(&self) -> u64 {
        self.flushed
    }

    /// Returns the number below which a flush that begins now makes all blocks durable.
    pub(super) fn flushes_to(&self) -> u64 {
        self.written
    }

    /// Notes the end of a flush. It began when [`flushes_to`](Log::flushes_to) was `through`.
    pub(super) fn note_flushed(&mut self, through: u64) {
        assert!(through <= self.written, "only what was written can be flushed");
        self.flushed = self.flushed.max(through);
    }

    /// Notes that a superblock of `generation` that names `horizon` is on the device.
    pub(super) fn note_superblock(&mut self, generation: u64, horizon: Lsn) {
        self.generation = generation;
        self.horizon = horizon.block();
    }
}
