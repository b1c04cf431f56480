//! [`Entries`]: the operations of both kinds of maps on keys and values.

use std::collections::VecDeque;
use std::sync::Arc;

use ebbtide_core::durability::Lsn;
use ebbtide_structures::keyspace::{HASHES, KEY_BYTES_MAX, Key, VALUE_BYTES_MAX, WHOLE_BYTES_MAX};

use super::error::Error;
use super::pending::Pending;
use super::shared::Shared;
use super::space::{Changed, Space, committed};
use super::values::{self, Staged};
use crate::core::flash_memory::FlashMemory;

/// A key and its value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// A key, and its new value or `None` to remove it.
pub(super) type KeyChange = (Vec<u8>, Option<Vec<u8>>);

/// A key that a job of an iteration has met. Its value is read later if the job has read much
/// already.
pub(super) type Met = (Vec<u8>, Option<Vec<u8>>);

/// Keys that a job of a range looks up at once, and bytes of values after which it reads no more.
pub(super) const BATCH: usize = 64;
const BATCH_BYTES: usize = 1 << 20;

/// Pairs and bytes that a transaction of a bulk load stores, and transactions under way.
const LOADED_PAIRS: usize = 32;
const LOADED_BYTES: usize = WHOLE_BYTES_MAX;
const LOADS: usize = 64;

/// The keys and values of one map.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    shared: Arc<Shared>,
    place: MapPlace,
}

/// The place of a map in its store.
#[derive(Clone, Copy, Debug)]
struct MapPlace {
    number: usize,
    /// True if the keys are in the order of the store as well.
    is_ordered: bool,
}

/// A value as a transaction stores it.
enum New<'a> {
    Whole(&'a [u8]),
    Large(&'a Staged),
}

/// A key of the store's order: the number of its map, and the key.
fn in_order(number: usize, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + key.len());
    bytes.push(number as u8);
    bytes.extend_from_slice(key);
    bytes
}

/// Runs `body` as a transaction that attaches the values of `staged`. They are given up if it
/// fails.
fn committed_with<S: IntoIterator<Item = Option<Staged>>, T>(
    space: &Space,
    memory: &mut FlashMemory<'_>,
    staged: S,
    mut body: impl FnMut(&mut FlashMemory<'_>, &S) -> Result<T, Error>,
) -> Changed<T> {
    let done = committed(memory, |memory| body(memory, &staged));
    if !matches!(done, Ok((Ok(_), _))) {
        values::give_up(space, memory, staged.into_iter().flatten());
    }
    done
}

fn check(key: &[u8], value_bytes: usize) -> Result<(), Error> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::LongKey(key.len()));
    }
    if value_bytes as u64 > VALUE_BYTES_MAX {
        return Err(Error::LongValue(value_bytes));
    }
    Ok(())
}

impl MapPlace {
    /// Stores a value under `key`, whose stripe is held. Returns true if the key was there before.
    fn set(
        self,
        space: &Space,
        memory: &mut FlashMemory<'_>,
        key: &Key<'_>,
        new: New<'_>,
    ) -> Result<bool, Error> {
        let (keys, number) = (space.keys, self.number);
        let was_there = match new {
            New::Whole(value) => keys.set(memory, number, key, value, None)?,
            New::Large(staged) => keys.attach_large(memory, number, key, &staged.large, None)?,
        };
        if self.is_ordered && !was_there {
            space.order.put(memory, &in_order(number, key.bytes), 0)?;
        }
        Ok(was_there)
    }

    /// Removes `key`, whose stripe is held. Returns true if it was there.
    fn remove(
        self,
        space: &Space,
        memory: &mut FlashMemory<'_>,
        key: &Key<'_>,
    ) -> Result<bool, Error> {
        let was_there = space.keys.remove(memory, self.number, key);
        if self.is_ordered && was_there {
            space.order.remove(memory, &in_order(self.number, key.bytes))?;
        }
        Ok(was_there)
    }

