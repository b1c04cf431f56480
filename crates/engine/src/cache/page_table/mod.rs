//! [`PageTable`]: the state of every page, and its only way to change.
//!
//! A state changes by an [`Event`] that is applied to a [`LockedPage`]. The lock of a page is the
//! lock of its shard, and a `LockedPage` can change its own page only. The [table](transitions)
//! gives the next stage and the effects. This module stores the stage, and returns the effects with
//! their data as a [`Change`]. It executes none of them: the core does.
//!
//! Only marks change without the lock: jobs mark resident frames as touched and as changed.

mod frame_record;
mod page_state;
mod shards;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
mod transitions;
mod wait_lists;

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use ebbtide_core::prefetch::Origin;
use ebbtide_core::{FrameId, PageId};

use super::hit_table::HitTable;
use crate::host::mapping::Mapping;
use crate::host::prefetched::prefetch;
use crate::sync::mailbox::Waiter;
pub(crate) use frame_record::Held;
pub(super) use frame_record::{FrameRecord, NOWHERE};
pub(super) use page_state::MISSING;
pub(crate) use page_state::{
    BLANK, CORES_MAX, FRAMES_MAX, PAGE_STATE_BYTES, POISONED, PageState, SLOTS_MAX,
};
use shards::{Locked, Shards};
pub(crate) use transitions::{Cause, Effect, Effects, Stage, step};
pub(crate) use wait_lists::{FIBERS_MAX, Last, WaitLists};

/// The states of all pages, and what changes when a page comes or goes.
pub(super) struct PageTable {
    states: Mapping,
    pages: u64,
    records: Box<[FrameRecord]>,
    /// By frame: hits since the policy last looked.
    touches: Box<[AtomicU8]>,
    /// By frame: whether it is newer than the copy on flash.
    dirty: Box<[AtomicU8]>,
    hits: HitTable,
    shards: Shards,
    waiting: WaitLists,
}

/// An event in the life of a page, with its data. [`Cause`] describes each.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// `frame` is free and becomes the page's if it needs one. The core of `waiter` brings the page
    /// then.
    Asked {
        waiter: Waiter,
        frame: Option<FrameId>,
    },
    /// `core` may bring the page into `frame`, which is free.
    Expected {
        core: usize,
        frame: FrameId,
    },
    /// As `Expected`, for a job of `core`.
    Claimed {
        core: usize,
        frame: FrameId,
    },
    Unclaimed,
    Revealed,
    /// `core` has this free frame for the page.
    FrameFound {
        core: usize,
        frame: FrameId,
    },
    NoFrame,
    Arrived,
    Unreadable,
    Used,
    /// `core` moves the page out.
    GivenUp {
        core: usize,
    },
    /// As `GivenUp`. The core is the only one.
    GivenUpAtOnce {
        changed: bool,
        stays: bool,
    },
    GraceOver {
        changed: bool,
        stays: bool,
    },
    Sent,
    /// The page has its copy in `slot` now.
    Written {
        slot: u32,
        stays: bool,
    },
    /// The page has an older copy in `slot`, or none.
    Kept {
        slot: Option<u32>,
    },
}

/// The effects of a transition, with their data.
#[must_use = "the core executes the effects"]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) effects: Effects,
    /// The frame that the page has, or had until now. For effects that concern a frame.
    pub(crate) frame: FrameId,
    /// The slot that the page has on flash, or [`BLANK`] or [`POISONED`].
    pub(crate) slot: u32,
    /// The fibers that waited for the page. For [`Effect::Install`] and [`Effect::Fail`].
    pub(crate) waiting: Last,
    /// The core that moves the page. For [`Effect::Join`].
    pub(crate) mover: u32,
    /// The page that the frame held before, and its origin. For [`Effect::Fill`],
    /// [`Effect::FillAhead`] and [`Effect::Take`].
    pub(crate) left: Held,
}

impl Change {
    /// True if the transition has no effect.
    #[inline(always)]
    pub(crate) fn is_nothing(&self) -> bool {
        self.effects.is_empty()
    }

    /// True if the core has to execute `effect`.
    #[inline(always)]
    pub(crate) fn has(&self, effect: Effect) -> bool {
        self.effects.has(effect)
    }
}

