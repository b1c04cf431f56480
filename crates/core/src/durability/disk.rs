//! [`Disk`]: the device that recovery reads and writes, and its errors.

use thiserror::Error;

use super::geometry::{Block, Page};
use crate::addr::PageId;
use crate::watch::Stopped;

/// The device that recovery reads and writes, one call at a time.
pub trait Disk {
    /// Reads a block.
    ///
    /// # Errors
    /// When the device fails.
    fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError>;

    /// Reads several blocks, if possible at once.
    ///
    /// # Errors
    /// When the device fails.
    fn read_blocks(&mut self, blocks: &[Block], into: &mut [Page]) -> Result<(), DiskError> {
        let pairs = blocks.iter().zip(into);
        pairs.into_iter().try_for_each(|(&block, page)| self.read_block(block, page))
    }

    /// Writes a block, to the device's cache at least.
    ///
    /// # Errors
    /// When the device fails.
    fn write_block(&mut self, block: Block, page: &Page) -> Result<(), DiskError>;

    /// Writes several blocks, neighbours at once if possible.
    ///
    /// # Errors
    /// When the device fails.
    fn write_blocks(&mut self, blocks: &[(Block, Box<Page>)]) -> Result<(), DiskError> {
        blocks.iter().try_for_each(|(block, page)| self.write_block(*block, page))
    }

    /// As [`write_blocks`](Disk::write_blocks), for blocks that a [`flush`](Disk::flush) is soon to
    /// follow. A device that can makes them survive a loss of power at once, so that the flush has
    /// less to do.
    ///
    /// # Errors
    /// When the device fails.
    fn write_to_flush(&mut self, blocks: &[(Block, Box<Page>)]) -> Result<(), DiskError> {
        self.write_blocks(blocks)
    }

    /// Makes what was written survive a loss of power.
    ///
    /// # Errors
    /// When the device fails.
    fn flush(&mut self) -> Result<(), DiskError>;
}

impl<D: Disk + ?Sized> Disk for Box<D> {
    fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError> {
        (**self).read_block(block, into)
    }
    fn read_blocks(&mut self, blocks: &[Block], into: &mut [Page]) -> Result<(), DiskError> {
        (**self).read_blocks(blocks, into)
    }
    fn write_block(&mut self, block: Block, page: &Page) -> Result<(), DiskError> {
        (**self).write_block(block, page)
    }
    fn write_blocks(&mut self, blocks: &[(Block, Box<Page>)]) -> Result<(), DiskError> {
        (**self).write_blocks(blocks)
    }
    fn write_to_flush(&mut self, blocks: &[(Block, Box<Page>)]) -> Result<(), DiskError> {
        (**self).write_to_flush(blocks)
    }
    fn flush(&mut self) -> Result<(), DiskError> {
        (**self).flush()
    }
}

/// Why the device could not do something.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{doing}: {reason}")]
pub struct DiskError {
    /// The operation that failed.
    pub doing: String,
    /// The device's error message.
    pub reason: String,
    /// The part that failed.
    pub fault: Fault,
}

/// The part of a device that failed an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device, or the way to it.
    Device,
    /// One block: the device works but cannot read it. Recovery treats the block as damaged.
    Block,
    /// The space: the device has no room for the write. There may be some later.
    Room,
}

/// Why a store cannot be recovered. The store is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecoveryError {
    /// The device fails.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// No copy of the superblock is sound.
    #[error("no copy of the superblock is sound, so recovery cannot begin")]
    NoSuperblock,
    /// The newest superblock is gone: the log names a newer one than any copy that is sound.
    #[error("the newest superblock is damaged: block {} of the log names a newer one", block.0)]
    OldSuperblock {
        /// The log block that names it.
        block: Block,
    },
    /// The log is damaged where it was on the device.
    #[error(
        "log block {number} (block {} of the persist part) is damaged, though it was on the device: \
         all transactions from there on are lost",
        block.0
    )]
    DamagedLog {
        /// Its place in the persist part.
        block: Block,
        /// Its number in the log.
        number: u64,
    },
    /// The page map has two pages in one slot, or a page in a slot beyond the last.
    #[error("the page map is wrong: it places page {} in slot {slot}, {problem}", page.0)]
    WrongMap {
        /// One of the pages.
        page: PageId,
        /// The slot.
        slot: u32,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The log changes more pages than there are spare slots. No journal lets that happen.
    #[error("the log changes more pages than there are free slots to write them to")]
    NoFreeSlot,
    /// The user stopped the recovery.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}
