//! [`Agenda`]: the next event of each plane, and the earliest of them.

use ebbtide_core::Time;

/// The end of each plane's stage.
///
/// A tournament tree: planes are the leaves of a binary tree, and every node holds the earlier of
/// its two children. A change takes one walk towards the root, so an end can also be postponed or
/// cancelled. Of equal times the lowest plane comes first, which makes runs reproducible.
#[derive(Debug, Clone)]
pub(crate) struct Agenda {
    /// Node 1 is the root; the children of `n` are `2n` and `2n + 1`.
    nodes: Vec<(u64, u32)>,
    leaves: usize,
}

const NEVER: u64 = u64::MAX;

impl Agenda {
    pub(crate) fn new(planes: usize) -> Agenda {
        let leaves = planes.next_power_of_two();
        Agenda { nodes: vec![(NEVER, 0); 2 * leaves], leaves }
    }

    /// Sets the end of `plane`'s stage.
    pub(crate) fn set(&mut self, plane: u32, at: Time) {
        self.update(plane, at.as_ps());
    }

    /// Clears the end of `plane`'s stage.
    pub(crate) fn clear(&mut self, plane: u32) {
        self.update(plane, NEVER);
    }

    /// The earliest end, and its plane.
    pub(crate) fn first(&self) -> Option<(Time, u32)> {
        let (at, plane) = self.nodes[1];
        (at != NEVER).then_some((Time::from_ps(at), plane))
    }

    fn update(&mut self, plane: u32, at: u64) {
        let mut node = self.leaves + plane as usize;
        self.nodes[node] = (at, plane);
        while node > 1 {
            node /= 2;
            let first = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == first {
                // So are all nodes above it.
                return;
            }
            self.nodes[node] = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the obvious model: a search through all planes.
        #[test]
        fn the_earliest_end_comes_first(
            planes in 1usize..9,
            steps in prop::collection::vec((0usize..9, prop::option::of(0u64..50)), 1..100),
        ) {
            let mut agenda = Agenda::new(planes);
            let mut model = vec![None; planes];
            for (plane, at) in steps {
                let plane = plane % planes;
                model[plane] = at.map(Time::from_ps);
                match model[plane] {
                    Some(at) => agenda.set(plane as u32, at),
                    None => agenda.clear(plane as u32),
                }
                let first = (0..planes).filter_map(|plane| Some((model[plane]?, plane as u32))).min();
                prop_assert_eq!(agenda.first(), first);
            }
        }
    }
}
