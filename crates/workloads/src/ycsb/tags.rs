//! [`Tags`]: seven bits of each name in a bucket, in a word that is compared at once.

const TAG_BITS: usize = 7;

/// Tags in a word.
pub(super) const TAGS: usize = 9;

/// The lowest bit of every tag.
const LOWEST: u64 = {
    let mut bits = 0;
    let mut tag = 0;
    while tag < TAGS {
        bits |= 1 << (tag * TAG_BITS);
        tag += 1;
    }
    bits
};

/// The highest bit of every tag.
const HIGHEST: u64 = LOWEST << (TAG_BITS - 1);

/// Nine tags of seven bits; the highest bit of the word is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tags(pub(super) u64);

impl Tags {
    /// Seven bits of a name, by the number in it.
    #[inline]
    fn tag(number: u64) -> u64 {
        number >> 40 & ((1 << TAG_BITS) - 1)
    }

    /// Sets the tag of record `slot` to that of the name with `number`.
    #[inline]
    pub(super) fn set(&mut self, slot: usize, number: u64) {
        let shift = slot * TAG_BITS;
        self.0 = self.0 & !(((1 << TAG_BITS) - 1) << shift) | Tags::tag(number) << shift;
    }

    /// The records among the first `slots` that have the tag of the name with `number`.
    #[inline]
    pub(super) fn matches(self, number: u64, slots: usize) -> impl Iterator<Item = usize> + use<> {
        let differences = self.0 ^ (Tags::tag(number) * LOWEST);
        // A tag's highest bit is set if it was set or if the bits below, one of them set, carry
        // into it.
        let carried = (differences & !HIGHEST).wrapping_add(HIGHEST - LOWEST);
        let same = !(differences | carried) & HIGHEST & ((1 << (slots * TAG_BITS)) - 1);
        std::iter::successors(Some(same), |rest| Some(rest & rest.wrapping_sub(1)))
            .take_while(|&rest| rest != 0)
            .map(|rest| rest.trailing_zeros() as usize / TAG_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A number in a name with the tag `tag`.
    fn number(tag: u64) -> u64 {
        tag << 40
    }

    proptest! {
        #[test]
        fn the_tags_that_match_are_those_that_are_equal(
            tags in prop::collection::vec(0u64..6, TAGS),
            shift in 0u64..=122,
            sought in 0u64..6,
            slots in 1..=TAGS,
            free: bool,
        ) {
            let mut word = Tags(u64::from(free) << 63);
            for (slot, tag) in tags.iter().enumerate() {
                word.set(slot, number(77));
                word.set(slot, number(tag + shift));
            }
            let found: Vec<usize> = word.matches(number(sought + shift), slots).collect();
            let equal: Vec<usize> = (0..slots).filter(|&slot| tags[slot] == sought).collect();
            prop_assert_eq!(found, equal);
        }
    }
}
