//! Copying a store that is in use. The copy equals the store as of one moment, as if it had crashed
//! then.
//!
//! From [`Journal::hold`] on, a slot that held a page is not overwritten before it is copied. No
//! new superblock is written before the log is copied.
//!
//! A complete store has three parts. They are the base map of the newest superblock, the log from
//! its horizon to a durable place, and the slots that these two name. They are copied in this
//! order. The copy ends at that place of the log.
//!
//! Slots are copied in order, so that neighbours are read and written together. Once the slots that
//! pages have left outnumber the free ones, they are copied first, and the store goes on with them
//! at once. So a copy ends at any rate of writes. Writes that find no free slot wait for it.

use super::base_map::Mapped;
use super::checkpoint::Checkpoint;
use super::disk::{Disk, RecoveryError};
use super::geometry::{Block, Geometry, Page};
use super::journal::Journal;
use super::readable::Readable;
use super::record::Record;
use super::scan::scan;
use super::slot_set::SlotSet;
use super::superblock::Superblock;
use super::{Lsn, PageMap};
use crate::addr::PAGE_BYTES;

/// Blocks that are read at once.
const BLOCKS_AT_ONCE: usize = 256;

/// Where a copy begins and ends.
#[derive(Debug, Clone, Copy)]
pub struct CopyPoint {
    pub(super) superblock: Superblock,
    /// The log up to here is copied.
    pub(super) end: Lsn,
}

/// Copies the log and the base map. The log must stay pinned during the call.
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
        copy_blocks((blocks, from), (blocks, to))?;
    }
    Ok(())
}

/// The store that is copied, while it is in use.
pub trait InUse {
    /// Runs `body` on the journal of the store.
    fn journal(&mut self, body: &mut dyn FnMut(&mut Journal));

    /// Returns true if the copy should go on. Called now and then.
    fn goes_on(&mut self) -> bool;

    /// Called when a part of the pages is copied. `is_pressed` is true if writes may soon wait for
    /// the copy, so that it must not pause.
    fn after_part(&mut self, is_pressed: bool);
}

/// Copies the pages that the copied log and base map name, then the superblock. `log` reads from
/// the copy. Returns false if the copy was stopped; it is then of no use.
///
/// # Errors
/// If a device fails, or a part that was copied is damaged.
pub fn copy_pages<D: Disk>(
    geometry: &Geometry,
    point: &CopyPoint,
    (log, from, to): (&mut D, &mut D, &mut D),
    store: &mut dyn InUse,
) -> Result<bool, RecoveryError> {
    let superblock = &point.superblock;
    // A page that cannot be read is as damaged in the copy as it is here.
    let from = &mut Readable::new(from);
    let named = named_slots(geometry, superblock, log)?;
    store.journal(&mut |journal| journal.slots.copy_needs(&named));
    drop(named);
    loop {
        if !store.goes_on() {
            return Ok(false);
        }
        let mut next = Vec::new();
        store.journal(&mut |journal| next = journal.slots.next_to_copy(BLOCKS_AT_ONCE));
        if next.is_empty() {
            break;
        }
        let blocks: Vec<Block> = next.iter().map(|slot| geometry.slot(*slot)).collect();
        copy_blocks((&blocks, from), (&blocks, to))?;
        let mut is_pressed = false;
        store.journal(&mut |journal| {
            journal.slots.copied(&next);
            is_pressed = journal.slots.left_outnumber_free();
        });
        store.after_part(is_pressed);
    }
    to.flush()?;
    let mut page = Box::new([0; PAGE_BYTES]);
    superblock.encode(geometry, &mut page);
    to.write_blocks(&superblock.places(geometry).map(|place| (place, page.clone())))?;
    to.flush()?;
    Ok(true)
}

/// The slots that a log and the base map before it name.
fn named_slots(
    geometry: &Geometry,
    superblock: &Superblock,
    log: &mut impl Disk,
) -> Result<SlotSet, RecoveryError> {
    let mut named = SlotSet::empty(geometry.slots);
    scan(geometry, log, superblock, &mut |_, record| {
        if let Record::Map(map) = record {
            named.insert(map.slot);
        }
    })?;
    let Some(area) = superblock.base else { return Ok(named) };
    let mut block = Box::new([0; PAGE_BYTES]);
    for index in 0..geometry.base_blocks() {
        log.read_block(geometry.base(area, index), &mut block)?;
        for mapped in PageMap::entries(&block) {
            if let Mapped::Slot { slot, .. } = mapped {
                named.insert(slot);
            }
        }
    }
    Ok(named)
}

/// Copies blocks of one device to the same number of blocks of another.
pub(super) fn copy_blocks(
    (sources, from): (&[Block], &mut impl Disk),
    (targets, to): (&[Block], &mut impl Disk),
) -> Result<(), RecoveryError> {
    let mut pages: Vec<Page> = vec![[0; PAGE_BYTES]; sources.len()];
    from.read_blocks(sources, &mut pages)?;
    let pages = pages.into_iter().map(Box::new);
    let written: Vec<(Block, Box<Page>)> = targets.iter().copied().zip(pages).collect();
    Ok(to.write_blocks(&written)?)
}

impl Journal {
    /// Begins a copy. Until [the copy ends](Journal::let_go), no slot that holds a page is
    /// overwritten before it is copied. No new superblock is written until
    /// [`unpin`](Journal::unpin). Returns false if a copy is under way.
    pub fn hold(&mut self) -> bool {
        let free = !self.pinned && !self.slots.is_held();
        if free {
            self.slots.hold();
            self.pinned = true;
        }
        free
    }

    /// Returns the range of the log for the copy that was begun. It ends with what is on the device
    /// now. `None` while a superblock is on its way to the device.
    pub fn copy_point(&self) -> Option<CopyPoint> {
        let under_way = matches!(self.checkpoint, Checkpoint::SuperblockWritten { .. });
        let point = CopyPoint { superblock: self.superblock, end: self.durable() };
        (!under_way && !self.writes_superblock()).then_some(point)
    }

    /// Lets checkpoints go on, once the log and the base map are copied.
    pub fn unpin(&mut self) {
        self.pinned = false;
    }

    /// Returns the bytes of DRAM that a copy takes.
    pub const fn copy_bytes(geometry: &Geometry) -> usize {
        3 * SlotSet::bytes(geometry.slots)
    }

    /// Ends a copy.
    pub fn let_go(&mut self) {
        self.pinned = false;
        self.slots.let_go();
    }
}
