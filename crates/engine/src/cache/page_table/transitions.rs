//! Transitions of a page, as one table of stages and events.
//!
//! [`step`] has no memory, lock or clock. It maps a stage and an event to the next stage and the
//! effects. [`PageTable`](super::PageTable) stores the next stage. The core that caused the event
//! executes the effects.
//!
//! ```text
//! absent ──► reading ──► resident ──► evicting ──► unwritten ──► writing ──► absent
//!    │          ▲            ▲            └──────────────────────────────────► absent
//!    ├► starved ┘ ▲          │
//!    ├► claimed ──┴──────────┤
//!    └► coming ──► late ─────┤
//!          └─────► ahead ────┘
//! ```
//!
//! A transition never waits. Work that takes time is a stage between two events: a read lies
//! between `Fill` and [`Event::Arrived`], a grace period between [`Event::GivenUp`] and
//! [`Event::GraceOver`]. A system call that takes pages from a mapped region is such a stage too.
//! It begins with an effect, and ends with an event when the call has returned.

use std::fmt;

/// The stage of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// On flash only, in a slot.
    Absent,
    /// On no device: never written, all zeros.
    Blank,
    /// On flash only, and its copy is damaged.
    Damaged,
    /// On flash only. Fibers wait until their core has a frame for it.
    Starved,
    /// On its way in.
    Reading,
    /// On its way in ahead of demand.
    Coming,
    /// As `Coming`, and a job has asked for it since.
    Late,
    /// In a frame whose contents a job writes. No other job sees them.
    Claimed,
    /// In a frame, and no job has asked for it yet.
    Ahead,
    /// In a frame.
    Resident,
    /// Unpublished. Other cores may still use the frame.
    Evicting,
    /// Changed, past its grace period. It waits to be written.
    Unwritten,
    /// Being written.
    Writing,
}

/// An event in the life of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// A job asks for the page. Its core has a free frame, or none.
    Asked { frame: bool },
    /// A hint or the prefetcher expects the page, and a frame can be spared.
    Expected,
    /// A job will write the whole page, and a frame is free.
    Claimed,
    /// The job that has claimed the page needs its old contents.
    Unclaimed,
    /// The job that has claimed the page has written it.
    Revealed,
    /// There is a frame for a page that starved.
    FrameFound,
    /// No frame will become free.
    NoFrame,
    /// The page is in its frame.
    Arrived,
    /// The page cannot be read.
    Unreadable,
    /// A job uses the page for the first time if it was fetched ahead.
    Used,
    /// The replacement policy no longer knows the frame.
    GivenUp,
    /// As `GivenUp`, by the only core, so that no grace period follows. The rest is as in
    /// `GraceOver`.
    GivenUpAtOnce { changed: bool, stays: bool },
    /// No core uses the frame any more. The page has changed, or not. It `stays` if it was given up
    /// only to be written.
    GraceOver { changed: bool, stays: bool },
    /// The write was handed to the device.
    Sent,
    /// The write has ended well. `stays` as above.
    Written { stays: bool },
    /// The page was not written and stays.
    Kept,
}

/// The work that a transition leaves to the core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// Fill the frame: read the slot into it, or clear it if the page is blank. The frame was free.
    Fill,
    /// As `Fill`, ahead of demand.
    FillAhead,
    /// Find a frame for the page.
    FindFrame,
    /// The frame was free. It has this page now, with contents that the core sets.
    Take,
    /// Report to the job that the page is damaged.
    Refuse,
    /// The job waits with others.
    Join,
    /// The page was fetched ahead, too late for the job.
    NoteLate,
    /// The job uses the page at once.
    Use,
    /// The page was fetched ahead, and this is its first use.
    NoteFirstUse,
    /// Take the frame off the list of writes if the page may stay. Then the event is `Kept`.
    Rescue,
    /// Wake the waiting fibers. The first one settles the frame, or the core if there is none.
    Install,
    /// Wake the waiting fibers with an error.
    Fail,
    /// Wait until no core uses the frame any more.
    AwaitGrace,
    /// Queue the frame to be written.
    Write,
    /// Put the frame on the free list.
    Free,
}

/// The effects of a transition, as a set of bits. The core executes them in the order of
/// [`Effect`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effects(u16);

impl Effects {
    /// The set of these effects.
    #[inline(always)]
    pub(crate) const fn of(effects: &[Effect]) -> Effects {
        let (mut bits, mut at) = (0, 0);
        while at < effects.len() {
            bits |= 1 << effects[at] as u16;
            at += 1;
        }
        Effects(bits)
    }

    /// True if there is no effect.
    #[inline(always)]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if `effect` is one of them.
    #[inline(always)]
    pub(crate) const fn has(self, effect: Effect) -> bool {
        self.0 & 1 << effect as u16 != 0
    }

