//! [`Unmapped`]: the pages whose latest stores are in the log alone.
//!
//! Recovery must begin before the first such store of every page. A page stays here, evicted or
//! stored to again, until a record of a copy that has the store is on the device.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Lsn;
use crate::addr::PageId;

/// What has become of the stores to a page since a place in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// They are in DRAM, and more may come.
    Open,
    /// They are in a copy that is being written. Later stores are not.
    Frozen,
    /// They are in a copy that a map record names, which ends here.
    Mapped(Lsn),
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    first: Lsn,
    state: State,
}

/// The pages with stores that are in the log alone.
#[derive(Debug, Default)]
pub(super) struct Unmapped {
    pages: BTreeMap<PageId, VecDeque<Segment>>,
    /// Every page by its first such store.
    by_first: BTreeSet<(Lsn, PageId)>,
    /// Map records that are not on the device yet, by where they end.
    mapping: VecDeque<(Lsn, PageId)>,
}

impl Unmapped {
    /// How many pages there are.
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// The record that begins at `start` stores to `page`.
    pub(super) fn note_store(&mut self, page: PageId, start: Lsn) {
        let segments = self.pages.entry(page).or_default();
        if segments.is_empty() {
            self.by_first.insert((start, page));
        }
        if segments.back().is_none_or(|last| last.state != State::Open) {
            segments.push_back(Segment { first: start, state: State::Open });
        }
    }

    /// A copy of `page` with all stores so far is about to be written.
    pub(super) fn freeze(&mut self, page: PageId) {
        if let Some(last) = self.pages.get_mut(&page).and_then(|segments| segments.back_mut())
            && last.state == State::Open
        {
            last.state = State::Frozen;
        }
    }

    /// The map record that ends at `end` names the copy of `page` that was frozen last.
    pub(super) fn note_mapped(&mut self, page: PageId, end: Lsn) {
        let Some(segments) = self.pages.get_mut(&page) else { return };
        for segment in segments.iter_mut().filter(|segment| segment.state == State::Frozen) {
            segment.state = State::Mapped(end);
        }
        self.mapping.push_back((end, page));
    }

    /// The log is on the device up to `durable`.
    pub(super) fn settle(&mut self, durable: Lsn) {
        while let Some((_, page)) = self.mapping.pop_front_if(|(end, _)| *end <= durable) {
            let Some(segments) = self.pages.get_mut(&page) else { continue };
            let before = segments[0].first;
            let covered = |segment: &mut Segment| matches!(segment.state, State::Mapped(end) if end <= durable);
            while segments.pop_front_if(covered).is_some() {}
            let after = segments.front().map(|segment| segment.first);
            if after == Some(before) {
                continue;
            }
            self.by_first.remove(&(before, page));
            match after {
                Some(first) => drop(self.by_first.insert((first, page))),
                None => drop(self.pages.remove(&page)),
            }
        }
    }

    /// The first store that is in the log alone.
    pub(super) fn first(&self) -> Option<Lsn> {
        self.by_first.first().map(|&(first, _)| first)
    }

    /// Pages with stores before `target` that are in no copy yet, nor in one under way.
    pub(super) fn to_clean(&self, target: Lsn) -> impl Iterator<Item = PageId> {
        let old = self.by_first.range(..(target, PageId(0)));
        old.map(|&(_, page)| page).filter(move |page| {
            let segments = &self.pages[page];
            let open = |segment: &&Segment| !matches!(segment.state, State::Mapped(_));
            segments.iter().find(open).is_some_and(|segment| segment.first < target)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageId = PageId(5);

    #[test]
    fn a_page_stays_until_a_record_that_covers_it_is_on_the_device() {
        let mut unmapped = Unmapped::default();
        unmapped.note_store(PAGE, Lsn(10));
        unmapped.note_store(PAGE, Lsn(20));
        unmapped.freeze(PAGE);
        unmapped.note_store(PAGE, Lsn(30));
        unmapped.note_mapped(PAGE, Lsn(45));
        assert_eq!(unmapped.first(), Some(Lsn(10)), "the record is not on the device");
        unmapped.settle(Lsn(44));
        assert_eq!(unmapped.first(), Some(Lsn(10)));
        unmapped.settle(Lsn(45));
        assert_eq!(unmapped.first(), Some(Lsn(30)), "it was stored to again");
        unmapped.freeze(PAGE);
        unmapped.note_mapped(PAGE, Lsn(60));
        unmapped.settle(Lsn(60));
        assert_eq!((unmapped.first(), unmapped.len()), (None, 0));
    }

    #[test]
    fn a_copy_that_could_not_be_written_covers_nothing() {
        let mut unmapped = Unmapped::default();
        unmapped.note_store(PAGE, Lsn(10));
        unmapped.freeze(PAGE);
        unmapped.note_store(PAGE, Lsn(20));
        // The write fails; the next one has both stores.
        assert_eq!(unmapped.to_clean(Lsn(15)).collect::<Vec<_>>(), [PAGE]);
        unmapped.freeze(PAGE);
        unmapped.note_mapped(PAGE, Lsn(40));
        assert_eq!(unmapped.to_clean(Lsn(15)).count(), 0);
        unmapped.settle(Lsn(40));
        assert_eq!(unmapped.first(), None);
    }
}
