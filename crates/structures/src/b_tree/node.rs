//! The layout of a page of a [`BTree`](super::BTree), and the first words of every page.

use std::marker::PhantomData;

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, Value};

use crate::row::Row;
use crate::{PAGE, slot_bytes};

/// The number of a page, counted from the tree's first page. That one is no node, so 0 stands for
/// none.
pub(super) type PageNumber = u32;

/// The words behind a page's latch that change in one store: the packed word, and the slots in use.
const HEAD: u64 = 8;
const HEAD_WORDS: usize = 1 + LIVE_WORDS;
const LIVE_WORDS: usize = 4;

/// The offset of the fences. Wide keys may need padding before them.
const FENCES: u64 = HEAD + HEAD_WORDS as u64 * 8;

/// The most rows of a leaf, one bit each.
const ROWS_MAX: u64 = LIVE_WORDS as u64 * 64;

/// Bits of the packed word: the page is a node, has a lower fence, has an upper fence, and the
/// place of the upper fence.
const NODE: u64 = 1 << 63;
const HAS_LOW: u64 = 1 << 62;
const HAS_HIGH: u64 = 1 << 61;
const HIGH_SIDE: u64 = 1 << 60;

/// The layout of pages of a tree with keys of type `K` and rows of type `R`, in bytes from a page's
/// start.
///
/// Every page: latch; packed word; four words of slots in use; lower fence; upper fence, in one of
/// two places. A leaf goes on with a one-byte tag for each slot, then keys; rows end with the page.
/// An inner page goes on with separators; the numbers of its children, four bytes each, end with
/// the page.
pub(super) struct Shape<K, R>(PhantomData<(K, R)>);

impl<K: Value, R: Row> Shape<K, R> {
    pub(super) const KEY_BYTES: u64 = slot_bytes::<K>();
    /// A row of up to a line crosses no line. So it is read and written in one access.
    pub(super) const ROW_BYTES: u64 = {
        let bytes = R::WORDS as u64 * 8;
        if bytes <= LINE_BYTES as u64 { bytes.next_power_of_two() } else { bytes }
    };
    const LOW: u64 = FENCES.next_multiple_of(Self::KEY_BYTES);
    const HIGHS: u64 = Self::LOW + Self::KEY_BYTES;
    const BODY: u64 = Self::HIGHS + 2 * Self::KEY_BYTES;

    pub(super) const TAGS: u64 = Self::BODY;
    const fn keys(rows: u64) -> u64 {
        (Self::TAGS + rows.next_multiple_of(8)).next_multiple_of(Self::KEY_BYTES)
    }
    /// The most rows of a leaf.
    pub(super) const ROWS: u64 = {
        let mut rows = ROWS_MAX;
        while Self::keys(rows) + rows * (Self::KEY_BYTES + Self::ROW_BYTES) > PAGE {
            rows -= 1;
        }
        assert!(rows >= 2, "a leaf holds less than two rows");
        rows
    };
    pub(super) const KEYS: u64 = Self::keys(Self::ROWS);
    pub(super) const ROWS_AT: u64 = PAGE - Self::ROWS * Self::ROW_BYTES;

    pub(super) const SEPARATORS: u64 = Self::BODY;
    /// The most children of an inner page. They are stored in pairs.
    pub(super) const CHILDREN: u64 = (PAGE - Self::BODY) / (2 * Self::KEY_BYTES + 8) * 2;
    pub(super) const CHILDREN_AT: u64 = PAGE - Self::CHILDREN * 4;
}

/// The first words of a page.
///
/// The page holds the keys from `low` on to below `high`; `None` stands for no bound. `right` is
/// the next page on the same level. A walk that meets a page just divided finds the other half
/// there. (Lehman and Yao, "Efficient Locking for Concurrent Operations on B-Trees", TODS 1981.)
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Header<K> {
    /// 0 for leaves.
    pub(super) level: u8,
    pub(super) right: PageNumber,
    pub(super) low: Option<K>,
    pub(super) high: Option<K>,
    /// Children of an inner page.
    pub(super) children: u16,
    /// The slots of a leaf that hold rows, one bit each.
    pub(super) live: [u64; LIVE_WORDS],
    /// The place of the upper fence. [`replace`](Header::replace) chooses it.
    pub(super) side: bool,
}

impl<K: Value + Ord> Header<K> {
    /// The header of a page without rows and children.
    pub(super) fn new(level: u8, right: PageNumber, low: Option<K>, high: Option<K>) -> Header<K> {
        Header { level, right, low, high, children: 0, live: [0; LIVE_WORDS], side: false }
    }

