//! [`Census`]: the numbers of keys, layers and nodes of a tree, found by walking all of it.

use ebbtide_core::{Addr, FullMemory};

use super::Tree;
use super::key::{KEY_BYTES_MAX, Kind, SLICE_BYTES};
use super::node::misplaced;
use super::node::{Child, Node, Range};
use super::suffix::Suffix;
use crate::Corrupt;

/// The numbers of a tree's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Census {
    /// Keys.
    pub keys: u64,
    /// Keys that have a suffix line.
    pub suffixes: u64,
    /// B+-trees, one in each place of the trie.
    pub layers: u64,
    /// Nodes that hold keys or lead to layers.
    pub border_nodes: u64,
    /// Border nodes without keys.
    pub empty_nodes: u64,
    /// Nodes above border nodes.
    pub interior_nodes: u64,
}

impl Tree {
    /// Walks the whole tree and counts its parts. Checks that keys are in order and that every node
    /// is where its parent and its neighbours expect it. No job may change the tree during the
    /// call.
    ///
    /// # Errors
    /// [`Corrupt`] when a check fails.
    pub fn census<M: FullMemory>(&self, m: &mut M) -> Result<Census, Corrupt> {
        let mut census = Census::default();
        self.count_layer(m, self.root, 0, &mut census)?;
        Ok(census)
    }

    fn count_layer<M: FullMemory>(
        &self,
        m: &mut M,
        root: Addr,
        depth: usize,
        census: &mut Census,
    ) -> Result<(), Corrupt> {
        census.layers += 1;
        let mut level = self.read(m, root)?.version().level();
        let mut nodes = vec![Child { low: 0, at: root }];
        loop {
            let mut children = Vec::new();
            for (i, &Child { low, at }) in nodes.iter().enumerate() {
                let range = Range { low, next: nodes.get(i + 1).copied() };
                let node = self.node_as_expected(m, at, level, range)?;
                if level == 0 {
                    self.count_border(m, at, &node, depth, census)?;
                } else {
                    census.interior_nodes += 1;
                    children.extend(node.children());
                }
            }
            if level == 0 {
                return Ok(());
            }
            level -= 1;
            nodes = children;
        }
    }

    fn node_as_expected<M: FullMemory>(
        &self,
        m: &mut M,
        at: Addr,
        level: u32,
        range: Range,
    ) -> Result<Node, Corrupt> {
        if !self.is_node(at) {
            return Err(misplaced(at));
        }
        let place = self.read(m, at)?;
        let version = place.version();
        let node = self.copy(m, &place)?.ok_or_else(|| misplaced(at))?;
        let as_expected =
            version.level() == level && !version.is_deleted() && node.range() == range;
        if as_expected { Ok(node) } else { Err(misplaced(at)) }
    }

    fn count_border<M: FullMemory>(
        &self,
        m: &mut M,
        at: Addr,
        node: &Node,
        depth: usize,
        census: &mut Census,
    ) -> Result<(), Corrupt> {
        let range = node.range();
        let entries = node.entries();
        census.border_nodes += 1;
        census.empty_nodes += u64::from(entries.is_empty());
        let within = |slice| slice >= range.low && range.next.is_none_or(|next| slice < next.low);
        let in_order = entries.is_sorted_by_key(|entry| (entry.slice, entry.kind.rank()));
        if !in_order || !entries.iter().all(|entry| within(entry.slice)) {
            return Err(misplaced(at));
        }
        for entry in entries {
            match entry.kind {
                Kind::LAYER if depth + SLICE_BYTES < KEY_BYTES_MAX => {
                    let root = self.layer(at, entry.link)?;
                    self.count_layer(m, root, depth + SLICE_BYTES, census)?;
                }
                Kind::LAYER => return Err(misplaced(at)),
                Kind::SUFFIX => {
                    let suffix = Addr(entry.link);
                    if !self.pool.is_line(suffix) {
                        return Err(misplaced(at));
                    }
                    let line = m.line(suffix);
                    Suffix::open(self, suffix, &line)?;
                    census.suffixes += 1;
                    census.keys += 1;
                }
                _ => census.keys += 1,
            }
        }
        Ok(())
    }
}
