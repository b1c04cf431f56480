//! [`Geometry`]: where the parts of a persist part lie, in blocks of a page each.
//!
//! ```text
//! | 4 superblocks | log ring | base map A | base map B | slots |
//! ```

use super::Lsn;
use crate::addr::PAGE_BYTES;
use crate::checksum::{crc32c, crc32c_append};

/// The contents of one block.
pub type Page = [u8; PAGE_BYTES];

/// The number of a block, from the start of the persist part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Block(pub u64);

/// Copies of the superblock: two of each of two generations.
pub const SUPERBLOCKS: u64 = 4;

/// Entries in a block of a base map, of 8 bytes each behind a header of 16.
pub(super) const ENTRIES_PER_BLOCK: usize = (PAGE_BYTES - 16) / 8;

/// The fewest blocks that a log ring has.
pub const LOG_BLOCKS_MIN: u64 = 16;

/// The sizes of a persist part, which stay the same over the life of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Tells this store from any other. All checksums begin with it.
    pub id: u64,
    /// Pages of memory.
    pub pages: u64,
    /// Places for pages, more than pages: a page is never written over its last copy.
    pub slots: u64,
    /// Blocks of the log ring.
    pub log_blocks: u64,
}

impl Geometry {
    /// Blocks of one base map.
    pub const fn base_blocks(&self) -> u64 {
        self.pages.div_ceil(ENTRIES_PER_BLOCK as u64)
    }

    /// The block of copy `copy` of the superblock.
    pub const fn superblock(&self, copy: u64) -> Block {
        assert!(copy < SUPERBLOCKS);
        Block(copy)
    }

    /// The block in which the log's block number `number` lies.
    pub const fn log(&self, number: u64) -> Block {
        Block(SUPERBLOCKS + number % self.log_blocks)
    }

    /// Block `index` of base map `area` (0 or 1).
    pub const fn base(&self, area: u8, index: u64) -> Block {
        Block(SUPERBLOCKS + self.log_blocks + area as u64 * self.base_blocks() + index)
    }

    /// The block of a slot.
    pub const fn slot(&self, slot: u32) -> Block {
        Block(self.slots_start() + slot as u64)
    }

    /// Where slot 0 lies.
    pub const fn slots_start(&self) -> u64 {
        SUPERBLOCKS + self.log_blocks + 2 * self.base_blocks()
    }

    /// Blocks of everything.
    pub const fn blocks(&self) -> u64 {
        self.slots_start() + self.slots
    }

    /// The CRC32C of `bytes`, begun with the store's number.
    pub fn checksum(&self, bytes: &[u8]) -> u32 {
        crc32c_append(crc32c(&self.id.to_le_bytes()), bytes)
    }
}

impl Lsn {
    /// The place `offset` bytes into the log's block `number`.
    pub(super) const fn at(number: u64, offset: usize) -> Lsn {
        Lsn(number * PAGE_BYTES as u64 + offset as u64)
    }

    /// The number of the log block that the place lies in.
    pub(super) const fn block(self) -> u64 {
        self.0 / PAGE_BYTES as u64
    }

    /// Bytes from the start of that block.
    pub(super) const fn offset(self) -> usize {
        (self.0 % PAGE_BYTES as u64) as usize
    }
}

/// The number of 4 bytes that begins at `at`.
pub(super) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// The number of 8 bytes that begins at `at`.
pub(super) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

pub(super) fn put_u32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

pub(super) fn put_u64(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
}
