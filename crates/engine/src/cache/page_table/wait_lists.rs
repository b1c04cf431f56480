//! [`WaitLists`]: which fibers wait for which page.
//!
//! A list takes no memory of its own. A fiber waits for one page at a time, so one node for each
//! fiber is enough. The page stores the number of its last waiting fiber. It lies in the
//! metadata of its frame, or in its state if it has no frame yet. The last fiber links to the first
//! one, so both ends can be reached.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use ebbtide_core::PageId;

use crate::sync::mailbox::Waiter;

/// Bits that name a fiber of an engine, or none.
pub(super) const LAST_BITS: u32 = 22;

/// The most fibers an engine can have.
pub(crate) const FIBERS_MAX: usize = (1 << LAST_BITS) - 1;

/// In the node of a fiber that waits for no page. No page has this number.
const NO_PAGE: u32 = u32::MAX;

/// A list of waiting fibers, named by its last one. Zero if there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Last(u32);

impl Last {
    /// Of an empty list.
    pub(crate) const NONE: Last = Last(0);

    /// The last fiber of the list that `word` stands for.
    pub(super) fn of_word(word: u32) -> Last {
        debug_assert!(word < 1 << LAST_BITS);
        Last(word)
    }

    /// A number of [`LAST_BITS`] bits.
    pub(super) fn word(self) -> u32 {
        self.0
    }

    fn of_node(node: u32) -> Last {
        Last(node + 1)
    }

