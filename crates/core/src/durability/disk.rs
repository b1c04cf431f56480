//! [`Disk`]: where recovery reads and writes, and what may be wrong there.

use thiserror::Error;

use super::geometry::{Block, Page};
use crate::addr::PageId;
use crate::watch::Stopped;

/// Where recovery reads and writes, a call at a time.
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

    /// As [`write_blocks`](Disk::write_blocks), for blocks that a [`flush`](Disk::flush) is soon to follow. A
    /// device that can makes them survive a loss of power at once, so that the flush has less to do.
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
    /// What it was asked to do.
    pub doing: String,
    /// What it said.
    pub reason: String,
    /// What is at fault.
    pub fault: Fault,
}

/// What is at fault when a device could not do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device, or the way to it.
    Device,
    /// One block: the device works and cannot give what the block holds. Recovery takes it for damaged.
    Block,
    /// The room: the device has none left for what is written. There may be some later.
    Room,
}

/// Why a store cannot be recovered. Nothing of it was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecoveryError {
    /// The device fails.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// No copy of the superblock is sound.
    #[error("no copy of the superblock is sound, so nothing says where recovery begins")]
    NoSuperblock,
    /// The newest superblock is gone.
    #[error("the newest superblock is damaged: block {} of the log names a newer one", block.0)]
    OldSuperblock {
        /// The block that names it.
        block: Block,
    },
    /// The log is damaged where it was on the device.
    #[error(
        "log block {number} (block {} of the persist part) is damaged, though it was on the device: \
         what was committed from there on is lost",
        block.0
    )]
    DamagedLog {
        /// Where it lies.
        block: Block,
        /// Its number.
        number: u64,
    },
    /// Two pages are said to be in one slot, or one beyond the last.
    #[error("the page map is wrong: page {} is said to be in slot {slot}, {problem}", page.0)]
    WrongMap {
        /// One of the pages.
        page: PageId,
        /// The slot.
        slot: u32,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The log changes more pages than there are spare slots, which no journal lets happen.
    #[error("the log changes more pages than there are free slots to write them to")]
    NoFreeSlot,
    /// It was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}
