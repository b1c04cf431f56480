//! [`Shards`]: the locks of pages, one for each sixteenth of them.

use ebbtide_core::PageId;
#[cfg(not(all(test, shuttle)))]
use parking_lot::{Mutex, MutexGuard};
#[cfg(all(test, shuttle))]
use shuttle::sync::{Mutex, MutexGuard};

const COUNT: usize = 16;

/// The locks of all pages.
#[derive(Default)]
pub(super) struct Shards([Mutex<()>; COUNT]);

/// A shard that is locked.
pub(super) type Locked<'a> = MutexGuard<'a, ()>;

impl Shards {
    /// Locks the shard of `page`.
    #[inline]
    pub(super) fn lock(&self, page: PageId) -> Locked<'_> {
        // Neighbouring pages are often missed together: spread them.
        let locked = self.0[page.index() % COUNT].lock();
        #[cfg(all(test, shuttle))]
        let locked = locked.expect("no thread panics while it has the lock");
        locked
    }
}
