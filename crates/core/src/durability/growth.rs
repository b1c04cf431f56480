//! [`copy_larger`]: makes a store with more pages from one that is not in use.
//!
//! The parts of a store lie one behind the other, so a store with more pages is a new one. It has
//! the identity, the pages and the count of openings of the old one, and an empty log. Latches
//! carry that count, so the free latches of the old store stay free.

use super::base_map::{Mapped, PageMap};
use super::copy::copy_blocks;
use super::disk::{Disk, RecoveryError};
use super::geometry::{Block, Geometry};
use super::journal::Journal;
use super::superblock::Superblock;
use crate::addr::{PAGE_BYTES, PageId};
use crate::watch::Watch;

/// Pages that are copied at once.
const PAGES_AT_ONCE: usize = 64;

/// A gap of new pages in the address space of a store that grows. Pages behind it move up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The first page that moves.
    pub at: PageId,
    /// New pages before that one.
    pub pages: u64,
}

impl Gap {
    /// The number of a page after the gap was made.
    fn moved(self, page: PageId) -> PageId {
        if page < self.at { page } else { PageId(page.0 + self.pages) }
    }
}

/// Copies the pages that `journal` knows, which was just recovered from `from`, to a store of more
/// pages. The new pages are zeros. They lie in the `gap` and at the end.
///
/// # Errors
/// When a device fails, or the copy is stopped.
///
/// # Panics
/// When the new store has fewer pages or slots, or the gap does not fit.
pub fn copy_larger<D: Disk>(
    journal: &Journal,
    from: &mut D,
    (larger, to): (&Geometry, &mut D),
    gap: Gap,
    watch: Watch<'_>,
) -> Result<(), RecoveryError> {
    let old = journal.geometry();
    assert!(larger.pages >= old.pages + gap.pages, "{larger:?} has no room for {gap:?}");
    assert!(larger.slots >= old.slots && larger.id == old.id);
    let map = PageMap::blank(larger.pages);
    let (mut next, mut places) = (0, Vec::new());
    for page in (0..old.pages).map(PageId) {
        let mapped = match journal.map().get(page) {
            Mapped::Slot { slot, checksum } => {
                places.push((old.slot(slot), larger.slot(next)));
                next += 1;
                Mapped::Slot { slot: next - 1, checksum }
            }
            other => other,
        };
        map.set(gap.moved(page), mapped);
    }
    for (done, places) in places.chunks(PAGES_AT_ONCE).enumerate() {
        watch.tell("copying pages", (done * PAGES_AT_ONCE) as f64 / f64::from(next))?;
        let (sources, targets): (Vec<Block>, Vec<Block>) = places.iter().copied().unzip();
        copy_blocks((&sources, from), (&targets, to))?;
    }
    let generation = journal.superblock.generation + 1;
    for index in 0..larger.base_blocks() {
        let mut block = Box::new([0; PAGE_BYTES]);
        map.encode(larger, index, generation, &mut block);
        to.write_block(larger.base(0, index), &block)?;
    }
    to.flush()?;
    let boot = journal.boot();
    let superblock = Superblock {
        generation,
        boot,
        base: Some(0),
        base_generation: generation,
        log_boot: boot,
        ..Superblock::FIRST
    };
    let mut page = Box::new([0; PAGE_BYTES]);
    superblock.encode(larger, &mut page);
    to.write_blocks(&superblock.places(larger).map(|place| (place, page.clone())))?;
    Ok(to.flush()?)
}
