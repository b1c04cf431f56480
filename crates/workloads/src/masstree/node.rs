//! [`Node`]: the layout of a node in memory, and the insertion and removal of keys in a copy.
//!
//! ```text
//! line  border node                                    interior node
//! 0     version, order, kinds, next,                   version, count, 0, next,
//!       low, high, fold of the keys, checksum          low, high, fold of the keys, checksum
//! 1–2   15 slices by slot                              15 keys in order
//! 3–4   15 values, suffixes or layers by slot          16 children
//! ```
//!
//! Everything here works on a copy; [`Held`](super::lock::Held) writes it to memory.

use ebbtide_core::{Addr, FullMemory, LINE_BYTES};
use smallvec::SmallVec;

use super::key::Kind;
use super::order::{Order, SLOTS};
use super::version::Version;
use crate::Corrupt;
use ebbtide_structures::image::Line;

/// Bytes in a node: five lines.
pub(super) const NODE_BYTES: u64 = (WORDS * 8) as u64;
/// Words in a node.
pub(super) const WORDS: usize = 40;
/// Children of an interior node.
pub(super) const CHILDREN: usize = SLOTS + 1;

/// The words of a node's first line; the version comes first.
pub(super) const ORDER: usize = 1;
pub(super) const KINDS: usize = 2;
pub(super) const NEXT: usize = 3;
pub(super) const LOW: usize = 4;
pub(super) const HIGH: usize = 5;
pub(super) const FOLD: usize = 6;
pub(super) const CHECKSUM: usize = 7;
/// The first of the slices or keys.
pub(super) const KEYS: usize = 8;
/// The first of the values or children.
pub(super) const LINKS: usize = 24;

/// A copy of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) words: [u64; WORDS],
}

/// The contents of a slot of a border node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) slice: u64,
    pub(super) kind: Kind,
    /// The value, or the address of the suffix or the layer.
    pub(super) link: u64,
}

/// A child and the least key it is responsible for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) low: u64,
    pub(super) at: Addr,
}

/// The entries of a border node, and one more.
pub(super) type Entries = SmallVec<[Entry; SLOTS + 1]>;
/// The children of an interior node, and one more.
pub(super) type Children = SmallVec<[Child; CHILDREN + 1]>;

/// The keys for which a node is responsible, and the next node on its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    /// The least slice.
    pub(super) low: u64,
    /// The node to the right and the least slice of it.
    pub(super) next: Option<Child>,
}

/// Returns the address of word `word` of the node at `at`.
#[inline]
pub(super) fn word_at(at: Addr, word: usize) -> Addr {
    at + word as u64 * 8
}

/// Returns the fold of a node's slices or keys. A change of any one of them changes it.
#[inline]
pub(super) fn fold(keys: &[u64]) -> u64 {
    keys.iter().zip(0..).fold(0, |sum, (key, i)| sum ^ key.rotate_left(4 * i + 1))
}

/// The sort key of a key at `(slice, kind)`.
fn place_of(slice: u64, kind: Kind) -> (u64, u8) {
    (slice, kind.rank())
}

impl Range {
    /// All keys.
    pub(super) const ALL: Range = Range { low: 0, next: None };
}

impl Node {
    /// Loads the node at `at`. The caller has locked it, or checks its version.
    pub(super) fn load<M: FullMemory>(m: &mut M, at: Addr) -> Node {
        let mut words = [0; WORDS];
        for (i, line) in words.as_chunks_mut::<{ LINE_BYTES / 8 }>().0.iter_mut().enumerate() {
            *line = m.line(word_at(at, i * line.len()));
        }
        Node { words }
    }

    /// A border node.
    pub(super) fn border(range: Range, entries: &[Entry]) -> Node {
        let mut node = Node::empty(range);
        let mut kinds = 0;
        for (slot, entry) in entries.iter().enumerate() {
            node.words[KEYS + slot] = entry.slice;
            node.words[LINKS + slot] = entry.link;
            kinds |= entry.kind.bits() << (4 * slot);
        }
        node.words[KINDS] = kinds | u64::MAX.checked_shl(4 * entries.len() as u32).unwrap_or(0);
        node.words[ORDER] = Order::first(entries.len()).word();
        node
    }

    /// An interior node.
    pub(super) fn interior(range: Range, children: &[Child]) -> Node {
        let mut node = Node::empty(range);
        node.words[ORDER] = children.len() as u64 - 1;
        for (i, child) in children.iter().enumerate() {
            node.words[LINKS + i] = child.at.0;
            if i > 0 {
                node.words[KEYS + i - 1] = child.low;
            }
        }
        node
    }

    fn empty(range: Range) -> Node {
        let mut words = [0; WORDS];
        words[LOW] = range.low;
        if let Some(next) = range.next {
            (words[NEXT], words[HIGH]) = (next.at.0, next.low);
        }
        Node { words }
    }

    /// Its first line.
    pub(super) fn header(&self) -> Line {
        self.words[..8].try_into().expect("a node has a first line")
    }

    /// Returns true if its keys match their fold.
    pub(super) fn has_its_keys(&self) -> bool {
        self.words[FOLD] == fold(&self.words[KEYS..][..SLOTS])
    }

    /// The node at `version`, with the fold and the checksum that follow from its contents.
    pub(super) fn with_checksum(
        mut self,
        version: Version,
        checksum: impl FnOnce(&Line) -> u64,
    ) -> Node {
        self.words[0] = version.word();
        self.words[FOLD] = fold(&self.words[KEYS..][..SLOTS]);
        self.words[CHECKSUM] = checksum(&self.header());
        self
    }

