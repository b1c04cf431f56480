//! [`Geometry`]: where the parts of a persist part lie. It consists of blocks of one page each.
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
    /// A random identity of the store. All checksums begin with it.
    pub id: u64,
    /// Pages of the address space.
    pub pages: u64,
    /// Slots for pages. There are more slots than pages, because a page is never written over its
    /// last copy.
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

    /// Returns the block that holds block `number` of the log.
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

    /// Returns the number of the block of slot 0.
    pub const fn slots_start(&self) -> u64 {
        SUPERBLOCKS + self.log_blocks + 2 * self.base_blocks()
    }

    /// Returns the number of blocks of the whole persist part.
    pub const fn blocks(&self) -> u64 {
        self.slots_start() + self.slots
    }

    /// Returns the CRC32C of the store's identity and `bytes`.
    pub fn checksum(&self, bytes: &[u8]) -> u32 {
        crc32c_append(crc32c(&self.id.to_le_bytes()), bytes)
    }
}

impl Lsn {
    /// Returns the place `offset` bytes into block `number` of the log.
    pub(super) const fn at(number: u64, offset: usize) -> Lsn {
        Lsn(number * PAGE_BYTES as u64 + offset as u64)
    }

    /// Returns the number of the log block that has this place.
    pub(super) const fn block(self) -> u64 {
        self.0 / PAGE_BYTES as u64
    }

    /// Returns the bytes from the start of that block.
    pub(super) const fn offset(self) -> usize {
        (self.0 % PAGE_BYTES as u64) as usize
    }
}

/// Returns the 4-byte number at `at`, little-endian.
pub(super) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// Returns the 8-byte number at `at`, little-endian.
pub(super) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

pub(super) fn put_u32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

pub(super) fn put_u64(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
}
