//! Inserts and updates: new keys, split nodes and new layers.

use super::node::misplaced;
use ebbtide_core::{Addr, FullMemory};

use super::key::{Kind, Rest};
use super::lock::{Held, hold};
use super::node::{CHILDREN, Child, Entry, LINKS, Node, Range, cut, word_at};
use super::order::SLOTS;
use super::suffix::{SUFFIX_BYTES_MAX, Suffix};
use super::version::{Change, Version};
use super::{Changed, Look, Seen, Tree};
use crate::Corrupt;

/// The effect of a write on a value that is present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Present {
    Replaced,
    Kept,
}

/// The result of a write to one border node.
struct Put {
    /// The previous value, if the write is done; `None` if it continues in the layer below.
    done: Option<Option<u64>>,
    /// A node that was split off and whose parent does not lead to it yet.
    split: Option<Child>,
}

/// The two nodes among which the keys of one were divided, and their versions.
struct Halves {
    after: [Option<Seen>; 2],
    /// The right one, if its parent does not lead to it yet.
    right: Option<Child>,
}

impl Tree {
    /// Sets the value of `key` and returns its previous value.
    ///
    /// # Errors
    /// [`Corrupt`] if a node is not one of the tree, the key is too long, or there is no room left.
    pub fn put<M: FullMemory>(
        &self,
        m: &mut M,
        key: &[u8],
        value: u64,
    ) -> Result<Option<u64>, Corrupt> {
        self.write(m, key, value, Present::Replaced, &mut |_| ())
    }

    /// Inserts `key` with a value, or returns the value it has. Calls `changed` for every border
    /// node that changed, in order.
    ///
    /// # Errors
    /// As for [`put`](Tree::put).
    pub fn insert_seen<M: FullMemory>(
        &self,
        m: &mut M,
        key: &[u8],
        value: u64,
        mut changed: impl FnMut(Changed),
    ) -> Result<Option<u64>, Corrupt> {
        self.write(m, key, value, Present::Kept, &mut changed)
    }

    fn write<M: FullMemory>(
        &self,
        m: &mut M,
        key: &[u8],
        value: u64,
        present: Present,
        changed: &mut impl FnMut(Changed),
    ) -> Result<Option<u64>, Corrupt> {
        let mut root = self.root;
        let mut rest = Rest::whole(key)?;
        loop {
            let place = self.descend(m, root, rest.slice, 0)?;
            match self.look(m, &place, rest)? {
                None => continue,
                Some(Look::Layer(below)) => {
                    (root, rest) = (below, rest.below());
                    continue;
                }
                Some(Look::Value(found)) if present == Present::Kept => return Ok(Some(found)),
                Some(_) => {}
            }
            let put = hold(m, place.at, place.version(), |m, held| {
                self.put_here(m, held, rest, value, changed)
            });
            let Some(put) = put.transpose()? else { continue };
            if let Some(right) = put.split {
                self.link(m, root, right)?;
            }
            if let Some(previous) = put.done {
                return Ok(previous);
            }
        }
    }

    /// Puts `rest` into the locked border node, which has no layer for it.
    fn put_here<M: FullMemory>(
        &self,
        m: &mut M,
        held: &mut Held,
        rest: Rest<'_>,
        value: u64,
        changed: &mut impl FnMut(Changed),
    ) -> Result<Put, Corrupt> {
        let node = held.copy(m)?;
        match node.position(rest.slice, rest.kind()) {
            Ok(position) => self.replace(m, held, &node, node.slot(position), rest, value, changed),
            Err(position) => {
                let (entry, done) = self.entry_for(m, held.at, rest, value)?;
                let split = self.put_entry(m, held, &node, position, entry, changed)?;
                Ok(Put { done: done.then_some(None), split })
            }
        }
    }

