//! [`Map`]: keys and values of bytes, found by key.

use std::collections::VecDeque;
use std::marker::PhantomData;

use super::entries::{Entries, Pair};
use super::error::Error;

/// Keys and values of bytes. Found by its name: [`Store::map`](super::Store::map).
///
/// A change that has returned is durable as the store's [`durability`](super::Builder::durability) says. Any
/// thread may use it, jobs of the store may not. A key has at most 1,024 bytes, a value at most 32,704.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// use ebbtide::Store;
///
/// let store = Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// let users = store.map("users")?;
/// users.insert("ada", "Lovelace")?;
/// assert_eq!(users.get("ada")?.as_deref(), Some(&b"Lovelace"[..]));
/// assert!(users.remove("ada")? && users.is_empty()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Map<Order = Unordered> {
    pub(super) entries: Entries,
    order: PhantomData<Order>,
}

/// Marks a [`Map`] whose keys are in no order.
#[derive(Clone, Copy, Debug)]
pub enum Unordered {}

/// The methods of maps with and without order.
impl<Order> Map<Order> {
    pub(super) fn new(entries: Entries) -> Map<Order> {
        Map { entries, order: PhantomData }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`Error`] when the key is too long or cannot be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.entries.get(key.as_ref())
    }

    /// True if there is a value of `key`.
    ///
    /// # Errors
    /// As [`get`](Map::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.entries.contains(key.as_ref())
    }

    /// Stores `value` under `key`. Returns true if the key is new.
    ///
    /// # Errors
    /// [`Error`] when the key or the value is too long, or there is no room. Nothing has changed then.
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) -> Result<bool, Error> {
        let value = value.into();
        let updated = self.entries.update(key.as_ref(), false, move |_| Some(value.clone()));
        updated.map(|updated| !updated.was_there)
    }

    /// Removes `key`. Returns true if it was there.
    ///
    /// # Errors
    /// As [`insert`](Map::insert).
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.entries.update(key.as_ref(), false, |_| None).map(|updated| updated.was_there)
    }

    /// Replaces the value of `key` by the result of `change`, as one transaction. `None` means no
    /// value. Returns the new value. `change` may run more than once, and only its last run counts.
    ///
    /// ```
    /// # use ebbtide_engine::embedded as ebbtide;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data.ebb");
    /// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
    /// let words = store.map("words")?;
    /// for word in ["tide", "ebb", "tide"] {
    ///     words.update(word, |old| Some([old.unwrap_or_default(), b"+"].concat()))?;
    /// }
    /// assert_eq!(words.get("tide")?.as_deref(), Some(&b"++"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`insert`](Map::insert).
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.entries.update(key.as_ref(), true, change).map(|updated| updated.new)
    }

    /// Number of keys. Exact while nothing is changed.
    ///
    /// # Errors
    /// As [`get`](Map::get).
    pub fn len(&self) -> Result<u64, Error> {
        self.entries.len()
    }

    /// True if there are no keys.
    ///
    /// # Errors
    /// As [`get`](Map::get).
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }
}

impl Map {
    /// All keys with their values, in no order. A key that is there all the time comes exactly once.
    pub fn iter(&self) -> Iter<'_> {
        Iter { entries: &self.entries, found: VecDeque::new(), from: Some(0) }
    }
}

/// The keys and values of a [`Map`].
#[derive(Debug)]
pub struct Iter<'m> {
    entries: &'m Entries,
    found: VecDeque<Pair>,
    /// Where to go on.
    from: Option<u64>,
}

impl Iterator for Iter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() {
            match self.entries.some(self.from?) {
                Ok((found, next)) => (self.found, self.from) = (found.into(), next),
                Err(error) => {
                    self.from = None;
                    return Some(Err(error));
                }
            }
        }
        self.found.pop_front().map(Ok)
    }
}
