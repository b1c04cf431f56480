//! A block of the log: a header, and a piece of the stream of records.
//!
//! The header tells a torn end of the log from damage. It holds the checksum of the block before
//! and the boot that wrote it. It also holds how much of the log was on the device when the block
//! was made.

use super::geometry::{Geometry, Page, get_u32, get_u64, put_u32, put_u64};
use crate::addr::PAGE_BYTES;

/// Bytes in front of the records.
pub(super) const HEADER_BYTES: usize = 48;

/// Bytes of records in a block.
pub(super) const PAYLOAD_BYTES: usize = PAGE_BYTES - HEADER_BYTES;

/// No log comes near this number: at a million blocks a second it takes seventy years.
pub(super) const NUMBER_MAX: u64 = u64::MAX / PAGE_BYTES as u64 / 2;

/// Means that no record begins in this block.
const NO_RECORD: u32 = u32::MAX;

/// The header of a log block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// The number of the block since the store was made.
    pub(super) number: u64,
    /// The checksum of the block before it.
    pub(super) previous: u32,
    /// The boot that wrote it.
    pub(super) boot: u32,
    /// All blocks with smaller numbers were on the device when this one was made.
    pub(super) flushed: u64,
    /// The generation of the newest superblock on the device.
    pub(super) generation: u64,
    /// The end of the records, in bytes from the start of the block.
    pub(super) end: usize,
    /// The start of the first record that is not the rest of an earlier one, in bytes.
    pub(super) first_record: Option<usize>,
}

impl Header {
    /// Writes the header into `block`, whose records are in place. Returns the block's checksum.
    pub(super) fn seal(&self, geometry: &Geometry, block: &mut Page) -> u32 {
        put_u32(block, 4, self.previous);
        put_u64(block, 8, self.number);
        put_u64(block, 16, self.flushed);
        put_u64(block, 24, self.generation);
        put_u32(block, 32, self.boot);
        put_u32(block, 36, self.end as u32);
        put_u32(block, 40, self.first_record.map_or(NO_RECORD, |at| at as u32));
        put_u32(block, 44, 0);
        let checksum = geometry.checksum(&block[4..]);
        put_u32(block, 0, checksum);
        checksum
    }

    /// Returns the header and the checksum of a block. `None` if the block is damaged.
    pub(super) fn read(geometry: &Geometry, block: &Page) -> Option<(Header, u32)> {
        let checksum = geometry.checksum(&block[4..]);
        if get_u32(block, 0) != checksum {
            return None;
        }
        let first_record = get_u32(block, 40);
        let header = Header {
            number: get_u64(block, 8),
            previous: get_u32(block, 4),
            boot: get_u32(block, 32),
            flushed: get_u64(block, 16),
            generation: get_u64(block, 24),
            end: get_u32(block, 36) as usize,
            first_record: (first_record != NO_RECORD).then_some(first_record as usize),
        };
        let places = HEADER_BYTES..=PAGE_BYTES;
        let whole = places.contains(&header.end)
            && header.first_record.is_none_or(|at| (HEADER_BYTES..=header.end).contains(&at))
            && header.number <= NUMBER_MAX
            && header.flushed <= header.number;
        whole.then_some((header, checksum))
    }
}

/// Returns the place up to which the log was on the device when this block was made.
pub fn flushed_mark(geometry: &Geometry, block: &Page) -> Option<super::Lsn> {
    Header::read(geometry, block).map(|(header, _)| super::Lsn::at(header.flushed, HEADER_BYTES))
}

/// Returns the generation of the newest superblock when this log block was made.
pub fn named_generation(geometry: &Geometry, block: &Page) -> Option<u64> {
    Header::read(geometry, block).map(|(header, _)| header.generation)
}