    /// Replaces the value in `slot`, or makes a layer if the slot holds another key.
    #[expect(clippy::too_many_arguments, reason = "one step of `put_here`")]
    fn replace<M: FullMemory>(
        &self,
        m: &mut M,
        held: &mut Held,
        node: &Node,
        slot: usize,
        rest: Rest<'_>,
        value: u64,
        changed: &mut impl FnMut(Changed),
    ) -> Result<Put, Corrupt> {
        let entry = node.entry(slot);
        let (at, previous) = match entry.kind {
            Kind::SUFFIX => {
                let at = Addr(entry.link);
                let suffix = Suffix::open(self, at, &m.line(at))?;
                if suffix.bytes() != rest.suffix() {
                    self.push_down(m, held, node, slot, suffix, changed)?;
                    return Ok(Put { done: None, split: None });
                }
                (at, suffix.value)
            }
            _ => (word_at(held.at, LINKS + slot), entry.link),
        };
        m.store(at, value);
        Ok(Put { done: Some(Some(previous)), split: None })
    }

    /// The border node's entry for a new key, and whether that completes the insert; if not, the
    /// entry is an empty layer.
    fn entry_for<M: FullMemory>(
        &self,
        m: &mut M,
        near: Addr,
        rest: Rest<'_>,
        value: u64,
    ) -> Result<(Entry, bool), Corrupt> {
        let slice = rest.slice;
        if rest.kind() != Kind::SUFFIX {
            return Ok((Entry { slice, kind: rest.kind(), link: value }, true));
        }
        if rest.suffix().len() > SUFFIX_BYTES_MAX {
            let layer = self.create(m, near, 0, true, Node::border(Range::ALL, &[]))?;
            return Ok((Entry { slice, kind: Kind::LAYER, link: layer.node.0 }, false));
        }
        let at = self.take_line(m, near)?;
        Suffix::new(rest.suffix(), value).store(self, m, at);
        Ok((Entry { slice, kind: Kind::SUFFIX, link: at.0 }, true))
    }

    /// Moves the key in `slot` to a layer of its own, which another key may join.
    fn push_down<M: FullMemory>(
        &self,
        m: &mut M,
        held: &mut Held,
        node: &Node,
        slot: usize,
        suffix: Suffix,
        changed: &mut impl FnMut(Changed),
    ) -> Result<(), Corrupt> {
        let old = node.entry(slot);
        let (below, _) = self.entry_for(m, held.at, Rest::of(suffix.bytes()), suffix.value)?;
        let layer = self.create(m, held.at, 0, true, Node::border(Range::ALL, &[below]))?;
        let mut new = node.clone();
        new.set(slot, Entry { kind: Kind::LAYER, link: layer.node.0, ..old });
        let before = held.seen();
        self.publish(m, held, Change::Insert, node, new);
        changed(Changed { before, after: [Some(held.seen()), Some(layer)] });
        self.give_line(m, Addr(old.link));
        Ok(())
    }

    /// Puts an entry into a border node. Returns the node that was split off to make room.
    fn put_entry<M: FullMemory>(
        &self,
        m: &mut M,
        held: &mut Held,
        node: &Node,
        position: usize,
        entry: Entry,
        changed: &mut impl FnMut(Changed),
    ) -> Result<Option<Child>, Corrupt> {
        let before = held.seen();
        if node.len() < SLOTS {
            let mut new = node.clone();
            new.insert(position, entry);
            self.publish(m, held, Change::Insert, node, new);
            changed(Changed { before, after: [Some(held.seen()), None] });
            return Ok(None);
        }
        let mut entries = node.entries();
        entries.insert(position, entry);
        // Keys that are inserted in order fill their nodes.
        let last = node.range().next.is_none() && position == SLOTS;
        let at =
            if last && entries[SLOTS - 1].slice != entry.slice { SLOTS } else { cut(&entries) };
        let (left, right) = entries.split_at(at);
        let halves = self.split(
            m,
            held,
            node,
            right[0].slice,
            |range| Node::border(range, left),
            |range| Node::border(range, right),
        )?;
        changed(Changed { before, after: halves.after });
        Ok(halves.right)
    }

