//! [`Store`]: an open store, with maps by name and jobs of the program's own.

use std::sync::Arc;

use ebbtide_core::Value;
use ebbtide_structures::{Catalogue, CatalogueError, Map as TypedMap, Vector};

use super::entries::Entries;
use super::error::Error;
use super::list::List;
use super::map::Map;
use super::ordered_map::OrderedMap;
use super::pending::Pending;
use super::shared::{Kind, Shared};
use super::space::committed;
use crate::core::flash_memory::FlashMemory;
use crate::sync::counters::Snapshot;

/// An open store: maps by name in a file, behind a DRAM cache. Opened by [`Store::builder`].
///
/// Clones and maps are handles of the same store. It is closed when the last of them is dropped.
/// After a fork it belongs to the parent.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// use ebbtide::Store;
///
/// let store = Store::builder(&path).size("4MiB").dram("8MiB").open()?;
/// store.map("users")?.insert("ada", "Lovelace")?;
/// store.ordered_map("days")?;
/// store.stop()?;
/// let again = Store::builder(&path).dram("8MiB").open()?;
/// assert_eq!(again.names()?, ["days", "users"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) shared: Arc<Shared>,
}

impl Store {
    pub(super) fn new(shared: Shared) -> Store {
        Store { shared: Arc::new(shared) }
    }

    /// The map of that name, which is made empty if there is none. A store has at most 15 maps of
    /// all kinds. Keys can be removed from a map, but the map itself stays.
    ///
    /// # Errors
    /// [`Error`] when a map of another kind has the name, or there is no room for another map.
    pub fn map(&self, name: &str) -> Result<Map, Error> {
        self.entries(name, Kind::Map).map(Map::new)
    }

    /// The ordered map of that name, which is made empty if there is none.
    ///
    /// # Errors
    /// As [`map`](Store::map).
    pub fn ordered_map(&self, name: &str) -> Result<OrderedMap, Error> {
        self.entries(name, Kind::OrderedMap).map(Map::new)
    }

    /// The list of that name, which is made empty if there is none. It counts as a map.
    ///
    /// # Errors
    /// As [`map`](Store::map).
    pub fn list<T>(&self, name: &str) -> Result<List<T>, Error> {
        self.entries(name, Kind::List).map(List::new)
    }

    fn entries(&self, name: &str, kind: Kind) -> Result<Entries, Error> {
        let number = self.shared.numbered(name, kind)?;
        Ok(Entries::new(self.shared.clone(), number, kind == Kind::OrderedMap))
    }

