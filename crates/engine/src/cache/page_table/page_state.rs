//! [`PageState`]: where a page is, in one word. A page that moves has its stage with its frame.

use std::sync::atomic::AtomicU32;

use ebbtide_core::FrameId;

use super::wait_lists::Last;

/// Set in the state of a page that is not resident. The other bits of an absent page are the number
/// of its slot. The state of a resident page is only its frame's number, so the hit path has
/// nothing to mask off.
pub(in crate::cache) const MISSING: u32 = 1 << 31;
/// Set, with the number of its frame, in the state of a page that is neither absent nor resident.
const AHEAD: u32 = 0b1100 << NUMBER_BITS;
const ARRIVING: u32 = 0b1101 << NUMBER_BITS;
const LEAVING: u32 = 0b1110 << NUMBER_BITS;
/// Set with the last fiber that waits for the page.
const STARVED: u32 = 0b1111 << NUMBER_BITS;

/// Bits of the number, next to those four.
const NUMBER_BITS: u32 = 28;

/// The most cores that can bring pages.
pub(crate) const CORES_MAX: usize = 1 << 10;

/// The most frames a cache can have, which is 1 TiB of them.
pub(crate) const FRAMES_MAX: usize = 1 << NUMBER_BITS;

/// Bytes of DRAM that each page of the address space costs, resident or not, without its history in
/// the replacement policy.
pub(crate) const PAGE_STATE_BYTES: usize = size_of::<AtomicU32>();

/// Instead of a slot: the page has never been written back, and is zeros.
pub(crate) const BLANK: u32 = (1 << 30) - 1;

/// Instead of a slot: the page's copy is damaged.
pub(crate) const POISONED: u32 = BLANK - 1;

/// The most slots an address space can have, for the same reason.
pub(crate) const SLOTS_MAX: u64 = POISONED as u64;

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageState {
    /// On flash only, in this slot, or [`BLANK`].
    Absent(u32),
    /// On flash only, and these fibers wait for it, until the first one's core has a frame for it.
    Starved(Last),
    /// On its way into this frame.
    Arriving(FrameId),
    /// On its way out of this frame.
    Leaving(FrameId),
    /// In this frame, and no job has asked for it yet.
    Ahead(FrameId),
    /// In this frame.
    Resident(FrameId),
}

impl PageState {
    #[inline]
    pub(super) fn of_word(word: u32) -> PageState {
        let number = word & !(u32::MAX << NUMBER_BITS);
        match word & (u32::MAX << NUMBER_BITS) {
            _ if word & MISSING == 0 => PageState::Resident(FrameId(word)),
            AHEAD => PageState::Ahead(FrameId(number)),
            ARRIVING => PageState::Arriving(FrameId(number)),
            LEAVING => PageState::Leaving(FrameId(number)),
            STARVED => PageState::Starved(Last::of_word(number)),
            _ => PageState::Absent(word & !MISSING),
        }
    }

    /// The frame that the page is in, or on its way into or out of.
    #[inline]
    pub(in crate::cache) fn frame(self) -> Option<FrameId> {
        match self {
            PageState::Absent(_) | PageState::Starved(_) => None,
            PageState::Leaving(frame)
            | PageState::Arriving(frame)
            | PageState::Ahead(frame)
            | PageState::Resident(frame) => Some(frame),
        }
    }

    #[inline]
    pub(super) fn word(self) -> u32 {
        match self {
            PageState::Absent(slot) => {
                debug_assert!(slot <= BLANK);
                MISSING | slot
            }
            PageState::Starved(last) => STARVED | last.word(),
            PageState::Leaving(frame) => LEAVING | frame.0,
            PageState::Arriving(frame) => ARRIVING | frame.0,
            PageState::Ahead(frame) => AHEAD | frame.0,
            PageState::Resident(frame) => frame.0,
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::super::wait_lists::FIBERS_MAX;
    use super::*;

    #[test]
    fn a_word_gives_the_state_it_was_made_of() {
        let slots = [0, SLOTS_MAX as u32 - 1, POISONED, BLANK];
        let lists = [1, 2, FIBERS_MAX as u32].map(Last::of_word);
        let frames = [0, 1, FRAMES_MAX as u32 - 1].map(FrameId);
        let states = slots.map(PageState::Absent).into_iter();
        let states = states.chain(lists.map(PageState::Starved));
        let states =
            states.chain(frames.map(PageState::Leaving)).chain(frames.map(PageState::Arriving));
        let states =
            states.chain(frames.map(PageState::Ahead)).chain(frames.map(PageState::Resident));
        for state in states {
            assert_eq!(PageState::of_word(state.word()), state);
        }
    }
}
