//! [`Map`]: keys and values of bytes, found by key.

use std::marker::PhantomData;

use super::entries::Entries;
use super::error::Error;
use super::walk::{Hashes, Iter, Keys, Walk};

/// Keys and values of bytes. Found by its name: [`Store::map`](super::Store::map).
///
/// A change that has returned is durable as the store's [`durability`](super::Builder::durability)
/// says. Any thread may use it, jobs of the store may not.
///
/// A value has up to 512 MiB. Above 32,704 bytes it is written piece by piece before its key gets
/// it. A key has up to 1,024 bytes: a page of the index holds at least three keys, so that it can
/// be divided.
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
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// use ebbtide::{Map, Unordered};
///
/// let users: Map<Unordered> = store.map("users")?;
/// assert!(users.is_empty()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Unordered {}

/// The methods of maps with and without order.
impl<Order> Map<Order> {
    pub(super) fn new(entries: Entries) -> Map<Order> {
        Map { entries, order: PhantomData }
    }

    /// Another handle of the same map.
    pub(super) fn handle(&self) -> Map<Order> {
        Map::new(self.entries.clone())
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`Error`] when the key is too long or cannot be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.entries.get(key.as_ref()).wait()
    }

    /// True if there is a value of `key`.
    ///
    /// # Errors
    /// As [`get`](Map::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.entries.contains(key.as_ref()).wait()
    }

    /// Stores `value` under `key`. Returns true if the key is new.
    ///
    /// # Errors
    /// [`Error`] when the key or the value is too long, or there is no room. Nothing has changed
    /// then.
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) -> Result<bool, Error> {
        self.entries.set(key.as_ref(), Some(value.into())).wait()
    }

    /// Removes `key`. Returns true if it was there.
    ///
    /// # Errors
    /// As [`insert`](Map::insert).
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.entries.set(key.as_ref(), None).wait()
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
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.entries.update(key.as_ref(), move |old| Ok(change(old))).wait()
    }

    /// As [`update`](Map::update). An error of `change` leaves the value as it is.
    ///
    /// ```
    /// # use ebbtide_engine::embedded as ebbtide;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data.ebb");
    /// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
    /// use ebbtide::Error;
    ///
    /// let stock = store.map("stock")?;
    /// stock.insert("tea", [1])?;
    /// let take = |old: Option<&[u8]>| match old {
    ///     Some(&[left]) if left > 0 => Ok(Some(vec![left - 1])),
    ///     _ => Err(Error::program("sold out")),
    /// };
    /// assert_eq!(stock.try_update("tea", take)?, Some(vec![0]));
    /// assert_eq!(stock.try_update("tea", take).unwrap_err().to_string(), "sold out");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `change`, and as [`insert`](Map::insert).
    pub fn try_update(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Result<Option<Vec<u8>>, Error> + Send + 'static,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.entries.update(key.as_ref(), change).wait()
    }

    /// Stores all `pairs`, with many changes under way at once, and returns their number. Each pair
    /// is durable when this returns, as the store's policy says. If a key comes several times, any
    /// of its values may stay. After an error, some pairs may be stored.
    ///
    /// ```
    /// # use ebbtide_engine::embedded as ebbtide;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data.ebb");
    /// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
    /// let squares = store.ordered_map("squares")?;
    /// let pairs = (0..1000u32).map(|n| (n.to_be_bytes(), (n * n).to_le_bytes()));
    /// assert_eq!(squares.load(pairs)?, 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`insert`](Map::insert).
    pub fn load<K: AsRef<[u8]>, V: Into<Vec<u8>>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64, Error> {
        let pairs = pairs.into_iter().map(|(key, value)| (key.as_ref().to_vec(), value.into()));
        self.entries.load(pairs)
    }

    /// Makes all `changes` as one transaction, in their order: each is a key with its new value, or
    /// `None` to remove it. Values above 32,704 bytes may be among them. The rest must fit in a
    /// transaction. Its bound is 4 MiB, a sixteenth of the log or a 32nd of the DRAM budget,
    /// whichever is least. It is never below 64 KiB. It may change an eighth of the pages in the
    /// cache.
    ///
    /// ```
    /// # use ebbtide_engine::embedded as ebbtide;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data.ebb");
    /// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
    /// let homes = store.map("homes")?;
    /// homes.insert("ada", "Paris")?;
    /// homes.apply([("ada", None), ("grace", Some("London"))])?;
    /// assert_eq!((homes.len()?, homes.contains_key("ada")?), (1, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`insert`](Map::insert), and when the changes are too large for a transaction.
    pub fn apply<K: AsRef<[u8]>, V: Into<Vec<u8>>>(
        &self,
        changes: impl IntoIterator<Item = (K, Option<V>)>,
    ) -> Result<(), Error> {
        let owned = |(key, new): (K, Option<V>)| (key.as_ref().to_vec(), new.map(Into::into));
        self.entries.apply(changes.into_iter().map(owned).collect()).wait()
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
    /// All keys with their values, in no order. A key that is there all the time comes exactly
    /// once.
    pub fn iter(&self) -> Iter {
        Iter(Walk::Unordered(Hashes::new(&self.entries, true)))
    }

    /// All keys, in no order, as in [`iter`](Map::iter). Values are not read.
    pub fn keys(&self) -> Keys {
        Keys(Walk::Unordered(Hashes::new(&self.entries, false)))
    }
}