    /// Loads the header of the page at `page`; `None` if the page is no node.
    pub(super) fn load<M: FullMemory, R: Row>(memory: &mut M, page: Addr) -> Option<Header<K>> {
        let line = memory.line(page);
        let packed = line[1];
        if packed & NODE == 0 {
            return None;
        }
        let side = packed & HIGH_SIDE != 0;
        let mut fence = |has: u64, at: u64| (packed & has != 0).then(|| memory.load(page + at));
        Some(Header {
            level: (packed >> 48) as u8 & 0xf,
            right: packed as PageNumber,
            low: fence(HAS_LOW, Shape::<K, R>::LOW),
            high: fence(HAS_HIGH, high_at::<K, R>(side)),
            children: (packed >> 32) as u16,
            live: std::array::from_fn(|word| line[2 + word]),
            side,
        })
    }

    fn words(&self) -> [u64; HEAD_WORDS] {
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        let packed = NODE
            | flag(self.low.is_some(), HAS_LOW)
            | flag(self.high.is_some(), HAS_HIGH)
            | flag(self.side, HIGH_SIDE)
            | u64::from(self.level) << 48
            | u64::from(self.children) << 32
            | u64::from(self.right);
        let [a, b, c, d] = self.live;
        [packed, a, b, c, d]
    }

    /// Writes the header of a new page.
    pub(super) fn write<M: FullMemory, R: Row>(&self, memory: &mut M, page: Addr) {
        for (fence, at) in [(self.low, Shape::<K, R>::LOW), (self.high, high_at::<K, R>(self.side))]
        {
            if let Some(fence) = fence {
                memory.store(page + at, fence);
            }
        }
        memory.store(page + HEAD, self.words());
    }

    /// Replaces the header `self` of a page, whose latch is held, by `new` in one store. So if an
    /// error of the device interrupts the change, it is seen whole or not at all. The lower fence
    /// and the level stay.
    pub(super) fn replace<M: FullMemory, R: Row>(self, memory: &mut M, page: Addr, new: Header<K>) {
        let side = if self.high == new.high { self.side } else { !self.side };
        let new = Header { side, ..new };
        if let Some(high) = new.high.filter(|_| side != self.side) {
            memory.store(page + high_at::<K, R>(side), high);
        }
        store_changed(memory, page + HEAD, &self.words(), &new.words());
    }

    /// Returns true if a slot of a leaf holds a row.
    pub(super) fn is_live(&self, slot: u64) -> bool {
        self.live[slot as usize / 64] & 1 << (slot % 64) != 0
    }

    /// The slots of a leaf of `rows` slots that hold rows.
    pub(super) fn live_slots(&self, rows: u64) -> impl Iterator<Item = u64> {
        (0..rows).filter(|&slot| self.is_live(slot))
    }

    /// Notes that a slot holds a row, or holds none any more.
    pub(super) fn set_live(&mut self, slot: u64, live: bool) {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        self.live[word] = if live { self.live[word] | bit } else { self.live[word] & !bit };
    }
}

/// Returns the offset of the upper fence.
const fn high_at<K: Value, R: Row>(side: bool) -> u64 {
    Shape::<K, R>::HIGHS + if side { Shape::<K, R>::KEY_BYTES } else { 0 }
}

/// Turns the page at `page` into a free one that names the next free page.
pub(super) fn write_free<M: FullMemory>(memory: &mut M, page: Addr, next: PageNumber) {
    memory.store(page + HEAD, u64::from(next));
}

/// Loads the words that [`write_free`] wrote; `None` if the page is a node.
pub(super) fn load_free<M: FullMemory>(memory: &mut M, page: Addr) -> Option<PageNumber> {
    let word: u64 = memory.load(page + HEAD);
    PageNumber::try_from(word).ok()
}

/// Replaces the words at `at`. In a transaction, stores only the words that change, so the log has
/// no others. Otherwise, stores the words of one line in one access, which an error of the device
/// cannot divide.
pub(super) fn store_changed<M: FullMemory>(memory: &mut M, at: Addr, old: &[u64], new: &[u64]) {
    if memory.latches().is_none() {
        return store_words(memory, at, new);
    }
    let changed = old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new);
    for (word, (_, new)) in changed {
        memory.store(at + word as u64 * 8, *new);
    }
}

/// Stores words, one access for each line.
pub(super) fn store_words<M: FullMemory>(memory: &mut M, at: Addr, words: &[u64]) {
    let (mut at, mut left) = (at, words);
    while !left.is_empty() {
        let room = (LINE_BYTES - at.0 as usize % LINE_BYTES) / 8;
        let (piece, later) = left.split_at(left.len().min(room));
        match *piece {
            [a] => memory.store(at, [a]),
            [a, b] => memory.store(at, [a, b]),
            [a, b, c] => memory.store(at, [a, b, c]),
            [a, b, c, d] => memory.store(at, [a, b, c, d]),
            [a, b, c, d, e] => memory.store(at, [a, b, c, d, e]),
            [a, b, c, d, e, f] => memory.store(at, [a, b, c, d, e, f]),
            [a, b, c, d, e, f, g] => memory.store(at, [a, b, c, d, e, f, g]),
            [a, b, c, d, e, f, g, h] => memory.store(at, [a, b, c, d, e, f, g, h]),
            _ => unreachable!("a line has eight words"),
        }
        at = at + piece.len() as u64 * 8;
        left = later;
    }
}