    /// The names of all maps and lists, in order.
    ///
    /// # Errors
    /// [`Error`] when they cannot be read.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        self.shared.names()
    }

    /// Runs a job on a core of the store and waits for its result. The job works on typed
    /// structures, such as a [`vector`](Store::vector) or a [`typed_map`](Store::typed_map).
    ///
    /// ```
    /// # use ebbtide_engine::embedded as ebbtide;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data.ebb");
    /// use ebbtide::Store;
    ///
    /// let store = Store::builder(path).size("4MiB").structures("1MiB").dram("8MiB").open()?;
    /// let visits = store.vector::<u64>("visits by country", 200)?;
    /// let second = store.run(move |memory| {
    ///     visits.update(memory, 7, |count| count + 1);
    ///     visits.update(memory, 7, |count| count + 1);
    ///     Ok(visits.get(memory, 7))
    /// })?;
    /// assert_eq!(second, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of the job, also what ended it: a fault of the device, a deadlock or a panic.
    ///
    /// # Panics
    /// Inside a job, whose core would wait with it.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut FlashMemory<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.submit(job).wait()
    }

    /// Submits a job, and returns while it runs. Never waits for a place in the queue, so that
    /// async tasks may call it. A program that submits without end should wait for results in
    /// between, or use a [`scope`](Store::scope).
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut FlashMemory<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        self.shared.submit(|_, memory| job(memory))
    }

    /// Runs `body` as one [transaction](ebbtide_core::Memory::transaction), and waits until it is
    /// durable as the store's policy says. An error of `body` rolls it back. `body` may run more
    /// than once, and only its last run counts.
    ///
    /// ```
    /// # use ebbtide_engine::embedded as ebbtide;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data.ebb");
    /// # let builder = ebbtide::Store::builder(path).size("4MiB").structures("1MiB").dram("8MiB");
    /// # let store = builder.open()?;
    /// let accounts = store.vector::<u64>("accounts", 100)?;
    /// let refused = store.transaction(move |memory| {
    ///     accounts.set(memory, 1, 30);
    ///     match accounts.get(memory, 2).checked_sub(30) {
    ///         Some(left) => Ok(accounts.set(memory, 2, left)),
    ///         None => Err(ebbtide::Error::program("not enough")),
    ///     }
    /// });
    /// assert_eq!(refused.unwrap_err().to_string(), "not enough");
    /// assert_eq!(store.run(move |memory| Ok(accounts.get(memory, 1)))?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `body`; or that of the log, which cannot be written any more.
    ///
    /// # Panics
    /// As [`run`](Store::run).
    pub fn transaction<T: Send + 'static>(
        &self,
        body: impl FnMut(&mut FlashMemory<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.submit_transaction(body).wait()
    }

    /// As [`transaction`](Store::transaction), but returns at once.
    pub fn submit_transaction<T: Send + 'static>(
        &self,
        mut body: impl FnMut(&mut FlashMemory<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        self.shared.commit(move |_, memory| committed(memory, &mut body))
    }

    /// The vector of that name, which is made of zeros if there is none. Jobs use it.
    ///
    /// # Errors
    /// [`Error`] when the name is another structure's, or the room for
    /// [`structures`](super::Builder::structures) is too small.
    pub fn vector<T: Value>(&self, name: &str, len: u64) -> Result<Vector<T>, Error> {
        self.structure(name, move |catalogue, memory, name| catalogue.vector(memory, name, len))
    }

    /// The map of that name for keys and values of fixed size, which is made empty if there is
    /// none. Jobs use it.
    ///
    /// # Errors
    /// As [`vector`](Store::vector).
    pub fn typed_map<K: Value, V: Value>(
        &self,
        name: &str,
        capacity: u64,
    ) -> Result<TypedMap<K, V>, Error> {
        self.structure(name, move |catalogue, memory, name| catalogue.map(memory, name, capacity))
    }

    fn structure<S: Send + 'static>(
        &self,
        name: &str,
        find: impl Fn(&Catalogue, &mut FlashMemory<'_>, &str) -> Result<S, CatalogueError>
        + Send
        + 'static,
    ) -> Result<S, Error> {
        let (start, bytes) = self.shared.open()?.layout.structures();
        if bytes == 0 {
            let problem = "none, expected room for typed structures when the store is made";
            return Err(Error::option("structures", problem));
        }
        let name = name.to_string();
        self.run(move |memory| {
            let catalogue = Catalogue::open(memory, start, bytes)?;
            Ok(find(&catalogue, memory, &name)?)
        })
    }

    /// Returns the engine's counts since the store was opened, or has grown.
    ///
    /// # Errors
    /// [`Error::Forked`] or [`Error::Closed`].
    pub fn counters(&self) -> Result<Snapshot, Error> {
        Ok(self.shared.open()?.jobs.engine().counters().snapshot())
    }

    /// Lets all submitted jobs end, and closes the store. Later calls through any handle are
    /// [`Error::Closed`]. Without a stop, the store is closed when its last handle is dropped.
    ///
    /// ```
    /// # use ebbtide_engine::embedded as ebbtide;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data.ebb");
    /// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
    /// let users = store.map("users")?;
    /// store.stop()?;
    /// assert!(matches!(users.get("ada"), Err(ebbtide::Error::Closed)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Engine`] when jobs do not end in 30 seconds, with their names; or
    /// [`Error::Closed`].
    ///
    /// # Panics
    /// Inside a job, which would wait for itself.
    pub fn stop(&self) -> Result<(), Error> {
        self.shared.stop()
    }
}
