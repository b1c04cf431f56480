//! [`Tree`]: Masstree, an ordered map that many jobs share (Mao, Kohler and Morris, "Cache
//! Craftiness for Fast Multicore Key-Value Storage", EuroSys'12).
//!
//! A trie of B+-trees: each *layer* orders keys by 8 of their bytes. Where several keys share a
//! slice of 8 and go on, they have a layer of their own below. A node is five lines that never
//! straddle a page, with 15 keys; all layers have the same nodes.
//!
//! # How jobs keep apart
//! Readers take no locks and store nothing. They read a node's version, what they want of the node,
//! and the version again, and go from node to node hand over hand. Writers hold the nodes they
//! change, and of those only one at a time, but for joins. A lock is waited for through
//! [`Memory::wait`], so that other jobs run, also while the page of a held node is on flash.
//!
//! # What differs from the paper
//! * **Every node is linked to the next on its level and knows where its keys end** (as in Lehman
//!   and Yao's B-link trees), interior nodes too. A node that was split is whole at once: until its
//!   parent knows, the right half is reached through the left. So no lock is held on the way up,
//!   and a job that ends between the two (a device error) leaves a tree that is right.
//! * **No node points to its parent.** Splitting an interior node would have to change that pointer
//!   in eight children, on as many pages of flash. The parent is found from the root of the layer
//!   again; splits are rare.
//! * **The root of a layer never moves.** A full root gives its keys to two new nodes and becomes
//!   their parent, so nothing that leads to it needs to change.
//! * **Every insert and removal counts up the version**, not only the reuse of a slot. It lets
//!   transactions notice phantoms, as Silo does; what it costs is a repeated read here and there.
//! * **There is no `prev`**: the left neighbour is found through the parent, as below.
//! * **A border node that becomes empty is joined with a neighbour** under the same parent (the
//!   left one of the two stays, with the keys of both, and its range is theirs), and so are
//!   interior nodes that together have at most twelve children. An empty node stays that is the
//!   only child of its parent. Layers stay too.
//!
//! # Why nodes can be used again
//! A reader may hold the address of a node that was meanwhile deleted and serves elsewhere. It
//! never believes what it reads there: the version of a node only ever goes on, through deletion
//! and reuse too, and the reader either had read an older one, which no longer holds; or it has yet
//! to make sure that the node it came from has not changed since it read this one, and that one
//! has, as it led here then and does not now. Before a node is marked deleted, those that lead to
//! it are marked as changing. So a deleted node under an unchanged parent is no race but a rotten
//! page.
//!
//! # When a page cannot be had
//! A job that a device error ends gives its locks back. Most of what it did is then done or not
//! begun: whatever allocates or reads other pages comes before the first store to a node, which are
//! all to one page. A job that is ended between those stores, or between the three nodes of a join,
//! leaves nodes that do not match their checksums, or a deleted one under its parent: errors for
//! everyone who comes there, not wrong answers. At worst a node that was taken and not used is
//! lost.
//!
//! # What is noticed
//! The first line of a node is sealed with its address and the tree's salt, over its version too;
//! the order, the range and a fold of the keys are in it. A node that is torn, misplaced, foreign
//! or never written does not match, and a missing key is only believed if the fold of the keys is
//! right. Suffixes are sealed as well. A wrong child shows by its range. Values are the caller's:
//! it should be able to tell a record that is not the key's. A rotten lock bit is the one thing
//! that is not noticed: it is waited for like any lock.

mod census;
mod descend;
mod insert;
mod join;
mod key;
mod layout;
mod lock;
mod node;
mod order;
mod pool;
mod remove;
mod scan;
mod suffix;
mod version;

pub use census::Census;
pub use key::KEY_BYTES_MAX;
pub use layout::KEYS_PER_PAGE;
pub use scan::Visitor;

use std::ops::Range;

use ebbtide_core::{Addr, LINE_BYTES, Memory, PAGE_BYTES, PageId};

use crate::checksum::Checksums;
use crate::hash::mix;
use crate::image::clear_records;
use crate::{ALL_LINES, PageBytes, Wrong};
use descend::Place;
use key::{Kind, Rest};
use layout::Layout;
use node::{NODE_BYTES, misplaced};
use pool::Pool;
use suffix::Suffix;
use version::Version;

