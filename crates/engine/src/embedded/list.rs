//! [`List`]: values of a Rust type by their index, in a store.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

use ebbtide_structures::keyspace::WHOLE_BYTES_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::entries::{BATCH, Entries};
use super::error::Error;
use super::key::KeyBytes;
use super::space::{Changed, Space, committed};
use super::typed::{decode, encode};
use super::values;
use crate::core::flash_memory::FlashMemory;

/// Elements that are added in one transaction.
const ADDED: usize = 32;

/// The key of the length. The key of an element is its index, in 8 bytes.
const LENGTH: &[u8] = b"";

/// Values of a Rust type by their index, from 0 on; grows and shrinks at its end. Found by its
/// name: [`Store::list`](super::Store::list).
///
/// A value is any type of serde, of up to 32,704 bytes in the format of postcard. Any thread may
/// use it. An element takes about 14 bytes more than its own. A list is one of the store's maps,
/// and the elements are in no order on flash. For an array of numbers that jobs use,
/// [`Store::vector`](super::Store::vector) is smaller and faster, and does not grow.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// let days = store.list::<(String, f64)>("days")?;
/// days.push(&("Monday".into(), 3.5))?;
/// days.extend([("Tuesday".into(), 4.0), ("Wednesday".into(), -1.0)])?;
/// days.update(1, |(day, degrees)| (day, degrees + 0.5))?;
/// assert_eq!(days.get(1)?, Some(("Tuesday".into(), 4.5)));
/// assert_eq!((days.pop()?, days.len()?), (Some(("Wednesday".into(), -1.0)), 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct List<T> {
    entries: Entries,
    values: PhantomData<fn() -> T>,
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        List::new(self.entries.clone())
    }
}

impl<T> List<T> {
    pub(super) fn new(entries: Entries) -> List<T> {
        List { entries, values: PhantomData }
    }
}

impl<T: Serialize + DeserializeOwned> List<T> {
    /// Number of elements.
    ///
    /// # Errors
    /// [`Error`] when it cannot be read.
    pub fn len(&self) -> Result<u64, Error> {
        Ok(length(self.entries.get(LENGTH).wait()?.as_deref()))
    }

    /// True if there is no element.
    ///
    /// # Errors
    /// As [`len`](List::len).
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// The element at `index`.
    ///
    /// # Errors
    /// As [`len`](List::len), and [`Error::OtherType`] when it is not of this type.
    pub fn get(&self, index: u64) -> Result<Option<T>, Error> {
        let value = self.entries.get(&index.key_bytes()).wait()?;
        value.map(|value| decode(&value)).transpose()
    }

    /// Replaces the element at `index`. Returns false if there is none.
    ///
    /// # Errors
    /// [`Error`] when the value is too long, or there is no room. Nothing has changed then.
    pub fn set(&self, index: u64, value: &T) -> Result<bool, Error> {
        let bytes = element(value)?;
        let set =
            self.entries.update(&index.key_bytes(), move |old| Ok(old.map(|_| bytes.clone())));
        Ok(set.wait()?.is_some())
    }

    /// Replaces the element at `index` by the result of `change`, as one transaction. Returns the
    /// new element. `change` may run more than once, and only its last run counts.
    ///
    /// # Errors
    /// As [`set`](List::set) and [`get`](List::get).
    pub fn update(
        &self,
        index: u64,
        mut change: impl FnMut(T) -> T + Send + 'static,
    ) -> Result<Option<T>, Error> {
        let new = self.entries.update(&index.key_bytes(), move |old| {
            let new = old.map(|old| element(&change(decode(old)?)));
            new.transpose()
        });
        new.wait()?.map(|new| decode(&new)).transpose()
    }

    /// Adds an element at the end. Returns its index.
    ///
    /// # Errors
    /// As [`set`](List::set).
    pub fn push(&self, value: &T) -> Result<u64, Error> {
        self.add(vec![element(value)?])
    }

