//! [`OrderedMap`]: a Masstree that is empty at first, under one latch.

use std::ops::ControlFlow;

use ebbtide_core::{Addr, Memory};

use super::{PAGE, Wrong, check_base};
use crate::latch;
use crate::masstree::Tree;

/// Words by byte strings of up to [`KEY_BYTES_MAX`](crate::masstree::KEY_BYTES_MAX) bytes, in order.
///
/// The first page holds the latch, and the tree follows. Whoever writes holds the latch, inside a
/// [transaction](Memory::transaction) until its stores have taken effect; whoever reads sees that nobody
/// wrote meanwhile. So an operation is atomic, and several in one transaction are, too, on any number of
/// cores. The [`Tree`] alone is for many writers at once, without transactions.
#[derive(Debug, Clone, Copy)]
pub struct OrderedMap {
    latch: Addr,
    tree: Tree,
}

impl OrderedMap {
    /// Bytes that it takes with room for `nodes` nodes: 15 keys each, and half of that at worst. A key
    /// of more than 8 bytes that is the only one with its first 8 takes a fifth of a node in addition.
    pub fn bytes(nodes: u64) -> u64 {
        PAGE + Tree::bytes(0, nodes)
    }

    /// The map in the [`bytes`](OrderedMap::bytes) from `base` on, which [`format`](OrderedMap::format) has
    /// made.
    ///
    /// # Panics
    /// If `base` is not the start of a page.
    pub fn at(base: Addr, nodes: u64) -> OrderedMap {
        check_base(base);
        let start = base + PAGE;
        OrderedMap { latch: base, tree: Tree::new(start, Tree::bytes(0, nodes), 0, base.0) }
    }

    /// Makes the map empty. Its bytes must be zeros.
    pub fn format<M: Memory>(&self, memory: &mut M) {
        self.tree.format(memory);
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`Wrong`] when what it reads is not the map, or the key is too long.
    pub fn get<M: Memory>(&self, memory: &mut M, key: &[u8]) -> Result<Option<u64>, Wrong> {
        latch::read(memory, self.latch, |memory| self.tree.get(memory, key))
    }

    /// Gives `key` a value, and returns the one it had.
    ///
    /// # Errors
    /// As for [`get`](OrderedMap::get), and when there is no room.
    pub fn put<M: Memory>(
        &self,
        memory: &mut M,
        key: &[u8],
        value: u64,
    ) -> Result<Option<u64>, Wrong> {
        latch::write(memory, self.latch, |memory| self.tree.put(memory, key, value))
    }

    /// Removes `key`, and returns the value it had.
    ///
    /// # Errors
    /// As for [`get`](OrderedMap::get).
    pub fn remove<M: Memory>(&self, memory: &mut M, key: &[u8]) -> Result<Option<u64>, Wrong> {
        latch::write(memory, self.latch, |memory| self.tree.remove(memory, key))
    }

    /// The first `limit` keys from `from` on, in order, with their values.
    ///
    /// # Errors
    /// As for [`get`](OrderedMap::get).
    pub fn list<M: Memory>(
        &self,
        memory: &mut M,
        from: &[u8],
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, u64)>, Wrong> {
        latch::read(memory, self.latch, |memory| {
            let mut found = Vec::new();
            if limit > 0 {
                self.tree.scan(memory, from, |key, value| {
                    found.push((key.to_vec(), value));
                    if found.len() < limit {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                })?;
            }
            Ok(found)
        })
    }
}
