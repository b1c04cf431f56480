//! [`Readable`]: a disk that reports a block it cannot read as a damaged block.

use std::collections::BTreeMap;

use super::disk::{Disk, DiskError, Fault};
use super::geometry::{Block, Page};

/// Attempts to read a block before it counts as damaged. Cables and controllers have passing
/// faults.
const ATTEMPTS: usize = 3;

/// From this many unreadable blocks on, the device counts as failed, not its blocks. Recovery then
/// gives up and changes nothing.
const UNREADABLE_MAX: usize = 64;

/// A disk whose unreadable blocks read as zeros. No superblock, block of the log or block of a map
/// is sound with zeros alone. A page is sound with them only if it held zeros.
pub(super) struct Readable<'a, D> {
    disk: &'a mut D,
    unreadable: BTreeMap<Block, DiskError>,
}

impl<'a, D: Disk> Readable<'a, D> {
    pub(super) fn new(disk: &'a mut D) -> Readable<'a, D> {
        Readable { disk, unreadable: BTreeMap::new() }
    }

    /// Returns the blocks that could not be read, with the reasons.
    pub(super) fn unreadable(&self) -> &BTreeMap<Block, DiskError> {
        &self.unreadable
    }

    fn give_up_block(
        &mut self,
        block: Block,
        error: DiskError,
        into: &mut Page,
    ) -> Result<(), DiskError> {
        if error.fault != Fault::Block || self.unreadable.len() >= UNREADABLE_MAX {
            return Err(error);
        }
        into.fill(0);
        self.unreadable.insert(block, error);
        Ok(())
    }
}

impl<D: Disk> Disk for Readable<'_, D> {
    fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError> {
        if self.unreadable.contains_key(&block) {
            into.fill(0);
            return Ok(());
        }
        let mut result = self.disk.read_block(block, into);
        for _ in 1..ATTEMPTS {
            if result.as_ref().is_err_and(|error| error.fault == Fault::Block) {
                result = self.disk.read_block(block, into);
            }
        }
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.give_up_block(block, error, into),
        }
    }

    fn read_blocks(&mut self, blocks: &[Block], into: &mut [Page]) -> Result<(), DiskError> {
        match self.disk.read_blocks(blocks, into) {
            Err(error) if error.fault == Fault::Block => {
                let mut pairs = blocks.iter().zip(into);
                pairs.try_for_each(|(&block, page)| self.read_block(block, page))
            }
            other => other,
        }
    }

    fn write_block(&mut self, block: Block, page: &Page) -> Result<(), DiskError> {
        self.disk.write_block(block, page)
    }

    fn write_blocks(&mut self, blocks: &[(Block, Box<Page>)]) -> Result<(), DiskError> {
        self.disk.write_blocks(blocks)
    }

    fn write_to_flush(&mut self, blocks: &[(Block, Box<Page>)]) -> Result<(), DiskError> {
        self.disk.write_to_flush(blocks)
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.disk.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::PAGE_BYTES;

    /// A disk of ones on which some reads fail.
    #[derive(Default)]
    struct Failing {
        /// How often the reads of these blocks still fail.
        blocks: BTreeMap<u64, usize>,
        is_gone: bool,
    }

    impl Disk for Failing {
        fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError> {
            let left = self.blocks.entry(block.0).or_default();
            if self.is_gone || *left > 0 {
                *left = left.saturating_sub(1);
                let (doing, reason) = ("read".into(), "injected".into());
                let fault = if self.is_gone { Fault::Device } else { Fault::Block };
                return Err(DiskError { doing, reason, fault });
            }
            into.fill(1);
            Ok(())
        }

        fn write_block(&mut self, _: Block, _: &Page) -> Result<(), DiskError> {
            Ok(())
        }

        fn flush(&mut self) -> Result<(), DiskError> {
            Ok(())
        }
    }

    fn read(disk: &mut Readable<'_, Failing>, block: u64) -> Result<u8, DiskError> {
        let mut page = [7; PAGE_BYTES];
        disk.read_block(Block(block), &mut page).map(|()| page[PAGE_BYTES - 1])
    }

    #[test]
    fn a_block_that_fails_in_passing_is_read_again_and_one_that_stays_so_holds_zeros() {
        let mut failing = Failing { blocks: [(3, 2), (4, usize::MAX)].into(), is_gone: false };
        let mut disk = Readable::new(&mut failing);
        assert_eq!([2, 3, 4, 4].map(|block| read(&mut disk, block).unwrap()), [1, 1, 0, 0]);
        let mut pages = [[7; PAGE_BYTES]; 3];
        disk.read_blocks(&[Block(3), Block(4), Block(5)], &mut pages).unwrap();
        assert_eq!(pages.map(|page| page[0]), [1, 0, 1]);
        assert_eq!(disk.unreadable().keys().collect::<Vec<_>>(), [&Block(4)]);
    }

    #[test]
    fn a_device_that_fails_as_a_whole_is_an_error() {
        let mut gone = Failing { is_gone: true, ..Failing::default() };
        assert!(read(&mut Readable::new(&mut gone), 0).is_err());
        let count = UNREADABLE_MAX as u64;
        let all = (0..=count).map(|block| (block, usize::MAX)).collect();
        let mut failing = Failing { blocks: all, is_gone: false };
        let mut disk = Readable::new(&mut failing);
        assert!((0..count).all(|block| read(&mut disk, block).is_ok()));
        assert!(read(&mut disk, count).is_err());
    }
}
