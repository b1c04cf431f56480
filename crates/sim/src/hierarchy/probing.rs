//! Removal from hash tables with linear probing (Knuth, The Art of Computer Programming 3, section
//! 6.4, Algorithm R). The number of slots is a power of two.

/// The slot behind `slot` in a table of `slots`.
#[inline]
pub(crate) fn after(slot: usize, slots: usize) -> usize {
    (slot + 1) & (slots - 1)
}

/// The first slot behind `hole` whose entry must move into it. Otherwise a search for that entry
/// would end at the hole. `home` returns the first slot of the search for a slot's entry, and
/// `None` for an empty slot.
#[inline]
pub(crate) fn follower(
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
