//! [`Typed`]: a map with keys and values of Rust types.

use std::any::type_name;
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Error;
use super::key::{Key, KeyBytes};
use super::map::{Map, Unordered};
use super::ordered_map::Ordered;

/// A [`Map`] with keys and values of Rust types: [`Map::typed`].
///
/// A key is any [`Key`]. A value is any type of serde; it is stored in the format of postcard. The
/// store does not know the types, so a program must use the same ones each time.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// #[derive(serde::Serialize, serde::Deserialize, Debug, Default, PartialEq)]
/// struct Account {
///     owner: String,
///     cents: i64,
/// }
///
/// let accounts = store.ordered_map("accounts")?.typed::<u64, Account>();
/// accounts.insert(&7, &Account { owner: "Ada".into(), cents: 30 })?;
/// accounts.update(&7, |old| old.map(|old| Account { cents: old.cents + 12, ..old }))?;
/// for pair in accounts.range(5..10) {
///     let (number, account) = pair?;
///     assert_eq!((number, account.cents), (7, 42));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Typed<K, V, Order = Unordered> {
    map: Map<Order>,
    types: PhantomData<fn(K) -> V>,
}

impl<K, V, Order> Clone for Typed<K, V, Order> {
    fn clone(&self) -> Self {
        Typed { map: self.map.handle(), types: PhantomData }
    }
}

/// The bytes of a value.
pub(super) fn encode<V: Serialize>(value: &V) -> Result<Vec<u8>, Error> {
    postcard::to_stdvec(value).map_err(|error| bad::<V>("value", error))
}

/// The value of these bytes.
pub(super) fn decode<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, Error> {
    postcard::from_bytes(bytes).map_err(|error| bad::<V>("value", error))
}

fn bad<T>(what: &'static str, problem: impl ToString) -> Error {
    Error::OtherType { what, expected: type_name::<T>(), problem: problem.to_string() }
}

fn pair<K: Key, V: DeserializeOwned>(
    pair: Result<(Vec<u8>, Vec<u8>), Error>,
) -> Result<(K, V), Error> {
    let (bytes, value) = pair?;
    Ok((key(Ok(bytes))?, decode(&value)?))
}

impl<Order> Map<Order> {
    /// The same map with keys and values of Rust types.
    pub fn typed<K: Key, V: Serialize + DeserializeOwned>(&self) -> Typed<K, V, Order> {
        Typed { map: self.handle(), types: PhantomData }
    }
}

impl<K: Key, V: Serialize + DeserializeOwned, Order> Typed<K, V, Order> {
    /// As [`Map::get`].
    ///
    /// # Errors
    /// As [`Map::get`], and [`Error::OtherType`] when the value is none of this type.
    pub fn get<Q: KeyBytes + ?Sized>(&self, key: &Q) -> Result<Option<V>, Error>
    where
        K: Borrow<Q>,
    {
        let value = self.map.get(key.key_bytes())?;
        value.map(|value| decode(&value)).transpose()
    }

    /// As [`Map::contains_key`].
    ///
    /// # Errors
    /// As [`Map::contains_key`].
    pub fn contains_key<Q: KeyBytes + ?Sized>(&self, key: &Q) -> Result<bool, Error>
    where
        K: Borrow<Q>,
    {
        self.map.contains_key(key.key_bytes())
    }

    /// As [`Map::insert`].
    ///
    /// # Errors
    /// As [`Map::insert`], and [`Error::OtherType`] when serde refuses the value.
    pub fn insert<Q: KeyBytes + ?Sized>(&self, key: &Q, value: &V) -> Result<bool, Error>
    where
        K: Borrow<Q>,
    {
        self.map.insert(key.key_bytes(), encode(value)?)
    }

    /// As [`Map::remove`].
    ///
    /// # Errors
    /// As [`Map::remove`].
    pub fn remove<Q: KeyBytes + ?Sized>(&self, key: &Q) -> Result<bool, Error>
    where
        K: Borrow<Q>,
    {
        self.map.remove(key.key_bytes())
    }

    /// As [`Map::update`].
    ///
    /// # Errors
    /// As [`Map::update`], and [`Error::OtherType`] when the old value is none of this type.
    pub fn update<Q: KeyBytes + ?Sized>(
        &self,
        key: &Q,
        mut change: impl FnMut(Option<V>) -> Option<V> + Send + 'static,
    ) -> Result<Option<V>, Error>
    where
        K: Borrow<Q>,
    {
        let new = self.map.entries.update(&key.key_bytes(), move |old| {
            let new = change(old.map(decode).transpose()?);
            new.map(|new| encode(&new)).transpose()
        });
        new.wait()?.map(|new| decode(&new)).transpose()
    }

    /// As [`Map::load`].
    ///
    /// # Errors
    /// As [`Map::load`], and [`Error::OtherType`] when serde refuses a value.
    pub fn load(&self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<u64, Error> {
        let mut refused = None;
        let pairs = pairs.into_iter().map_while(|(key, value)| match encode(&value) {
            Ok(value) => Some((key.key_bytes(), value)),
            Err(error) => {
                refused = Some(error);
                None
            }
        });
        let loaded = self.map.load(pairs)?;
        refused.map_or(Ok(loaded), Err)
    }

    /// As [`Map::len`].
    ///
    /// # Errors
    /// As [`Map::len`].
    pub fn len(&self) -> Result<u64, Error> {
        self.map.len()
    }

    /// As [`Map::is_empty`].
    ///
    /// # Errors
    /// As [`Map::is_empty`].
    pub fn is_empty(&self) -> Result<bool, Error> {
        self.map.is_empty()
    }
}

/// The key of these bytes.
fn key<K: Key>(bytes: Result<Vec<u8>, Error>) -> Result<K, Error> {
    let bytes = bytes?;
    K::from_bytes(&bytes).ok_or_else(|| bad::<K>("key", format!("{} bytes", bytes.len())))
}

impl<K: Key, V: Serialize + DeserializeOwned> Typed<K, V> {
    /// All keys with their values, in no order, as [`Map::iter`].
    pub fn iter(&self) -> impl Iterator<Item = Result<(K, V), Error>> + use<K, V> {
        self.map.iter().map(pair)
    }

    /// All keys, in no order, as [`Map::keys`].
    pub fn keys(&self) -> impl Iterator<Item = Result<K, Error>> + use<K, V> {
        self.map.keys().map(key)
    }
}

impl<K: Key, V: Serialize + DeserializeOwned> Typed<K, V, Ordered> {
    /// All keys with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<(K, V), Error>> + use<K, V> {
        self.map.iter().map(pair)
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = Result<K, Error>> + use<K, V> {
        self.map.keys().map(key)
    }

    /// The keys of `range` with their values, in order.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = Result<(K, V), Error>> {
        let bounds = (
            range.start_bound().map(KeyBytes::key_bytes),
            range.end_bound().map(KeyBytes::key_bytes),
        );
        self.map.range(bounds).map(pair)
    }
}