    pub(super) fn range(&self) -> Range {
        let next = (self.words[NEXT] != 0)
            .then(|| Child { low: self.words[HIGH], at: Addr(self.words[NEXT]) });
        Range { low: self.words[LOW], next }
    }

    /// The number of entries of a border node, or of keys of an interior one.
    pub(super) fn len(&self) -> usize {
        Order::from_word(self.words[ORDER]).len()
    }

    /// The entry in `slot` of a border node.
    pub(super) fn entry(&self, slot: usize) -> Entry {
        Entry {
            slice: self.words[KEYS + slot],
            kind: Kind::from_bits(self.words[KINDS] >> (4 * slot)),
            link: self.words[LINKS + slot],
        }
    }

    /// The entries of a border node in order.
    pub(super) fn entries(&self) -> Entries {
        Order::from_word(self.words[ORDER]).slots().map(|slot| self.entry(slot)).collect()
    }

    /// Returns the position of a key in a border node, or the position to insert it at.
    pub(super) fn position(&self, slice: u64, kind: Kind) -> Result<usize, usize> {
        let order = Order::from_word(self.words[ORDER]);
        for (position, slot) in order.slots().enumerate() {
            let entry = self.entry(slot);
            match place_of(entry.slice, entry.kind).cmp(&place_of(slice, kind)) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(position),
                std::cmp::Ordering::Greater => return Err(position),
            }
        }
        Err(order.len())
    }

    /// The slot at `position` of a border node.
    pub(super) fn slot(&self, position: usize) -> usize {
        Order::from_word(self.words[ORDER]).slot(position)
    }

    /// Inserts an entry into a border node that has a free slot.
    pub(super) fn insert(&mut self, position: usize, entry: Entry) {
        let (order, slot) = Order::from_word(self.words[ORDER]).insert(position);
        self.words[ORDER] = order.word();
        self.set(slot, entry);
    }

    /// Removes an entry from a border node.
    pub(super) fn remove(&mut self, position: usize) {
        let (order, slot) = Order::from_word(self.words[ORDER]).remove(position);
        self.words[ORDER] = order.word();
        self.words[KINDS] |= Kind::FREE.bits() << (4 * slot);
    }

    /// Replaces the entry in a slot of a border node.
    pub(super) fn set(&mut self, slot: usize, entry: Entry) {
        self.words[KEYS + slot] = entry.slice;
        self.words[LINKS + slot] = entry.link;
        let others = self.words[KINDS] & !(15 << (4 * slot));
        self.words[KINDS] = others | entry.kind.bits() << (4 * slot);
    }

    /// The children of an interior node; the first has the node's own low.
    pub(super) fn children(&self) -> Children {
        let low = |i: usize| if i == 0 { self.words[LOW] } else { self.words[KEYS + i - 1] };
        (0..=self.len()).map(|i| Child { low: low(i), at: Addr(self.words[LINKS + i]) }).collect()
    }
}

/// Returns where to split an overfull border node: near the middle, but not between keys of one
/// slice. An interior node could not tell such keys apart.
pub(super) fn cut(entries: &[Entry]) -> usize {
    let middle = entries.len() / 2;
    let between = |&at: &usize| entries[at - 1].slice != entries[at].slice;
    (1..entries.len())
        .filter(between)
        .min_by_key(|at| at.abs_diff(middle))
        .expect("at most ten keys share a slice, so that sixteen have at least two slices")
}

/// Returns the error that the node at `at` does not belong there.
#[cold]
#[inline(never)]
pub(super) fn misplaced(at: Addr) -> Corrupt {
    Corrupt(format!("the node at {at:?} does not belong there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(slice: u64, kind: Kind) -> Entry {
        Entry { slice, kind, link: slice }
    }

    #[test]
    fn a_cut_never_parts_keys_of_one_slice() {
        let ends = |bytes: u64| Kind::from_bits(bytes);
        let mut entries: Entries = (1..=3).map(|slice| entry(slice, ends(8))).collect();
        entries.extend((0..=9).map(|bytes| entry(4, ends(bytes))));
        entries.extend((5..=7).map(|slice| entry(slice, ends(8))));
        assert_eq!(entries.len(), SLOTS + 1);
        assert!([3, 13].contains(&cut(&entries)));
        entries.rotate_left(3);
        assert_eq!(cut(&entries), 10);
    }

    #[test]
    fn a_node_gives_back_what_it_was_made_of() {
        let range = Range { low: 3, next: Some(Child { low: 99, at: Addr(640) }) };
        let entries: Entries = (0..15).map(|i| entry(i + 3, Kind::from_bits(i % 9))).collect();
        for len in [0, 1, 14, 15] {
            let node = Node::border(range, &entries[..len]);
            assert_eq!(node.entries()[..], entries[..len]);
            assert_eq!(node.range(), range);
            let free = (len..15).all(|slot| node.entry(slot).kind == Kind::FREE);
            assert!(free, "{len}");
        }
        let children: Children = (0..16).map(|i| Child { low: i + 3, at: Addr(64 * i) }).collect();
        for len in [1, 2, 16] {
            let node = Node::interior(range, &children[..len]);
            assert_eq!(node.children()[..], children[..len]);
        }
    }

    #[test]
    fn a_changed_key_changes_the_fold() {
        let keys: [u64; 15] = std::array::from_fn(|i| i as u64);
        for i in 0..15 {
            let mut other = keys;
            other[i] ^= 1 << 40;
            assert_ne!(fold(&keys), fold(&other));
        }
    }
}
