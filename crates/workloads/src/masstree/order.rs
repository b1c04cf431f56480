//! [`Order`]: the permutation that sorts the slots of a border node by key, in one word.

/// Slots in a node.
pub(super) const SLOTS: usize = 15;

/// A permutation of the slots (Mao, Kohler and Morris, EuroSys'12, §4.6.2). Bits 0–3 hold the
/// number of slots in use. Then come the slots in use, in the order of their keys, and then the
/// free ones, four bits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order(u64);

impl Order {
    /// The first `len` slots, in order.
    pub(super) fn first(len: usize) -> Order {
        debug_assert!(len <= SLOTS);
        Order(0x0edc_ba98_7654_3210 << 4 | len as u64)
    }

    pub(super) fn from_word(word: u64) -> Order {
        Order(word)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// The number of slots in use.
    #[inline]
    pub(super) fn len(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The slot of the key at `position`.
    #[inline]
    pub(super) fn slot(self, position: usize) -> usize {
        (self.0 >> (4 * position + 4) & 15) as usize
    }

    /// The slots in use, in the order of their keys.
    pub(super) fn slots(self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(move |position| self.slot(position))
    }

    /// The order with a free slot inserted at `position`, and that slot.
    pub(super) fn insert(self, position: usize) -> (Order, usize) {
        debug_assert!(position <= self.len() && self.len() < SLOTS);
        let slot = self.slot(self.len());
        (self.moved(self.len(), position, self.len() + 1), slot)
    }

    /// The order with the slot at `position` freed, and that slot.
    pub(super) fn remove(self, position: usize) -> (Order, usize) {
        debug_assert!(position < self.len());
        let slot = self.slot(position);
        (self.moved(position, self.len() - 1, self.len() - 1), slot)
    }

    /// The order with the slot at position `from` moved to position `to`.
    fn moved(self, from: usize, to: usize, len: usize) -> Order {
        let slots = self.0 >> 4;
        let below = |position: usize| (1u64 << (4 * position)) - 1;
        let slot = slots >> (4 * from) & 15;
        let others = slots & below(from) | slots >> (4 * from + 4) << (4 * from);
        let slots = others & below(to) | slot << (4 * to) | others >> (4 * to) << (4 * to + 4);
        Order(slots << 4 | len as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_does_what_a_list_does(steps in prop::collection::vec((any::<bool>(), 0..15usize), 60)) {
            let (mut order, mut model) = (Order::first(0), Vec::new());
            for (insert, position) in steps {
                if insert && model.len() < SLOTS {
                    let position = position.min(model.len());
                    let (next, slot) = order.insert(position);
                    prop_assert!(!model.contains(&slot));
                    model.insert(position, slot);
                    order = next;
                } else if !insert && position < model.len() {
                    let (next, slot) = order.remove(position);
                    prop_assert_eq!(model.remove(position), slot);
                    order = next;
                }
                prop_assert_eq!(order.len(), model.len());
                prop_assert!(order.slots().eq(model.iter().copied()));
                let mut all: Vec<usize> = (0..SLOTS).map(|i| order.slot(i)).collect();
                all.sort_unstable();
                prop_assert!(all.into_iter().eq(0..SLOTS));
            }
        }
    }
}
