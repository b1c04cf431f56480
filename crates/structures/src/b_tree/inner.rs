//! An inner page: separators, and the child for each range of keys.
//!
//! Child `i` holds the keys from separator `i` on to below the next. The first child's separator is
//! not read, because the page's lower fence is the same. Separators and children move one by one.
//! If an error of the device interrupts that, a walk meets the right child, or one on its left.
//! From there it goes on to the right.

use std::panic::resume_unwind;

use ebbtide_core::{Addr, FullMemory, Value};

use super::node::{Header, PageNumber, Shape};
use crate::retry::retry_faults;
use crate::row::Row;

/// A separator and its child.
pub(super) type Child<K> = (K, PageNumber);

fn separator_at<K: Value, R: Row>(page: Addr, index: u64) -> Addr {
    page + Shape::<K, R>::SEPARATORS + index * Shape::<K, R>::KEY_BYTES
}

fn pair_at<K: Value, R: Row>(page: Addr, index: u64) -> Addr {
    page + Shape::<K, R>::CHILDREN_AT + index / 2 * 8
}

fn load_number<M: FullMemory, K: Value, R: Row>(
    memory: &mut M,
    page: Addr,
    index: u64,
) -> PageNumber {
    let pair: [u32; 2] = memory.load(pair_at::<K, R>(page, index));
    pair[index as usize % 2]
}

fn store_number<M: FullMemory, K: Value, R: Row>(
    memory: &mut M,
    page: Addr,
    index: u64,
    number: PageNumber,
) {
    let at = pair_at::<K, R>(page, index);
    let mut pair: [u32; 2] = memory.load(at);
    pair[index as usize % 2] = number;
    memory.store(at, pair);
}

/// Returns the index of the child that holds `key`. `None` stands for the range before all keys.
fn index_of<M: FullMemory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: &Header<K>,
    key: Option<K>,
) -> u64 {
    let Some(key) = key else { return 0 };
    let (mut least, mut beyond) = (0, u64::from(header.children).min(Shape::<K, R>::CHILDREN));
    while beyond - least > 1 {
        let middle = least + (beyond - least) / 2;
        let separator: K = memory.load(separator_at::<K, R>(page, middle));
        if separator <= key { least = middle } else { beyond = middle }
    }
    least
}

/// Returns the child that holds `key`.
pub(super) fn child<M: FullMemory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: &Header<K>,
    key: Option<K>,
) -> PageNumber {
    let index = index_of::<M, K, R>(memory, page, header, key);
    load_number::<M, K, R>(memory, page, index)
}

/// Returns at most `count` children after the one that holds `key`, with their separators.
pub(super) fn following<M: FullMemory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: &Header<K>,
    key: Option<K>,
    count: u64,
) -> Vec<Child<K>> {
    let first = index_of::<M, K, R>(memory, page, header, key) + 1;
    let beyond = u64::from(header.children).min(Shape::<K, R>::CHILDREN).min(first + count);
    read::<M, K, R>(memory, page, first..beyond)
}

/// Returns the child that holds `key`, and the child before it.
pub(super) fn around<M: FullMemory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: &Header<K>,
    key: Option<K>,
) -> [Option<PageNumber>; 2] {
    let index = index_of::<M, K, R>(memory, page, header, key);
    let mut number = |index| load_number::<M, K, R>(memory, page, index);
    [index.checked_sub(1).map(&mut number), Some(number(index))]
}

/// The place of a page in the inner page above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// The page is the first child. No other page can take that place.
    First,
    /// The page is the child of this index.
    At(u64),
    /// The page is no child: a walk finds it from its left.
    Not,
    /// Another page has its place.
    Other,
}

/// Returns the place of `child` in the inner page at `page`, whose range includes the start of
/// `child`.
pub(super) fn known<M: FullMemory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: &Header<K>,
    (separator, number): Child<K>,
) -> Known {
    let place = index_of::<M, K, R>(memory, page, header, Some(separator));
    if place == 0 {
        return if header.low == Some(separator) { Known::First } else { Known::Not };
    }
    let there: K = memory.load(separator_at::<K, R>(page, place));
    match there == separator {
        false => Known::Not,
        true if load_number::<M, K, R>(memory, page, place) == number => Known::At(place),
        true => Known::Other,
    }
}

fn read<M: FullMemory, K: Value, R: Row>(
    memory: &mut M,
    page: Addr,
    indices: std::ops::Range<u64>,
) -> Vec<Child<K>> {
    let one = |index| {
        let separator = memory.load(separator_at::<K, R>(page, index));
        (separator, load_number::<M, K, R>(memory, page, index))
    };
    indices.map(one).collect()
}

/// Writes children from index `from` on, beyond those in the header of the page. The page's latch
/// is held. Returns the number of children written.
pub(super) fn write<M: FullMemory, K: Value, R: Row>(
    memory: &mut M,
    page: Addr,
    from: u64,
    children: &[Child<K>],
) -> u16 {
    for (index, child) in (from..).zip(children) {
        put::<M, K, R>(memory, page, index, *child);
    }
    children.len() as u16
}

fn put<M: FullMemory, K: Value, R: Row>(
    memory: &mut M,
    page: Addr,
    index: u64,
    (separator, number): Child<K>,
) {
    store_number::<M, K, R>(memory, page, index, number);
    memory.store(separator_at::<K, R>(page, index), separator);
}

/// All children.
pub(super) fn all<M: FullMemory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: &Header<K>,
) -> Vec<Child<K>> {
    let beyond = u64::from(header.children).min(Shape::<K, R>::CHILDREN);
    read::<M, K, R>(memory, page, 0..beyond)
}

/// Adds a child. The page's latch is held, and the page has room.
///
/// # Panics
/// With the device's error, when it keeps failing to take the stores.
pub(super) fn insert<M: FullMemory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: Header<K>,
    new: Child<K>,
) {
    let mut children = all::<M, K, R>(memory, page, &header);
    let place = index_of::<M, K, R>(memory, page, &header, Some(new.0)) as usize + 1;
    children.insert(place, new);
    settle(|| {
        for index in (place..children.len()).rev() {
            put::<M, K, R>(memory, page, index as u64, children[index]);
        }
        let children = header.children + 1;
        header.replace::<M, R>(memory, page, Header { children, ..header });
    });
}

/// Removes the child at `place`, which is not the first. The page's latch is held.
///
/// # Panics
/// As [`insert`].
pub(super) fn remove<M: FullMemory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: Header<K>,
    place: u64,
) {
    let later = read::<M, K, R>(memory, page, place + 1..u64::from(header.children));
    settle(|| {
        write::<M, K, R>(memory, page, place, &later);
        let children = header.children - 1;
        header.replace::<M, R>(memory, page, Header { children, ..header });
    });
}

/// Runs `stores`, which may be repeated, until the device takes them, at most eight times. In a
/// page with only half of the stores, some children are found from their left, and the page cannot
/// be joined.
fn settle(stores: impl FnMut()) {
    retry_faults(stores).unwrap_or_else(|payload| resume_unwind(payload));
}