    /// The last fiber's node, if there is one.
    fn node(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

/// The node of a waiting fiber. Accessed under the lock of the page's shard, or by the core that
/// has taken the whole list off the page.
struct Node {
    /// The next fiber that waits for the same page.
    next: AtomicU32,
    /// The page.
    page: AtomicU32,
    /// Of the last fiber: the slot of a page that has no frame yet.
    slot: AtomicU32,
}

/// The nodes of all fibers.
pub(crate) struct WaitLists {
    nodes: Box<[Node]>,
    threads: u32,
}

impl WaitLists {
    /// For `cores` cores of `threads` fibers.
    pub(crate) fn new(cores: usize, threads: usize) -> WaitLists {
        let fibers = cores * threads;
        assert!(fibers <= FIBERS_MAX, "{fibers} fibers cannot be numbered");
        let node = |_| Node {
            next: AtomicU32::new(0),
            page: AtomicU32::new(NO_PAGE),
            slot: AtomicU32::new(0),
        };
        WaitLists { nodes: (0..fibers).map(node).collect(), threads: threads as u32 }
    }

    /// Bytes that `fibers` fibers take.
    pub(in crate::cache) fn bytes(fibers: usize) -> usize {
        fibers * size_of::<Node>()
    }

    /// Adds `waiter`, which waits for `page`, at the end of the list.
    pub(crate) fn append(&self, last: Last, page: PageId, waiter: Waiter) -> Last {
        let number = waiter.core * self.threads + waiter.fiber;
        debug_assert!(waiter.fiber < self.threads);
        let node = self.node(number);
        debug_assert_eq!(node.page.load(Ordering::Relaxed), NO_PAGE, "{waiter:?} waits twice");
        let first = match last.node() {
            None => number,
            Some(last) => {
                let last = self.node(last);
                node.slot.store(last.slot.load(Ordering::Relaxed), Ordering::Relaxed);
                let first = last.next.load(Ordering::Relaxed);
                last.next.store(number, Ordering::Relaxed);
                first
            }
        };
        node.next.store(first, Ordering::Relaxed);
        node.page.store(page.0 as u32, Ordering::Relaxed);
        Last::of_node(number)
    }

    /// Notes that the page of this list is in `slot`. The page has no frame.
    pub(super) fn set_slot(&self, last: Last, slot: u32) {
        let node = last.node().expect("somebody waits for the page");
        self.node(node).slot.store(slot, Ordering::Relaxed);
    }

    /// The slot that was noted.
    pub(super) fn slot(&self, last: Last) -> u32 {
        let node = last.node().expect("somebody waits for the page");
        self.node(node).slot.load(Ordering::Relaxed)
    }

    /// The fiber that has waited longest.
    pub(super) fn first(&self, last: Last) -> Option<Waiter> {
        last.node().map(|last| self.waiter(self.node(last).next.load(Ordering::Relaxed)))
    }

    /// Calls `wake` for all fibers of a list that was taken off its page, in the order of arrival.
    pub(crate) fn wake(&self, last: Last, mut wake: impl FnMut(Waiter)) {
        let Some(last) = last.node() else { return };
        let mut next = self.node(last).next.load(Ordering::Relaxed);
        loop {
            let (number, node) = (next, self.node(next));
            next = node.next.load(Ordering::Relaxed);
            node.page.store(NO_PAGE, Ordering::Relaxed);
            // From here on it may wait for another page.
            wake(self.waiter(number));
            if number == last {
                return;
            }
        }
    }

    /// Returns the pages with waiting fibers, and the fibers. Takes no lock, so it may miss
    /// changes.
    pub(in crate::cache) fn waited_for(&self) -> Vec<(PageId, Vec<Waiter>)> {
        let mut pages = BTreeMap::<u32, Vec<Waiter>>::new();
        for (number, node) in (0..).zip(&self.nodes) {
            let page = node.page.load(Ordering::Relaxed);
            if page != NO_PAGE {
                pages.entry(page).or_default().push(self.waiter(number));
            }
        }
        pages.into_iter().map(|(page, waiters)| (PageId(page.into()), waiters)).collect()
    }

    fn node(&self, number: u32) -> &Node {
        &self.nodes[number as usize]
    }

    fn waiter(&self, number: u32) -> Waiter {
        Waiter { core: number / self.threads, fiber: number % self.threads }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    const PAGE: PageId = PageId(7);

    fn fiber(core: u32, fiber: u32) -> Waiter {
        Waiter { core, fiber }
    }

    fn woken(lists: &WaitLists, last: Last) -> Vec<Waiter> {
        let mut woken = Vec::new();
        lists.wake(last, |waiter| woken.push(waiter));
        woken
    }

    #[test]
    fn fibers_are_woken_once_in_the_order_in_which_they_came() {
        let lists = WaitLists::new(2, 3);
        assert_eq!((lists.first(Last::NONE), woken(&lists, Last::NONE)), (None, vec![]));
        let all = [fiber(1, 2), fiber(0, 0), fiber(1, 0), fiber(0, 2)];
        for count in 1..=all.len() {
            let append = |last, &waiter: &Waiter| lists.append(last, PAGE, waiter);
            let last = all[..count].iter().fold(Last::NONE, append);
            assert_eq!(lists.first(last), Some(all[0]));
            assert_eq!(Last::of_word(last.word()), last);
            assert_eq!(woken(&lists, last), all[..count]);
            assert_eq!(lists.waited_for(), []);
        }
    }

    #[test]
    fn a_fiber_may_wait_for_another_page_as_soon_as_it_is_woken() {
        let lists = WaitLists::new(1, 3);
        let both = [fiber(0, 1), fiber(0, 2)];
        let last = both.iter().fold(Last::NONE, |last, &w| lists.append(last, PAGE, w));
        let (mut again, mut woken_here) = (Last::NONE, Vec::new());
        lists.wake(last, |waiter| {
            woken_here.push(waiter);
            again = lists.append(again, PageId(8), waiter);
        });
        assert_eq!(woken_here, both);
        assert_eq!(lists.waited_for(), [(PageId(8), both.to_vec())]);
        assert_eq!(woken(&lists, again), both);
    }

    #[test]
    fn lists_of_different_pages_are_apart() {
        let lists = WaitLists::new(1, 4);
        let mut last = [Last::NONE; 2];
        for number in 0..4 {
            let page = number % 2;
            let list = &mut last[page as usize];
            *list = lists.append(*list, PageId(page.into()), fiber(0, number));
        }
        let even = vec![fiber(0, 0), fiber(0, 2)];
        let odd = vec![fiber(0, 1), fiber(0, 3)];
        assert_eq!(lists.waited_for(), [(PageId(0), even.clone()), (PageId(1), odd.clone())]);
        assert_eq!([woken(&lists, last[0]), woken(&lists, last[1])], [even, odd]);
    }

    #[test]
    fn a_list_keeps_the_slot_of_its_page_when_others_join() {
        let lists = WaitLists::new(1, 3);
        let mut last = lists.append(Last::NONE, PAGE, fiber(0, 2));
        lists.set_slot(last, 70);
        for number in [0, 1] {
            last = lists.append(last, PAGE, fiber(0, number));
            assert_eq!(lists.slot(last), 70);
        }
    }

    #[test]
    fn lists_say_what_they_take() {
        let lists = WaitLists::new(3, 5);
        assert_eq!(WaitLists::bytes(15), size_of_val(&*lists.nodes));
    }
}
