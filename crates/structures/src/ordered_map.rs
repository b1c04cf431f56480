//! [`OrderedMap`]: words by byte strings, in order, in a [`BTree`].

use std::ops::ControlFlow;

use bytemuck::{Pod, Zeroable};
use ebbtide_core::{Addr, LINE_BYTES, Memory};

use super::{BTree, Wrong};

/// Words by byte strings of up to [`KEY_BYTES_MAX`](OrderedMap::KEY_BYTES_MAX) bytes, in order; empty at
/// first.
///
/// It is a [`BTree`] whose keys take a line each. So it has a latch for each page, and jobs on all cores
/// change it at once, also inside [transactions](Memory::transaction). Pages whose keys are removed serve
/// others.
#[derive(Debug, Clone, Copy)]
pub struct OrderedMap {
    tree: BTree<Key, u64>,
}

/// A byte string as numbers with the same order: its bytes, zeros, and its length in the last byte. The
/// length tells it from a string that ends with zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Pod, Zeroable)]
#[repr(transparent)]
struct Key([u64; LINE_BYTES / 8]);

impl Key {
    /// # Errors
    /// [`Wrong`] when it is too long.
    fn new(key: &[u8]) -> Result<Key, Wrong> {
        let (most, length) = (OrderedMap::KEY_BYTES_MAX, key.len());
        if length > most {
            return Err(Wrong(format!("a key has at most {most} bytes, not {length}")));
        }
        let mut bytes = [0; LINE_BYTES];
        bytes[..length].copy_from_slice(key);
        bytes[most] = length as u8;
        let words: [[u8; 8]; LINE_BYTES / 8] = bytemuck::cast(bytes);
        Ok(Key(words.map(u64::from_be_bytes)))
    }

    fn bytes(&self) -> Vec<u8> {
        let bytes: [u8; LINE_BYTES] = bytemuck::cast(self.0.map(u64::to_be_bytes));
        let length = usize::from(bytes[OrderedMap::KEY_BYTES_MAX]);
        bytes[..length.min(OrderedMap::KEY_BYTES_MAX)].to_vec()
    }
}

impl OrderedMap {
    /// The longest key, in bytes.
    pub const KEY_BYTES_MAX: usize = LINE_BYTES - 1;

    /// Pages for `keys` keys that come in order. Keys that come and go in any order may need 2.3 times as
    /// many.
    pub const fn pages_for(keys: u64) -> u64 {
        BTree::<Key, u64>::pages_for(keys)
    }

    /// Bytes that a map of `pages` pages takes.
    pub const fn bytes(pages: u64) -> u64 {
        BTree::<Key, u64>::bytes(pages)
    }

    /// The map in the [`bytes`](OrderedMap::bytes) from `base` on. A range of zeros is an empty one.
    ///
    /// # Panics
    /// If `base` is not the start of a page.
    pub fn at(base: Addr, pages: u64) -> OrderedMap {
        OrderedMap { tree: BTree::at(base, pages) }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`Wrong`] if the pages are not those of the map, or the key is too long.
    pub fn get<M: Memory>(&self, memory: &mut M, key: &[u8]) -> Result<Option<u64>, Wrong> {
        self.tree.get(memory, Key::new(key)?)
    }

    /// Sets the value of `key`, and returns the old one.
    ///
    /// # Errors
    /// As for [`get`](OrderedMap::get), and when there is no page for a new key. Nothing is then changed.
    pub fn put<M: Memory>(
        &self,
        memory: &mut M,
        key: &[u8],
        value: u64,
    ) -> Result<Option<u64>, Wrong> {
        self.tree.insert(memory, Key::new(key)?, value)
    }

    /// Removes `key`, and returns the value it had.
    ///
    /// # Errors
    /// As for [`get`](OrderedMap::get).
    pub fn remove<M: Memory>(&self, memory: &mut M, key: &[u8]) -> Result<Option<u64>, Wrong> {
        self.tree.remove(memory, Key::new(key)?)
    }

    /// The first `limit` keys from `from` on, in order, with their values.
    ///
    /// About fifty keys at a time are read in one step; the list as a whole is atomic in a
    /// [transaction](Memory::transaction) alone.
    ///
    /// # Errors
    /// As for [`get`](OrderedMap::get).
    pub fn list<M: Memory>(
        &self,
        memory: &mut M,
        from: &[u8],
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, u64)>, Wrong> {
        let (from, mut found) = (Key::new(from)?, Vec::new());
        if limit > 0 {
            self.tree.scan(memory, from.., |_, key, value| {
                found.push((key.bytes(), value));
                if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ebbtide_testbed::Plain;
    use proptest::prelude::*;

    use super::*;

    /// Keys that share prefixes and end with zeros or the greatest byte.
    fn keys() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0, 1, 200, 255u8]), 0..64)
    }

    proptest! {
        #[test]
        fn it_does_what_a_map_of_byte_strings_does(
            changes in prop::collection::vec((keys(), any::<Option<u64>>()), 0..300),
            from in keys(),
            limit in 0..50usize,
        ) {
            let (mut memory, map) = (Plain::zeroed(OrderedMap::bytes(40)), OrderedMap::at(Addr(0), 40));
            let mut model = BTreeMap::new();
            for (key, value) in changes {
                let (before, expected) = match value {
                    Some(value) => {
                        (map.put(&mut memory, &key, value), model.insert(key.clone(), value))
                    }
                    None => (map.remove(&mut memory, &key), model.remove(&key)),
                };
                prop_assert_eq!(before, Ok(expected));
                prop_assert_eq!(map.get(&mut memory, &key), Ok(value));
            }
            let listed: Vec<(Vec<u8>, u64)> =
                model.range(from.clone()..).take(limit).map(|(key, value)| (key.clone(), *value)).collect();
            prop_assert_eq!(map.list(&mut memory, &from, limit), Ok(listed));
        }
    }

    #[test]
    fn a_key_that_is_too_long_is_an_error_that_says_so() {
        let (mut memory, map) = (Plain::zeroed(OrderedMap::bytes(4)), OrderedMap::at(Addr(0), 4));
        assert_eq!(map.put(&mut memory, &[7; 63], 1), Ok(None));
        let Wrong(said) = map.put(&mut memory, &[7; 64], 1).unwrap_err();
        assert_eq!(said, "a key has at most 63 bytes, not 64");
    }
}
