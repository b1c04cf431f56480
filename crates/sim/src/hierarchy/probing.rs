//! Removal from hash tables by linear probing (Knuth, The Art of Computer Programming 3, section 6.4,
//! Algorithm R). The tables have a power of two of slots.

/// The slot behind `slot` in a table of `slots`.
#[inline]
pub(super) fn after(slot: usize, slots: usize) -> usize {
    (slot + 1) & (slots - 1)
}

/// The first slot behind `hole` whose entry must move into it, lest a search for that entry ends there.
/// `home` gives where the search for a slot's entry begins, and `None` for an empty slot.
#[inline]
pub(super) fn follower(
    hole: usize,
    slots: usize,
    home: impl Fn(usize) -> Option<usize>,
) -> Option<usize> {
    let distance = |from: usize, slot: usize| slot.wrapping_sub(from) & (slots - 1);
    let mut slot = after(hole, slots);
    // An entry may move to any slot between its home and its own.
    while distance(home(slot)?, slot) < distance(hole, slot) {
        slot = after(slot, slots);
    }
    Some(slot)
}
