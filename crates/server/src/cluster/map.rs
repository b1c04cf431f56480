//! [`Cluster`]: the nodes and their slots.

use std::fmt;
use std::ops::RangeInclusive;

use ebbtide_structures::keyspace::{SLOTS, slot};
use sha1::{Digest, Sha1};
use thiserror::Error;

/// A server of a cluster.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name in the file.
    pub name: String,
    /// The address that clients connect to: an IP address or a name.
    pub host: String,
    /// The port that clients connect to.
    pub port: u16,
}

impl Node {
    /// Returns its identity for clients: 40 hexadecimal digits that depend on its name only.
    pub fn id(&self) -> String {
        Sha1::digest(&self.name).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// `host:port`.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The reason why this node does not serve some keys, as the text of an error reply.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Elsewhere {
    /// Keys of several slots.
    #[error("CROSSSLOT Keys in request don't hash to the same slot")]
    Crosses,
    /// No node has the slot.
    #[error("CLUSTERDOWN Hash slot not served")]
    Unserved,
    /// Some slots have no node.
    #[error("CLUSTERDOWN The cluster is down")]
    Down,
    /// Another node has the slot.
    #[error("MOVED {slot} {node}")]
    Moved {
        /// The slot.
        slot: u16,
        /// The address of the node.
        node: String,
    },
}

/// The nodes of a cluster and their slots.
#[derive(Debug, Clone)]
pub struct Cluster {
    nodes: Vec<Node>,
    /// Index of this node.
    own: usize,
    /// Index of the node of each slot.
    owners: Box<[Option<u16>]>,
    /// True if each slot has a node.
    is_complete: bool,
}

impl Cluster {
    /// Returns a cluster whose node at index `own` is this server. `owners` has the index of the
    /// node of each slot.
    pub(super) fn new(nodes: Vec<Node>, own: usize, owners: Box<[Option<u16>]>) -> Cluster {
        let is_complete = owners.iter().all(Option::is_some);
        Cluster { nodes, own, owners, is_complete }
    }

    /// The nodes, in the order of the file.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Index of the node that this server is.
    pub fn own(&self) -> usize {
        self.own
    }

    /// True if each slot has a node.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Number of slots that a node has.
    pub fn assigned(&self) -> usize {
        self.owners.iter().flatten().count()
    }

    /// Number of nodes that have slots.
    pub fn serving(&self) -> usize {
        let has_slots = |index: &usize| self.owners.contains(&Some(*index as u16));
        (0..self.nodes.len()).filter(has_slots).count()
    }

    /// Returns the ranges of slots that a node has, in order, each with the index of the node.
    pub fn ranges(&self) -> Vec<(RangeInclusive<u16>, usize)> {
        let mut ranges: Vec<(RangeInclusive<u16>, usize)> = Vec::new();
        for (slot, owner) in (0..SLOTS).zip(&self.owners) {
            let Some(owner) = owner.map(usize::from) else { continue };
            match ranges.last_mut() {
                Some((range, of)) if *of == owner && *range.end() + 1 == slot => {
                    *range = *range.start()..=slot;
                }
                _ => ranges.push((slot..=slot, owner)),
            }
        }
        ranges
    }

    /// Returns the slot of the keys of a request; `None` if there is no key.
    ///
    /// # Errors
    /// Returns an error if this node does not serve them. As in Redis, no node serves any key while
    /// some slots have no node.
    pub fn slot_of<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Option<u16>, Elsewhere> {
        match self.slot_of_channels(keys) {
            Ok(Some(_)) | Err(Elsewhere::Moved { .. }) if !self.is_complete => Err(Elsewhere::Down),
            slot => slot,
        }
    }

    /// Returns the slot of the channels of a request; `None` if there is no channel.
    ///
    /// # Errors
    /// Returns an error if this node does not serve them.
    pub fn slot_of_channels<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Option<u16>, Elsewhere> {
        let mut keys = keys.into_iter();
        let Some(first) = keys.next().map(slot) else { return Ok(None) };
        // As in Redis, a slot that nobody has comes before keys of several slots.
        let owner = self.owners[usize::from(first)].ok_or(Elsewhere::Unserved)?;
        if !keys.all(|key| slot(key) == first) {
            return Err(Elsewhere::Crosses);
        }
        match usize::from(owner) {
            owner if owner == self.own => Ok(Some(first)),
            owner => Err(Elsewhere::Moved { slot: first, node: self.nodes[owner].to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        let node = |name: &str, port| Node { name: name.into(), host: "::1".into(), port };
        let owner = |slot| match slot {
            0..9_000 => Some(0),
            9_000..13_000 | 16_000..=16_383 => Some(1),
            _ => None,
        };
        Cluster::new(vec![node("a", 1), node("b", 2)], 0, (0..SLOTS).map(owner).collect())
    }

    #[test]
    fn keys_are_served_here_elsewhere_or_nowhere() {
        let cluster = cluster();
        // The slots are 8363, 12182, 15495 and 3300.
        let [here, there, nowhere, near] = [&b"foo{}{bar}"[..], b"foo", b"a", b"b"];
        assert_eq!(cluster.slot_of([]), Ok(None));
        assert_eq!(cluster.slot_of([here, here]), Err(Elsewhere::Down));
        assert_eq!(cluster.slot_of([there]), Err(Elsewhere::Down));
        assert_eq!(cluster.slot_of_channels([here, here]), Ok(Some(8363)));
        let moved = Elsewhere::Moved { slot: 12_182, node: "::1:2".into() };
        assert_eq!(moved.to_string(), "MOVED 12182 ::1:2");
        assert_eq!(cluster.slot_of_channels([there]), Err(moved));
        assert_eq!(cluster.slot_of([nowhere, here]), Err(Elsewhere::Unserved));
        assert_eq!(cluster.slot_of([here, nowhere]), Err(Elsewhere::Crosses));
        assert_eq!(cluster.slot_of([here, near]), Err(Elsewhere::Crosses));
    }

    #[test]
    fn neighbouring_slots_of_a_node_are_one_range() {
        let cluster = cluster();
        let ranges = [(0..=8_999, 0), (9_000..=12_999, 1), (16_000..=16_383, 1)];
        assert_eq!(cluster.ranges(), ranges);
        assert_eq!((cluster.assigned(), cluster.serving()), (13_384, 2));
    }

    #[test]
    fn a_node_keeps_its_identity_when_its_address_changes() {
        let node = |host: &str| Node { name: "a".into(), host: host.into(), port: 1 };
        assert_eq!(node("x").id(), node("y").id());
        assert_eq!(node("x").id(), "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8");
    }
}
