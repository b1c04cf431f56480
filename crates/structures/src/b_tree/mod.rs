//! [`BTree`]: rows by key, in order, in a B+-tree whose nodes are pages.
//!
//! Inner pages hold separators and children. Leaves hold each key with its row. This is a B+-tree:
//! Bayer and McCreight, "Organization and Maintenance of Large Ordered Indexes", Acta Informatica
//! 1, 1972; Comer, "The Ubiquitous B-Tree", ACM Computing Surveys 11, 1979, §3. Neighbours in key
//! order share a page, so rows that are often used together are in DRAM together. Inner pages are a
//! few thousandths of the tree. Where they stay in DRAM, a look-up reads flash once.
//!
//! Every page begins with a latch of its own. A reader takes no latch and notices by the version
//! that a page has changed. A writer holds the latch of one leaf. While it divides or joins pages
//! it also holds those of the neighbour and the page above, for a moment. So a writer delays only
//! readers of the same leaf, in a transaction until its stores have taken effect.
//!
//! The tree of a [keyspace](crate::keyspace) is a different one. Its separators are 48 bits of a
//! hash, packed with their child into ten bytes. Its entries have any size, and it has no order of
//! keys.

mod inner;
mod join;
mod leaf;
mod node;
mod walk;

use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, RangeBounds};

use ebbtide_core::{Addr, FullMemory, Hint, Value};

use super::{Corrupt, PAGE, TreeError, check_base};
use crate::latch;
use crate::row::Row;
use inner::Known;
use node::{Header, Shape};
use walk::Access;

/// Leaves that a scan fetches ahead.
const AHEAD: u64 = 16;

/// Rows of fixed size by key, in the order of their keys; empty at first.
///
/// A key is any [`Value`] of 8 to 64 bytes with a total order. Only keys with the same bits may be
/// equal. Examples are numbers, arrays of numbers and arrays of bytes. A row has 1 to 96 words.
///
/// A full leaf is divided. At the end of the tree it stays full and the next one begins empty, so
/// rows that come in order fill their leaves. Other leaves are half full at worst and two thirds
/// full on average.
///
/// A leaf that loses rows is joined with a neighbour when the rows of both fill at most seven
/// eighths of a leaf. Inner pages are joined in the same way. Pages that are freed serve other
/// rows, and a tree that has lost all rows takes one page. There is no count of rows, because every
/// insert would change it.
///
/// Each operation is atomic for other jobs on all cores; several together are in a
/// [transaction](ebbtide_core::Memory::transaction). In a store that survives crashes, changes
/// belong into transactions, since one change is many stores. Outside of a transaction, an error of
/// the device during an update may leave a row of more than 64 bytes half changed.
///
/// ```
/// use std::ops::ControlFlow;
/// use ebbtide_core::Addr;
/// use ebbtide_structures::BTree;
/// use ebbtide_testbed::Plain;
///
/// let mut memory = Plain::zeroed(64 << 12);
/// // Orders by district and number, with customer, carrier and lines.
/// let orders = BTree::<[u64; 2], [u64; 3]>::at(Addr(0), 64);
/// for number in 0..100 {
///     orders.insert(&mut memory, [7, number], [number % 9, 0, 10])?;
/// }
/// orders.update(&mut memory, [7, 98], |order| {
///     order.map(|[customer, _, lines]| [customer, 5, lines])
/// })?;
/// let mut last = Vec::new();
/// orders.scan(&mut memory, [7, 98]..[8, 0], |_, key, order| {
///     last.push((key, order));
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(last, [([7, 98], [8, 5, 10]), ([7, 99], [0, 0, 10])]);
/// # Ok::<(), ebbtide_structures::TreeError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct BTree<K, R> {
    base: Addr,
    pages: u64,
    rows: PhantomData<fn(K) -> R>,
}

/// A page that was made by dividing another, and the lowest key that belongs there.
type Divided<K> = Option<inner::Child<K>>;

/// The result of a change of a row and its leaf.
struct Changed<K, R> {
    /// The previous row.
    found: Option<R>,
    /// The new leaf, if the row's leaf was divided.
    divided: Divided<K>,
    /// True if the leaf has lost rows and must look for a neighbour to join with.
    is_due: bool,
    /// The lower fence of the leaf.
    low: Option<K>,
}

