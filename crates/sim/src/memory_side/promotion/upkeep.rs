//! [`Upkeep`]: background work of the SSD.

use ebbtide_core::promotion::{Cleaning, Relocations};
use ebbtide_core::{Archive, PAGE_BYTES, PageId, Span, Time};
use rustc_hash::FxHashSet;

use super::super::{Counters, DeviceCache, Event};
use crate::config::{Config, Promotion};

/// Cleaning of the SSD's cache by whole blocks, if that is on, and the pages that moved in flash.
/// The SSD finds such a page by its old place until the host updates a batch of page-table entries
/// (FlatFlash §3.2).
pub(super) struct Upkeep {
    cleaning: Option<Cleaning>,
    relocations: Relocations,
    /// Pages that the host is writing back. It updates their page-table entries itself.
    demoted: FxHashSet<PageId>,
    /// Pages of the data. The last block may have fewer than the others.
    pages: u64,
}

impl Upkeep {
    pub(super) fn new(config: &Config, promotion: &Promotion) -> Upkeep {
        let after = Span::from_us(promotion.clean_after_us);
        let cleans = promotion.clean_after_us > 0;
        Upkeep {
            cleaning: cleans.then(|| Cleaning::new(after, promotion.block_pages)),
            relocations: Relocations::new(promotion.mend_batch),
            demoted: FxHashSet::default(),
            pages: config.dataset.size.0.div_ceil(PAGE_BYTES as u64),
        }
    }

    /// Saves the blocks that wait for cleaning to `archive`, or restores them. A warm-up changes
    /// nothing else.
    pub(super) fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(&mut self.cleaning);
    }

    /// Records that `page` was written in the SSD.
    pub(super) fn written(&mut self, now: Time, page: PageId) {
        if let Some(cleaning) = &mut self.cleaning {
            cleaning.written(now, page);
        }
    }

    /// Records that the host writes `page` back and updates its page-table entry.
    pub(super) fn demoted(&mut self, page: PageId) {
        self.demoted.insert(page);
    }

    /// Whether the page-table entry of `page` is stale.
    pub(super) fn is_stale(&self, page: PageId) -> bool {
        self.relocations.is_stale(page)
    }

    /// When the next block is due to be cleaned.
    pub(super) fn next_event(&self) -> Option<Time> {
        self.cleaning.as_ref().and_then(Cleaning::next_due)
    }

    /// Cleans the block that is due at `now`: reads it, merges the dirty pages of the cache, and
    /// writes it. No access waits for that.
    pub(super) fn clean(&mut self, now: Time, device: &mut DeviceCache, counters: &mut Counters) {
        let due = self.cleaning.as_mut().and_then(|cleaning| cleaning.take_due(now));
        let Some(block) = due.map(|block| block.start..block.end.min(self.pages)) else { return };
        let merged: Vec<bool> = block.clone().map(|page| device.clean(PageId(page))).collect();
        let dirty = merged.iter().filter(|merged| **merged).count() as u64;
        if dirty == 0 {
            return;
        }
        counters.durability.pages_cleaned += dirty;
        counters.durability.pages_carried += merged.len() as u64 - dirty;
        for (page, _) in block.clone().zip(merged).filter(|(_, merged)| !merged) {
            device.read_page(now, PageId(page));
        }
        block.for_each(|page| device.write_page(now, PageId(page)));
    }

    /// Records the pages that moved in flash. Updates page tables once these pages are a batch.
    pub(super) fn observe(
        &mut self,
        device: &mut DeviceCache,
        told: &mut Vec<Event>,
        counters: &mut Counters,
    ) {
        for page in device.take_moved() {
            if self.demoted.remove(&page) {
                continue;
            }
            counters.relocation.pages_moved_in_flash += 1;
            if let Some(mended) = self.relocations.moved(page) {
                counters.relocation.page_tables_mended += 1;
                told.extend(mended.into_iter().map(Event::Unmapped));
            }
        }
    }
}
