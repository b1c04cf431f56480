//! Joins pages of a tree that have lost entries, and frees those that are left over.
//!
//! A join takes the latches of a page and of up to four of its children. It gives up where it would
//! have to wait, because other writers latch children before the page above. A reader that still
//! knows a freed page finds its latch changed.

use ebbtide_core::{Addr, FullMemory, Hint};
use smallvec::SmallVec;

use super::inner::{self, Child};
use super::layout::{HASHES, LEAF_BYTES, PageHeader, PageNumber};
use super::leaf;
use super::tree::{self, Held, Tree, sizes};
use crate::latch;

/// Two leaves become one, three become two, or four become three, if each then has at most this
/// many bytes of entries on average.
const JOINED_BYTES_MAX: usize = LEAF_BYTES / 16 * 15;

/// As [`JOINED_BYTES_MAX`], while at least half of the pages are free. Fuller leaves would have to
/// be divided again when the next keys come.
const ROOMY_BYTES_MAX: usize = LEAF_BYTES / 8 * 5;

/// Inner pages become one if it then has at most this many children.
const JOINED_CHILDREN_MAX: u16 = inner::CHILDREN_MAX / 4 * 3;

/// An inner page with fewer children is joined with its neighbours.
const FEW_CHILDREN: u16 = inner::CHILDREN_MAX / 4;

/// Neighbouring pages whose latches are held.
type Window = SmallVec<[Held; 4]>;

/// The result of an attempt to join children of a page.
struct Attempt {
    joined: bool,
    /// The number of children of the page now.
    children: u16,
}

impl Tree {
    /// Returns true if the leaf of `hash` is worth [joining](Tree::join).
    pub(super) fn is_sparse<M: FullMemory>(&self, memory: &mut M, hash: u64) -> bool {
        let leaf =
            self.read(memory, hash, |_, _, header| (header.sparse, leaf::used_bytes(header)));
        let (sparse, bytes) = leaf.unwrap_or_default();
        sparse && bytes <= self.sparse_bytes_max(memory)
    }

    /// Returns the most bytes of entries of a leaf that is joined with its neighbours.
    pub(super) fn sparse_bytes_max<M: FullMemory>(&self, memory: &mut M) -> usize {
        match self.pages.are_ample(memory) {
            // Only pairs are joined. One of a pair has at most half of the bytes.
            true => ROOMY_BYTES_MAX / 2,
            false => LEAF_BYTES,
        }
    }

    /// Hints the leaves that a join of the leaf of `hash` looks at.
    pub(super) fn hint_beside<M: FullMemory>(&self, memory: &mut M, hash: u64) {
        let Some(above) = self.descend(memory, hash, 1) else { return };
        // If the page changes during this, the hints name wrong pages.
        let header = PageHeader::load(memory, above.page);
        if header.level == 1 {
            let first = inner::index(memory, above.page, &header, hash).saturating_sub(1);
            for (_, leaf) in inner::slice(memory, above.page, &header, first..first + 4) {
                memory.hint(Hint::WillNeed(self.pages.address_of_any(leaf)));
            }
        }
    }

    /// Returns how many bytes of entries joined leaves may have on average.
    fn joined_bytes_max<M: FullMemory>(&self, memory: &mut M) -> usize {
        match self.pages.are_ample(memory) {
            true => ROOMY_BYTES_MAX,
            false => JOINED_BYTES_MAX,
        }
    }

    /// Joins the leaf of `hash` with its neighbours if their entries fit together. Then does the
    /// same with the pages above. Returns true if a page was freed.
    pub(super) fn join<M: FullMemory>(&self, memory: &mut M, hash: u64) -> bool {
        let mut any = false;
        while let Some(attempt) = self.join_children(memory, hash, 1) {
            any |= attempt.joined;
            let wider = attempt.children < FEW_CHILDREN && self.join_inner(memory, hash, 2);
            any |= wider;
            // With more neighbours there may be more to join.
            if !wider && (!attempt.joined || attempt.children == 1) {
                break;
            }
        }
        any
    }

    fn join_inner<M: FullMemory>(&self, memory: &mut M, hash: u64, level: u8) -> bool {
        self.join_children(memory, hash, level).is_some_and(|attempt| {
            let above = attempt.children < FEW_CHILDREN && self.join_inner(memory, hash, level + 1);
            attempt.joined || above
        })
    }

