//! Changed pages that are written to their places on purpose, and stay in DRAM.

use ebbtide_core::PageId;

use super::FlashMemory;

/// How often a write of a page may fail.
const ATTEMPTS_MAX: u32 = 8;

impl FlashMemory<'_> {
    /// Writes the contents of `page` to the device if it has changed since it was read or written.
    /// Waits for the end of the write, while no other job may store to the page. Returns false if
    /// the page cannot be written.
    pub(crate) fn write_out(&mut self, page: PageId) -> bool {
        let mut attempts = 0;
        // A page on its way out is waited for.
        while self.is_changed(page) {
            if attempts == ATTEMPTS_MAX {
                return false;
            }
            let now = self.local.shared.pool.now();
            // The lock ends before another job runs.
            let begun = self.local.backside().clean_page(page, self.local.core, now);
            attempts += u32::from(begun);
            if !begun {
                // Another core has brought the page just now, or gives it up.
                self.yield_now();
            }
        }
        true
    }

    /// Whether `page` was changed since it was read or written. Brings it into DRAM.
    fn is_changed(&mut self, page: PageId) -> bool {
        let frame = self.enter(page.start());
        let changed = self.local.shared.pool.cache.is_dirty(frame);
        self.presence.exit();
        changed
    }
}