    /// Adds all `values` at the end, in transactions of up to 32. After an error, some may be
    /// there.
    ///
    /// # Errors
    /// As [`set`](List::set).
    pub fn extend(&self, values: impl IntoIterator<Item = T>) -> Result<(), Error> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for value in values {
            let value = element(&value)?;
            if batch.len() == ADDED || bytes + value.len() > WHOLE_BYTES_MAX {
                self.add(std::mem::take(&mut batch))?;
                bytes = 0;
            }
            bytes += value.len();
            batch.push(value);
        }
        if batch.is_empty() { Ok(()) } else { self.add(batch).map(drop) }
    }

    /// Removes the last element and returns it.
    ///
    /// # Errors
    /// As [`set`](List::set) and [`get`](List::get).
    pub fn pop(&self) -> Result<Option<T>, Error> {
        let last = self.change(
            |length| length.saturating_sub(1)..length,
            |place, last| {
                let Some(index) = last.next() else { return Ok(None) };
                let value = place.get(index);
                place.remove(index);
                place.set_length(index)?;
                Ok(value)
            },
        )?;
        last.map(|last| decode(&last)).transpose()
    }

    /// Adds elements: in one transaction, or one by one if that stores to too many pages. Returns
    /// the index of the first.
    fn add(&self, values: Vec<Vec<u8>>) -> Result<u64, Error> {
        let values: Arc<[Vec<u8>]> = values.into();
        match self.add_together(values.clone()) {
            Err(Error::Transaction(error)) if error.is_input() && values.len() > 1 => {
                let mut indices =
                    values.iter().map(|value| self.add_together([value.clone()].into()));
                let first = indices.next().unwrap_or(Ok(0))?;
                indices.try_fold(first, |first, index| index.map(|_| first))
            }
            added => added,
        }
    }

    fn add_together(&self, values: Arc<[Vec<u8>]>) -> Result<u64, Error> {
        let count = values.len() as u64;
        self.change(
            move |length| length..length + count,
            move |place, indices| {
                let (first, end) = (indices.start, indices.end);
                for (index, value) in indices.zip(values.iter()) {
                    place.set(index, value)?;
                }
                place.set_length(end)?;
                Ok(first)
            },
        )
    }

    /// Runs `body` as a transaction that may change the length and the elements of `range`, which
    /// depend on the length.
    fn change<R: Send + 'static>(
        &self,
        range: impl Fn(u64) -> Indices + Send + 'static,
        mut body: impl FnMut(&mut Held<'_, '_>, &mut Indices) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let number = self.entries.number();
        let job = move |space: &Space, memory: &mut FlashMemory<'_>| -> Changed<R> {
            loop {
                let seen = length(values::read(space, memory, number, LENGTH).as_deref());
                let indices = range(seen);
                let hash = |key: &[u8]| space.keys.key(key).hash;
                let mut hashes = vec![hash(LENGTH)];
                hashes.extend(indices.clone().map(|index| hash(&index.key_bytes())));
                let (done, lsn) = space.change(memory, number, &hashes, |memory| {
                    committed(memory, |memory| {
                        let mut held = Held { space, memory, number };
                        if held.length() != seen {
                            return Ok(None);
                        }
                        body(&mut held, &mut indices.clone()).map(Some)
                    })
                })?;
                // Otherwise another job has changed the length meanwhile.
                if let Some(done) = done.transpose() {
                    return Ok((done, lsn));
                }
            }
        };
        self.entries.shared().commit(job).wait()
    }

    /// All elements in order. An element that is removed during the walk is left out.
    pub fn iter(&self) -> Elements<'_, T> {
        Elements { list: self, found: VecDeque::new(), next: 0 }
    }
}

/// Indices of elements.
type Indices = std::ops::Range<u64>;

/// A list whose length and some elements a job may change.
struct Held<'h, 'm> {
    space: &'h Space,
    memory: &'h mut FlashMemory<'m>,
    number: usize,
}

impl Held<'_, '_> {
    fn length(&mut self) -> u64 {
        let key = self.space.keys.key(LENGTH);
        length(values::read_held(self.space, self.memory, self.number, &key).as_deref())
    }

    fn set_length(&mut self, length: u64) -> Result<(), Error> {
        let key = self.space.keys.key(LENGTH);
        self.space.keys.set(self.memory, self.number, &key, &length.to_le_bytes(), None)?;
        Ok(())
    }

    fn get(&mut self, index: u64) -> Option<Vec<u8>> {
        let bytes = index.key_bytes();
        let key = self.space.keys.key(&bytes);
        values::read_held(self.space, self.memory, self.number, &key)
    }

    fn set(&mut self, index: u64, value: &[u8]) -> Result<(), Error> {
        let bytes = index.key_bytes();
        let key = self.space.keys.key(&bytes);
        self.space.keys.set(self.memory, self.number, &key, value, None)?;
        Ok(())
    }

    fn remove(&mut self, index: u64) {
        let bytes = index.key_bytes();
        self.space.keys.remove(self.memory, self.number, &self.space.keys.key(&bytes));
    }
}

fn length(bytes: Option<&[u8]>) -> u64 {
    let word = bytes.and_then(|bytes| bytes.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}

/// The bytes of an element.
fn element<T: Serialize>(value: &T) -> Result<Vec<u8>, Error> {
    let bytes = encode(value)?;
    if bytes.len() > WHOLE_BYTES_MAX {
        return Err(Error::LongElement(bytes.len()));
    }
    Ok(bytes)
}

/// The elements of a [`List`], in order.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// let log = store.list::<String>("log")?;
/// log.push(&"high".to_string())?;
/// log.push(&"low".to_string())?;
/// let elements: Result<Vec<String>, _> = log.iter().collect();
/// assert_eq!(elements?, ["high", "low"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Elements<'l, T> {
    list: &'l List<T>,
    found: VecDeque<Vec<u8>>,
    next: u64,
}

impl<T: Serialize + DeserializeOwned> Elements<'_, T> {
    /// Reads elements from `next` on. There are none if the list has ended.
    fn read(&mut self) -> Result<(), Error> {
        let end = self.list.len()?.min(self.next.saturating_add(BATCH as u64));
        let keys = (self.next..end).map(|index| index.key_bytes()).collect();
        self.found = self.list.entries.many(keys)?.into_iter().flatten().collect();
        self.next = self.next.max(end);
        Ok(())
    }
}

impl<T: Serialize + DeserializeOwned> Iterator for Elements<'_, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.found.is_empty()
            && let Err(error) = self.read()
        {
            self.next = u64::MAX;
            return Some(Err(error));
        }
        self.found.pop_front().map(|value| decode(&value))
    }
}