    /// Stores `new` under `key`, or removes it, as one transaction. The stripe of the key is held.
    /// Returns true if the key was there.
    fn put(
        self,
        space: &Space,
        memory: &mut FlashMemory<'_>,
        key: &Key<'_>,
        new: Option<&[u8]>,
    ) -> Changed<bool> {
        let staged = match values::stage(space, memory, new)? {
            Ok(staged) => staged,
            Err(full) => return Ok((Err(full.into()), Lsn::ZERO)),
        };
        committed_with(space, memory, [staged], |memory, [staged]| {
            self.change(space, memory, key, new, staged.as_ref())
        })
    }

    /// Stores `new` under `key`, or removes it. The stripe of the key is held. Returns true if the
    /// key was there.
    fn change(
        self,
        space: &Space,
        memory: &mut FlashMemory<'_>,
        key: &Key<'_>,
        new: Option<&[u8]>,
        staged: Option<&Staged>,
    ) -> Result<bool, Error> {
        match (staged, new) {
            (Some(staged), _) => self.set(space, memory, key, New::Large(staged)),
            (None, Some(value)) => self.set(space, memory, key, New::Whole(value)),
            (None, None) => self.remove(space, memory, key),
        }
    }
}

impl MapPlace {
    /// Stores all `pairs`, whose stripes are held: in one transaction, or one by one if that is too
    /// large.
    fn put_all(self, space: &Space, memory: &mut FlashMemory<'_>, pairs: &[Pair]) -> Changed<()> {
        if pairs.iter().all(|(_, value)| value.len() <= WHOLE_BYTES_MAX) {
            let done = committed(memory, |memory| {
                pairs.iter().try_for_each(|(key, value)| {
                    let key = space.keys.key(key);
                    self.set(space, memory, &key, New::Whole(value)).map(drop)
                })
            });
            match done {
                // It stores to too many pages for the cache.
                Err(error) if error.is_input() => {}
                done => return done,
            }
        }
        let mut last = Lsn::ZERO;
        for (key, value) in pairs {
            match self.put(space, memory, &space.keys.key(key), Some(value))? {
                (Ok(_), lsn) => last = last.max(lsn),
                (Err(error), _) => return Ok((Err(error), last)),
            }
        }
        Ok((Ok(()), last))
    }
}

impl MapPlace {
    /// Makes all `changes`, whose stripes are held, in one transaction.
    fn apply(
        self,
        space: &Space,
        memory: &mut FlashMemory<'_>,
        changes: &[KeyChange],
    ) -> Changed<()> {
        let mut staged = Vec::new();
        for (_, new) in changes {
            match values::stage(space, memory, new.as_deref())? {
                Ok(value) => staged.push(value),
                Err(full) => {
                    values::give_up(space, memory, staged.into_iter().flatten());
                    return Ok((Err(full.into()), Lsn::ZERO));
                }
            }
        }
        committed_with(space, memory, staged, |memory, staged| {
            changes.iter().zip(staged).try_for_each(|((key, new), staged)| {
                let (key, new) = (space.keys.key(key), new.as_deref());
                self.change(space, memory, &key, new, staged.as_ref()).map(drop)
            })
        })
    }
}

impl Entries {
    pub(super) fn new(shared: Arc<Shared>, number: usize, is_ordered: bool) -> Entries {
        Entries { shared, place: MapPlace { number, is_ordered } }
    }

    /// The number of its map.
    pub(super) fn number(&self) -> usize {
        self.place.number
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn get(&self, key: &[u8]) -> Pending<Option<Vec<u8>>> {
        if let Err(error) = check(key, 0) {
            return Pending::of(Err(error));
        }
        let (number, key) = (self.place.number, key.to_vec());
        self.shared.submit(move |space, memory| Ok(values::read(space, memory, number, &key)))
    }

    pub(super) fn contains(&self, key: &[u8]) -> Pending<bool> {
        if let Err(error) = check(key, 0) {
            return Pending::of(Err(error));
        }
        let (number, key) = (self.place.number, key.to_vec());
        self.shared.submit(move |space, memory| {
            let (keys, key) = (space.keys, space.keys.key(&key));
            let find = |memory: &mut FlashMemory<'_>| {
                keys.find(memory, number, &key, &mut Vec::new()).is_some()
            };
            Ok(keys.consistent(memory, key.hash, find))
        })
    }

