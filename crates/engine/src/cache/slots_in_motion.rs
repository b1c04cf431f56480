//! Where pages have their copies on flash, for a store that survives crashes.
//!
//! The state of an absent page names its slot, and what is kept of a frame names that of the page in it. A
//! page on its way in or out is in neither, and is noted here, so that the journal can ask for the slot of
//! any page and needs no table of its own.

use std::fmt;

use ebbtide_core::PageId;
use ebbtide_core::durability::{BLANK_SLOT, POISONED_SLOT, SlotTable};
use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;

use super::page_state::{BLANK, POISONED, PageState};
use super::{Cache, SHARDS};

/// The slots of the pages on their way, or nothing if nobody asks for them.
#[derive(Default)]
pub(super) struct SlotsInMotion(Box<[Mutex<Slots>]>);

/// The slots of some of those pages. While they are locked, none of the pages sets out or arrives.
type Slots = FxHashMap<PageId, u32>;

impl SlotsInMotion {
    /// Bytes that a page on its way takes: its entry in a hash table that is between 7/16 and 7/8 full.
    pub(super) const PAGE_BYTES: usize = (size_of::<(PageId, u32)>() + 1) * 16 / 7;

    /// Notes the slots of pages on their way from now on.
    pub(super) fn begin() -> SlotsInMotion {
        SlotsInMotion((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    /// The slots of pages like `page`, if they are noted.
    fn lock(&self, page: PageId) -> Option<MutexGuard<'_, Slots>> {
        Some(self.0.get(page.index() % SHARDS)?.lock())
    }

    /// `page`, whose copy is in `slot`, sets out: `set_state` says so in its state.
    pub(super) fn set_out(&self, page: PageId, slot: u32, set_state: impl FnOnce()) {
        let mut slots = self.lock(page);
        if let Some(slots) = &mut slots {
            slots.insert(page, slot);
        }
        set_state();
    }

    /// `page` arrives: `set_state` says so in its state, which names its slot, or in its frame.
    pub(super) fn arrive(&self, page: PageId, set_state: impl FnOnce()) {
        let mut slots = self.lock(page);
        if let Some(slots) = &mut slots {
            slots.remove(&page);
        }
        set_state();
    }
}

impl Cache {
    /// The slot of `page` as states say it.
    fn find_slot(&self, page: PageId) -> u32 {
        // The slot of a page changes by `set_slot` alone, which nobody calls meanwhile.
        if let PageState::Absent(slot) = self.state(page) {
            return slot;
        }
        let slots = self.moving.lock(page);
        match self.state(page) {
            PageState::Absent(slot) => slot,
            PageState::Resident(frame) | PageState::Ahead(frame) => {
                self.slot_of(frame).unwrap_or(BLANK)
            }
            PageState::Busy(_) | PageState::Coming(_) => {
                let slot = slots.as_ref().and_then(|slots| slots.get(&page));
                *slot.unwrap_or_else(|| unreachable!("{page:?} set out with its slot"))
            }
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

    /// A page is written to a slot while it is on its way out.
    fn set_slot(&self, page: PageId, slot: u32) {
        let mut slots = self.moving.lock(page);
        let known = slots.as_mut().and_then(|slots| slots.get_mut(&page));
        *known.unwrap_or_else(|| unreachable!("{page:?} is on its way")) = slot;
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
    use ebbtide_core::FrameId;
    use ebbtide_core::replacement::{Admission, PolicyKind};

    use super::super::{Division, Installed};
    use super::*;

    const PAGE: PageId = PageId(9);

    #[test]
    fn the_slot_of_a_page_is_known_wherever_the_page_is() {
        let policy = (Division::new(None, 1, 4, 100), Admission::Always, PolicyKind::Fifo);
        let mut cache = Cache::new(100, 4, policy, 4, true).expect("memory");
        cache.note_slots();
        for (slot, named) in [(BLANK, BLANK_SLOT), (POISONED, POISONED_SLOT), (70, 70)] {
            cache.place(PAGE, slot);
            assert_eq!(cache.slot(PAGE), named);
        }
        let (frame, mut now) = (FrameId(1), 70);
        for round in 0..3 {
            let shard = cache.shard(PAGE);
            match round {
                0 => cache.begin_fetch(PAGE, 0, &shard),
                _ => cache.begin_ahead(PAGE, 0, &shard),
            }
            assert_eq!(cache.slot(PAGE), now, "on its way in");
            let installed = Installed { slot: Some(now), dirty: false, ahead: round == 2 };
            cache.publish(PAGE, frame, installed, &shard);
            drop(shard);
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
        assert!(cache.moving.0.iter().all(|slots| slots.lock().is_empty()));
    }
}
