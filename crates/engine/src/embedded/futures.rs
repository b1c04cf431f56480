//! [`Futures`]: the operations of a map for async tasks.

use std::marker::PhantomData;

use super::entries::Entries;
use super::map::{Map, Unordered};
use super::pending::Pending;

/// The operations of a [`Map`] that return before they are done: [`Map::futures`].
///
/// A call never waits for a place in the queue, so tasks of any executor may make it. Only while
/// the store [grows](super::Store::grow) it blocks. Each result is a [`Pending`], which is a
/// future.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// let users = store.map("users")?.futures();
/// let task = async {
///     users.insert("ada", "Lovelace").await?;
///     users.get("ada").await
/// };
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// assert_eq!(runtime.block_on(task)?.as_deref(), Some(&b"Lovelace"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Futures<Order = Unordered> {
    entries: Entries,
    order: PhantomData<Order>,
}

impl<Order> Map<Order> {
    /// The same map for async tasks.
    pub fn futures(&self) -> Futures<Order> {
        Futures { entries: self.entries.clone(), order: PhantomData }
    }
}

impl<Order> Futures<Order> {
    /// As [`Map::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Pending<Option<Vec<u8>>> {
        self.entries.get(key.as_ref())
    }

    /// As [`Map::contains_key`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Pending<bool> {
        self.entries.contains(key.as_ref())
    }

    /// As [`Map::insert`].
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) -> Pending<bool> {
        self.entries.set(key.as_ref(), Some(value.into()))
    }

    /// As [`Map::remove`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Pending<bool> {
        self.entries.set(key.as_ref(), None)
    }

    /// As [`Map::update`].
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>> + Send + 'static,
    ) -> Pending<Option<Vec<u8>>> {
        self.entries.update(key.as_ref(), move |old| Ok(change(old)))
    }
}
