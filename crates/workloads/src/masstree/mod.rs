//! [`Tree`]: Masstree, an ordered map that many jobs share (Mao, Kohler and Morris, "Cache
//! Craftiness for Fast Multicore Key-Value Storage", EuroSys'12).
//!
//! Masstree is a trie of B+-trees. Each *layer* orders keys by 8 of their bytes, a *slice*. Several
//! longer keys that share a slice have a layer of their own below it. A node has 15 keys in five
//! lines, which never straddle a page; all layers have the same nodes.
//!
//! # Concurrency
//! Readers take no locks and store nothing. They read a node's version, then the node, then the
//! version again, and validate each parent after they have read its child's version. Writers lock
//! the nodes they change, one at a time except in joins. They wait for a lock through
//! [`Memory::wait`](ebbtide_core::Memory::wait), so other jobs run at that time, even while the
//! page of a locked node is on flash.
//!
//! # What differs from the paper
//! * **Every node is linked to the next on its level and knows where its keys end**, interior nodes
//!   too. Lehman and Yao's B-link trees do the same. Until the parent of a split node has the new
//!   child, readers reach the right half through the left. So a writer holds no lock on the way up.
//!   A job that a device error ends in between leaves a correct tree.
//! * **No node points to its parent.** Splitting an interior node would change that pointer in
//!   eight children, on eight pages of flash. A writer finds the parent again from the root of the
//!   layer; splits are rare.
//! * **The root of a layer never moves.** A full root moves its keys to two new nodes and becomes
//!   their parent. Pointers to it stay valid.
//! * **Every insert and removal increments the version**, not only the reuse of a slot, so that
//!   transactions notice phantoms, as in Silo. The cost is an occasional repeated read.
//! * **There is no `prev` pointer.** The left neighbour is found through the parent.
//! * **A border node that becomes empty is joined with a neighbour** under the same parent. The
//!   left one of the two stays and takes both ranges. Interior nodes that together have at most
//!   twelve children are joined too. An empty node that is the only child of its parent stays, and
//!   so do layers.
//!
//! # Reuse of nodes
//! A reader may hold the address of a node that was deleted and reused since. It discards what it
//! reads there. A node's version only increases, through deletion and reuse too, so a reader that
//! had read an older version finds it changed. A reader that had not still has to validate the node
//! it came from, and that node has changed, since it no longer leads here. Before a node is marked
//! deleted, the nodes that lead to it are marked as changing. So a deleted node under an unchanged
//! parent is not a race but a damaged page.
//!
//! # Device errors
//! A job that a device error ends releases its locks. A writer allocates and reads other pages
//! before its first store to a node, and all stores to a node are to one page. So most operations
//! have then happened or not. A job may end between those stores, or between the three nodes of a
//! join. It then leaves nodes that do not match their checksums, or a deleted node under its
//! parent. Later jobs get errors there, not wrong answers. At worst one allocated node is lost.
//!
//! # Detection of damage
//! A checksum covers the first line of a node with its address and the tree's salt. The line holds
//! the version, the order, the range and a fold of the keys. The checksum of a node that is torn,
//! misplaced, of another tree or never written does not match. A key counts as absent only if the
//! fold of the keys is right. Suffixes have checksums as well. A wrong child shows by its range.
//! Callers must check that a value belongs to its key. A damaged lock bit is not detected: jobs
//! wait for it as for any lock.

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
mod program;
mod remove;
mod scan;
mod suffix;
mod version;

pub use census::Census;
pub use key::KEY_BYTES_MAX;
pub use layout::KEYS_PER_PAGE;
pub use scan::Visitor;

pub use program::{Masstree, Operation, Record};

use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, PAGE_BYTES, PageId};

use crate::{ALL_LINES, Corrupt, PageBytes};
use descend::Place;
use ebbtide_structures::checksum::Checksums;
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::{Line, clear_records};
use key::{Kind, Rest};
use layout::Layout;
use node::{NODE_BYTES, misplaced};
use pool::Pool;
use suffix::Suffix;
use version::Version;

/// The owner in a tree's checksums. It is part of the format: with another one, no stored tree
/// opens.
const CHECKSUMS_OWNER: u64 = 18;

/// An ordered map from byte strings to words, in a region of memory.
///
/// A handle of a few numbers: copied freely and shared by all jobs on all cores. The tree itself is
/// in memory.
#[derive(Debug, Clone, Copy)]
pub struct Tree {
    /// The root of the first layer, and the start of the region.
    root: Addr,
    layout: Layout,
    pool: Pool,
    checksums: Checksums,
}

/// A border node at one moment. A look-up that found nothing, or a scan, depends on it.
///
/// While [`Tree::version_of`] its node equals its version, no key came to it, left it, or moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The border node.
    pub node: Addr,
    /// Its version when it was read.
    pub version: u64,
}

