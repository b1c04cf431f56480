//! Departures: has a watched page left DRAM with a change?
//!
//! A page on flash cannot change. A transaction that has read more pages than DRAM holds checks
//! each of them once, and watches it from then on. A page that has not left DRAM with a change is
//! as it was checked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use ebbtide_core::PageId;
use parking_lot::{Mutex, MutexGuard};

/// A watched page.
#[derive(Default)]
struct Watch {
    watchers: u32,
    /// How often it has left changed.
    left: u64,
}

/// The watched pages of an engine.
#[derive(Default)]
pub(crate) struct Departures {
    /// Transactions that watch pages. Mostly there is none, and evictions look no further.
    watching: AtomicUsize,
    pages: Mutex<HashMap<PageId, Watch>>,
}

/// Pages that are watched as long as this lives.
pub(crate) struct Watched<'a> {
    departures: &'a Departures,
    pages: Vec<PageId>,
}

/// How often watched pages have left changed.
pub(crate) struct Counts<'a>(MutexGuard<'a, HashMap<PageId, Watch>>);

impl Departures {
    /// Watches `pages`, without duplicates.
    pub(crate) fn watch(&self, pages: Vec<PageId>) -> Watched<'_> {
        self.watching.fetch_add(1, Ordering::SeqCst);
        let mut watched = self.pages.lock();
        for &page in &pages {
            watched.entry(page).or_default().watchers += 1;
        }
        Watched { departures: self, pages }
    }

    /// `page`, which has changed, is about to leave DRAM.
    pub(crate) fn note(&self, page: PageId) {
        if self.watching.load(Ordering::SeqCst) > 0
            && let Some(watch) = self.pages.lock().get_mut(&page)
        {
            watch.left += 1;
        }
    }

    /// The counts of now.
    pub(crate) fn counts(&self) -> Counts<'_> {
        Counts(self.pages.lock())
    }
}

impl Counts<'_> {
    /// How often `page` has left changed; `None` if it is not watched.
    pub(crate) fn of(&self, page: PageId) -> Option<u64> {
        self.0.get(&page).map(|watch| watch.left)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut watched = self.departures.pages.lock();
        for page in &self.pages {
            if let Some(watch) = watched.get_mut(page) {
                watch.watchers -= 1;
                if watch.watchers == 0 {
                    watched.remove(page);
                }
            }
        }
        drop(watched);
        self.departures.watching.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_counted_as_long_as_somebody_watches_it() {
        let departures = Departures::default();
        departures.note(PageId(1));
        let one = departures.watch(vec![PageId(1), PageId(2)]);
        let other = departures.watch(vec![PageId(2)]);
        (1..4).for_each(|page| departures.note(PageId(page)));
        let of = |page| departures.counts().of(PageId(page));
        assert_eq!([of(1), of(2), of(3)], [Some(1), Some(1), None]);
        drop(one);
        departures.note(PageId(2));
        assert_eq!([of(1), of(2)], [None, Some(2)]);
        drop(other);
        assert_eq!(of(2), None);
    }
}
