//! The slot table: where pages have their copies on flash, for a store that survives crashes.
//!
//! The state of an absent page names its slot. The metadata of a frame names the slot of its page,
//! also while that page is on its way in or out. So the journal can ask for the slot of any page
//! and needs no table of its own.

use std::fmt;
use std::sync::atomic::Ordering;

use ebbtide_core::durability::{BLANK_SLOT, POISONED_SLOT, SlotTable};
use ebbtide_core::{FrameId, PageId};

use super::Cache;
use super::page_state::{BLANK, POISONED, PageState};

impl Cache {
    /// The slot of `page`, as found in the states.
    fn find_slot(&self, page: PageId) -> u32 {
        let mut locked = None;
        loop {
            let state = self.state(page);
            if let PageState::Absent(slot) = state {
                // Only `set_slot` changes the slot of a page, and it is not called at the same
                // time.
                return slot;
            }
            if locked.is_none() {
                // While this is locked, a page may leave a frame but comes to none.
                locked = Some(self.shard(page));
                continue;
            }
            if let PageState::Starved(waiting) = state {
                return self.waiting.slot(waiting);
            }
            if let Some(slot) = state.frame().and_then(|frame| self.slot_in(frame, page)) {
                return slot;
            }
        }
    }

    /// The slot of `page` if that has not left `frame` since it was seen there. Its shard is locked, so
    /// that it has not come back either.
    fn slot_in(&self, frame: FrameId, page: PageId) -> Option<u32> {
        let slot = self.contents[frame.index()].slot.load(Ordering::Acquire);
        // Else this may be the slot of a page that came after it.
        (self.state(page).frame() == Some(frame)).then_some(slot)
    }
}

impl SlotTable for Cache {
    fn slot(&self, page: PageId) -> u32 {
        match self.find_slot(page) {
            BLANK => BLANK_SLOT,
            POISONED => POISONED_SLOT,
            slot => slot,
        }
    }

    /// Sets the slot that a page is written to. The page is on its way out, and stays in its frame
    /// until the write ends.
    fn set_slot(&self, page: PageId, slot: u32) {
        let frame = self.state(page).frame();
        let frame = frame.unwrap_or_else(|| unreachable!("{page:?} is on its way"));
        self.contents[frame.index()].slot.store(slot, Ordering::Release);
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("pages", &self.pages).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use ebbtide_core::replacement::{Admission, PolicyKind};

    use super::super::{Division, Installed, Last};
    use super::*;
    use crate::sync::mailbox::Waiter;

    const PAGE: PageId = PageId(9);

    #[test]
    fn the_slot_of_a_page_is_known_wherever_the_page_is() {
        let policy = (Division::new(None, 1, 4, 100), Admission::Always, PolicyKind::Fifo);
        let mut cache = Cache::new(100, 4, policy, (1, 4), true).expect("memory");
        for (slot, named) in [(BLANK, BLANK_SLOT), (POISONED, POISONED_SLOT), (70, 70)] {
            cache.place(PAGE, slot);
            assert_eq!(cache.slot(PAGE), named);
        }
        assert_eq!(format!("{cache:?}"), "Cache { pages: 100, .. }");
        let (frame, mut now) = (FrameId(1), 70);
        for round in 0..3 {
            let mut shard = cache.shard(PAGE);
            match round {
                0 => {
                    for fiber in [2, 1] {
                        let waiter = Waiter { core: 0, fiber };
                        match cache.state(PAGE) {
                            PageState::Absent(slot) => {
                                cache.begin_starved(PAGE, slot, waiter, &shard)
                            }
                            _ => assert_eq!(cache.wait(PAGE, waiter, &shard), (0, None)),
                        }
                        drop(shard);
                        assert!(matches!(cache.state(PAGE), PageState::Starved(_)));
                        assert_eq!(cache.slot(PAGE), now, "without a frame");
                        shard = cache.shard(PAGE);
                    }
                    cache.begin_fetch(PAGE, (now, frame), 0, &shard);
                }
                _ => cache.begin_ahead(PAGE, (now, frame), 0, &shard),
            }
            drop(shard);
            assert_eq!(cache.slot(PAGE), now, "on its way in");
            let shard = cache.shard(PAGE);
            let installed = Installed { slot: Some(now), dirty: false, ahead: round == 2 };
            let waiting = cache.publish(PAGE, frame, installed, &shard);
            drop(shard);
            let mut woken = Vec::new();
            cache.wake(waiting, |waiter| woken.push(waiter.fiber));
            assert_eq!(woken, if round == 0 { vec![2, 1] } else { vec![] });
            assert_eq!(cache.slot(PAGE), now, "in a frame");
            cache.settle(&mut vec![frame]);
            assert_eq!(cache.give_up_page(PAGE, 0), Some(frame));
            assert_eq!(cache.slot(PAGE), now, "on its way out");
            now += 1;
            cache.set_slot(PAGE, now);
            assert_eq!(cache.slot(PAGE), now, "written");
            cache.set_absent_alone(PAGE, now);
            assert_eq!(cache.slot(PAGE), now, "absent");
        }
        assert_eq!(cache.waited_for(), []);
    }

    #[test]
    fn the_slot_of_a_page_that_has_left_its_frame_is_not_that_of_the_next_one_there() {
        const OTHER: PageId = PageId(10);
        const FRAME: FrameId = FrameId(1);
        let policy = (Division::new(None, 1, 4, 100), Admission::Always, PolicyKind::Fifo);
        let cache = Cache::new(100, 4, policy, (1, 4), false).expect("memory");
        for page in [PAGE, OTHER] {
            let slot = page.0 as u32;
            assert_eq!(cache.slot_in(FRAME, page), None, "{page:?} has not come yet");
            let shard = cache.shard(page);
            cache.begin_fetch(page, (slot, FRAME), 0, &shard);
            let installed = Installed { slot: Some(slot), dirty: false, ahead: false };
            let nobody = cache.publish(page, FRAME, installed, &shard);
            assert_eq!(nobody, Last::NONE);
            assert_eq!(cache.slot_in(FRAME, page), Some(slot));
            cache.settle(&mut vec![FRAME]);
            assert_eq!(cache.give_up(1, 0), [FRAME]);
            assert_eq!(cache.slot_in(FRAME, page), Some(slot), "it is still there");
            assert_eq!(cache.set_absent(page, slot, &shard), Last::NONE);
        }
        assert_eq!(cache.slot_in(FRAME, PAGE), None, "another has come");
        assert_eq!(cache.slot(PAGE), PAGE.0 as u32);
    }
}