    /// Stores `new` as the value of a key, or removes the key. Returns true if the key is new, or
    /// is gone.
    pub(super) fn set(&self, key: &[u8], new: Option<Vec<u8>>) -> Pending<bool> {
        if let Err(error) = check(key, new.as_ref().map_or(0, Vec::len)) {
            return Pending::of(Err(error));
        }
        let (place, bytes) = (self.place, key.to_vec());
        self.shared.commit(move |space, memory| {
            let key = space.keys.key(&bytes);
            let (was_there, lsn) = space.change(memory, place.number, &[key.hash], |memory| {
                place.put(space, memory, &key, new.as_deref())
            })?;
            Ok((was_there.map(|was_there| was_there != new.is_some()), lsn))
        })
    }

    /// Stores the result of `change` of the old value as the value of a key, or removes the key if
    /// the result is `None`. Returns that result.
    pub(super) fn update(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&[u8]>) -> Result<Option<Vec<u8>>, Error> + Send + 'static,
    ) -> Pending<Option<Vec<u8>>> {
        if let Err(error) = check(key, 0) {
            return Pending::of(Err(error));
        }
        let (place, bytes) = (self.place, key.to_vec());
        self.shared.commit(move |space, memory| {
            let key = space.keys.key(&bytes);
            space.change(memory, place.number, &[key.hash], |memory| {
                let old = values::read_held(space, memory, place.number, &key);
                let new = change(old.as_deref());
                let checked = new.and_then(|new| {
                    check(key.bytes, new.as_ref().map_or(0, Vec::len)).map(|()| new)
                });
                let new = match checked {
                    Ok(new) => new,
                    Err(error) => return Ok((Err(error), Lsn::ZERO)),
                };
                let (was_there, lsn) = place.put(space, memory, &key, new.as_deref())?;
                Ok((was_there.map(|_| new), lsn))
            })
        })
    }

    /// Makes all `changes` in one step, in their order.
    pub(super) fn apply(&self, changes: Vec<KeyChange>) -> Pending<()> {
        let checked =
            changes.iter().try_for_each(|(key, new)| check(key, new.as_ref().map_or(0, Vec::len)));
        if let Err(error) = checked {
            return Pending::of(Err(error));
        }
        let place = self.place;
        self.shared.commit(move |space, memory| {
            let hash = |(key, _): &KeyChange| space.keys.key(key).hash;
            let hashes: Vec<u64> = changes.iter().map(hash).collect();
            if hashes.is_empty() {
                return Ok((Ok(()), Lsn::ZERO));
            }
            let apply = |memory: &mut FlashMemory<'_>| place.apply(space, memory, &changes);
            space.change(memory, place.number, &hashes, apply)
        })
    }

    /// The values of `keys`.
    pub(super) fn many(&self, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let number = self.place.number;
        self.shared.run(move |space, memory| {
            for key in &keys {
                space.keys.fetch_ahead(memory, number, &space.keys.key(key));
            }
            let read = |key: &Vec<u8>| values::read(space, memory, number, key);
            Ok(keys.iter().map(read).collect())
        })
    }

    /// Stores all `pairs`, many under way at once. Returns their number.
    pub(super) fn load(&self, pairs: impl Iterator<Item = Pair>) -> Result<u64, Error> {
        let (mut under_way, mut count) = (VecDeque::new(), 0);
        let mut batch = Vec::new();
        let mut bytes = 0;
        for (key, value) in pairs {
            check(&key, value.len())?;
            let more = key.len() + value.len();
            if batch.len() == LOADED_PAIRS || !batch.is_empty() && bytes + more > LOADED_BYTES {
                self.load_batch(&mut under_way, std::mem::take(&mut batch))?;
                bytes = 0;
            }
            bytes += more;
            count += 1;
            batch.push((key, value));
        }
        self.load_batch(&mut under_way, batch)?;
        under_way.into_iter().try_for_each(Pending::wait)?;
        Ok(count)
    }

    fn load_batch(
        &self,
        under_way: &mut VecDeque<Pending<()>>,
        batch: Vec<Pair>,
    ) -> Result<(), Error> {
        if under_way.len() == LOADS
            && let Some(first) = under_way.pop_front()
        {
            first.wait()?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        let place = self.place;
        under_way.push_back(self.shared.commit(move |space, memory| {
            let hashes: Vec<u64> = batch.iter().map(|(key, _)| space.keys.key(key).hash).collect();
            space.change(memory, place.number, &hashes, |memory| {
                place.put_all(space, memory, &batch)
            })
        }));
        Ok(())
    }

    pub(super) fn len(&self) -> Result<u64, Error> {
        let number = self.place.number;
        self.shared.run(move |space, memory| Ok(space.keys.counts(memory, number).keys))
    }

    /// Returns some keys from the place `from` on, with their values if `with_values`, and the
    /// place to continue from. Start with 0.
    pub(super) fn some(
        &self,
        from: u64,
        with_values: bool,
    ) -> Result<(Vec<Met>, Option<u64>), Error> {
        let number = self.place.number;
        self.shared.run(move |space, memory| {
            let mut scanned = Vec::new();
            let next = space.keys.scan(memory, number, from, &mut scanned);
            let found = scanned.into_iter().map(|scanned| scanned.key);
            let bytes_max = if with_values { BATCH_BYTES } else { 0 };
            let met = read_values(space, memory, number, found, bytes_max);
            Ok((met, (next < HASHES).then_some(next)))
        })
    }

    /// Some keys of an ordered map from the key `from` on, without that key itself if `is_after`,
    /// with their values if `with_values`. The last key that was looked at, if there may be more.
    pub(super) fn some_from(
        &self,
        from: &[u8],
        is_after: bool,
        with_values: bool,
    ) -> Result<(Vec<Met>, Option<Vec<u8>>), Error> {
        let number = self.place.number;
        let from = in_order(number, from);
        self.shared.run(move |space, memory| {
            let keys = space.keys;
            let listed = space.order.list(memory, &from, BATCH + 1)?;
            let is_whole = listed.len() == BATCH + 1;
            let mut found: Vec<Vec<u8>> = listed.into_iter().map(|(key, _)| key).collect();
            let last = found.last().filter(|key| is_whole && key[0] == number as u8);
            let last = last.map(|key| key[1..].to_vec());
            found.retain(|key| key[0] == number as u8 && !(is_after && *key == from));
            for key in found.iter().filter(|_| with_values) {
                keys.fetch_ahead(memory, number, &keys.key(&key[1..]));
            }
            let found = found.into_iter().map(|key| key[1..].to_vec());
            let bytes_max = if with_values { BATCH_BYTES } else { 0 };
            Ok((read_values(space, memory, number, found, bytes_max), last))
        })
    }

    /// The pair of a key that an iteration has met; `None` if it was removed since.
    pub(super) fn pair(&self, (key, value): Met) -> Result<Option<Pair>, Error> {
        let value = match value {
            Some(value) => Some(value),
            None => self.get(&key).wait()?,
        };
        Ok(value.map(|value| (key, value)))
    }
}

/// The keys `found` that are still there, with their values until those have `bytes_max` bytes.
fn read_values(
    space: &Space,
    memory: &mut FlashMemory<'_>,
    number: usize,
    found: impl Iterator<Item = Vec<u8>>,
    bytes_max: usize,
) -> Vec<Met> {
    let mut bytes = 0;
    let pairs = found.filter_map(|key| {
        if bytes >= bytes_max {
            return Some((key, None));
        }
        let value = values::read(space, memory, number, &key)?;
        bytes += value.len();
        Some((key, Some(value)))
    });
    pairs.collect()
}
