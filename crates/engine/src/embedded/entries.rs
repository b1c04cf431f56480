//! [`Entries`]: the operations of both kinds of maps on keys and values.

use std::sync::Arc;

use ebbtide_structures::keyspace::{HASHES, KEY_BYTES_MAX, WHOLE_BYTES_MAX};

use super::error::Error;
use super::limits::ORDERED_KEY_BYTES_MAX;
use super::shared::{Shared, Space};
use crate::api::key_changes::{join_sparse, value_held, value_of};
use crate::core::flash_memory::FlashMemory;

/// A key and its value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// Keys that a job of a range looks up at once.
const BATCH: usize = 64;

/// The keys and values of one map.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    shared: Arc<Shared>,
    number: usize,
    /// True if the keys are in the order of the store as well.
    is_ordered: bool,
}

/// The result of a change of a key.
pub(super) struct Updated {
    pub(super) was_there: bool,
    pub(super) new: Option<Vec<u8>>,
}

/// A key of the store's order: the number of its map, and the key.
fn in_order(number: usize, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + key.len());
    bytes.push(number as u8);
    bytes.extend_from_slice(key);
    bytes
}

impl Entries {
    pub(super) fn new(shared: Arc<Shared>, number: usize, is_ordered: bool) -> Entries {
        Entries { shared, number, is_ordered }
    }

    fn check(&self, key: &[u8]) -> Result<(), Error> {
        match key.len() {
            length if self.is_ordered && length > ORDERED_KEY_BYTES_MAX => {
                Err(Error::LongOrderedKey(length))
            }
            length if length > KEY_BYTES_MAX => Err(Error::LongKey(length)),
            _ => Ok(()),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check(key)?;
        let (keys, number, key) = (self.shared.space.keys, self.number, key.to_vec());
        self.shared.run(move |memory| Ok(value_of(&keys, memory, number, &keys.key(&key))))
    }

    pub(super) fn contains(&self, key: &[u8]) -> Result<bool, Error> {
        self.check(key)?;
        let (keys, number, key) = (self.shared.space.keys, self.number, key.to_vec());
        self.shared.run(move |memory| {
            let key = keys.key(&key);
            let find = |memory: &mut FlashMemory<'_>| {
                keys.find(memory, number, &key, &mut Vec::new()).is_some()
            };
            Ok(keys.consistent(memory, key.hash, find))
        })
    }

    /// Stores the result of `change` as the value of a key, or removes the key if the result is
    /// `None`. `change` gets the old value if `is_read`.
    pub(super) fn update(
        &self,
        key: &[u8],
        is_read: bool,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<Updated, Error> {
        self.check(key)?;
        let (number, is_ordered) = (self.number, self.is_ordered);
        let hash = self.shared.space.keys.key(key).hash;
        let bytes = key.to_vec();
        let body = move |space: &Space, memory: &mut FlashMemory<'_>| {
            let (keys, order) = (space.keys, space.order);
            let key = keys.key(&bytes);
            let old = if is_read { value_held(&keys, memory, number, &key) } else { None };
            let new = change(old.as_deref());
            let was_there = match &new {
                Some(value) if value.len() > WHOLE_BYTES_MAX => {
                    return Err(Error::LongValue(value.len()));
                }
                Some(value) => keys.set(memory, number, &key, value, None)?,
                None => keys.remove(memory, number, &key),
            };
            if is_ordered && was_there != new.is_some() {
                let key = in_order(number, &bytes);
                match new {
                    Some(_) => order.put(memory, &key, 0)?,
                    None => order.remove(memory, &key)?,
                };
            }
            Ok(Updated { was_there, new })
        };
        let after = move |space: &Space, memory: &mut FlashMemory<'_>| {
            join_sparse(&space.keys, memory, number, hash);
        };
        self.shared.change((number, vec![hash]), body, after)
    }

    pub(super) fn len(&self) -> Result<u64, Error> {
        let (keys, number) = (self.shared.space.keys, self.number);
        self.shared.run(move |memory| Ok(keys.counts(memory, number).keys))
    }

    /// Returns some pairs from the place `from` on, and the place to continue from. Start with 0.
    pub(super) fn some(&self, from: u64) -> Result<(Vec<Pair>, Option<u64>), Error> {
        let (keys, number) = (self.shared.space.keys, self.number);
        self.shared.run(move |memory| {
            let mut scanned = Vec::new();
            let next = keys.scan(memory, number, from, &mut scanned);
            let pairs = scanned.into_iter().filter_map(|scanned| {
                let value = value_of(&keys, memory, number, &keys.key(&scanned.key))?;
                Some((scanned.key, value))
            });
            Ok((pairs.collect(), (next < HASHES).then_some(next)))
        })
    }

    /// Some pairs of an ordered map from the key `from` on, without that key itself if `is_after`. The last
    /// key that was looked at, if there may be more.
    pub(super) fn some_from(
        &self,
        from: &[u8],
        is_after: bool,
    ) -> Result<(Vec<Pair>, Option<Vec<u8>>), Error> {
        let (space, number) = (self.shared.space.clone(), self.number);
        let from = in_order(number, &from[..from.len().min(ORDERED_KEY_BYTES_MAX)]);
        self.shared.run(move |memory| {
            let keys = space.keys;
            let listed = space.order.list(memory, &from, BATCH + 1)?;
            let is_whole = listed.len() == BATCH + 1;
            let mut found: Vec<Vec<u8>> = listed.into_iter().map(|(key, _)| key).collect();
            let last = found.last().filter(|key| is_whole && key[0] == number as u8);
            let last = last.map(|key| key[1..].to_vec());
            found.retain(|key| key[0] == number as u8 && !(is_after && *key == from));
            for key in &found {
                keys.fetch_ahead(memory, number, &keys.key(&key[1..]));
            }
            let pairs = found.into_iter().filter_map(|key| {
                let key = key[1..].to_vec();
                let value = value_of(&keys, memory, number, &keys.key(&key))?;
                Some((key, value))
            });
            Ok((pairs.collect(), last))
        })
    }
}
