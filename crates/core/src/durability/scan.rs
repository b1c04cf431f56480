//! Reads the log from the horizon to its end.

use super::Lsn;
use super::disk::{Disk, RecoveryError};
use super::geometry::{Block, Geometry, Page};
use super::log_block::{HEADER_BYTES, Header};
use super::record::{HEAD_BYTES, Record, decode, record_bytes};
use super::superblock::Superblock;
use crate::addr::PAGE_BYTES;

/// Where the log ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct End {
    /// The number of the first block that is not part of it.
    pub(super) number: u64,
    /// The checksum of the block before.
    pub(super) previous: u32,
    /// The log was on the device up to here, according to its blocks and the superblock. It may
    /// have been on the device for longer.
    pub(super) flushed: Lsn,
}

/// Where a record lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    pub(super) start: Lsn,
    pub(super) end: Lsn,
    /// The log up to here was on the device when the record's last block was made.
    pub(super) flushed: Lsn,
}

/// Joins records from their pieces in blocks.
struct Assembly {
    bytes: Vec<u8>,
    start: Lsn,
    pages: u64,
}

impl Assembly {
    /// Takes the records of a block from byte `at` on, and calls `visit` with each complete one.
    /// Returns false if they are invalid.
    fn take(
        &mut self,
        block: &Page,
        number: u64,
        range: std::ops::Range<usize>,
        flushed: Lsn,
        visit: &mut dyn FnMut(Extent, Record<'_>),
    ) -> bool {
        let mut at = range.start;
        while at < range.end {
            if self.bytes.is_empty() {
                self.start = Lsn::at(number, at);
            }
            let wanted =
                if self.bytes.len() < HEAD_BYTES { HEAD_BYTES } else { record_bytes(&self.bytes) };
            let piece = (wanted - self.bytes.len()).min(range.end - at);
            self.bytes.extend_from_slice(&block[at..at + piece]);
            at += piece;
            if self.bytes.len() >= HEAD_BYTES && self.bytes.len() == record_bytes(&self.bytes) {
                let Some(record) = decode(&self.bytes, self.pages) else { return false };
                let end = if at == PAGE_BYTES {
                    Lsn::at(number + 1, HEADER_BYTES)
                } else {
                    Lsn::at(number, at)
                };
                visit(Extent { start: self.start, end, flushed }, record);
                self.bytes.clear();
            }
        }
        true
    }
}

/// Calls `visit` with every whole record from the horizon of `superblock` on. Returns where the log
/// ends.
///
/// # Errors
/// When the device fails, or the log is damaged where it was on the device.
pub(super) fn scan(
    geometry: &Geometry,
    disk: &mut impl Disk,
    superblock: &Superblock,
    visit: &mut dyn FnMut(Extent, Record<'_>),
) -> Result<End, RecoveryError> {
    let first = superblock.horizon.block();
    let mut end = End { number: first, previous: 0, flushed: superblock.log_end };
    let mut boot = superblock.log_boot;
    let mut assembly = Assembly { bytes: Vec::new(), start: Lsn::ZERO, pages: geometry.pages };
    let mut block = Box::new([0; PAGE_BYTES]);
    while end.number < first + geometry.log_blocks {
        let place = geometry.log(end.number);
        disk.read_block(place, &mut block)?;
        let Some((header, checksum)) = Header::read(geometry, &block) else { break };
        let in_order = header.boot >= boot;
        let follows = end.number == first || header.previous == end.previous;
        if header.number != end.number || !in_order || !follows {
            break;
        }
        check_generation(superblock, &header, place)?;
        if header.boot > boot {
            // A record that an older boot left unfinished never took place.
            assembly.bytes.clear();
        }
        boot = header.boot;
        end.flushed = end.flushed.max(Lsn::at(header.flushed, HEADER_BYTES));
        let at = if end.number == first { superblock.horizon.offset() } else { HEADER_BYTES };
        let starts_here = header.first_record.is_none_or(|record| record == at);
        let continues = !assembly.bytes.is_empty();
        let sound = at <= header.end
            && (continues || end.number == first || starts_here)
            && assembly.take(&block, end.number, at..header.end, end.flushed, visit);
        if !sound {
            return Err(RecoveryError::DamagedLog { block: place, number: end.number });
        }
        end.previous = checksum;
        end.number += 1;
    }
    Ok(end)
}

/// Checks that the log really ends where a [`scan`] has found its end. Neither a block behind it
/// nor the superblock may show that more was on the device.
///
/// # Errors
/// When it does not, or the device fails.
pub(super) fn check_end(
    geometry: &Geometry,
    disk: &mut impl Disk,
    superblock: &Superblock,
    end: &End,
) -> Result<(), RecoveryError> {
    let mut is_damaged = end.number < superblock.log_end.block();
    let mut block = Box::new([0; PAGE_BYTES]);
    for number in end.number..superblock.horizon.block() + geometry.log_blocks {
        let place: Block = geometry.log(number);
        disk.read_block(place, &mut block)?;
        let Some((header, _)) = Header::read(geometry, &block) else { continue };
        check_generation(superblock, &header, place)?;
        is_damaged |= header.flushed > end.number;
    }
    if is_damaged {
        let block = geometry.log(end.number);
        return Err(RecoveryError::DamagedLog { block, number: end.number });
    }
    Ok(())
}

/// Fails if a log block names a newer superblock, because the newest is then gone.
fn check_generation(
    superblock: &Superblock,
    header: &Header,
    block: Block,
) -> Result<(), RecoveryError> {
    if header.generation > superblock.generation {
        return Err(RecoveryError::OldSuperblock { block });
    }
    Ok(())
}