/// The owner that a tree's checksums name. Part of the format: with another, no stored tree opens.
const CHECKSUMS_OWNER: u64 = 18;

/// An ordered map from byte strings to words, in a region of memory.
///
/// A few numbers: copied freely and shared by all jobs on all cores. What it holds is in memory.
#[derive(Debug, Clone, Copy)]
pub struct Tree {
    /// The root of the first layer, and the start of the region.
    root: Addr,
    layout: Layout,
    pool: Pool,
    checksums: Checksums,
}

/// A border node at one moment: what a look-up that missed, or a scan, depends on.
///
/// As long as [`Tree::version_of`] its node is its version, no key came to it, went from it, or
/// moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The border node.
    pub node: Addr,
    /// Its version then.
    pub version: u64,
}

/// What an insert did to one border node.
///
/// Whoever depended on `before` and has inserted the key himself depends on both of `after` now
/// (the second is a node that was split off, or the layer that a key moved to).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// The node as it was.
    pub before: Seen,
    /// Where its keys are after.
    pub after: [Option<Seen>; 2],
}

/// What a border node has for a key.
enum Look {
    Missing,
    Value(u64),
    Layer(Addr),
}

impl Tree {
    /// The tree that lies in the `bytes` bytes from `start` on and has `keys` keys at first.
    /// `seed` makes its checksums differ from those of other trees. Takes no memory and no time.
    ///
    /// What [`bytes`](Tree::bytes) asks for beyond the fresh tree is room to grow.
    ///
    /// # Panics
    /// When `start` is not the start of a page, or `bytes` are fewer than
    /// [`Tree::bytes`]`(keys, 0)`.
    pub fn new(start: Addr, bytes: u64, keys: u64, seed: u64) -> Tree {
        assert!(start.page_offset() == 0, "a tree begins at a page, not at {start:?}");
        let layout = Layout::new(start, keys);
        let pages = bytes / PAGE_BYTES as u64;
        let left = pages.checked_sub(layout.pages()).filter(|&left| left > 0);
        let left =
            left.unwrap_or_else(|| panic!("{bytes} bytes do not hold a tree of {keys} keys"));
        let pool = Pool::new(start + layout.pages() * PAGE_BYTES as u64, left);
        Tree {
            root: start,
            layout,
            pool,
            checksums: Checksums::new(CHECKSUMS_OWNER, start.0, seed),
        }
    }

    /// Bytes for a tree of `keys` keys that has room for `more` nodes than the fresh one has:
    /// inserts in any order fill a node at least half. Each key of more than 8 bytes that is alone
    /// with its slice takes a fifth of a node besides.
    pub fn bytes(keys: u64, more: u64) -> u64 {
        let pages = Layout::new(Addr(0), keys).pages() + Pool::pages_for(more);
        pages * PAGE_BYTES as u64
    }

