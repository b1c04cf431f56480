//! Joins: a page that has lost entries takes the entries of its right neighbour, which is freed.
//!
//! A page looks for a neighbour to join with when it is at most half full. It does so once for each
//! eighth of its entries that it loses. Two neighbours are joined if their entries fill at most
//! seven eighths of a page. So a page that was just joined is not divided at once. Neighbours are
//! below one page, or one of them is not known to the page above.
//!
//! Latches are taken from left to right, then upwards. The latch of the tree's first page comes
//! last.
//!
//! The stores come in this order:
//!
//! 1. The entries are copied to places of the left page that are not in use.
//! 2. The page above forgets the right page. Walks still reach it from its left.
//! 3. The left page takes over the range of the right one.
//! 4. The right page becomes a free page. A walk that comes there begins again.
//!
//! So a walk finds every entry at each moment, also after an error of the device.

use ebbtide_core::{Addr, FullMemory, Value};

use super::BTree;
use super::inner::{self, Known};
use super::leaf;
use super::node::{Header, PageNumber, Shape};
use super::walk::Access;
use crate::row::Row;
use crate::{Corrupt, latch};

/// A page and its header. Its latch is held.
struct Held<K> {
    number: PageNumber,
    page: Addr,
    header: Header<K>,
}

/// A page that has lost an entry. It may have to be joined in turn.
struct Shrunk<K> {
    level: u8,
    low: Option<K>,
    entries: u64,
}

/// True if a page with `entries` entries left, of at most `most`, must look for a neighbour.
fn is_due(entries: u64, most: u64) -> bool {
    entries <= 1 || entries <= most / 2 && entries.is_multiple_of((most / 8).max(1))
}

/// True if the entries of two pages fit into one.
fn fit(one: u64, other: u64, most: u64) -> bool {
    let room = if one.min(other) <= 1 { most } else { most - most / 8 };
    one + other <= room
}

fn most_of<K: Value, R: Row>(level: u8) -> u64 {
    if level == 0 { Shape::<K, R>::ROWS } else { Shape::<K, R>::CHILDREN }
}

fn entries_of<K>(header: &Header<K>) -> u64 {
    if header.level == 0 {
        header.live.iter().map(|word| u64::from(word.count_ones())).sum()
    } else {
        u64::from(header.children)
    }
}

/// True if a leaf that has lost a row must look for a neighbour.
pub(super) fn is_leaf_due<K: Value, R: Row>(leaf: &Header<K>) -> bool {
    let is_alone = leaf.low.is_none() && leaf.high.is_none();
    !is_alone && is_due(entries_of(leaf), Shape::<K, R>::ROWS)
}

impl<K: Value + Ord, R: Row> BTree<K, R> {
    /// Joins the leaf that holds `low`, which has lost rows, with a neighbour if their rows fit
    /// into one leaf. Then does the same with the pages above.
    pub(super) fn join<M: FullMemory>(
        &self,
        memory: &mut M,
        low: Option<K>,
    ) -> Result<(), Corrupt> {
        let (mut level, mut low) = (0, low);
        while let Some(shrunk) = self.join_beside(memory, level, low)? {
            (level, low) = (shrunk.level, shrunk.low);
            if shrunk.level > 0 && shrunk.entries == 1 {
                self.lower_root(memory)?;
            }
            if !is_due(shrunk.entries, most_of::<K, R>(shrunk.level)) {
                break;
            }
        }
        Ok(())
    }

    /// Joins the page of `level` that holds `low` with its left or its right neighbour. If that
    /// takes an entry from a page above, returns that page.
    fn join_beside<M: FullMemory>(
        &self,
        memory: &mut M,
        level: u8,
        low: Option<K>,
    ) -> Result<Option<Shrunk<K>>, Corrupt> {
        let above =
            self.at_page(memory, (low, level + 1), Access::Read, |memory, page, header| {
                Ok(inner::around::<M, K, R>(memory, page, &header, low))
            })?;
        let around = match (above, self.own(memory).root()) {
            (Some(around), _) => around,
            // Pages to the right of the root, when there was no page for a new root above them.
            (None, Some((root, root_level))) if root_level == level => [None, Some(root)],
            (None, _) => return Ok(None),
        };
        for left in around.into_iter().flatten() {
            let shrunk = self.join_right(memory, level, left)?;
            if shrunk.is_some() {
                return Ok(shrunk);
            }
        }
        Ok(None)
    }

    /// Joins a page of `level` with its right neighbour, if their entries fit into one.
    fn join_right<M: FullMemory>(
        &self,
        memory: &mut M,
        level: u8,
        left: PageNumber,
    ) -> Result<Option<Shrunk<K>>, Corrupt> {
        self.hold(memory, level, left, |memory, left| {
            let next = left.header.right;
            if next == 0 {
                return Ok(None);
            }
            self.hold(memory, level, next, |memory, right| {
                let (one, other) = (entries_of(&left.header), entries_of(&right.header));
                match right.header.low {
                    Some(low) if fit(one, other, most_of::<K, R>(level)) => {
                        self.join_held(memory, &left, &right, low)
                    }
                    _ => Ok(None),
                }
            })
        })
    }

