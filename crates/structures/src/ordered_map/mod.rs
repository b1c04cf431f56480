//! [`OrderedMap`]: words by byte strings, in order, in a [`BTree`].
//!
//! A row of the tree holds a slice of a key. A longer key goes on in another *layer* of the same
//! tree, to which all keys with that slice lead (as in Masstree: Mao, Kohler and Morris, "Cache
//! Craftiness for Fast Multicore Key-Value Storage", EuroSys 2012, §4). A layer below the top has a
//! row with the number of its rows. A job counts a row before it adds the row. So other jobs do not
//! remove the layer in between.

mod key;

use std::ops::{Bound, ControlFlow};

use ebbtide_core::{Addr, FullMemory};

use super::{BTree, Corrupt, TreeError};
use key::{Key, SLICE_BYTES, TOP};

/// Words by byte strings of up to [`KEY_BYTES_MAX`](OrderedMap::KEY_BYTES_MAX) bytes, in order;
/// empty at first.
///
/// It is a [`BTree`] whose rows have the first 57 bytes of a key. Each 57 bytes more take two
/// further rows, unless another key begins with the same bytes. It has a latch for each page, and
/// jobs on all cores change it at once, also inside
/// [transactions](ebbtide_core::Memory::transaction). Pages whose keys are removed serve others.
#[derive(Debug, Clone, Copy)]
pub struct OrderedMap {
    tree: BTree<Key, u64>,
}

/// The layers that lead to the rest of a key, from the top: the row that leads to each, and its
/// number.
type Path = Vec<(Key, u64)>;

/// The layer of the end of a key, or the last one of a key that is there.
struct Place<'k> {
    layer: u64,
    /// The part of the key in this layer.
    rest: &'k [u8],
    path: Path,
}

impl Place<'_> {
    /// True if the key goes on in a layer that is missing.
    fn is_above_the_end(&self) -> bool {
        self.rest.len() > SLICE_BYTES
    }

    /// The row of the rest of the key.
    fn row(&self) -> Key {
        Key::of(self.layer, self.rest)
    }
}

/// A place in a layer where a list goes on.
struct Spot {
    layer: u64,
    from: Bound<Key>,
    /// Bytes of a key before those in this layer.
    prefix_bytes: usize,
}

impl OrderedMap {
    /// The longest key, in bytes. It bounds the layers that a look-up walks through.
    pub const KEY_BYTES_MAX: usize = 4096;

    /// Pages for `keys` keys of up to 57 bytes that come in order. Keys that come and go in any
    /// order may need 2.3 times as many.
    pub const fn pages_for(keys: u64) -> u64 {
        BTree::<Key, u64>::pages_for(keys)
    }

    /// Bytes that a map of `pages` pages takes.
    pub const fn bytes(pages: u64) -> u64 {
        BTree::<Key, u64>::bytes(pages)
    }

    /// The map in the [`bytes`](OrderedMap::bytes) from `base` on. A range of zeros is an empty
    /// one.
    ///
    /// # Panics
    /// If `base` is not the start of a page.
    pub fn at(base: Addr, pages: u64) -> OrderedMap {
        OrderedMap { tree: BTree::at(base, pages) }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`Corrupt`] if the pages are not those of the map, or the key is too long.
    pub fn get<M: FullMemory>(&self, memory: &mut M, key: &[u8]) -> Result<Option<u64>, Corrupt> {
        check(key)?;
        let place = self.walk(memory, key)?;
        if place.is_above_the_end() { Ok(None) } else { self.tree.get(memory, place.row()) }
    }

    /// Sets the value of `key`, and returns the old one.
    ///
    /// # Errors
    /// As for [`get`](OrderedMap::get), and [`TreeError::Full`] when there is no page for a new
    /// key. Nothing is then changed.
    pub fn put<M: FullMemory>(
        &self,
        memory: &mut M,
        key: &[u8],
        value: u64,
    ) -> Result<Option<u64>, TreeError> {
        check(key)?;
        loop {
            if let Some(old) = self.put_once(memory, key, value)? {
                return Ok(old);
            }
        }
    }

    /// Removes `key`, and returns the value it had.
    ///
    /// # Errors
    /// As for [`get`](OrderedMap::get).
    pub fn remove<M: FullMemory>(
        &self,
        memory: &mut M,
        key: &[u8],
    ) -> Result<Option<u64>, TreeError> {
        check(key)?;
        let mut place = self.walk(memory, key)?;
        if place.is_above_the_end() {
            return Ok(None);
        }
        let old = self.tree.remove(memory, place.row())?;
        if old.is_some() {
            self.leave(memory, &mut place.path)?;
        }
        Ok(old)
    }

