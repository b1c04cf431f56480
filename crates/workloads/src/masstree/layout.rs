//! [`Layout`]: the addresses and contents of the nodes of a bulk-loaded tree, computed and not
//! stored.
//!
//! A fresh tree is balanced. A page of border nodes holds 128 keys, 10 or 11 in each of its 12
//! nodes, so that inserts find room. An interior node has 14 of at most 16 children. Every level is
//! an array of nodes, and the levels follow each other from the root on. So the upper levels lie
//! close together.

use ebbtide_core::{Addr, PAGE_BYTES};

use super::key::Rest;
use super::node::{Child, Children, Entries, Entry, NODE_BYTES, Node, Range};
use super::version::Version;

const PAGE: u64 = PAGE_BYTES as u64;
/// Nodes in a page.
pub(super) const NODES_PER_PAGE: u64 = PAGE / NODE_BYTES;
/// Keys in a page of border nodes of a fresh tree.
pub const KEYS_PER_PAGE: u64 = 128;
/// Children of an interior node of a fresh tree.
const FANOUT: u64 = 14;

/// Nodes of a fresh tree, level by level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    start: Addr,
    keys: u64,
    /// The number of nodes on each level; border nodes are on level 0.
    nodes: [u64; Version::LEVELS as usize],
    /// The first page of each level, counted from the start: behind all levels above it.
    first_pages: [u64; Version::LEVELS as usize],
    levels: u32,
}

impl Layout {
    /// The layout of a tree of `keys` keys, from `start` on.
    pub(super) fn new(start: Addr, keys: u64) -> Layout {
        let mut nodes = [0; Version::LEVELS as usize];
        nodes[0] = border_nodes(keys).max(1);
        let mut levels = 1;
        while nodes[levels - 1] > 1 {
            nodes[levels] = nodes[levels - 1].div_ceil(FANOUT);
            levels += 1;
        }
        let mut first_pages = [0; Version::LEVELS as usize];
        for level in (0..levels - 1).rev() {
            first_pages[level] = first_pages[level + 1] + pages(nodes[level + 1]);
        }
        Layout { start, keys, nodes, first_pages, levels: levels as u32 }
    }

    /// Pages of all its nodes.
    pub(super) fn pages(&self) -> u64 {
        self.first_pages[0] + pages(self.nodes[0])
    }

    /// The level and number of the node in slot `slot` of page `page`, counted from the start.
    pub(super) fn node_in(&self, page: u64, slot: u64) -> Option<(u32, u64)> {
        let level = (0..self.levels).find(|&level| self.first_pages[level as usize] <= page)?;
        let number = (page - self.first_pages[level as usize]) * NODES_PER_PAGE + slot;
        (number < self.nodes[level as usize]).then_some((level, number))
    }

    /// Returns true if the node of that level is the root.
    pub(super) fn is_root(&self, level: u32) -> bool {
        level + 1 == self.levels
    }

    /// The node's contents. Keys are 8 bytes long.
    pub(super) fn node(&self, level: u32, number: u64, entry: impl Fn(u64) -> (u64, u64)) -> Node {
        let low = |level, number| self.low(level, number, &entry);
        let next = number + 1;
        let next = (next < self.nodes[level as usize])
            .then(|| Child { low: low(level, next), at: self.node_at(level, next) });
        let range = Range { low: low(level, number), next };
        match level.checked_sub(1) {
            None => {
                let kind = Rest::of(&[0; 8]).kind();
                let ranks = first_rank(number)..first_rank(number + 1).min(self.keys);
                let entries: Entries = ranks
                    .map(|rank| {
                        let (slice, link) = entry(rank);
                        Entry { slice, kind, link }
                    })
                    .collect();
                Node::border(range, &entries)
            }
            Some(below) => {
                let end = ((number + 1) * FANOUT).min(self.nodes[below as usize]);
                let child = |i| Child { low: low(below, i), at: self.node_at(below, i) };
                let children: Children = (number * FANOUT..end).map(child).collect();
                Node::interior(range, &children)
            }
        }
    }

    /// The least key that a node is responsible for.
    fn low(&self, level: u32, number: u64, entry: impl Fn(u64) -> (u64, u64)) -> u64 {
        match number {
            0 => 0,
            _ => entry(first_rank(number * FANOUT.pow(level))).0,
        }
    }

    fn node_at(&self, level: u32, number: u64) -> Addr {
        let page = self.first_pages[level as usize] + number / NODES_PER_PAGE;
        self.start + page * PAGE + number % NODES_PER_PAGE * NODE_BYTES
    }
}

fn pages(nodes: u64) -> u64 {
    nodes.div_ceil(NODES_PER_PAGE)
}

/// The rank of the first key in border node `number`.
fn first_rank(number: u64) -> u64 {
    let (page, slot) = (number / NODES_PER_PAGE, number % NODES_PER_PAGE);
    page * KEYS_PER_PAGE + slot * KEYS_PER_PAGE / NODES_PER_PAGE
}

/// The number of border nodes that hold `keys` keys.
fn border_nodes(keys: u64) -> u64 {
    let (page, rest) = (keys / KEYS_PER_PAGE, keys % KEYS_PER_PAGE);
    let first = page * NODES_PER_PAGE;
    first + (0..NODES_PER_PAGE).filter(|i| i * KEYS_PER_PAGE / NODES_PER_PAGE < rest).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn border_nodes_hold_every_rank_once() {
        for keys in (0..700).chain([1 << 40, (1 << 40) + 77]) {
            let nodes = border_nodes(keys);
            assert!(first_rank(nodes) >= keys && (nodes == 0 || first_rank(nodes - 1) < keys));
        }
        assert!((0..100).all(|n| (10..=11).contains(&(first_rank(n + 1) - first_rank(n)))));
    }

    #[test]
    fn every_node_is_found_at_its_address() {
        for keys in [0, 1, 11, 128, 5_000, 100_000] {
            let layout = Layout::new(Addr(1 << 20), keys);
            let mut seen = 0;
            for page in 0..layout.pages() {
                for slot in 0..NODES_PER_PAGE {
                    let Some((level, number)) = layout.node_in(page, slot) else { continue };
                    let at = layout.start + page * PAGE + slot * NODE_BYTES;
                    assert_eq!(layout.node_at(level, number), at);
                    assert_eq!(layout.is_root(level), at == layout.start);
                    seen += 1;
                }
            }
            assert_eq!(seen, layout.nodes.iter().sum::<u64>());
        }
    }
}