    /// True if one of `others` is one of them.
    #[inline(always)]
    pub(crate) const fn have_any(self, others: Effects) -> bool {
        self.0 & others.0 != 0
    }

    /// The effects, one after the other.
    pub(crate) fn iter(self) -> impl Iterator<Item = Effect> {
        ALL.into_iter().filter(move |&effect| self.has(effect))
    }
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Every effect.
const ALL: [Effect; 15] = [
    Effect::Fill,
    Effect::FillAhead,
    Effect::FindFrame,
    Effect::Take,
    Effect::Refuse,
    Effect::Join,
    Effect::NoteLate,
    Effect::Use,
    Effect::NoteFirstUse,
    Effect::Rescue,
    Effect::Install,
    Effect::Fail,
    Effect::AwaitGrace,
    Effect::Write,
    Effect::Free,
];

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// The next stage. A page that becomes `Absent` is blank or damaged if its slot says so.
    pub(crate) to: Stage,
    pub(crate) effects: Effects,
}

#[inline(always)]
const fn to(stage: Stage, effects: &[Effect]) -> Option<Step> {
    Some(Step { to: stage, effects: Effects::of(effects) })
}

/// Returns what `cause` does to a page in the stage `from`, for which fibers wait or not. `None` if
/// it cannot happen there.
#[inline(always)]
pub(crate) const fn step(from: Stage, cause: Cause, waited_for: bool) -> Option<Step> {
    use Effect::*;
    use Stage::*;
    match (cause, from) {
        (Cause::Asked { frame: true }, Absent | Blank) => to(Reading, &[Fill]),
        (Cause::Asked { frame: false }, Absent | Blank) => to(Starved, &[FindFrame]),
        (Cause::Asked { .. }, Damaged) => to(Damaged, &[Refuse]),
        (Cause::Asked { .. }, Starved) => to(Starved, &[Join]),
        (Cause::Asked { .. }, Reading) => to(Reading, &[Join]),
        (Cause::Asked { .. }, Coming) => to(Late, &[Join, NoteLate]),
        (Cause::Asked { .. }, Late) => to(Late, &[Join]),
        (Cause::Asked { .. }, Claimed) => to(Claimed, &[Join]),
        (Cause::Asked { .. }, Ahead) => to(Resident, &[Use, NoteFirstUse]),
        (Cause::Asked { .. }, Resident) => to(Resident, &[Use]),
        (Cause::Asked { .. }, Evicting) => to(Evicting, &[Join]),
        (Cause::Asked { .. }, Unwritten) => to(Unwritten, &[Join, Rescue]),
        (Cause::Asked { .. }, Writing) => to(Writing, &[Join]),

        (Cause::Expected, Absent) => to(Coming, &[FillAhead]),
        (Cause::Claimed, Absent | Blank) => to(Claimed, &[Take]),
        (Cause::Used, Ahead) => to(Resident, &[NoteFirstUse]),
        // Requests that a page in another stage does not need.
        (Cause::Expected | Cause::Claimed | Cause::Used, stage) => to(stage, &[]),

        (Cause::Unclaimed, Claimed) => to(Reading, &[Fill]),
        (Cause::Revealed, Claimed) => to(Resident, &[Install]),
        (Cause::FrameFound, Starved) => to(Reading, &[Fill]),
        (Cause::NoFrame, Starved) => to(Absent, &[Fail]),
        (Cause::Arrived, Reading | Late) => to(Resident, &[Install]),
        (Cause::Arrived, Coming) => to(Ahead, &[Install]),
        (Cause::Unreadable, Reading | Late | Coming) => to(Absent, &[Fail, Free]),

        (Cause::GivenUp, Resident | Ahead) => to(Evicting, &[AwaitGrace]),
        (Cause::GivenUpAtOnce { changed: true, .. }, Resident | Ahead)
        | (Cause::GraceOver { changed: true, .. }, Evicting) => to(Unwritten, &[Write]),
        (Cause::GivenUpAtOnce { changed: false, stays }, Resident | Ahead) => match stays {
            true => to(Resident, &[Install]),
            false => to(Absent, &[Free]),
        },
        (Cause::Sent, Unwritten) => to(Writing, &[]),
        (Cause::Kept, Unwritten | Writing) => to(Resident, &[Install]),
        (Cause::GraceOver { changed: false, stays }, Evicting)
        | (Cause::Written { stays }, Writing) => match stays || waited_for {
            true => to(Resident, &[Install]),
            false => to(Absent, &[Free]),
        },

        (
            Cause::Unclaimed
            | Cause::Revealed
            | Cause::FrameFound
            | Cause::NoFrame
            | Cause::Arrived
            | Cause::Unreadable
            | Cause::GivenUp
            | Cause::GivenUpAtOnce { .. }
            | Cause::GraceOver { .. }
            | Cause::Sent
            | Cause::Written { .. }
            | Cause::Kept,
            _,
        ) => None,
    }
}
