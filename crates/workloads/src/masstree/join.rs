//! Joins of neighbours, so that nodes without keys can be reused.

use ebbtide_core::{Addr, FullMemory};

use super::Tree;
use super::descend::Place;
use super::lock::{Held, hold};
use super::node::{Node, Range};
use super::version::Change;
use crate::Corrupt;

/// Interior nodes are joined when they have at most this many children together, few enough that
/// the next inserts do not split them again.
const JOINED_CHILDREN_MAX: usize = 12;

/// Two neighbours below one parent, each with a copy of its contents.
struct Pair<'a> {
    parent: (&'a Place, &'a Node),
    left: (Place, Node),
    right: (Place, Node),
}

impl Tree {
    /// Joins the border node that is responsible for `slice`, which has become empty, with a
    /// neighbour, and then the nodes above that have become small.
    pub(super) fn join<M: FullMemory>(
        &self,
        m: &mut M,
        root: Addr,
        slice: u64,
    ) -> Result<(), Corrupt> {
        let mut level = 1;
        while level <= self.read(m, root)?.version().level() {
            let parent = self.descend(m, root, slice, level)?;
            match self.join_below(m, &parent, slice)? {
                None => {}
                Some(true) => level += 1,
                Some(false) => break,
            }
        }
        Ok(())
    }

    /// Joins the child of `parent` for `slice` with a neighbour, if both fit into one. Returns true
    /// if it did, or `None` if a node changed during the call.
    fn join_below<M: FullMemory>(
        &self,
        m: &mut M,
        parent: &Place,
        slice: u64,
    ) -> Result<Option<bool>, Corrupt> {
        let Some(node) = self.copy(m, parent)? else { return Ok(None) };
        let children = node.children();
        let child = children.partition_point(|child| child.low <= slice).max(1) - 1;
        for left in child.saturating_sub(1)..=child {
            let [left, right] = match children.get(left..left + 2) {
                Some(&[left, right]) => [left, right],
                _ => continue,
            };
            let Some(left) = self.step(m, parent, left.at)? else { return Ok(None) };
            let Some(right) = self.step(m, parent, right.at)? else { return Ok(None) };
            let (Some(left_node), Some(right_node)) = (self.copy(m, &left)?, self.copy(m, &right)?)
            else {
                return Ok(None);
            };
            let pair = Pair {
                parent: (parent, &node),
                left: (left, left_node),
                right: (right, right_node),
            };
            if let Some(joined) = pair.joined() {
                return Ok(self.join_pair(m, &pair, joined).then_some(true));
            }
        }
        Ok(Some(false))
    }

    /// Moves the keys of a pair to the left node and frees the right one, if neither has changed.
    fn join_pair<M: FullMemory>(&self, m: &mut M, pair: &Pair<'_>, joined: Node) -> bool {
        let [left, right, parent] = [&pair.left.0, &pair.right.0, pair.parent.0];
        // All jobs take locks in this order: from left to right, then up.
        let done = hold(m, left.at, left.version(), |m, left| {
            hold(m, right.at, right.version(), |m, right| {
                hold(m, parent.at, parent.version(), |m, parent| {
                    self.join_held(m, pair, joined, [left, right, parent]);
                })
            })
        });
        let done = done.flatten().flatten().is_some();
        if done {
            self.give_node(m, right.at);
        }
        done
    }

    fn join_held<M: FullMemory>(
        &self,
        m: &mut M,
        pair: &Pair<'_>,
        joined: Node,
        [left, right, parent]: [&mut Held; 3],
    ) {
        // A job that finds the right node deleted must find the nodes that lead to it changing.
        parent.begin(m, Change::Insert);
        left.begin(m, Change::Split);
        let deleted = right.version.deleted();
        self.publish_as(m, right, deleted, Change::Split, &pair.right.1, pair.right.1.clone());
        self.publish(m, left, Change::Split, &pair.left.1, joined);
        let node = pair.parent.1;
        let mut children = node.children();
        children.retain(|child| child.at != right.at);
        self.publish(m, parent, Change::Insert, node, Node::interior(node.range(), &children));
    }
}

impl Pair<'_> {
    /// One node with the keys of both, if they fit.
    fn joined(&self) -> Option<Node> {
        let [left, right] = [&self.left.1, &self.right.1];
        // A node that was split off and is not linked yet may lie between them.
        let neighbours = left.range().next.is_some_and(|next| next.at == self.right.0.at);
        if !neighbours {
            return None;
        }
        let range = Range { low: left.range().low, next: right.range().next };
        if self.left.0.version().level() == 0 {
            let one_is_empty = left.len() == 0 || right.len() == 0;
            let mut entries = left.entries();
            entries.extend(right.entries());
            return one_is_empty.then(|| Node::border(range, &entries));
        }
        let mut children = left.children();
        children.extend(right.children());
        (children.len() <= JOINED_CHILDREN_MAX).then(|| Node::interior(range, &children))
    }
}