    /// The first `limit` keys from `from` on, in order, with their values.
    ///
    /// About fifty keys at a time are read in one step; the list as a whole is atomic in a
    /// [transaction](ebbtide_core::Memory::transaction) alone.
    ///
    /// # Errors
    /// As for [`get`](OrderedMap::get).
    pub fn list<M: FullMemory>(
        &self,
        memory: &mut M,
        from: &[u8],
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, u64)>, Corrupt> {
        let (mut spots, mut prefix) = (self.spots(memory, from)?, from.to_vec());
        let mut found = Vec::new();
        while let Some(spot) = spots.last_mut().filter(|_| found.len() < limit) {
            prefix.truncate(spot.prefix_bytes);
            let (mut below, range) =
                (None, (spot.from, Bound::Excluded(Key::start(spot.layer + 1))));
            self.tree.scan(memory, range, |_, row, value| {
                let (slice, leads_on) = row.slice();
                if leads_on {
                    below = Some((row, slice, value));
                    return ControlFlow::Break(());
                }
                found.push(([&prefix[..], &slice[..]].concat(), value));
                if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            let Some((row, slice, layer)) = below else {
                spots.pop();
                continue;
            };
            spot.from = Bound::Excluded(row);
            prefix.extend_from_slice(&slice);
            let from = Bound::Included(Key::start(layer));
            spots.push(Spot { layer, from, prefix_bytes: prefix.len() });
        }
        Ok(found)
    }

    /// The layers of the key `from`, from the top. A list begins there.
    fn spots<M: FullMemory>(&self, memory: &mut M, from: &[u8]) -> Result<Vec<Spot>, Corrupt> {
        let (mut spots, mut layer, mut prefix_bytes) = (Vec::new(), TOP, 0);
        loop {
            let rest = &from[prefix_bytes..];
            let row = Key::of(layer, rest);
            if rest.len() <= SLICE_BYTES {
                spots.push(Spot { layer, from: Bound::Included(row), prefix_bytes });
                return Ok(spots);
            }
            spots.push(Spot { layer, from: Bound::Excluded(row), prefix_bytes });
            let Some(below) = self.tree.get(memory, row)? else { return Ok(spots) };
            (layer, prefix_bytes) = (below, prefix_bytes + SLICE_BYTES);
        }
    }

    /// Walks to the layer of the end of `key`, or to the last layer that is there.
    fn walk<'k, M: FullMemory>(&self, memory: &mut M, key: &'k [u8]) -> Result<Place<'k>, Corrupt> {
        let mut place = Place { layer: TOP, rest: key, path: Path::new() };
        while place.is_above_the_end() {
            let row = place.row();
            let Some(below) = self.tree.get(memory, row)? else { break };
            place.path.push((row, below));
            (place.layer, place.rest) = (below, &place.rest[SLICE_BYTES..]);
        }
        Ok(place)
    }

    /// As [`put`](OrderedMap::put). `None` if another job has removed or made a layer of the key.
    fn put_once<M: FullMemory>(
        &self,
        memory: &mut M,
        key: &[u8],
        value: u64,
    ) -> Result<Option<Option<u64>>, TreeError> {
        let mut place = self.walk(memory, key)?;
        if !self.enter(memory, &mut place.path)? {
            return Ok(None);
        }
        let put = if place.is_above_the_end() {
            self.add_layers(memory, &place, value).map(|added| added.then_some(None))
        } else {
            self.tree.insert(memory, place.row(), value).map(Some)
        };
        if put != Ok(Some(None)) {
            // There is no new row in the layer.
            self.leave(memory, &mut place.path)?;
        }
        put
    }

    /// Counts a row that will be added to the last layer of `path`. Returns false if other jobs
    /// have left it.
    fn enter<M: FullMemory>(&self, memory: &mut M, path: &mut Path) -> Result<bool, TreeError> {
        let Some(&(_, layer)) = path.last() else { return Ok(true) };
        let count = self.tree.update(memory, Key::count(layer), |count| Some(count? + 1))?;
        if count.is_none() {
            self.unlink(memory, path)?;
        }
        Ok(count.is_some())
    }

    /// Counts off a row of the last layer of `path`, and removes the layers that have none.
    fn leave<M: FullMemory>(&self, memory: &mut M, path: &mut Path) -> Result<(), TreeError> {
        let Some(&(_, layer)) = path.last() else { return Ok(()) };
        let count = self.tree.update(memory, Key::count(layer), |count| {
            count?.checked_sub(1).filter(|left| *left > 0)
        })?;
        if count == Some(1) { self.unlink(memory, path) } else { Ok(()) }
    }

    /// Removes the row that leads to the last layer of `path`, which has no rows.
    fn unlink<M: FullMemory>(&self, memory: &mut M, path: &mut Path) -> Result<(), TreeError> {
        let Some((row, layer)) = path.pop() else { return Ok(()) };
        let other = |found: &u64| *found != layer;
        let found = self.tree.update(memory, row, |found| found.filter(other))?;
        // The job that removes a row counts it off.
        if found == Some(layer) { self.leave(memory, path) } else { Ok(()) }
    }

