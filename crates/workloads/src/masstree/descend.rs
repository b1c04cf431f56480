//! Reading without a lock: the descent from the root of a layer to a node.
//!
//! A reader copies a node's first line while the node is not changing. Other reads of the node
//! count only if the version is still the same at the end. On the way down, a reader reads the
//! version of the next node and then checks that the node above has not changed. So the version is
//! that of the intended node.
//!
//! Stored data cannot make a reader loop. Every step goes down a level or to keys further right. A
//! reader starts again only after another job's change.

use super::node::misplaced;
use ebbtide_core::{Addr, FullMemory, LINE_BYTES};

use super::key::Kind;
use super::lock;
use super::node::{
    CHECKSUM, FOLD, HIGH, KEYS, KINDS, LINKS, LOW, NEXT, NODE_BYTES, Node, ORDER, fold, word_at,
};
use super::order::SLOTS;
use super::version::{self, Version};
use super::{Seen, Tree};
use crate::Corrupt;
use ebbtide_structures::image::Line;

/// A node's address and its first line, read atomically.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) at: Addr,
    line: Line,
}

/// What a reader finds in a border node for a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) number: usize,
    pub(super) kind: Kind,
    pub(super) link: u64,
}

impl Place {
    #[inline]
    pub(super) fn version(&self) -> Version {
        Version::of(self.line[0])
    }

    /// The node and its version, for a transaction's node set.
    pub(super) fn seen(&self) -> Seen {
        Seen { node: self.at, version: self.version().word() }
    }

    /// The node to the right that is responsible for `slice`, if this node no longer is.
    #[inline]
    fn right_of(&self, slice: u64) -> Option<Addr> {
        (self.line[NEXT] != 0 && slice >= self.line[HIGH]).then_some(Addr(self.line[NEXT]))
    }

    /// Returns true if this node can be the one on `level` for `slice`. That is a node on the level
    /// below `left`, or the one to the right of `left` on its own level.
    fn is_below_or_right_of(&self, left: &Place, level: u32, slice: u64) -> bool {
        let version = self.version();
        version.level() == level
            && !version.is_deleted()
            && self.line[LOW] <= slice
            && (level != left.version().level() || self.line[LOW] == left.line[HIGH])
    }

    /// Returns true if this node can be the one to the right of `left`.
    pub(super) fn follows(&self, left: &Place) -> bool {
        self.is_below_or_right_of(left, left.version().level(), left.line[HIGH])
    }

    /// Returns true if the node is unchanged since.
    #[inline]
    pub(super) fn holds<M: FullMemory>(&self, m: &mut M) -> bool {
        Version::of(m.load(self.at)) == self.version()
    }
}

impl Tree {
    /// Returns true if a node may lie at `at`.
    #[inline]
    pub(super) fn is_node(&self, at: Addr) -> bool {
        let offset = at.page_offset() as u64;
        at >= self.root
            && at < self.pool.end()
            && offset.is_multiple_of(NODE_BYTES)
            && offset / NODE_BYTES < super::layout::NODES_PER_PAGE
    }

    /// The checksum of a node's first line. It covers the version without the lock bits.
    #[inline]
    pub(super) fn checksum(&self, at: Addr, line: &Line) -> u64 {
        let [word, b, c, d, e, f, g, _] = *line;
        self.checksums.of(at, &[Version::of(word).word(), b, c, d, e, f, g])
    }

    /// Copies the node at `place`. `None` if the node changed during the copy.
    ///
    /// # Errors
    /// [`Corrupt`] when its keys are not the ones that were stored.
    pub(super) fn copy<M: FullMemory>(
        &self,
        m: &mut M,
        place: &Place,
    ) -> Result<Option<Node>, Corrupt> {
        let mut node = Node::load(m, place.at);
        node.words[..LINE_BYTES / 8].copy_from_slice(&place.line);
        if !place.holds(m) {
            return Ok(None);
        }
        if node.has_its_keys() { Ok(Some(node)) } else { Err(misplaced(place.at)) }
    }