/// What a scan found in a leaf: rows in order, and where the next leaf begins.
type LeafRows<K, R> = (Vec<(K, R)>, Option<K>);

impl<K: Value + Ord, R: Row> BTree<K, R> {
    /// The rows of a full leaf.
    pub const LEAF_ROWS: u64 = Shape::<K, R>::ROWS;

    /// Returns the pages of a tree that `rows` rows fill in order. Rows that come and go in any
    /// order may need 2.3 times as many.
    pub const fn pages_for(rows: u64) -> u64 {
        let leaves = rows.div_ceil(Self::LEAF_ROWS);
        let (mut pages, mut level) = (1 + leaves, leaves);
        while level > 1 {
            level = level.div_ceil(Shape::<K, R>::CHILDREN);
            pages += level;
        }
        // For the first row of a next page.
        pages + 1
    }

    /// Bytes that a tree of `pages` pages takes.
    pub const fn bytes(pages: u64) -> u64 {
        pages.saturating_mul(PAGE)
    }

    /// The tree in the [`bytes`](BTree::bytes) from `base` on, at most 2³² pages. A range of zeros
    /// is an empty one.
    ///
    /// # Panics
    /// If `base` is not the start of a page.
    pub fn at(base: Addr, pages: u64) -> BTree<K, R> {
        check_base(base);
        BTree { base, pages, rows: PhantomData }
    }

    /// Returns the address of its first page.
    pub fn base(&self) -> Addr {
        self.base
    }

    /// Returns the most pages that it may take.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The row of `key`.
    ///
    /// # Errors
    /// [`Corrupt`] if the pages are not those of the tree.
    pub fn get<M: FullMemory>(&self, memory: &mut M, key: K) -> Result<Option<R>, Corrupt> {
        let found = self.at_page(memory, (Some(key), 0), Access::Read, |memory, page, header| {
            let slot = leaf::find::<M, K, R>(memory, page, &header, &key);
            Ok(slot.map(|slot| leaf::row::<M, K, R>(memory, page, slot)))
        });
        found.map(Option::flatten)
    }

    /// Sets the row of `key`, and returns the previous one.
    ///
    /// # Errors
    /// [`TreeError`] if the pages are not those of the tree, or there is none for a new row.
    /// Nothing is then changed.
    pub fn insert<M: FullMemory>(
        &self,
        memory: &mut M,
        key: K,
        row: R,
    ) -> Result<Option<R>, TreeError> {
        self.update(memory, key, |_| Some(row))
    }

    /// Removes `key`, and returns its row.
    ///
    /// # Errors
    /// As for [`get`](BTree::get).
    pub fn remove<M: FullMemory>(&self, memory: &mut M, key: K) -> Result<Option<R>, TreeError> {
        if self.is_empty(memory) { Ok(None) } else { self.update(memory, key, |_| None) }
    }

    /// Replaces the row of `key` by `change` of it in one atomic step, where `None` stands for no
    /// row. Returns the previous row. Of a row that was there, a transaction stores the words that
    /// change alone.
    ///
    /// # Errors
    /// As for [`insert`](BTree::insert).
    ///
    /// # Panics
    /// When `change` panics. Nothing is then changed.
    pub fn update<M: FullMemory>(
        &self,
        memory: &mut M,
        key: K,
        change: impl FnOnce(Option<R>) -> Option<R>,
    ) -> Result<Option<R>, TreeError> {
        self.plant(memory)?;
        let mut change = Some(change);
        let changed =
            self.at_page(memory, (Some(key), 0), Access::Write, |memory, page, header| {
                let Some(change) = change.take() else { unreachable!("a page is latched once") };
                self.change_row(memory, page, header, key, change)
            });
        let Some(Changed { found, divided, is_due, low }) = changed? else {
            return Err(self.wrong("it has lost its root").into());
        };
        if let Some(new) = divided {
            self.link(memory, 1, new)?;
        }
        if is_due {
            self.join(memory, low)?;
        }
        Ok(found)
    }

