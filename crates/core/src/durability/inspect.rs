//! [`inspect`]: reports the contents of a store and whether it is sound. Changes nothing.

use super::base_map::Mapped;
use super::disk::{Disk, RecoveryError};
use super::geometry::{Block, Geometry};
use super::readable::Readable;
use super::recovery::{look, used_slots};
use super::superblock::Superblock;
use crate::addr::{PAGE_BYTES, PageId};
use crate::watch::Watch;

/// Pages whose copies are read at once.
const PAGES_AT_ONCE: usize = 1024;

/// The contents of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The superblock that recovery would begin with.
    pub superblock: Superblock,
    /// Blocks of the log behind the horizon.
    pub log_blocks: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Pages that recovery would change.
    pub pages_to_redo: u64,
    /// Pages with a copy in a slot.
    pub pages_in_slots: u64,
    /// Pages that an earlier recovery gave up as damaged, and pages of a damaged block of the map.
    pub poisoned: Vec<PageId>,
    /// Blocks of the base map that are damaged.
    pub damaged_map_blocks: u64,
    /// Pages whose copies do not match their checksums. Empty if pages were not read.
    pub damaged: Vec<PageId>,
    /// Blocks that the device could not read.
    pub unreadable: Vec<Block>,
    /// True if all copies were read.
    pub pages_were_read: bool,
}

impl Inspection {
    /// Returns true if nothing that was read is wrong.
    pub fn is_sound(&self) -> bool {
        self.poisoned.is_empty()
            && self.damaged.is_empty()
            && self.damaged_map_blocks == 0
            && self.unreadable.is_empty()
    }
}

/// Reads a store: its superblock, base map and log. With `read_pages` also the copy of every page.
///
/// # Errors
/// When recovery would refuse it, or it was stopped.
pub fn inspect(
    geometry: &Geometry,
    disk: &mut impl Disk,
    read_pages: bool,
    watch: Watch<'_>,
) -> Result<Inspection, RecoveryError> {
    let disk = &mut Readable::new(disk);
    let found = look(geometry, disk, watch)?;
    used_slots(geometry, &found.map)?;
    let all = || (0..geometry.pages).map(PageId);
    let mut damaged = Vec::new();
    let mut in_slots = 0;
    let mut portion: Vec<(PageId, Block, u32)> = Vec::new();
    for page in all() {
        if let Mapped::Slot { slot, checksum } = found.map.get(page) {
            in_slots += 1;
            portion.push((page, geometry.slot(slot), checksum));
        }
        let last = page.0 + 1 == geometry.pages;
        if read_pages && (portion.len() == PAGES_AT_ONCE || last) {
            watch.tell("reading pages", page.0 as f64 / geometry.pages as f64)?;
            let blocks: Vec<Block> = portion.iter().map(|(_, block, _)| *block).collect();
            let mut contents = vec![[0; PAGE_BYTES]; blocks.len()];
            disk.read_blocks(&blocks, &mut contents)?;
            let wrong = portion.iter().zip(&contents).filter(|((_, _, checksum), contents)| {
                geometry.checksum(&contents[..]) != *checksum
            });
            damaged.extend(wrong.map(|((page, ..), _)| *page));
            portion.clear();
        } else if !read_pages {
            portion.clear();
        }
    }
    Ok(Inspection {
        superblock: found.superblock,
        log_blocks: found.end.number - found.superblock.horizon.block(),
        transactions: found.transactions,
        pages_to_redo: found.redo.len() as u64,
        pages_in_slots: in_slots,
        poisoned: all().filter(|&page| found.map.get(page) == Mapped::Poisoned).collect(),
        damaged_map_blocks: found.damaged_blocks,
        damaged,
        unreadable: disk.unreadable().keys().copied().collect(),
        pages_were_read: read_pages,
    })
}