    /// Descends to the node on level `level` that is responsible for `slice`.
    #[inline]
    pub(super) fn descend<M: FullMemory>(
        &self,
        m: &mut M,
        root: Addr,
        slice: u64,
        level: u32,
    ) -> Result<Place, Corrupt> {
        'again: loop {
            let mut place = self.read(m, root)?;
            if !place.version().is_root() {
                return Err(misplaced(root));
            }
            loop {
                let here = place.version().level();
                let (to, to_level) = match place.right_of(slice) {
                    Some(right) => (right, here),
                    None if here == level => return Ok(place),
                    None if here < level => return Err(misplaced(place.at)),
                    None => (self.child(m, &place, slice), here - 1),
                };
                match self.step(m, &place, to)? {
                    None => continue 'again,
                    Some(next) => {
                        if !next.is_below_or_right_of(&place, to_level, slice) {
                            return Err(misplaced(to));
                        }
                        place = next;
                    }
                }
            }
        }
    }

    /// The node at `to`, to which `from` leads; or `None` if `from` has changed.
    #[inline]
    pub(super) fn step<M: FullMemory>(
        &self,
        m: &mut M,
        from: &Place,
        to: Addr,
    ) -> Result<Option<Place>, Corrupt> {
        if !self.is_node(to) {
            return if from.holds(m) { Err(misplaced(from.at)) } else { Ok(None) };
        }
        let next = self.read(m, to);
        if from.holds(m) { next.map(Some) } else { Ok(None) }
    }

    /// The first line of the node at `at`, read while the node is not changing.
    #[inline]
    pub(super) fn read<M: FullMemory>(&self, m: &mut M, at: Addr) -> Result<Place, Corrupt> {
        let line = m.line(at);
        if Version::of(line[0]).is_stable() && self.checksum(at, &line) == line[CHECKSUM] {
            return Ok(Place { at, line });
        }
        self.read_slowly(m, at)
    }

    /// As [`read`](Tree::read). It also tells a changing node from a wrong one.
    #[cold]
    fn read_slowly<M: FullMemory>(&self, m: &mut M, at: Addr) -> Result<Place, Corrupt> {
        loop {
            let word: u64 = m.load(at);
            let version = Version::of(word);
            if !version.is_stable() {
                // A changing node is locked. The reader does not wait for garbage.
                if !version::is_locked(word) || !version.has_mark(self.mark(at)) {
                    return Err(misplaced(at));
                }
                lock::wait(m, at, word);
                continue;
            }
            let line = m.line(at);
            let as_before = Version::of(m.load(at)) == version;
            if as_before && Version::of(line[0]) == version {
                let matches = self.checksum(at, &line) == line[CHECKSUM];
                return if matches { Ok(Place { at, line }) } else { Err(misplaced(at)) };
            }
        }
    }

    /// The child of an interior node that is responsible for `slice`. Not checked yet.
    #[inline]
    fn child<M: FullMemory>(&self, m: &mut M, place: &Place, slice: u64) -> Addr {
        const FIRST: usize = LINE_BYTES / 8;
        let len = place.line[ORDER] as usize % (SLOTS + 1);
        let not_above = |keys: &[u64]| keys.iter().filter(|&&key| key <= slice).count();
        let keys: Line = m.line(word_at(place.at, KEYS));
        let mut index = not_above(&keys[..len.min(FIRST)]);
        if index == FIRST && len > FIRST {
            let keys: Line = m.line(word_at(place.at, KEYS + FIRST));
            index += not_above(&keys[..len - FIRST]);
        }
        Addr(m.load(word_at(place.at, LINKS + index)))
    }

    /// The slot of a border node for `slice` and `kind`, or `None`. The result counts if `place`
    /// still [holds](Place::holds) afterwards.
    ///
    /// # Errors
    /// [`Corrupt`] when there is no such slot and the node's slices do not match their fold.
    #[inline]
    pub(super) fn find<M: FullMemory>(
        &self,
        m: &mut M,
        place: &Place,
        slice: u64,
        kind: Kind,
    ) -> Result<Option<Slot>, Corrupt> {
        let mut keys = [0; 2 * LINE_BYTES / 8];
        let (first, second) = keys.split_at_mut(LINE_BYTES / 8);
        first.copy_from_slice(&m.line(word_at(place.at, KEYS)));
        second.copy_from_slice(&m.line(word_at(place.at, KEYS + LINE_BYTES / 8)));
        let mut equal = 0u32;
        for (slot, key) in keys[..SLOTS].iter().enumerate() {
            equal |= u32::from(*key == slice) << slot;
        }
        while equal != 0 {
            let number = equal.trailing_zeros() as usize;
            let found = Kind::from_bits(place.line[KINDS] >> (4 * number));
            if found != Kind::FREE && found.rank() == kind.rank() {
                let link = m.load(word_at(place.at, LINKS + number));
                return Ok(Some(Slot { number, kind: found, link }));
            }
            equal &= equal - 1;
        }
        if fold(&keys[..SLOTS]) != place.line[FOLD] && place.holds(m) {
            return Err(misplaced(place.at));
        }
        Ok(None)
    }
}