    /// Changes a row of the leaf at `page`, whose latch is held.
    fn change_row<M: FullMemory>(
        &self,
        memory: &mut M,
        page: Addr,
        header: Header<K>,
        key: K,
        change: impl FnOnce(Option<R>) -> Option<R>,
    ) -> Result<Changed<K, R>, TreeError> {
        let slot = leaf::find::<M, K, R>(memory, page, &header, &key);
        let found = slot.map(|slot| leaf::row::<M, K, R>(memory, page, slot));
        let (mut divided, mut is_due) = (None, false);
        match (slot.zip(found), change(found)) {
            (None, None) => {}
            (None, Some(row)) => match leaf::free_slot::<K, R>(&header) {
                Some(slot) => add(memory, page, header, slot, (key, &row)),
                None => divided = Some(self.divide_leaf(memory, page, header, (key, &row))?),
            },
            (Some((slot, old)), Some(row)) => {
                leaf::replace::<M, K, R>(memory, page, slot, &old, &row);
            }
            (Some((slot, _)), None) => {
                let mut new = header;
                new.set_live(slot, false);
                header.replace::<M, R>(memory, page, new);
                is_due = join::is_leaf_due::<K, R>(&new);
            }
        }
        Ok(Changed { found, divided, is_due, low: header.low })
    }

    /// Moves the upper half of a full leaf, whose latch is held, to a new page, and adds a row to
    /// either. If the row comes after all others of the tree, the new page holds only that row.
    fn divide_leaf<M: FullMemory>(
        &self,
        memory: &mut M,
        page: Addr,
        header: Header<K>,
        (key, row): (K, &R),
    ) -> Result<inner::Child<K>, TreeError> {
        let mut keys = leaf::keys::<M, K, R>(memory, page, &header);
        let is_last = header.right == 0 && keys.last().is_some_and(|(last, _)| *last < key);
        let upper = keys.split_off(if is_last { keys.len() } else { keys.len() / 2 });
        let separator = upper.first().map_or(key, |(first, _)| *first);
        let number = self.take(memory)?.ok_or_else(|| self.full())?;
        let new_page = self.address(number)?;
        // A walk that was sent to this page before it was freed may arrive now.
        latch::write(memory, new_page, |memory| {
            let mut new = Header::new(0, header.right, Some(separator), header.high);
            let (mut left, mut next) = (header, 0);
            for &(key, slot) in &upper {
                let row = leaf::row::<M, K, R>(memory, page, slot);
                leaf::fill::<M, K, R>(memory, new_page, next, &key, &row);
                new.set_live(next, true);
                left.set_live(slot, false);
                next += 1;
            }
            if key >= separator {
                leaf::fill::<M, K, R>(memory, new_page, next, &key, row);
                new.set_live(next, true);
            }
            new.write::<M, R>(memory, new_page);
            (left.high, left.right) = (Some(separator), number);
            header.replace::<M, R>(memory, page, left);
            if key < separator {
                let left = Header::load::<M, R>(memory, page);
                let slot = left.as_ref().and_then(leaf::free_slot::<K, R>);
                let room = left.zip(slot).ok_or_else(|| self.wrong("a leaf has no half"))?;
                add(memory, page, room.0, room.1, (key, row));
            }
            Ok((separator, number))
        })
    }

    /// Inserts a page into `level`. The page was made by dividing one below that level, and may
    /// have been joined again since. If there is no page left for it, it stays reachable only from
    /// its left.
    fn link<M: FullMemory>(
        &self,
        memory: &mut M,
        level: u8,
        new: inner::Child<K>,
    ) -> Result<(), Corrupt> {
        while !self.grow(memory, level, new)? {
            let place = (Some(new.0), level);
            let link = |memory: &mut M, page, header: Header<K>| -> Result<_, Corrupt> {
                let known = inner::known::<M, K, R>(memory, page, &header, new);
                if known != Known::Not || !self.is_there(memory, level, new)? {
                    return Ok((None, true));
                }
                if u64::from(header.children) < Shape::<K, R>::CHILDREN {
                    inner::insert::<M, K, R>(memory, page, header, new);
                    return Ok((None, true));
                }
                self.divide_inner(memory, page, header, new)
            };
            let divided = self.at_page(memory, place, Access::Write, link)?;
            // The root may have become lower since.
            let Some((above, is_linked)) = divided else { continue };
            if let Some(above) = above {
                self.link(memory, level + 1, above)?;
            }
            if is_linked {
                break;
            }
        }
        Ok(())
    }