    /// Adds a key that needs new layers below `place`. Returns false if another job has made them.
    fn add_layers<M: FullMemory>(
        &self,
        memory: &mut M,
        place: &Place<'_>,
        value: u64,
    ) -> Result<bool, TreeError> {
        let mut rows = Vec::new();
        let added = self.add_rows(memory, place, value, &mut rows);
        if added != Ok(true) {
            for row in rows {
                self.tree.remove(memory, row)?;
            }
        }
        added
    }

    /// As [`add_layers`](OrderedMap::add_layers), from the last layer up. Appends the rows that it
    /// has added to `rows`.
    fn add_rows<M: FullMemory>(
        &self,
        memory: &mut M,
        place: &Place<'_>,
        value: u64,
        rows: &mut Vec<Key>,
    ) -> Result<bool, TreeError> {
        let rest = place.rest;
        let mut starts: Vec<usize> = (0..rest.len()).step_by(SLICE_BYTES).skip(1).collect();
        let mut leads_to = value;
        while let Some(start) = starts.pop() {
            let below = self.new_layer(memory)?;
            let new = [(Key::of(below, &rest[start..]), leads_to), (Key::count(below), 1)];
            for (row, value) in new {
                self.tree.insert(memory, row, value)?;
                rows.push(row);
            }
            leads_to = below;
        }
        let link = |found: Option<u64>| found.or(Some(leads_to));
        Ok(self.tree.update(memory, place.row(), link)?.is_none())
    }

    /// Returns a number that no layer ever had.
    fn new_layer<M: FullMemory>(&self, memory: &mut M) -> Result<u64, TreeError> {
        let next = |last: Option<u64>| Some(last.unwrap_or(TOP) + 1);
        let last = self.tree.update(memory, Key::count(TOP), next)?;
        Ok(last.unwrap_or(TOP) + 1)
    }
}

/// # Errors
/// [`Corrupt`] when the key is too long.
fn check(key: &[u8]) -> Result<(), Corrupt> {
    let (most, length) = (OrderedMap::KEY_BYTES_MAX, key.len());
    if length > most {
        return Err(Corrupt(format!("a key has at most {most} bytes, not {length}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ebbtide_testbed::Plain;
    use proptest::prelude::*;

    use super::*;

    /// Keys that share prefixes and end with zeros or the greatest byte.
    fn keys() -> impl Strategy<Value = Vec<u8>> {
        let end = prop::collection::vec(prop::sample::select(vec![0, 1, 200, 255u8]), 0..64);
        let prefix = (prop::sample::select(vec![0, 1, 255u8]), 0..5usize, 0..3usize);
        (prefix, end).prop_map(|((byte, slices, more), end)| {
            [vec![byte; (slices * SLICE_BYTES + more).saturating_sub(1)], end].concat()
        })
    }

    proptest! {
        #[test]
        fn it_does_what_a_map_of_byte_strings_does(
            changes in prop::collection::vec((keys(), any::<Option<u64>>()), 0..300),
            from in keys(),
            limit in 0..50usize,
        ) {
            let (mut memory, map) = (Plain::zeroed(OrderedMap::bytes(300)), OrderedMap::at(Addr(0), 300));
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
            for key in model.keys() {
                prop_assert!(map.remove(&mut memory, key).unwrap().is_some());
            }
            // All that is left is the number of the last layer.
            let mut left = 0;
            map.tree.scan(&mut memory, .., |_, row, _| {
                left += u32::from(row != Key::count(TOP));
                ControlFlow::Continue(())
            }).unwrap();
            prop_assert_eq!(left, 0);
        }
    }

    #[test]
    fn a_key_that_is_too_long_is_an_error_that_says_so() {
        let (mut memory, map) = (Plain::zeroed(OrderedMap::bytes(40)), OrderedMap::at(Addr(0), 40));
        assert_eq!(map.put(&mut memory, &[7; 4096], 1), Ok(None));
        let error = map.put(&mut memory, &[7; 4097], 1).unwrap_err();
        assert_eq!(error.to_string(), "a key has at most 4096 bytes, not 4097");
    }

    #[test]
    fn a_long_key_that_finds_no_page_leaves_nothing() {
        let (mut memory, map) = (Plain::zeroed(OrderedMap::bytes(12)), OrderedMap::at(Addr(0), 12));
        let key = |number: u8| [&[number; 1000][..], &[7]].concat();
        let fitted = (0..).take_while(|n| map.put(&mut memory, &key(*n), 1).is_ok()).count() as u8;
        assert!((3..20).contains(&fitted), "{fitted} keys");
        let rows = |memory: &mut Plain| map.list(memory, b"", usize::MAX).unwrap();
        assert!(rows(&mut memory).into_iter().eq((0..fitted).map(|n| (key(n), 1))));
        for number in 0..fitted {
            assert_eq!(map.remove(&mut memory, &key(number)), Ok(Some(1)));
        }
        let again = (0..).take_while(|n| map.put(&mut memory, &key(*n), 1).is_ok()).count() as u8;
        assert_eq!(again, fitted);
    }
}