    /// Joins the child of `hash`, of the page of `level`, with its neighbours. `None` if there is
    /// no such level.
    fn join_children<M: FullMemory>(
        &self,
        memory: &mut M,
        hash: u64,
        level: u8,
    ) -> Option<Attempt> {
        self.root(memory).filter(|(_, root_level)| *root_level >= level)?;
        let above = self.descend(memory, hash, level)?;
        latch::write_if(memory, above.page, above.word, |memory| {
            let mut header = PageHeader::load(memory, above.page);
            let index = inner::index(memory, above.page, &header, hash);
            let first = index.saturating_sub(1);
            let beside = inner::slice(memory, above.page, &header, first..index + 3);
            let latches: SmallVec<[Addr; 4]> =
                beside.iter().map(|(_, number)| self.pages.address(*number)).collect();
            let compared = latch::try_write_all(memory, &latches, |memory| {
                let compared = self.join_beside(memory, (above.page, &mut header), first, &beside);
                if compared == Some(None) && level == 1 {
                    unmark(memory, latches[usize::from(index - first)]);
                }
                compared
            });
            let gone = compared.flatten().flatten();
            // Its latch is free now, so the page may be forgotten.
            gone.inspect(|number| self.pages.give(memory, *number));
            Attempt { joined: gone.is_some(), children: header.count }
        })
    }

    /// Joins some of the `beside` neighbouring children. The first has index `first` in the page
    /// above. The latches of all are held. Returns the page that is left over, if there is one.
    /// `None` if the page above does not know the children as they are.
    fn join_beside<M: FullMemory>(
        &self,
        memory: &mut M,
        (above, header): (Addr, &mut PageHeader),
        first: u16,
        beside: &[Child],
    ) -> Option<Option<PageNumber>> {
        let load =
            |(_, number): &Child| (*number, PageHeader::load(memory, self.pages.address(*number)));
        let mut window: Window = beside.iter().map(load).collect();
        // The page above does not know a leaf for which it had no room.
        if !window.windows(2).all(|two| two[0].1.right == two[1].0) {
            return None;
        }
        for range in [1..3, 0..2, 0..3, 0..4] {
            let Some(pages) = window.get_mut(range.clone()) else { continue };
            let kept = match pages[0].1.level {
                0 => self.join_leaves(memory, pages),
                _ if range.len() == 2 => self.join_inner_pages(memory, pages),
                _ => None,
            };
            if let Some(kept) = kept {
                let at = first + range.start as u16;
                let mut children: SmallVec<[Child; 4]> =
                    pages[..kept].iter().map(|(number, page)| (page.low, *number)).collect();
                if at == 0 {
                    // A leaf may begin earlier than the first separator, which is that of the page
                    // above as well.
                    children[0] = beside[0];
                }
                inner::replace(memory, above, header, (at, pages.len() as u16), &children);
                return Some(Some(pages[kept].0));
            }
        }
        Some(None)
    }

    /// Spreads the entries of leaves over one leaf less. Returns the new number of leaves; `None`
    /// if the entries do not fit.
    fn join_leaves<M: FullMemory>(&self, memory: &mut M, leaves: &mut [Held]) -> Option<usize> {
        let kept = leaves.len() - 1;
        let bytes: usize = leaves.iter().map(|(_, header)| leaf::used_bytes(header)).sum();
        if bytes > kept * self.joined_bytes_max(memory) {
            return None;
        }
        let entries = self.entries(memory, leaves);
        let begins = leaf::spread(&sizes(&entries), kept, HASHES)?;
        let named = tree::records(leaves);
        let (_, gone) = leaves[kept];
        let (_, last) = &mut leaves[kept - 1];
        (last.right, last.high) = (gone.right, gone.high);
        self.fill(memory, &mut leaves[..kept], &begins, &entries, named);
        Some(kept)
    }

    /// Moves the children of the second page to the first. Returns 1; `None` if they are too many.
    fn join_inner_pages<M: FullMemory>(&self, memory: &mut M, pages: &mut [Held]) -> Option<usize> {
        let [(number, left), (other, right)] = pages else { return None };
        if left.count + right.count > JOINED_CHILDREN_MAX {
            return None;
        }
        let mut children = inner::read(memory, self.pages.address(*number), left);
        let moved = inner::read(memory, self.pages.address(*other), right);
        children.extend(moved.iter().enumerate().map(|(at, child)| match at {
            0 => (right.low, child.1),
            _ => *child,
        }));
        (left.right, left.high) = (right.right, right.high);
        inner::write(memory, self.pages.address(*number), left, &children);
        Some(1)
    }
}

/// Takes the mark of a sparse leaf, whose latch is held, away. The leaf does not fit together with
/// its neighbours, and is not compared again until it loses more entries.
fn unmark<M: FullMemory>(memory: &mut M, page: Addr) {
    let mut header = PageHeader::load(memory, page);
    if header.sparse {
        header.sparse = false;
        header.store(memory, page);
    }
}