/// A border node that an insert changed.
///
/// A transaction that depended on `before` and made the insert itself now depends on both of
/// `after`. The second of these is a node that was split off, or the layer that a key moved to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// The node before the insert.
    pub before: Seen,
    /// The nodes that have its keys after the insert.
    pub after: [Option<Seen>; 2],
}

/// The result of a look-up in a border node.
enum Look {
    Missing,
    Value(u64),
    Layer(Addr),
}

impl Tree {
    /// Returns the tree in the `bytes` bytes from `start` on, which has `keys` keys at first.
    /// `seed` makes its checksums differ from the checksums of other trees. Takes constant time and
    /// memory.
    ///
    /// Bytes beyond the fresh tree's are room to grow; see [`bytes`](Tree::bytes).
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

    /// Returns the bytes of a tree of `keys` keys with room for `more` nodes. Inserts in any order
    /// fill a node at least half. A key of more than 8 bytes that is the only one with its slice
    /// takes another fifth of a node.
    pub fn bytes(keys: u64, more: u64) -> u64 {
        let pages = Layout::new(Addr(0), keys).pages() + Pool::pages_for(more);
        pages * PAGE_BYTES as u64
    }

    /// Writes the initial contents of `page` into `out`: a pure function of the page.
    ///
    /// `entry` returns the key and the value of a rank below the number of keys. Keys are 8 bytes,
    /// big-endian, and increase strictly with their rank.
    ///
    /// # Panics
    /// When `page` lies outside the tree's region.
    pub fn image(&self, page: PageId, entry: impl Fn(u64) -> (u64, u64), out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, entry, out);
    }

    /// Writes those nodes of the [`image`](Tree::image) that have a line in `lines`, and returns
    /// which lines it wrote.
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

    /// Stores an empty tree into its region, which must be zeros.
    ///
    /// # Panics
    /// When the tree was given keys to begin with.
    pub fn format<M: FullMemory>(&self, m: &mut M) {
        let mut root = [0; PAGE_BYTES];
        let no_key = |rank| panic!("a tree that is formatted has no key of rank {rank}");
        self.image(self.root.page(), no_key, &mut root);
        let lines: &[Line] = bytemuck::cast_slice(&root);
        let at = (self.root.0..).step_by(LINE_BYTES).map(Addr);
        at.zip(lines).filter(|(_, line)| **line != [0; LINE_BYTES / 8]).for_each(|(at, line)| {
            m.store(at, *line);
        });
    }

    /// Returns the value of `key`; `None` if the tree does not have it.
    ///
    /// # Errors
    /// [`Corrupt`] if a node is damaged or of another tree, or the key has more than
    /// [`KEY_BYTES_MAX`] bytes.
    #[inline]
    pub fn get<M: FullMemory>(&self, m: &mut M, key: &[u8]) -> Result<Option<u64>, Corrupt> {
        self.get_seen(m, key).map(|(value, _)| value)
    }

    /// Returns the value of `key`, and the border node that an insert or removal of `key` changes.
    /// Replacing a value changes no version.
    ///
    /// # Errors
    /// As for [`get`](Tree::get).
    #[inline]
    pub fn get_seen<M: FullMemory>(
        &self,
        m: &mut M,
        key: &[u8],
    ) -> Result<(Option<u64>, Seen), Corrupt> {
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

    /// Returns the current version of a border node. It is equal to the version of a [`Seen`] if
    /// the node has not changed.
    ///
    /// # Errors
    /// [`Corrupt`] when `node` is no node of this tree.
    pub fn version_of<M: FullMemory>(&self, m: &mut M, node: Addr) -> Result<u64, Corrupt> {
        if !self.is_node(node) {
            return Err(misplaced(node));
        }
        Ok(Version::of(m.load(node)).word())
    }

    /// Looks for `rest` in the border node at `place`; `None` if the node changed during the call.
    #[inline]
    fn look<M: FullMemory>(
        &self,
        m: &mut M,
        place: &Place,
        rest: Rest<'_>,
    ) -> Result<Option<Look>, Corrupt> {
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
    fn read_suffix<M: FullMemory>(
        &self,
        m: &mut M,
        place: &Place,
        link: u64,
    ) -> Result<Option<Suffix>, Corrupt> {
        let at = Addr(link);
        let line = self.pool.is_line(at).then(|| m.line(at));
        if !place.holds(m) {
            return Ok(None);
        }
        let line = line.ok_or_else(|| misplaced(place.at))?;
        Suffix::open(self, at, &line).map(Some)
    }

    /// The root of the layer that a slot of the node at `at` leads to.
    fn layer(&self, at: Addr, link: u64) -> Result<Addr, Corrupt> {
        Some(Addr(link)).filter(|&below| self.is_node(below)).ok_or_else(|| misplaced(at))
    }

    /// The mark in the versions of the node at `at`.
    fn mark(&self, at: Addr) -> u8 {
        mix(self.checksums.of(at, &[])) as u8
    }
}
