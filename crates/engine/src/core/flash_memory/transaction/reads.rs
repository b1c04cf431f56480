//! The reads of a transaction, which its commit verifies.
//!
//! Pages that fit into DRAM together are verified there at one moment. If there are more, they are
//! checked one after the other beforehand. Such a page is as it was checked, unless it has left
//! DRAM with a [change](crate::departures).

use ebbtide_core::durability::{Changed, HeldLatches, Noted};
use ebbtide_core::{Addr, FrameId, Hint, Memory, PageId};
use ebbtide_structures::latch;

use super::places::Places;
use crate::cache::PageState;
use crate::core::flash_memory::FlashMemory;
use crate::host::atomic_words;
use crate::miss::core_shared::CoreShared;
use crate::sync::departures::{Departures, Watched};

/// Pages that are requested together.
const AT_ONCE: usize = 32;

/// A word that was read.
#[derive(Clone, Copy)]
struct Read {
    at: Addr,
    seen: u64,
    is_latch: bool,
}

impl Read {
    /// Whether the word is as it was, now that it is `found`.
    fn check(self, found: u64) -> Result<(), Changed> {
        let Read { at, seen, is_latch } = self;
        let same = if is_latch { latch::is_unchanged(found, seen) } else { found == seen };
        if same { Ok(()) } else { Err(Changed { at, read: seen, found }) }
    }
}

/// A page with words that were read.
struct ReadPage {
    page: PageId,
    /// Its words end here in the list of all.
    end: usize,
    /// How often it had left DRAM changed before it was checked. `None` if it was not.
    checked: Option<u64>,
}

/// All that a transaction has read.
pub(super) struct Reads<'a> {
    /// In the order of addresses.
    words: Vec<Read>,
    /// In order.
    pages: Vec<ReadPage>,
    watched: Option<Watched<'a>>,
}

/// Why the reads do not count, or not yet.
pub(super) enum Look {
    /// This word has changed.
    Changed(Changed),
    /// These pages may have changed, and have to be checked again.
    Unknown(Vec<PageId>),
}

impl<'a> Reads<'a> {
    /// Collects the reads under `latches` that the transaction does not hold, and the words it
    /// `checked`.
    pub(super) fn of(latches: &HeldLatches, checked: &Noted) -> Reads<'a> {
        let read = latches.read().iter().filter(|(at, _)| !latches.holds(*at));
        let read = read.map(|&(at, seen)| Read { at, seen, is_latch: true });
        let checked = checked.words().iter();
        let checked = checked.map(|&(at, seen)| Read { at, seen, is_latch: false });
        let mut words: Vec<Read> = read.chain(checked).collect();
        words.sort_unstable_by_key(|read| read.at);
        let mut end = 0;
        let pages = words.chunk_by(|one, next| one.at.page() == next.at.page()).map(|words| {
            end += words.len();
            ReadPage { page: words[0].at.page(), end, checked: None }
        });
        Reads { pages: pages.collect(), words, watched: None }
    }

    /// The pages that were read, in order.
    pub(super) fn pages(&self) -> impl Iterator<Item = PageId> {
        self.pages.iter().map(|page| page.page)
    }

    /// Whether some of `page` is looked at again.
    pub(super) fn looks_at(&self, page: PageId) -> bool {
        self.pages.binary_search_by_key(&page, |read| read.page).is_ok()
    }

    /// The words of the page with this index.
    fn words_of(&self, index: usize) -> &[Read] {
        let start = index.checked_sub(1).map_or(0, |before| self.pages[before].end);
        &self.words[start..self.pages[index].end]
    }

    /// `pages` have to be checked again.
    pub(super) fn check_again(&mut self, pages: &[PageId]) {
        for page in pages {
            if let Ok(index) = self.pages.binary_search_by_key(page, |read| read.page) {
                self.pages[index].checked = None;
            }
        }
    }

    /// Verifies all reads, inside an epoch. Pages in `places` or elsewhere in DRAM are compared
    /// with what was read. All others must not have left DRAM with a change since they were
    /// checked.
    pub(super) fn look(&self, pool: &CoreShared, places: &Places) -> Result<(), Look> {
        let mut away = Vec::new();
        let mut unknown = Vec::new();
        for (index, read) in self.pages.iter().enumerate() {
            let frame = places.frame_of(read.page).or_else(|| match pool.cache.state(read.page) {
                PageState::Resident(frame) => Some(frame),
                // A job that has stored to it may have committed since.
                PageState::Leaving(frame) if pool.cache.is_dirty(frame) => {
                    unknown.push(read.page);
                    None
                }
                _ => {
                    away.push(index);
                    None
                }
            });
            if let Some(frame) = frame {
                self.compare(pool, index, frame).map_err(Look::Changed)?;
            }
        }
        // Only now, as a page may leave, changed, between two looks at it.
        unknown.extend(self.left_since(&pool.departures, &away));
        if unknown.is_empty() { Ok(()) } else { Err(Look::Unknown(unknown)) }
    }

    /// Compares the words of the page with this index, which is in `frame`.
    fn compare(&self, pool: &CoreShared, index: usize, frame: FrameId) -> Result<(), Changed> {
        let memory = pool.cache.frame_memory(frame);
        self.words_of(index).iter().try_for_each(|read| {
            // SAFETY: a word of a page that stays in its frame until the end of the epoch.
            let found = unsafe { atomic_words::load::<u64>(memory.add(read.at.page_offset())) };
            read.check(found)
        })
    }

    /// Returns the pages with these indexes that may have left changed since they were checked.
    fn left_since(&self, departures: &Departures, indexes: &[usize]) -> Vec<PageId> {
        if indexes.is_empty() {
            return Vec::new();
        }
        let counts = departures.counts();
        let read = indexes.iter().map(|&index| &self.pages[index]);
        let same =
            |read: &&ReadPage| read.checked.is_some_and(|left| counts.of(read.page) == Some(left));
        read.filter(|read| !same(read)).map(|read| read.page).collect()
    }
}

impl<'a> FlashMemory<'a> {
    /// Looks at all words of pages that have to be checked, a few pages at a time.
    pub(super) fn check_in_parts(&mut self, reads: &mut Reads<'a>) -> Result<(), Changed> {
        let local = self.local;
        let departures = &local.shared.pool.departures;
        if reads.watched.is_none() {
            reads.watched = Some(departures.watch(reads.pages().collect()));
        }
        let pages = reads.pages.iter().enumerate().filter(|(_, read)| read.checked.is_none());
        let unchecked: Vec<usize> = pages.map(|(index, _)| index).collect();
        for indexes in unchecked.chunks(AT_ONCE) {
            // Before the look: what changes in between is seen by that.
            let counts = departures.counts();
            for &index in indexes {
                let read = &mut reads.pages[index];
                read.checked = counts.of(read.page);
            }
            drop(counts);
            for &index in indexes {
                self.hint(Hint::WillNeed(reads.pages[index].page.start()));
            }
            for &index in indexes {
                for read in reads.words_of(index) {
                    read.check(self.load(read.at))?;
                }
            }
        }
        Ok(())
    }
}
