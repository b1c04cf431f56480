//! [`FrameRecord`]: per-frame metadata of the miss path.

use std::sync::atomic::{AtomicU32, Ordering};

use ebbtide_core::PageId;
use ebbtide_core::prefetch::Origin;

use super::page_state::CORES_MAX;
use super::transitions::Stage;
use super::wait_lists::{LAST_BITS, Last};

/// The word of a frame without a page. Otherwise the word names the page and its [`Origin`].
const HOLDS_NOTHING: u32 = u32::MAX;
const ORIGIN_SHIFT: u32 = 30;
const ORIGINS: [Origin; 3] = [Origin::Demand, Origin::Used, Origin::Unused];

/// The stage of a page that moves lies above the bits of its slot.
const STAGE_SHIFT: u32 = 30;
/// Stages on the way in, by those bits.
const ARRIVING: [Stage; 4] = [Stage::Reading, Stage::Coming, Stage::Late, Stage::Claimed];
/// Stages on the way out. One number is free.
const LEAVING: [Stage; 3] = [Stage::Evicting, Stage::Unwritten, Stage::Writing];

/// The place of a frame that the replacement policy does not know.
pub(in crate::cache) const NOWHERE: u32 = u32::MAX;

/// Per-frame metadata of the miss path. Four of them fit one cache line.
pub(in crate::cache) struct FrameRecord {
    /// The page, and its origin. Set when the page starts on its way in.
    holds: AtomicU32,
    /// Where that page has its copy on flash, up to date or not, or a mark instead. While the page
    /// moves, its stage as well.
    slot: AtomicU32,
    /// While that page moves: the core that moves it in or out, and the fibers that wait for it.
    moving: AtomicU32,
    /// Where the replacement policy keeps the frame, or [`NOWHERE`]. Changed under the lock of that
    /// part of the policy.
    place: AtomicU32,
}

/// The page that a frame holds or last held, with its origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held(u32);

impl Held {
    /// Of a frame that was never used.
    pub(super) const NOTHING: Held = Held(HOLDS_NOTHING);

    /// The page and its origin. `None` if the frame was never used.
    pub(crate) fn page(self) -> Option<(PageId, Origin)> {
        let page = PageId(u64::from(self.0 & ((1 << ORIGIN_SHIFT) - 1)));
        (self != Held::NOTHING).then(|| (page, ORIGINS[(self.0 >> ORIGIN_SHIFT) as usize]))
    }
}

impl FrameRecord {
    /// Of a frame that was never used.
    #[inline]
    pub(super) fn new() -> FrameRecord {
        FrameRecord {
            holds: AtomicU32::new(HOLDS_NOTHING),
            slot: AtomicU32::new(0),
            moving: AtomicU32::new(0),
            place: AtomicU32::new(NOWHERE),
        }
    }

    /// The page that the frame holds or last held, and its origin.
    #[inline]
    pub(in crate::cache) fn holds(&self) -> Held {
        Held(self.holds.load(Ordering::Relaxed))
    }

    /// The page that the frame, which was used before, holds or last held.
    #[inline]
    pub(in crate::cache) fn page(&self) -> PageId {
        let word = self.holds.load(Ordering::Relaxed);
        debug_assert_ne!(word, HOLDS_NOTHING, "the frame was never used");
        PageId(u64::from(word & ((1 << ORIGIN_SHIFT) - 1)))
    }

    #[inline]
    pub(super) fn set_holds(&self, page: PageId, origin: Origin) {
        let word = page.0 as u32 | (origin as u32) << ORIGIN_SHIFT;
        self.holds.store(word, Ordering::Relaxed);
    }

    #[inline]
    pub(in crate::cache) fn slot(&self) -> u32 {
        self.slot.load(Ordering::Relaxed) & ((1 << STAGE_SHIFT) - 1)
    }

    /// Notes a new slot of a page that its own core moves out. The stage stays.
    #[inline]
    pub(in crate::cache) fn set_slot(&self, slot: u32) {
        let stage = self.slot.load(Ordering::Relaxed) >> STAGE_SHIFT;
        self.slot.store(stage << STAGE_SHIFT | slot, Ordering::Relaxed);
    }

    /// The stage of the page in the frame, which is on its way in or out.
    #[inline]
    pub(super) fn stage(&self, arriving: bool) -> Stage {
        let number = (self.slot.load(Ordering::Relaxed) >> STAGE_SHIFT) as usize;
        match arriving {
            true => ARRIVING[number],
            false => LEAVING[number],
        }
    }

    #[inline]
    pub(super) fn set_stage(&self, stage: Stage) {
        self.set_slot_and_stage(self.slot(), stage);
    }

    #[inline]
    pub(super) fn set_slot_and_stage(&self, slot: u32, stage: Stage) {
        self.slot.store(number(stage) << STAGE_SHIFT | slot, Ordering::Relaxed);
    }

    /// The core that moves the page in or out, and the fibers that wait for it.
    #[inline]
    pub(super) fn moving(&self) -> (u32, Last) {
        let word = self.moving.load(Ordering::Relaxed);
        (word >> LAST_BITS, Last::of_word(word & !(u32::MAX << LAST_BITS)))
    }

    #[inline]
    pub(super) fn set_moving(&self, core: u32, waiting: Last) {
        debug_assert!((core as usize) < CORES_MAX);
        self.moving.store(core << LAST_BITS | waiting.word(), Ordering::Relaxed);
    }

    /// The fibers that wait for the page.
    #[inline]
    pub(super) fn waiting(&self) -> Last {
        self.moving().1
    }

    /// Takes the fibers that wait off the page. The caller wakes them.
    #[inline]
    pub(super) fn take_waiting(&self) -> Last {
        let (core, last) = self.moving();
        if last != Last::NONE {
            self.set_moving(core, Last::NONE);
        }
        last
    }

    /// Where the policy keeps the frame, if it knows it.
    #[inline]
    pub(in crate::cache) fn place(&self) -> Option<u32> {
        let place = self.place.load(Ordering::Relaxed);
        (place != NOWHERE).then_some(place)
    }

    #[inline]
    pub(in crate::cache) fn set_place(&self, place: u32) {
        self.place.store(place, Ordering::Relaxed);
    }
}

/// The number of the stage among those of its way. A page that does not move has none.
#[inline]
fn number(stage: Stage) -> u32 {
    match stage {
        Stage::Coming | Stage::Unwritten => 1,
        Stage::Late | Stage::Writing => 2,
        Stage::Claimed => 3,
        _ => 0,
    }
}