    /// Writes the initial contents of `page` into `out`: a pure function of the page.
    ///
    /// `entry` gives the key and the value of each rank below the number of keys; keys are 8 bytes,
    /// big-endian, and increase strictly with their rank.
    ///
    /// # Panics
    /// When `page` lies outside the tree's region.
    pub fn image(&self, page: PageId, entry: impl Fn(u64) -> (u64, u64), out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, entry, out);
    }

    /// Writes the nodes of what [`image`](Tree::image) writes that `lines` are of, and tells which
    /// lines they are.
    ///
    /// # Panics
    /// As [`image`](Tree::image).
    pub fn image_lines(
        &self,
        page: PageId,
        lines: Range<usize>,
        entry: impl Fn(u64) -> (u64, u64),
        out: &mut PageBytes,
    ) -> Range<usize> {
        const NODE_LINES: usize = NODE_BYTES as usize / LINE_BYTES;
        let start = page.start();
        let (slots, written) = clear_records(out, lines, NODE_LINES);
        assert!((self.root..self.pool.end()).contains(&start), "{page:?} is not of the tree");
        let from_root = page.0 - self.root.page().0;
        if from_root >= self.layout.pages() {
            return written;
        }
        let nodes = &mut out.as_chunks_mut::<{ NODE_BYTES as usize }>().0[slots.clone()];
        for (slot, bytes) in (slots.start as u64..).zip(nodes) {
            if let Some((level, number)) = self.layout.node_in(from_root, slot) {
                let at = start + slot * NODE_BYTES;
                let version =
                    Version::first(self.mark(at)).alive(self.layout.is_root(level)).at_level(level);
                let node = self.layout.node(level, number, &entry);
                let node = node.with_checksum(version, |line| self.checksum(at, line));
                *bytes = bytemuck::cast(node.words);
            }
        }
        written
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`Wrong`] when what it reads is not the tree, or the key is too long.
    #[inline]
    pub fn get<M: Memory>(&self, m: &mut M, key: &[u8]) -> Result<Option<u64>, Wrong> {
        self.get_seen(m, key).map(|(value, _)| value)
    }

    /// The value of `key`, and the border node that would have changed had it been any other.
    /// (A value that is replaced changes no version.)
    ///
    /// # Errors
    /// As for [`get`](Tree::get).
    #[inline]
    pub fn get_seen<M: Memory>(&self, m: &mut M, key: &[u8]) -> Result<(Option<u64>, Seen), Wrong> {
        let mut root = self.root;
        let mut rest = Rest::whole(key)?;
        loop {
            let place = self.descend(m, root, rest.slice, 0)?;
            match self.look(m, &place, rest)? {
                None => {}
                Some(Look::Missing) => return Ok((None, place.seen())),
                Some(Look::Value(value)) => return Ok((Some(value), place.seen())),
                Some(Look::Layer(below)) => (root, rest) = (below, rest.below()),
            }
        }
    }

    /// The version of a border node now: that of a [`Seen`] if nothing has changed.
    ///
    /// # Errors
    /// [`Wrong`] when `node` is no node of this tree.
    pub fn version_of<M: Memory>(&self, m: &mut M, node: Addr) -> Result<u64, Wrong> {
        if !self.is_node(node) {
            return Err(misplaced(node));
        }
        Ok(Version::of(m.load(node)).word())
    }

    /// What the border node at `place` has for `rest`, or `None` if it changed meanwhile.
    #[inline]
    fn look<M: Memory>(
        &self,
        m: &mut M,
        place: &Place,
        rest: Rest<'_>,
    ) -> Result<Option<Look>, Wrong> {
        let slot = self.find(m, place, rest.slice, rest.kind())?;
        let look = match slot {
            None => Look::Missing,
            Some(slot) if slot.kind == Kind::LAYER => {
                if !place.holds(m) {
                    return Ok(None);
                }
                return self.layer(place.at, slot.link).map(|below| Some(Look::Layer(below)));
            }
            Some(slot) if slot.kind == Kind::SUFFIX => {
                let suffix = self.read_suffix(m, place, slot.link)?;
                return Ok(suffix.map(|suffix| match suffix.bytes() == rest.suffix() {
                    true => Look::Value(suffix.value),
                    false => Look::Missing,
                }));
            }
            Some(slot) => Look::Value(slot.link),
        };
        Ok(place.holds(m).then_some(look))
    }

    /// The suffix at `link`, to which a slot of the node at `place` leads, or `None` if the node
    /// has changed.
    fn read_suffix<M: Memory>(
        &self,
        m: &mut M,
        place: &Place,
        link: u64,
    ) -> Result<Option<Suffix>, Wrong> {
        let at = Addr(link);
        let line = self.pool.is_line(at).then(|| m.line(at));
        if !place.holds(m) {
            return Ok(None);
        }
        let line = line.ok_or_else(|| misplaced(place.at))?;
        Suffix::open(self, at, &line).map(Some)
    }

    /// The root of the layer that a slot of the node at `at` leads to.
    fn layer(&self, at: Addr, link: u64) -> Result<Addr, Wrong> {
        Some(Addr(link)).filter(|&below| self.is_node(below)).ok_or_else(|| misplaced(at))
    }

    /// What the versions of the node at `at` are marked with.
    fn mark(&self, at: Addr) -> u8 {
        mix(self.checksums.of(at, &[])) as u8
    }
}
