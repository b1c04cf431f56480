//! A leaf: slots with a key and its row.
//!
//! Slots are in no order. A bitmap records which are in use, and a one-byte tag of each key records
//! which are worth comparing. So one store of the header adds or removes a row, and the log has
//! only its words. This is the leaf of FPTree (Oukid, Lasperas, Nica, Willhalm and Lehner, "FPTree:
//! A Hybrid SCM-DRAM Persistent and Concurrent B-Tree for Storage Class Memory", SIGMOD 2016).

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, Value};

use super::node::{Header, Shape, store_changed, store_words};
use crate::hash::mix;
use crate::row::Row;

/// The tag of a key, by its bits.
fn tag_of<K: Value>(key: &K) -> u8 {
    let words = bytemuck::bytes_of(key).as_chunks::<8>().0;
    words.iter().fold(0, |hash, word| mix(hash ^ u64::from_ne_bytes(*word))) as u8
}

fn key_at<K: Value, R: Row>(page: Addr, slot: u64) -> Addr {
    page + Shape::<K, R>::KEYS + slot * Shape::<K, R>::KEY_BYTES
}

fn row_at<K: Value, R: Row>(page: Addr, slot: u64) -> Addr {
    page + Shape::<K, R>::ROWS_AT + slot * Shape::<K, R>::ROW_BYTES
}

/// Finds the slot of `key`.
pub(super) fn find<M: FullMemory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: &Header<K>,
    key: &K,
) -> Option<u64> {
    let tag = tag_of(key);
    let rows = Shape::<K, R>::ROWS;
    let mut first = 0;
    while first < rows {
        let at = page + Shape::<K, R>::TAGS + first;
        let tags: [u8; LINE_BYTES] = bytemuck::cast(memory.line(at));
        let same = tags.iter().rev().fold(0u64, |same, other| same << 1 | u64::from(*other == tag));
        let offset = at.0 % LINE_BYTES as u64;
        let mut same = same >> offset;
        while same != 0 {
            let slot = first + u64::from(same.trailing_zeros());
            same &= same - 1;
            let may_be = slot < rows && header.is_live(slot);
            if may_be && memory.load::<K>(key_at::<K, R>(page, slot)) == *key {
                return Some(slot);
            }
        }
        first += LINE_BYTES as u64 - offset;
    }
    None
}

/// The row in a slot.
pub(super) fn row<M: FullMemory, K: Value, R: Row>(memory: &mut M, page: Addr, slot: u64) -> R {
    let mut row = R::zeroed();
    memory.read_bytes(row_at::<K, R>(page, slot), bytemuck::bytes_of_mut(&mut row));
    row
}

fn words<R: Row>(row: &R) -> &[u64] {
    bytemuck::cast_slice(std::slice::from_ref(row))
}

/// Replaces the row `old` in a slot. The page's latch is held.
pub(super) fn replace<M: FullMemory, K: Value, R: Row>(
    memory: &mut M,
    page: Addr,
    slot: u64,
    old: &R,
    new: &R,
) {
    store_changed(memory, row_at::<K, R>(page, slot), words(old), words(new));
}

/// Returns a slot that holds no row.
pub(super) fn free_slot<K: Value + Ord, R: Row>(header: &Header<K>) -> Option<u64> {
    (0..Shape::<K, R>::ROWS).find(|&slot| !header.is_live(slot))
}

/// Writes a row into a free slot. The row counts once the header includes it. The page's latch is
/// held.
pub(super) fn fill<M: FullMemory, K: Value, R: Row>(
    memory: &mut M,
    page: Addr,
    slot: u64,
    key: &K,
    row: &R,
) {
    store_words(memory, row_at::<K, R>(page, slot), words(row));
    memory.store(key_at::<K, R>(page, slot), *key);
    let at = page + Shape::<K, R>::TAGS + slot / 8 * 8;
    let mut tags: [u8; 8] = memory.load(at);
    tags[slot as usize % 8] = tag_of(key);
    memory.store(at, tags);
}

/// Copies a row and its key to a free slot of another page; see [`fill`].
pub(super) fn copy<M: FullMemory, K: Value, R: Row>(
    memory: &mut M,
    (from, from_slot): (Addr, u64),
    (to, to_slot): (Addr, u64),
) {
    let key: K = memory.load(key_at::<K, R>(from, from_slot));
    let row = row::<M, K, R>(memory, from, from_slot);
    fill::<M, K, R>(memory, to, to_slot, &key, &row);
}

/// The keys of a leaf in order, each with its slot.
pub(super) fn keys<M: FullMemory, K: Value + Ord, R: Row>(
    memory: &mut M,
    page: Addr,
    header: &Header<K>,
) -> Vec<(K, u64)> {
    let live = header.live_slots(Shape::<K, R>::ROWS);
    let mut keys: Vec<(K, u64)> =
        live.map(|slot| (memory.load(key_at::<K, R>(page, slot)), slot)).collect();
    keys.sort_unstable();
    keys
}
