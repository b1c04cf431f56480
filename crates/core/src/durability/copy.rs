//! Copying a store that is in use, so that the copy is what a crash at one moment would have left.
//!
//! From [`Journal::hold`] on, no slot that holds a page is written over, and no new superblock is written before the log
//! is copied. So the base map that the newest superblock names, the log from its horizon to a place that is on the
//! device, and every slot that either of them names are a store by themselves. They are copied in this order. What
//! happens after that place is not a part of the copy.

use super::base_map::Mapped;
use super::checkpoint::Checkpoint;
use super::disk::{Disk, RecoveryError};
use super::geometry::{Block, Geometry, Page};
use super::journal::Journal;
use super::planted::{Mistake, Planted};
use super::record::Record;
use super::scan::scan;
use super::superblock::Superblock;
use super::{Lsn, PageMap};
use crate::addr::PAGE_BYTES;

/// Blocks that are read at once.
const BLOCKS_AT_ONCE: usize = 64;

/// Where a copy begins and ends.
#[derive(Debug, Clone, Copy)]
pub struct CopyPoint {
    pub(super) superblock: Superblock,
    /// The log up to here is copied.
    pub(super) end: Lsn,
    planted: Planted,
}

/// Copies the log and the base map. The log must be pinned meanwhile.
///
/// # Errors
/// When either device fails.
pub fn copy_log(
    geometry: &Geometry,
    point: &CopyPoint,
    from: &mut impl Disk,
    to: &mut impl Disk,
) -> Result<(), RecoveryError> {
    let log = point.superblock.horizon.block()..point.end.block();
    let mut blocks: Vec<Block> = log.map(|number| geometry.log(number)).collect();
    if let Some(area) = point.superblock.base {
        blocks.extend((0..geometry.base_blocks()).map(|index| geometry.base(area, index)));
    }
    for blocks in blocks.chunks(BLOCKS_AT_ONCE) {
        copy_blocks(blocks, from, to)?;
    }
    Ok(())
}

/// Copies the pages that the copied log and base map name, then the superblock. `log` reads from the copy, and `goes_on`
/// is asked now and then whether the slots are still held. Gives false if it said no: the copy is then of no use.
///
/// # Errors
/// When a device fails, or what was copied is damaged.
pub fn copy_pages<D: Disk>(
    geometry: &Geometry,
    point: &CopyPoint,
    (log, from, to): (&mut D, &mut D, &mut D),
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<bool, RecoveryError> {
    let superblock = &point.superblock;
    let mut pages = Pages { geometry, from, to, goes_on, waiting: Vec::new(), outcome: Ok(true) };
    scan(geometry, log, superblock, Planted::NONE, &mut |_, record| {
        if let Record::Map(map) = record {
            pages.take(map.slot);
        }
    })?;
    if let Some(area) = superblock.base {
        let mut block = Box::new([0; PAGE_BYTES]);
        for index in 0..geometry.base_blocks() {
            log.read_block(geometry.base(area, index), &mut block)?;
            for mapped in PageMap::entries(&block) {
                if let Mapped::Slot { slot, .. } = mapped {
                    pages.take(slot);
                }
            }
        }
    }
    pages.copy();
    if !pages.outcome? {
        return Ok(false);
    }
    if !point.planted.is(Mistake::NamesCopyBeforeFlush) {
        to.flush()?;
    }
    let mut page = Box::new([0; PAGE_BYTES]);
    superblock.encode(geometry, &mut page);
    to.write_blocks(&superblock.places(geometry).map(|place| (place, page.clone())))?;
    to.flush()?;
    Ok(true)
}

/// The pages on their way to the copy.
struct Pages<'a, D> {
    geometry: &'a Geometry,
    from: &'a mut D,
    to: &'a mut D,
    goes_on: &'a mut dyn FnMut() -> bool,
    /// Slots that are to be copied.
    waiting: Vec<u32>,
    /// Whether all before could be copied.
    outcome: Result<bool, RecoveryError>,
}

impl<D: Disk> Pages<'_, D> {
    fn take(&mut self, slot: u32) {
        if u64::from(slot) < self.geometry.slots {
            self.waiting.push(slot);
        }
        if self.waiting.len() >= BLOCKS_AT_ONCE {
            self.copy();
        }
    }

    /// Copies what waits, if all before could be.
    fn copy(&mut self) {
        // Neighbours together.
        self.waiting.sort_unstable();
        let slots = self.waiting.drain(..);
        let blocks: Vec<Block> = slots.map(|slot| self.geometry.slot(slot)).collect();
        if let Ok(true) = self.outcome {
            let copied = copy_blocks(&blocks, self.from, self.to);
            self.outcome = copied.map(|()| (self.goes_on)());
        }
    }
}

fn copy_blocks(
    blocks: &[Block],
    from: &mut impl Disk,
    to: &mut impl Disk,
) -> Result<(), RecoveryError> {
    let mut pages: Vec<Page> = vec![[0; PAGE_BYTES]; blocks.len()];
    from.read_blocks(blocks, &mut pages)?;
    let pages = pages.into_iter().map(Box::new);
    let written: Vec<(Block, Box<Page>)> = blocks.iter().copied().zip(pages).collect();
    Ok(to.write_blocks(&written)?)
}

impl Journal {
    /// Begins a copy: no slot that holds a page is written over until [`let_go`](Journal::let_go), or until pages
    /// have left more than `slots_max` of them, and no new superblock is written until [`unpin`](Journal::unpin).
    /// False if a copy is under way.
    pub fn hold(&mut self, slots_max: usize) -> bool {
        let free = !self.pinned && !self.slots.is_held();
        if free {
            self.slots.hold(slots_max);
            self.pinned = !self.planted.is(Mistake::ReusesLogOfCopy);
        }
        free
    }

    /// Where the copy that was begun begins and ends: it has what is on the device now. `None` while a superblock
    /// is on its way there.
    pub fn copy_point(&self) -> Option<CopyPoint> {
        let under_way = matches!(self.checkpoint, Checkpoint::SuperblockWritten { .. });
        let (superblock, end, planted) = (self.superblock, self.durable(), self.planted);
        let point = CopyPoint { superblock, end, planted };
        (!under_way && !self.writes_superblock()).then_some(point)
    }

    /// The log and the base map are copied: checkpoints go on.
    pub fn unpin(&mut self) {
        self.pinned = false;
    }

    /// Whether every slot that held a page when the copy began is as it was then.
    pub fn is_held(&self) -> bool {
        self.slots.is_held()
    }

    /// Ends a copy.
    pub fn let_go(&mut self) {
        self.pinned = false;
        self.slots.let_go(self.durable());
    }
}