impl Event {
    #[inline(always)]
    fn cause(self) -> Cause {
        match self {
            Event::Asked { frame, .. } => Cause::Asked { frame: frame.is_some() },
            Event::Expected { .. } => Cause::Expected,
            Event::Claimed { .. } => Cause::Claimed,
            Event::Unclaimed => Cause::Unclaimed,
            Event::Revealed => Cause::Revealed,
            Event::FrameFound { .. } => Cause::FrameFound,
            Event::NoFrame => Cause::NoFrame,
            Event::Arrived => Cause::Arrived,
            Event::Unreadable => Cause::Unreadable,
            Event::Used => Cause::Used,
            Event::GivenUp { .. } => Cause::GivenUp,
            Event::GivenUpAtOnce { changed, stays } => Cause::GivenUpAtOnce { changed, stays },
            Event::GraceOver { changed, stays } => Cause::GraceOver { changed, stays },
            Event::Sent => Cause::Sent,
            Event::Written { stays, .. } => Cause::Written { stays },
            Event::Kept { .. } => Cause::Kept,
        }
    }
}

/// A page whose state no other thread changes now.
pub(crate) struct LockedPage<'a> {
    table: &'a PageTable,
    page: PageId,
    _shard: Locked<'a>,
}

impl PageTable {
    /// The states of `pages` pages and `frames` frames, for `cores` cores of `threads` fibers. All
    /// pages are blank, or absent in the slots of their numbers.
    pub(super) fn new(
        pages: u64,
        frames: usize,
        (cores, threads): (usize, usize),
        blank: bool,
    ) -> io::Result<PageTable> {
        assert!(frames > 0 && frames < FRAMES_MAX, "{frames} frames cannot be numbered");
        assert!(pages <= SLOTS_MAX, "{pages} pages cannot be numbered");
        let marks = || (0..frames).map(|_| AtomicU8::new(0)).collect();
        let table = PageTable {
            states: Mapping::zeroed(pages as usize * PAGE_STATE_BYTES)?,
            pages,
            records: (0..frames).map(|_| FrameRecord::new()).collect(),
            touches: marks(),
            dirty: marks(),
            hits: HitTable::new(frames)?,
            shards: Shards::default(),
            waiting: WaitLists::new(cores, threads),
        };
        for page in (0..pages).map(PageId) {
            let slot = if blank { BLANK } else { page.0 as u32 };
            table.word(page).store(PageState::Absent(slot).word(), Ordering::Relaxed);
        }
        Ok(table)
    }

    /// Sets where an absent page is: in `slot`, or one of the two marks. Only before the table is
    /// used.
    pub(super) fn place(&mut self, page: PageId, slot: u32) {
        self.word(page).store(PageState::Absent(slot).word(), Ordering::Relaxed);
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    #[inline]
    pub(super) fn record(&self, frame: FrameId) -> &FrameRecord {
        &self.records[frame.index()]
    }

    pub(super) fn touches(&self) -> &[AtomicU8] {
        &self.touches
    }

    pub(super) fn dirty(&self) -> &[AtomicU8] {
        &self.dirty
    }

    pub(super) fn hits(&self) -> &HitTable {
        &self.hits
    }

    pub(super) fn waiting(&self) -> &WaitLists {
        &self.waiting
    }

    /// The states as a plain pointer, for the hit path.
    pub(super) fn words(&self) -> *const AtomicU32 {
        self.states.base().cast_const().cast()
    }

    #[inline]
    fn word(&self, page: PageId) -> &AtomicU32 {
        assert!(page.0 < self.pages, "{page:?} does not exist");
        // SAFETY: within the mapping, as just checked; states are only accessed as this type.
        unsafe { &*self.states.base().cast::<AtomicU32>().add(page.index()) }
    }

    /// Where `page` is. It may be elsewhere by the time that the caller looks at the answer.
    #[inline]
    pub(super) fn state(&self, page: PageId) -> PageState {
        PageState::of_word(self.word(page).load(Ordering::Acquire))
    }

    /// Locks `page`, and with it the other pages of its shard.
    #[inline]
    pub(super) fn lock(&self, page: PageId) -> LockedPage<'_> {
        LockedPage { table: self, page, _shard: self.shards.lock(page) }
    }

    /// Prefetches the data that changes when `page` comes or goes. It has left the core's caches
    /// since.
    pub(super) fn prefetch(&self, page: PageId) {
        prefetch(self.word(page));
        self.hits.prefetch(page);
    }
}