    /// Adds `child`, which was split off, to its parent, and so on upwards while parents split.
    fn link<M: FullMemory>(&self, m: &mut M, root: Addr, child: Child) -> Result<(), Corrupt> {
        let mut split = Some(child);
        let mut level = 1;
        while let Some(child) = split {
            let place = self.descend(m, root, child.low, level)?;
            let linked =
                hold(m, place.at, place.version(), |m, held| self.link_here(m, held, child));
            if let Some(parent) = linked.transpose()? {
                split = parent;
                level += 1;
            }
        }
        Ok(())
    }

    /// Puts `child` into the locked interior node. Returns the node that was split off.
    fn link_here<M: FullMemory>(
        &self,
        m: &mut M,
        held: &mut Held,
        child: Child,
    ) -> Result<Option<Child>, Corrupt> {
        let node = held.copy(m)?;
        let mut children = node.children();
        let position = children.partition_point(|other| other.low <= child.low);
        children.insert(position, child);
        if children.len() <= CHILDREN {
            let new = Node::interior(node.range(), &children);
            self.publish(m, held, Change::Insert, &node, new);
            return Ok(None);
        }
        let last = node.range().next.is_none() && position == CHILDREN;
        let (left, right) = children.split_at(if last { CHILDREN } else { children.len() / 2 });
        let halves = self.split(
            m,
            held,
            &node,
            right[0].low,
            |range| Node::interior(range, left),
            |range| Node::interior(range, right),
        )?;
        Ok(halves.right)
    }

    /// Divides the keys of the locked node between itself and a new node, or, if it is a root,
    /// between two new nodes below it. The right one begins with `low`.
    fn split<M: FullMemory>(
        &self,
        m: &mut M,
        held: &mut Held,
        node: &Node,
        low: u64,
        left: impl FnOnce(Range) -> Node,
        right: impl FnOnce(Range) -> Node,
    ) -> Result<Halves, Corrupt> {
        let level = held.version.level();
        let right_range = Range { low, ..node.range() };
        let right_seen = self.create(m, held.at, level, false, right(right_range))?;
        let child = Child { low, at: right_seen.node };
        let left_range = Range { next: Some(child), ..node.range() };
        if !held.version.is_root() {
            self.publish(m, held, Change::Split, node, left(left_range));
            let after = [Some(held.seen()), Some(right_seen)];
            return Ok(Halves { after, right: Some(child) });
        }
        let left_seen = self.create(m, held.at, level, false, left(left_range))?;
        let first = Child { low: left_range.low, at: left_seen.node };
        let root = Node::interior(node.range(), &[first, child]);
        let grown = held.version.at_level(level + 1);
        self.publish_as(m, held, grown, Change::Split, node, root);
        Ok(Halves { after: [Some(left_seen), Some(right_seen)], right: None })
    }

    /// Makes a new node to which no other node leads yet.
    fn create<M: FullMemory>(
        &self,
        m: &mut M,
        near: Addr,
        level: u32,
        root: bool,
        node: Node,
    ) -> Result<Seen, Corrupt> {
        let (at, free) = self.take_node(m, near)?;
        let old = Node::load(m, at);
        hold(m, at, free, |m, held| {
            let before = if free == Version::of(0) { Version::first(self.mark(at)) } else { free };
            let alive = before.alive(root).at_level(level);
            self.publish_as(m, held, alive, Change::Split, &old, node);
            held.seen()
        })
        .ok_or_else(|| misplaced(at))
    }

    /// Replaces the locked node, which was `old`, by `new`, and releases it.
    pub(super) fn publish<M: FullMemory>(
        &self,
        m: &mut M,
        held: &mut Held,
        change: Change,
        old: &Node,
        new: Node,
    ) {
        self.publish_as(m, held, held.version, change, old, new);
    }

    /// As [`publish`](Tree::publish), where `version` is the node's own before the change.
    pub(super) fn publish_as<M: FullMemory>(
        &self,
        m: &mut M,
        held: &mut Held,
        version: Version,
        change: Change,
        old: &Node,
        new: Node,
    ) {
        let new = new.with_checksum(version.after(change), |line| self.checksum(held.at, line));
        held.publish(m, change, old, &new);
    }
}
