//! The slot table: where pages have their copies on flash, for a store that survives crashes.
//!
//! The state of an absent page names its slot. The metadata of a frame names the slot of its page,
//! also while that page is on its way in or out. So the journal can ask for the slot of any page
//! and needs no table of its own.

use std::fmt;

use ebbtide_core::PageId;
use ebbtide_core::durability::{BLANK_SLOT, POISONED_SLOT, SlotTable};

use super::{BLANK, Cache, POISONED, PageState};

impl Cache {
    /// The slot of `page`, as found in the states.
    fn find_slot(&self, page: PageId) -> u32 {
        match self.state(page) {
            // Only `set_slot` changes the slot of a page, and it is not called at the same time.
            PageState::Absent(slot) => slot,
            _ => self.lock(page).slot(),
        }
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
        self.lock(page).set_slot(slot);
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("pages", &self.table.pages()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use ebbtide_core::FrameId;
    use ebbtide_core::replacement::{Admission, PolicyKind};

    use super::super::testing::{bring, give_up, give_up_page, release};
    use super::super::{Change, Division, Effect, Event, Last};
    use super::*;
    use crate::sync::mailbox::Waiter;

    const PAGE: PageId = PageId(9);

    fn asked(cache: &Cache, fiber: u32) -> Change {
        cache.apply(PAGE, Event::Asked { waiter: Waiter { core: 0, fiber }, frame: None })
    }

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
            if round == 0 {
                for (fiber, effect) in [(2, Effect::FindFrame), (1, Effect::Join)] {
                    let change = asked(&cache, fiber);
                    assert!(change.has(effect) && change.mover == 0);
                    assert!(matches!(cache.state(PAGE), PageState::Starved(_)));
                    assert_eq!(cache.slot(PAGE), now, "without a frame");
                }
                let change = cache.apply(PAGE, Event::FrameFound { core: 0, frame });
                assert_eq!((change.slot, change.frame), (now, frame));
            } else {
                let change = cache.apply(PAGE, Event::Expected { core: 0, frame });
                assert_eq!((change.slot, change.frame), (now, frame));
            }
            assert_eq!(cache.slot(PAGE), now, "on its way in");
            if round == 1 {
                assert!(asked(&cache, 3).has(Effect::NoteLate));
            }
            let waiting = cache.apply(PAGE, Event::Arrived).waiting;
            let mut woken = Vec::new();
            cache.wake(waiting, |waiter| woken.push(waiter.fiber));
            assert_eq!(woken, [vec![2, 1], vec![3], vec![]][round]);
            assert_eq!(cache.slot(PAGE), now, "in a frame");
            cache.settle(&mut vec![frame]);
            assert_eq!(give_up_page(&cache, PAGE, 0), Some(frame));
            assert_eq!(cache.slot(PAGE), now, "on its way out");
            let _queued = cache.apply(PAGE, Event::GraceOver { changed: true, stays: false });
            let _sent = cache.apply(PAGE, Event::Sent);
            now += 1;
            cache.set_slot(PAGE, now);
            assert_eq!(cache.slot(PAGE), now, "written");
            let written = cache.apply(PAGE, Event::Written { slot: now, stays: false });
            assert!(written.has(Effect::Free));
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
            bring(&cache, page, FRAME, false);
            assert_eq!(cache.slot(page), page.0 as u32);
            cache.settle(&mut vec![FRAME]);
            assert_eq!(give_up(&cache, 1, 0), [FRAME]);
            assert_eq!(cache.slot(page), page.0 as u32, "it is still there");
            assert_eq!(release(&cache, page).waiting, Last::NONE);
        }
        assert_eq!(cache.slot_of(FRAME), Some(OTHER.0 as u32), "another has come");
        assert_eq!(cache.slot(PAGE), PAGE.0 as u32);
    }
}