impl LockedPage<'_> {
    /// Where the page is. Final while it is locked.
    #[inline]
    pub(crate) fn state(&self) -> PageState {
        self.table.state(self.page)
    }

    /// The stage of a page in `state`.
    #[inline(always)]
    fn stage_in(&self, state: PageState) -> Stage {
        match state {
            PageState::Absent(BLANK) => Stage::Blank,
            PageState::Absent(POISONED) => Stage::Damaged,
            PageState::Absent(_) => Stage::Absent,
            PageState::Starved(_) => Stage::Starved,
            PageState::Arriving(frame) | PageState::Leaving(frame) => {
                self.table.record(frame).stage(matches!(state, PageState::Arriving(_)))
            }
            PageState::Ahead(_) => Stage::Ahead,
            PageState::Resident(_) => Stage::Resident,
        }
    }

    /// Returns the slot of the page on flash, also while the page is in a frame.
    pub(super) fn slot(&self) -> u32 {
        match self.state() {
            PageState::Absent(slot) => slot,
            PageState::Starved(waiting) => self.table.waiting.slot(waiting),
            PageState::Arriving(frame)
            | PageState::Leaving(frame)
            | PageState::Ahead(frame)
            | PageState::Resident(frame) => self.table.record(frame).slot(),
        }
    }

    /// Notes that the page, which its core writes, has its copy in `slot` now.
    pub(super) fn set_slot(&mut self, slot: u32) {
        let frame = self.state().frame();
        let frame = frame.unwrap_or_else(|| unreachable!("{:?} has a frame", self.page));
        self.table.record(frame).set_slot(slot);
    }

    /// Adds a resident page to the table of hits, if it found no place there when it arrived.
    pub(super) fn remember(&self) {
        if let PageState::Resident(frame) = self.state()
            && self.table.hits.lookup().find_in_line(self.page).is_err()
        {
            self.table.hits.add(self.page, frame);
        }
    }

    /// Performs the transition that `event` causes.
    ///
    /// # Panics
    /// When the event cannot happen to the page in its stage.
    // Inlined, so that of the table only the rows of the caller's event remain.
    #[inline(always)]
    pub(crate) fn apply(&mut self, event: Event) -> Change {
        let state = self.state();
        let from = self.stage_in(state);
        let waited_for = match state {
            PageState::Leaving(frame) => self.table.record(frame).waiting() != Last::NONE,
            // The table does not ask.
            _ => false,
        };
        let Some(row) = step(from, event.cause(), waited_for) else { self.refuse(from, event) };
        let nothing = Change {
            effects: row.effects,
            frame: state.frame().unwrap_or(FrameId(u32::MAX)),
            slot: BLANK,
            waiting: Last::NONE,
            mover: 0,
            left: Held::NOTHING,
        };
        match (event, state) {
            (Event::Asked { waiter, frame: Some(frame) }, PageState::Absent(slot))
                if slot != POISONED =>
            {
                let last = self.table.waiting.append(Last::NONE, self.page, waiter);
                self.set_out(nothing, row.to, (slot, frame), (waiter.core, last))
            }
            (Event::Asked { waiter, .. }, _) => self.asked(nothing, state, row.to, waiter),
            (
                Event::Expected { core, frame } | Event::Claimed { core, frame },
                PageState::Absent(slot),
            ) if !nothing.is_nothing() => {
                self.set_out(nothing, row.to, (slot, frame), (core as u32, Last::NONE))
            }
            (Event::Expected { .. } | Event::Claimed { .. }, _) => nothing,
            (Event::FrameFound { core, frame }, PageState::Starved(last)) => {
                let slot = self.table.waiting.slot(last);
                self.set_out(nothing, row.to, (slot, frame), (core as u32, last))
            }
            (Event::Used, _) => {
                if !nothing.is_nothing() {
                    self.use_first(nothing.frame);
                }
                nothing
            }
            (Event::NoFrame, PageState::Starved(waiting)) => {
                let slot = self.table.waiting.slot(waiting);
                self.set_state(PageState::Absent(slot));
                Change { slot, waiting, ..nothing }
            }
            (event, _) => self.move_on(nothing, (from, row.to), event),
        }
    }

    /// Performs the transition of a page that is in a frame, or on its way into or out of one.
    #[inline(always)]
    fn move_on(&self, change: Change, (from, to): (Stage, Stage), event: Event) -> Change {
        let record = self.table.record(change.frame);
        let slot = record.slot();
        match event {
            Event::GivenUp { core } => {
                record.set_moving(core as u32, Last::NONE);
                self.give_up(change, record, Stage::Evicting)
            }
            Event::GivenUpAtOnce { changed: true, .. } => {
                self.give_up(Change { slot, ..change }, record, to)
            }
            Event::GivenUpAtOnce { .. } => {
                self.table.hits.remove(self.page);
                match to {
                    Stage::Resident => self.install(change, from, (record, slot), false),
                    _ => self.leave(change, record, slot),
                }
            }
            Event::Unclaimed | Event::Sent | Event::GraceOver { changed: true, .. } => {
                record.set_slot_and_stage(slot, to);
                Change { slot, ..change }
            }
            Event::Arrived => self.install(change, from, (record, slot), false),
            Event::Revealed => self.install(change, from, (record, slot), true),
            Event::Kept { slot } => {
                self.install(change, from, (record, slot.unwrap_or(BLANK)), true)
            }
            Event::GraceOver { .. } if to == Stage::Resident => {
                self.install(change, from, (record, slot), false)
            }
            Event::Written { slot, .. } if to == Stage::Resident => {
                self.install(change, from, (record, slot), false)
            }
            Event::Unreadable | Event::GraceOver { .. } => self.leave(change, record, slot),
            Event::Written { slot, .. } => self.leave(change, record, slot),
            Event::Asked { .. }
            | Event::Expected { .. }
            | Event::Claimed { .. }
            | Event::FrameFound { .. }
            | Event::NoFrame
            | Event::Used => self.refuse(from, event),
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self, from: Stage, event: Event) -> ! {
        unreachable!("{:?} is {from:?}: {event:?} cannot happen", self.page)
    }

    #[inline(always)]
    fn set_state(&self, state: PageState) {
        self.table.word(self.page).store(state.word(), Ordering::Release);
    }

    /// A job asks for the page, which is not on flash only, or damaged, or without a frame.
    #[inline(never)]
    fn asked(&self, change: Change, state: PageState, to: Stage, waiter: Waiter) -> Change {
        let (lists, page) = (&self.table.waiting, self.page);
        match state {
            PageState::Absent(POISONED) => change,
            PageState::Resident(_) => {
                self.remember();
                change
            }
            PageState::Ahead(frame) => {
                self.use_first(frame);
                change
            }
            PageState::Absent(slot) => {
                let last = lists.append(Last::NONE, page, waiter);
                lists.set_slot(last, slot);
                self.set_state(PageState::Starved(last));
                Change { slot, ..change }
            }
            PageState::Starved(last) => {
                let seeker = lists.first(last).expect("a page starves for a fiber");
                self.set_state(PageState::Starved(lists.append(last, page, waiter)));
                Change { mover: seeker.core, ..change }
            }
            PageState::Arriving(frame) | PageState::Leaving(frame) => {
                let record = self.table.record(frame);
                let (mover, last) = record.moving();
                record.set_moving(mover, lists.append(last, page, waiter));
                if to == Stage::Late {
                    record.set_stage(to);
                }
                Change { mover, slot: record.slot(), ..change }
            }
        }
    }

    /// A page without a frame starts on its way into one.
    #[inline(always)]
    fn set_out(
        &self,
        change: Change,
        to: Stage,
        (slot, frame): (u32, FrameId),
        (core, last): (u32, Last),
    ) -> Change {
        let record = self.table.record(frame);
        let left = record.holds();
        record.set_holds(self.page, Origin::Demand);
        record.set_moving(core, last);
        record.set_slot_and_stage(slot, to);
        self.set_state(PageState::Arriving(frame));
        Change { frame, slot, left, ..change }
    }

    /// The page is in its frame and may be used from now on.
    #[inline(always)]
    fn install(
        &self,
        change: Change,
        from: Stage,
        (record, slot): (&FrameRecord, u32),
        dirty: bool,
    ) -> Change {
        let (frame, table) = (change.frame, self.table);
        let (origin, state) = match from {
            Stage::Coming => (Origin::Unused, PageState::Ahead(frame)),
            Stage::Late => (Origin::Used, PageState::Resident(frame)),
            _ => (Origin::Demand, PageState::Resident(frame)),
        };
        record.set_holds(self.page, origin);
        record.set_slot_and_stage(slot, Stage::Resident);
        table.touches[frame.index()].store(0, Ordering::Relaxed);
        table.dirty[frame.index()].store(u8::from(dirty), Ordering::Relaxed);
        let waiting = record.take_waiting();
        self.set_state(state);
        if origin != Origin::Unused {
            table.hits.add(self.page, frame);
        }
        Change { slot, waiting, ..change }
    }

    /// A job uses a page for the first time that was fetched ahead.
    fn use_first(&self, frame: FrameId) {
        self.table.record(frame).set_holds(self.page, Origin::Used);
        self.set_state(PageState::Resident(frame));
        self.table.hits.add(self.page, frame);
    }

    /// Unpublishes the page, which goes to the stage `to` on its way out.
    #[inline(always)]
    fn give_up(&self, change: Change, record: &FrameRecord, to: Stage) -> Change {
        record.set_stage(to);
        self.set_state(PageState::Leaving(change.frame));
        self.table.hits.remove(self.page);
        change
    }

    /// The page is on flash only, in `slot`.
    #[inline(always)]
    fn leave(&self, change: Change, record: &FrameRecord, slot: u32) -> Change {
        let waiting = record.take_waiting();
        self.set_state(PageState::Absent(slot));
        Change { slot, waiting, ..change }
    }
}
