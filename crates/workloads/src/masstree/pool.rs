//! [`Pool`]: an allocator of nodes and suffix lines.
//!
//! Its pages are divided among shards, so that jobs that grow different parts of the tree change
//! different words. A shard first hands out freed memory, last in first out. Then it hands out
//! memory that was never used: nodes from its front, lines from its back. Its state is one line:
//! two list heads, each with a counter of its changes against the ABA problem, and the amount ever
//! used.
//!
//! A freed node stays a node, and its version continues to increase, which makes reuse safe for
//! readers that still have its address.

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, PAGE_BYTES};

use super::layout::NODES_PER_PAGE;
use super::node::{CHECKSUM, KEYS, NODE_BYTES, word_at};
use super::version::Version;
use super::{Tree, suffix};
use crate::Corrupt;
use ebbtide_structures::hash::mix;

const PAGE: u64 = PAGE_BYTES as u64;
const LINE: u64 = LINE_BYTES as u64;
const LINES_PER_PAGE: u64 = PAGE / LINE;
const SHARDS_MAX: u64 = 16;
/// A smaller shard would run out of nodes while it has room for lines, or of lines while it has
/// room for nodes.
const PAGES_PER_SHARD_MIN: u64 = 8;

/// Offsets of the words in a shard's line.
const NODE_LIST: u64 = 0;
const LINE_LIST: u64 = 8;
const USED: u64 = 16;
/// `USED` counts nodes in its low half and lines in its high half.
const ONE_LINE: u64 = 1 << 32;

/// A list head is a line number under a counter.
const LINE_NUMBER_BITS: u32 = 40;
const LINE_NUMBER: u64 = (1 << LINE_NUMBER_BITS) - 1;

/// A page of shards and the pages they give out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pool {
    /// The page of shards.
    start: Addr,
    end: Addr,
    shards: u64,
    pages_per_shard: u64,
}

/// The kinds of memory that a pool hands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    Node,
    Line,
}

impl Pool {
    /// The pool of `pages` pages from `start` on.
    pub(super) fn new(start: Addr, pages: u64) -> Pool {
        let end = start + pages * PAGE;
        let shards = (pages / PAGES_PER_SHARD_MIN).clamp(1, SHARDS_MAX);
        Pool { start, end, shards, pages_per_shard: pages.saturating_sub(1) / shards }
    }

    /// The number of pages that hold `nodes` nodes, or that many suffixes, or that many of both
    /// together.
    pub(super) fn pages_for(nodes: u64) -> u64 {
        if nodes == 0 {
            return 1;
        }
        let pages = nodes.div_ceil(NODES_PER_PAGE);
        let shards = (pages / PAGES_PER_SHARD_MIN + 1).min(SHARDS_MAX);
        // One more page in each, so that nodes and lines both have room.
        1 + shards * (pages.div_ceil(shards) + 1)
    }

    /// The end of its last page.
    #[inline]
    pub(super) fn end(&self) -> Addr {
        self.end
    }

    /// Returns true if a suffix may lie at `at`.
    pub(super) fn is_line(&self, at: Addr) -> bool {
        at.0.is_multiple_of(LINE) && at >= self.start + PAGE && at < self.end
    }

    fn shard(&self, number: u64) -> Addr {
        self.start + number * LINE
    }

    /// The shard that allocates for data at `near`. Neighbouring data share a shard.
    fn nearest(&self, near: Addr) -> u64 {
        mix(near.page().0) % self.shards
    }

    /// The shard to which `at` is freed: the one it came from, or any for a node of the fresh tree.
    fn owner(&self, at: Addr) -> u64 {
        let first = self.start + PAGE;
        if at < first {
            self.nearest(at)
        } else {
            ((at - first) / PAGE / self.pages_per_shard).min(self.shards - 1)
        }
    }

    /// The address of a shard's node or line number `number`.
    fn place(&self, shard: u64, thing: Thing, number: u64) -> Addr {
        let first = self.start + PAGE + shard * self.pages_per_shard * PAGE;
        match thing {
            Thing::Node => {
                first + number / NODES_PER_PAGE * PAGE + number % NODES_PER_PAGE * NODE_BYTES
            }
            Thing::Line => {
                let page = self.pages_per_shard - 1 - number / LINES_PER_PAGE;
                first + page * PAGE + number % LINES_PER_PAGE * LINE
            }
        }
    }

    fn take_unused<M: FullMemory>(&self, m: &mut M, shard: u64, thing: Thing) -> Option<Addr> {
        let at = self.shard(shard) + USED;
        let mut seen: u64 = m.load(at);
        loop {
            let (nodes, lines) = (seen % ONE_LINE, seen / ONE_LINE);
            let (one, number) = match thing {
                Thing::Node => (1, nodes),
                Thing::Line => (ONE_LINE, lines),
            };
            let (nodes, lines) = ((seen + one) % ONE_LINE, (seen + one) / ONE_LINE);
            let pages = nodes.div_ceil(NODES_PER_PAGE) + lines.div_ceil(LINES_PER_PAGE);
            if pages > self.pages_per_shard {
                return None;
            }
            match m.compare_exchange(at, seen, seen + one) {
                Ok(_) => return Some(self.place(shard, thing, number)),
                Err(found) => seen = found,
            }
        }
    }

