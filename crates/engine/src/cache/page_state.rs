//! [`PageState`]: where a page is, in one word.

use std::sync::atomic::AtomicU32;

use ebbtide_core::FrameId;

/// In the state of a page that is not resident, beside the number of its slot if it is absent. The
/// state of a resident one is its frame's number and nothing else: the hit path has nothing to take
/// off it.
pub(super) const MISSING: u32 = 1 << 31;
/// Beside the number of the frame it is in: a page that was fetched ahead of demand.
const AHEAD: u32 = MISSING | 1 << 30;
/// Above all of those, beside the number of the core that brings the page in or out.
const BUSY: u32 = u32::MAX - (CORES_MAX as u32 - 1);
const COMING: u32 = BUSY - CORES_MAX as u32;

/// The most cores that can bring pages.
pub(crate) const CORES_MAX: usize = 1 << 10;

/// The most frames a cache can have: frame numbers share a word with two flags, and with two states of
/// every core.
pub(crate) const FRAMES_MAX: usize = (1 << 30) - 2 * CORES_MAX;

/// Bytes of DRAM that each page of the address space costs, resident or not, beside its history in
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
    /// On its way in or out by this core: wait.
    Busy(usize),
    /// On its way in by this core, and no job has asked for it yet.
    Coming(usize),
    /// In this frame, and no job has asked for it yet.
    Ahead(FrameId),
    /// In this frame.
    Resident(FrameId),
}

impl PageState {
    pub(super) fn of_word(word: u32) -> PageState {
        match word {
            frame if frame & MISSING == 0 => PageState::Resident(FrameId(frame)),
            busy if busy >= BUSY => PageState::Busy((busy - BUSY) as usize),
            coming if coming >= COMING => PageState::Coming((coming - COMING) as usize),
            ahead if ahead & AHEAD == AHEAD => PageState::Ahead(FrameId(ahead & !AHEAD)),
            absent => PageState::Absent(absent & !MISSING),
        }
    }

    #[inline]
    pub(super) fn word(self) -> u32 {
        match self {
            PageState::Absent(slot) => {
                debug_assert!(slot <= BLANK);
                MISSING | slot
            }
            PageState::Busy(core) => BUSY + core as u32,
            PageState::Coming(core) => COMING + core as u32,
            PageState::Ahead(frame) => AHEAD | frame.0,
            PageState::Resident(frame) => frame.0,
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_gives_the_state_it_was_made_of() {
        let (slots, cores) = ([0, SLOTS_MAX as u32 - 1, POISONED, BLANK], [0, 1, CORES_MAX - 1]);
        let frames = [0, 1, FRAMES_MAX as u32 - 1].map(FrameId);
        let states = slots.map(PageState::Absent).into_iter();
        let states = states.chain(cores.map(PageState::Busy)).chain(cores.map(PageState::Coming));
        let states =
            states.chain(frames.map(PageState::Ahead)).chain(frames.map(PageState::Resident));
        for state in states {
            assert_eq!(PageState::of_word(state.word()), state);
        }
    }
}
