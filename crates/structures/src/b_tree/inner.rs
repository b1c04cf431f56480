//! An inner page: which child holds which keys.
//!
//! Child `i` holds the keys from separator `i` on to below the next. What the first child's
//! separator says is also the page's lower fence, so nobody looks at it. Separators and children
//! move in an order in which a walk beside them, or after an error of the device, meets the right
//! child or one on its left, from which it goes on to the right.

use ebbtide_core::{Addr, Memory, Value};

use super::node::{Header, PageNumber, Shape};
use crate::silo::Row;

/// A separator and its child.
pub(super) type Child<K> = (K, PageNumber);

fn separator_at<K: Value, R: Row>(page: Addr, index: u64) -> Addr {
    page + Shape::<K, R>::SEPARATORS + index * Shape::<K, R>::KEY_BYTES
}

fn pair_at<K: Value, R: Row>(page: Addr, index: u64) -> Addr {
    page + Shape::<K, R>::CHILDREN_AT + index / 2 * 8
}

fn load_number<M: Memory, K: Value, R: Row>(memory: &mut M, page: Addr, index: u64) -> PageNumber {
    let pair: [u32; 2] = memory.load(pair_at::<K, R>(page, index));
    pair[index as usize % 2]
}

fn store_number<M: Memory, K: Value, R: Row>(
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

/// The index of the child that holds `key`; `None` stands for what is before all keys.
fn index_of<M: Memory, K: Value + Ord, R: Row>(
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

/// The child that holds `key`.
pub(super) fn child<M: Memory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: &Header<K>,
    key: Option<K>,
) -> PageNumber {
    let index = index_of::<M, K, R>(memory, page, header, key);
    load_number::<M, K, R>(memory, page, index)
}

/// At most `count` children that follow the one that holds `key`, with their separators.
pub(super) fn following<M: Memory, K: Value + Ord, R: Row>(
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

/// The child that begins at `separator`, and the one before it.
pub(super) fn beside<M: Memory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: &Header<K>,
    separator: K,
) -> Option<(PageNumber, PageNumber)> {
    let index = index_of::<M, K, R>(memory, page, header, Some(separator));
    let begins = index > 0 && memory.load::<K>(separator_at::<K, R>(page, index)) == separator;
    begins.then(|| {
        let number = load_number::<M, K, R>(memory, page, index);
        (load_number::<M, K, R>(memory, page, index - 1), number)
    })
}

fn read<M: Memory, K: Value, R: Row>(
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

/// Writes the children of a new page, whose latch is held, and gives their number for its header.
pub(super) fn write<M: Memory, K: Value, R: Row>(
    memory: &mut M,
    page: Addr,
    children: &[Child<K>],
) -> u16 {
    for (index, (separator, number)) in (0..).zip(children) {
        store_number::<M, K, R>(memory, page, index, *number);
        memory.store(separator_at::<K, R>(page, index), *separator);
    }
    children.len() as u16
}

/// All children.
pub(super) fn all<M: Memory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: &Header<K>,
) -> Vec<Child<K>> {
    let beyond = u64::from(header.children).min(Shape::<K, R>::CHILDREN);
    read::<M, K, R>(memory, page, 0..beyond)
}

/// Adds a child. The page's latch is held, and it has room.
pub(super) fn insert<M: Memory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: Header<K>,
    new: Child<K>,
) {
    let place = index_of::<M, K, R>(memory, page, &header, Some(new.0)) + 1;
    for index in (place..u64::from(header.children)).rev() {
        let number = load_number::<M, K, R>(memory, page, index);
        store_number::<M, K, R>(memory, page, index + 1, number);
        let separator: K = memory.load(separator_at::<K, R>(page, index));
        memory.store(separator_at::<K, R>(page, index + 1), separator);
    }
    store_number::<M, K, R>(memory, page, place, new.1);
    memory.store(separator_at::<K, R>(page, place), new.0);
    let children = header.children + 1;
    header.replace::<M, R>(memory, page, Header { children, ..header });
}

/// Removes a child that is not the first. The page's latch is held. Says whether it was there.
pub(super) fn remove<M: Memory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: Header<K>,
    (separator, number): Child<K>,
) -> bool {
    let place = index_of::<M, K, R>(memory, page, &header, Some(separator));
    if place == 0 || load_number::<M, K, R>(memory, page, place) != number {
        return false;
    }
    for index in place + 1..u64::from(header.children) {
        let separator: K = memory.load(separator_at::<K, R>(page, index));
        memory.store(separator_at::<K, R>(page, index - 1), separator);
        let number = load_number::<M, K, R>(memory, page, index);
        store_number::<M, K, R>(memory, page, index - 1, number);
    }
    let children = header.children - 1;
    header.replace::<M, R>(memory, page, Header { children, ..header });
    true
}