    /// Moves the upper half of the children of a full inner page, whose latch is held, to a new
    /// page. If the child `new` comes last on its level, the new page holds only that. Returns the
    /// new page, and true if nothing remains to be done for `new`.
    fn divide_inner<M: FullMemory>(
        &self,
        memory: &mut M,
        page: Addr,
        header: Header<K>,
        new: inner::Child<K>,
    ) -> Result<(Divided<K>, bool), Corrupt> {
        let mut children = inner::all::<M, K, R>(memory, page, &header);
        let is_last = header.right == 0 && children.last().is_some_and(|last| last.0 < new.0);
        let upper = if is_last { vec![new] } else { children.split_off(children.len() / 2) };
        let separator = upper[0].0;
        let Some(number) = self.take(memory)? else { return Ok((None, true)) };
        let new_page = self.address(number)?;
        latch::write(memory, new_page, |memory| {
            let mut right = Header::new(header.level, header.right, Some(separator), header.high);
            right.children = inner::write::<M, K, R>(memory, new_page, 0, &upper);
            right.write::<M, R>(memory, new_page);
            let (high, children) = (Some(separator), children.len() as u16);
            let left = Header { high, children, right: number, ..header };
            header.replace::<M, R>(memory, page, left);
            Ok((Some((separator, number)), is_last))
        })
    }

    /// Calls `visit` with the rows whose keys are in `range`, in order, until it says to stop.
    ///
    /// Each leaf is read in one step; the scan as a whole is atomic in a
    /// [transaction](ebbtide_core::Memory::transaction) alone. No latch is held while `visit` runs,
    /// so it may use this tree.
    ///
    /// # Errors
    /// As for [`get`](BTree::get).
    pub fn scan<M: FullMemory>(
        &self,
        memory: &mut M,
        range: impl RangeBounds<K>,
        mut visit: impl FnMut(&mut M, K, R) -> ControlFlow<()>,
    ) -> Result<(), Corrupt> {
        let mut from = match range.start_bound() {
            Bound::Included(key) | Bound::Excluded(key) => Some(*key),
            Bound::Unbounded => None,
        };
        let goes_on = |key: &K| match range.end_bound() {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        };
        for leaves in 0u64.. {
            if leaves.is_multiple_of(AHEAD) {
                self.fetch_ahead(memory, from, goes_on)?;
            }
            let Some((rows, next)) = self.leaf_rows(memory, from, &range)? else { return Ok(()) };
            for (key, row) in rows {
                if visit(memory, key, row).is_break() {
                    return Ok(());
                }
            }
            from = next.filter(goes_on);
            if from.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The rows in `range` of the leaf that holds `from`.
    fn leaf_rows<M: FullMemory>(
        &self,
        memory: &mut M,
        from: Option<K>,
        range: &impl RangeBounds<K>,
    ) -> Result<Option<LeafRows<K, R>>, Corrupt> {
        self.at_page(memory, (from, 0), Access::Read, |memory, page, header| {
            let keys = leaf::keys::<M, K, R>(memory, page, &header);
            // The leaf that began at `from` may have been freed. Then the leaf on its left holds
            // the range.
            let is_due = |key: &K| from <= Some(*key) && range.contains(key);
            let keys = keys.into_iter().filter(|(key, _)| is_due(key));
            let rows = keys.map(|(key, slot)| (key, leaf::row::<M, K, R>(memory, page, slot)));
            Ok((rows.collect(), header.high))
        })
    }

    /// Hints the leaves that a scan reads after the one that holds `from`.
    fn fetch_ahead<M: FullMemory>(
        &self,
        memory: &mut M,
        from: Option<K>,
        goes_on: impl Fn(&K) -> bool,
    ) -> Result<(), Corrupt> {
        let following = |memory: &mut M, page, header: Header<K>| -> Result<_, Corrupt> {
            Ok(inner::following::<M, K, R>(memory, page, &header, from, AHEAD))
        };
        let leaves = self.at_page(memory, (from, 1), Access::Read, following)?;
        for (_, leaf) in leaves.into_iter().flatten().take_while(|(key, _)| goes_on(key)) {
            memory.hint(Hint::WillNeed(self.address(leaf)?));
        }
        Ok(())
    }
}

/// Adds a row to a leaf, whose latch is held, in a free slot.
fn add<M: FullMemory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: Header<K>,
    slot: u64,
    (key, row): (K, &R),
) {
    leaf::fill::<M, K, R>(memory, page, slot, &key, row);
    let mut new = header;
    new.set_live(slot, true);
    header.replace::<M, R>(memory, page, new);
}
