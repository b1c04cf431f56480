//! [`Store`]: an open store, with maps by name and jobs of the program's own.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ebbtide_core::Value;
use ebbtide_structures::{Catalogue, CatalogueError, Map as TypedMap, Vector};

use super::entries::Entries;
use super::error::Error;
use super::map::Map;
use super::ordered_map::OrderedMap;
use super::shared::{Kind, Shared};
use crate::api::ticket::Ticket;
use crate::core::flash_memory::FlashMemory;
use crate::sync::counters::Snapshot;

/// An open store: maps by name in a file, behind a DRAM cache. Opened by [`Store::builder`].
///
/// Clones and maps are handles of the same store. It is closed when the last of them is dropped. After a fork it
/// belongs to the parent.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

impl Store {
    pub(super) fn new(shared: Shared) -> Store {
        Store { shared: Arc::new(shared) }
    }

    /// The map of that name, which is made empty if there is none. A store has at most 15 maps of both kinds.
    ///
    /// # Errors
    /// [`Error`] when the name is an ordered map's, or there is no room for another map.
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

    fn entries(&self, name: &str, kind: Kind) -> Result<Entries, Error> {
        let number = self.shared.numbered(name, kind)?;
        Ok(Entries::new(self.shared.clone(), number, kind == Kind::OrderedMap))
    }

    /// The names of all maps, in order.
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
        self.shared.run(job)
    }

    /// Submits a job, and returns while it runs. Waits while too many jobs are queued.
    ///
    /// # Errors
    /// [`Error::Forked`] in another process than the one that has opened the store.
    ///
    /// # Panics
    /// As [`run`](Store::run).
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut FlashMemory<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<Pending<T>, Error> {
        Ok(Pending(self.shared.jobs()?.submit(job)))
    }

    /// Runs `body` as one [transaction](ebbtide_core::Memory::transaction), and waits until it is durable as the
    /// store's policy says. An error of `body` rolls it back. `body` may run more than once, and only its last
    /// run counts.
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
        self.shared.transact(body)
    }

    /// The vector of that name, which is made of zeros if there is none. Jobs use it.
    ///
    /// # Errors
    /// [`Error`] when the name is another structure's, or the room for
    /// [`structures`](super::Builder::structures) is too small.
    pub fn vector<T: Value>(&self, name: &str, len: u64) -> Result<Vector<T>, Error> {
        self.structure(name, move |catalogue, memory, name| catalogue.vector(memory, name, len))
    }

    /// The map of that name for keys and values of fixed size, which is made empty if there is none. Jobs use it.
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
        let (start, bytes) = self.shared.layout.structures();
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

    /// Returns the engine's counts since the store was opened.
    pub fn counters(&self) -> Result<Snapshot, Error> {
        Ok(self.shared.jobs()?.engine().counters().snapshot())
    }
}

/// The result of a job of [`Store::submit`]. A thread [waits](Pending::wait) for it, or a task of any executor
/// awaits it.
#[must_use = "a job's result, also its error, is in it"]
pub struct Pending<T>(Ticket<Result<T, Error>>);

impl<T> Pending<T> {
    /// Waits for the job's end.
    ///
    /// # Errors
    /// As [`Store::run`].
    ///
    /// # Panics
    /// Inside a job, whose core would wait with it.
    pub fn wait(self) -> Result<T, Error> {
        self.0.wait()?
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|ended| ended?)
    }
}