    /// Runs `body` with the latch of a page held, unless the page is not of `level`.
    fn hold<M: FullMemory, T>(
        &self,
        memory: &mut M,
        level: u8,
        number: PageNumber,
        body: impl FnOnce(&mut M, Held<K>) -> Result<Option<T>, Corrupt>,
    ) -> Result<Option<T>, Corrupt> {
        let page = self.address(number)?;
        latch::write(memory, page, |memory| {
            match Header::load::<M, R>(memory, page).filter(|header| header.level == level) {
                Some(header) => body(memory, Held { number, page, header }),
                None => Ok(None),
            }
        })
    }

    /// Moves the entries of `right`, which begins at `low`, to its left neighbour.
    fn join_held<M: FullMemory>(
        &self,
        memory: &mut M,
        left: &Held<K>,
        right: &Held<K>,
        low: K,
    ) -> Result<Option<Shrunk<K>>, Corrupt> {
        let level = left.header.level;
        let above = (Some(low), level + 1);
        let shrunk = self.at_page(memory, above, Access::Write, |memory, page, header| {
            let known = inner::known::<M, K, R>(memory, page, &header, (low, right.number));
            let place = match known {
                Known::At(place) => Some(place),
                Known::Not => None,
                Known::First | Known::Other => return Ok(None),
            };
            let wider = take_over::<M, K, R>(memory, left, right, low);
            let entries = u64::from(header.children) - u64::from(place.is_some());
            latch::write(memory, self.base, |memory| {
                if let Some(place) = place {
                    inner::remove::<M, K, R>(memory, page, header, place);
                }
                self.replace_both(memory, left, right, wider);
            });
            Ok(Some(Shrunk { level: level + 1, low: header.low, entries }))
        })?;
        if let Some(shrunk) = shrunk {
            return Ok(shrunk);
        }
        // There is no page above: the left page is the root, and must still be the root when the
        // right one goes.
        let wider = take_over::<M, K, R>(memory, left, right, low);
        latch::write(memory, self.base, |memory| {
            if self.own(memory).root() != Some((left.number, level)) {
                return Ok(None);
            }
            self.replace_both(memory, left, right, wider);
            Ok(Some(Shrunk { level, low: None, entries: 1 }))
        })
    }

    /// Replaces the header of the left page and frees the right one. The latch of the tree's first
    /// page is held as well.
    fn replace_both<M: FullMemory>(
        &self,
        memory: &mut M,
        left: &Held<K>,
        right: &Held<K>,
        wider: Header<K>,
    ) {
        let own = self.own(memory);
        left.header.replace::<M, R>(memory, left.page, wider);
        self.give_back(memory, own, right.number, right.page);
    }

    /// Makes the only child of the root the new root, until the root has several children.
    fn lower_root<M: FullMemory>(&self, memory: &mut M) -> Result<(), Corrupt> {
        while let Some((root, level)) = self.own(memory).root().filter(|(_, level)| *level > 0) {
            let lowered = self.hold(memory, level, root, |memory, Held { page, header, .. }| {
                let is_whole = header.low.is_none() && header.right == 0;
                if header.children != 1 || !is_whole {
                    return Ok(None);
                }
                let child = inner::child::<M, K, R>(memory, page, &header, None);
                self.address(child)?;
                latch::write(memory, self.base, |memory| {
                    let own = self.own(memory);
                    if own.root() != Some((root, level)) {
                        return Ok(None);
                    }
                    self.set_root(memory, child, level - 1);
                    self.give_back(memory, own, root, page);
                    Ok(Some(()))
                })
            })?;
            if lowered.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// Copies the entries of `right`, which begins at `low`, to unused places of `left`. Returns the
/// header that includes them.
fn take_over<M: FullMemory, K: Value + Ord, R: Row>(
    memory: &mut M,
    left: &Held<K>,
    right: &Held<K>,
    low: K,
) -> Header<K> {
    let Header { high, right: next, .. } = right.header;
    let mut wider = Header { high, right: next, ..left.header };
    if left.header.level > 0 {
        let mut children = inner::all::<M, K, R>(memory, right.page, &right.header);
        // The first separator is undefined.
        if let Some(first) = children.first_mut() {
            first.0 = low;
        }
        let from = u64::from(left.header.children);
        wider.children += inner::write::<M, K, R>(memory, left.page, from, &children);
        return wider;
    }
    let rows = Shape::<K, R>::ROWS;
    let free = (0..rows).filter(|&slot| !left.header.is_live(slot));
    for (from, to) in right.header.live_slots(rows).zip(free) {
        leaf::copy::<M, K, R>(memory, (right.page, from), (left.page, to));
        wider.set_live(to, true);
    }
    wider
}