    fn list(&self, shard: u64, thing: Thing) -> Addr {
        self.shard(shard) + if thing == Thing::Node { NODE_LIST } else { LINE_LIST }
    }

    fn push<M: FullMemory>(&self, m: &mut M, thing: Thing, at: Addr) {
        let list = self.list(self.owner(at), thing);
        let mut head: u64 = m.load(list);
        loop {
            m.store(link_of(thing, at), head & LINE_NUMBER);
            match m.compare_exchange(list, head, moved(head, at.0 / LINE)) {
                Ok(_) => return,
                Err(found) => head = found,
            }
        }
    }
}

/// Returns the address of the word of a free node or line that has the line number of the next.
fn link_of(thing: Thing, at: Addr) -> Addr {
    match thing {
        Thing::Node => word_at(at, KEYS),
        Thing::Line => at,
    }
}

/// Returns the list head that leads to line `to`, with the next counter.
fn moved(head: u64, to: u64) -> u64 {
    ((head >> LINE_NUMBER_BITS) + 1) << LINE_NUMBER_BITS | to & LINE_NUMBER
}

impl Tree {
    /// Allocates a node or a line for data at `near`. Also returns whether it was used before.
    fn take<M: FullMemory>(
        &self,
        m: &mut M,
        thing: Thing,
        near: Addr,
    ) -> Result<(Addr, bool), Corrupt> {
        let first = self.pool.nearest(near);
        for shard in (first..self.pool.shards).chain(0..first) {
            if let Some(at) = self.pop(m, shard, thing)? {
                return Ok((at, true));
            }
            if let Some(at) = self.pool.take_unused(m, shard, thing) {
                return Ok((at, false));
            }
        }
        Err(Corrupt(format!("the tree at {:?} has no room for more", self.root)))
    }

    fn pop<M: FullMemory>(
        &self,
        m: &mut M,
        shard: u64,
        thing: Thing,
    ) -> Result<Option<Addr>, Corrupt> {
        let list = self.pool.list(shard, thing);
        let mut head: u64 = m.load(list);
        loop {
            let at = Addr((head & LINE_NUMBER) * LINE);
            if at == Addr(0) {
                return Ok(None);
            }
            if !(if thing == Thing::Node { self.is_node(at) } else { self.pool.is_line(at) }) {
                return Err(Corrupt(format!("the list at {list:?} leads outside of its pool")));
            }
            // If another job took it since, this word means nothing, and the head has changed.
            let next: u64 = m.load(link_of(thing, at));
            match m.compare_exchange(list, head, moved(head, next)) {
                Ok(_) => return Ok(Some(at)),
                Err(found) => head = found,
            }
        }
    }

    /// Allocates a node. Also returns its version.
    pub(super) fn take_node<M: FullMemory>(
        &self,
        m: &mut M,
        near: Addr,
    ) -> Result<(Addr, Version), Corrupt> {
        let (at, used) = self.take(m, Thing::Node, near)?;
        let line = m.line(at);
        let version = Version::of(line[0]);
        if used && self.checksum(at, &line) == line[CHECKSUM] && version.is_deleted() {
            Ok((at, version))
        } else if !used && line == [0; 8] {
            Ok((at, Version::of(0)))
        } else {
            Err(Corrupt(format!("the free node at {at:?} is not free")))
        }
    }

    /// Frees a node that was removed from the tree.
    pub(super) fn give_node<M: FullMemory>(&self, m: &mut M, at: Addr) {
        self.pool.push(m, Thing::Node, at);
    }

    /// Allocates a line for a suffix.
    pub(super) fn take_line<M: FullMemory>(&self, m: &mut M, near: Addr) -> Result<Addr, Corrupt> {
        let (at, used) = self.take(m, Thing::Line, near)?;
        let line = m.line(at);
        let as_expected = if used { suffix::is_free(self, at, &line) } else { line == [0; 8] };
        if !as_expected {
            return Err(Corrupt(format!("the free line at {at:?} is not free")));
        }
        Ok(at)
    }

    /// Frees a suffix's line.
    pub(super) fn give_line<M: FullMemory>(&self, m: &mut M, at: Addr) {
        suffix::free(self, m, at);
        self.pool.push(m, Thing::Line, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_nodes_as_were_asked_for_have_room() {
        for nodes in (0..5_000).chain([1 << 20, 1 << 33]) {
            let pool = Pool::new(Addr(0), Pool::pages_for(nodes));
            assert!(pool.shards * pool.pages_per_shard * NODES_PER_PAGE >= nodes, "{nodes}");
        }
    }

    #[test]
    fn a_list_head_is_never_the_same_again() {
        let heads = [0, 7, 0, 7].iter().scan(0, |head, &to| {
            *head = moved(*head, to);
            Some(*head)
        });
        let mut heads: Vec<u64> = heads.collect();
        heads.dedup();
        heads.sort_unstable();
        heads.dedup();
        assert_eq!(heads.len(), 4);
    }
}
