//! [`Shared`]: the state that the handles of an open store share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ebbtide_core::durability::{Aborted, Lsn};
use ebbtide_core::{Addr, Memory, PAGE_BYTES};
use ebbtide_structures::OrderedMap;
use ebbtide_structures::keyspace::{HASHES, Keyspace, NotKeyspace};

use super::error::Error;
use super::limits::{MAPS_MAX, NAME_BYTES_MAX, NAMES};
use crate::api::job_queue::Jobs;
use crate::api::key_changes::{change, new_secret, value_held};
use crate::core::flash_memory::FlashMemory;
use crate::host::of_process::OfProcess;

/// The entry of the names that is no name: how many pages the order of the maps has.
const LAYOUT: &[u8] = b"";

/// How the address space is divided: keys and values, their order, and typed structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) key_pages: u64,
    pub(super) order_pages: u64,
    pub(super) structure_pages: u64,
}

impl Layout {
    pub(super) fn pages(&self) -> u64 {
        self.key_pages + self.order_pages + self.structure_pages
    }

    fn order(&self) -> OrderedMap {
        OrderedMap::at(Addr(self.key_pages * PAGE_BYTES as u64), self.order_pages)
    }

    /// Where typed structures begin, and the bytes for them.
    pub(super) fn structures(&self) -> (Addr, u64) {
        let page = PAGE_BYTES as u64;
        let start = Addr((self.key_pages + self.order_pages) * page);
        (start, self.structure_pages * page)
    }
}

/// The places of the maps of a store, as a few numbers that jobs carry.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) keys: Keyspace,
    pub(super) order: OrderedMap,
    /// The hash where joining leaves continues.
    join_from: Arc<AtomicU64>,
}

/// An open store: jobs on its cores, and the places of its maps.
pub(super) struct Shared {
    jobs: OfProcess<Jobs>,
    pub(super) space: Space,
    pub(super) layout: Layout,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("jobs", &*self.jobs).finish_non_exhaustive()
    }
}

/// The kind of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Map = 0,
    OrderedMap = 1,
}

impl Kind {
    fn describe(self) -> &'static str {
        match self {
            Kind::Map => "a map",
            Kind::OrderedMap => "an ordered map",
        }
    }
}

impl Shared {
    /// The store at `path` that `jobs` work on. It is made by `new` if its memory is blank.
    pub(super) fn open(path: &Path, jobs: Jobs, new: Layout) -> Result<Shared, Error> {
        let path = path.to_path_buf();
        let (keys, layout) = jobs.submit(move |memory| laid_out(memory, path, new)).wait()??;
        let space = Space { keys, order: layout.order(), join_from: Arc::default() };
        Ok(Shared { jobs: OfProcess::new(jobs), space, layout })
    }

    pub(super) fn jobs(&self) -> Result<&Jobs, Error> {
        self.jobs.check().map_err(Error::Forked)?;
        Ok(&self.jobs)
    }

    /// Runs a job and waits for its result.
    pub(super) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut FlashMemory<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.jobs()?.submit(job).wait()?
    }

    /// Runs `body` as a transaction that an error rolls back. Waits until it may be acknowledged.
    pub(super) fn transact<T: Send + 'static>(
        &self,
        mut body: impl FnMut(&mut FlashMemory<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let job = move |memory: &mut FlashMemory<'_>| match memory.try_transaction(&mut body) {
            Ok((value, lsn)) => Ok((Ok(value), lsn)),
            Err(Aborted::GivenUp(error)) => Ok((Err(error), Lsn::ZERO)),
            Err(Aborted::Failed(error)) => Err(error),
        };
        self.jobs()?.submit_commit(job).wait()??
    }

    /// Runs `body` as a transaction, then `after`, and waits until the transaction may be
    /// acknowledged. `body` changes only keys with these `hashes`. Without hashes it may change any
    /// key.
    pub(super) fn change<T: Send + 'static>(
        &self,
        (number, hashes): (usize, Vec<u64>),
        mut body: impl FnMut(&Space, &mut FlashMemory<'_>) -> Result<T, Error> + Send + 'static,
        after: impl FnOnce(&Space, &mut FlashMemory<'_>) + Send + 'static,
    ) -> Result<T, Error> {
        let space = self.space.clone();
        let job = move |memory: &mut FlashMemory<'_>| {
            let run = |memory: &mut FlashMemory<'_>| body(&space, memory);
            let is_full = |error: &Error| matches!(error, Error::Full);
            let place = (number, &hashes[..]);
            let done = change(&space.keys, memory, place, &space.join_from, run, is_full)?;
            after(&space, memory);
            Ok(done)
        };
        self.jobs()?.submit_commit(job).wait()??
    }

    /// The number of the map of that name, which is made if there is none.
    pub(super) fn numbered(&self, name: &str, kind: Kind) -> Result<usize, Error> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::BadName(name.to_string()));
        }
        let name = name.to_string();
        let find = move |space: &Space, memory: &mut FlashMemory<'_>| {
            let keys = space.keys;
            let entry = keys.key(name.as_bytes());
            if let Some(value) = value_held(&keys, memory, NAMES, &entry) {
                let found = if value.first() == Some(&0) { Kind::Map } else { Kind::OrderedMap };
                if found != kind {
                    let (name, found) = (name.clone(), found.describe());
                    return Err(Error::OtherMap { name, found, expected: kind.describe() });
                }
                return Ok(usize::from(value.get(1).copied().unwrap_or(0)));
            }
            let taken = numbers(&keys, memory);
            let number = (0..MAPS_MAX).find(|number| !taken.contains(number));
            let number = number.ok_or(Error::TooManyMaps)?;
            keys.set(memory, NAMES, &entry, &[kind as u8, number as u8], None)?;
            Ok(number)
        };
        self.change((NAMES, Vec::new()), find, |_, _| ())
    }

    /// The names of all maps, in order.
    pub(super) fn names(&self) -> Result<Vec<String>, Error> {
        let keys = self.space.keys;
        self.run(move |memory| {
            let mut names = all_names(&keys, memory);
            names.retain(|name| name != LAYOUT);
            names.sort();
            Ok(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
        })
    }
}

fn all_names(keys: &Keyspace, memory: &mut FlashMemory<'_>) -> Vec<Vec<u8>> {
    let (mut scanned, mut from) = (Vec::new(), 0);
    while from < HASHES {
        from = keys.scan(memory, NAMES, from, &mut scanned);
    }
    scanned.into_iter().map(|scanned| scanned.key).collect()
}

/// The numbers of all maps. The keyspace is held alone.
fn numbers(keys: &Keyspace, memory: &mut FlashMemory<'_>) -> Vec<usize> {
    let names = all_names(keys, memory);
    let named = names.iter().filter(|name| *name != LAYOUT);
    let values = named.filter_map(|name| value_held(keys, memory, NAMES, &keys.key(name)));
    values.map(|value| usize::from(value.get(1).copied().unwrap_or(0))).collect()
}

/// Returns the keyspace and the layout of a store. `new` makes the parts that do not exist yet.
fn laid_out(
    memory: &mut FlashMemory<'_>,
    path: PathBuf,
    new: Layout,
) -> Result<(Keyspace, Layout), Error> {
    if memory.load::<u64>(Addr(0)) == 0 {
        let secret = new_secret();
        memory.transaction(|memory| Keyspace::format(memory, Addr(0), new.key_pages, secret))?;
    }
    let keys = Keyspace::open(memory, Addr(0));
    let keys = keys.map_err(|error| Error::Damaged { path: path.clone(), error })?;
    let (_, key_pages) = keys.free_pages(memory);
    let all = memory.size_bytes() / PAGE_BYTES as u64;
    let order_pages = match value_held(&keys, memory, NAMES, &keys.key(LAYOUT)) {
        Some(value) => value.try_into().map(u64::from_le_bytes).ok(),
        // It was just made, or a crash came between these two steps.
        None if (key_pages, all) == (new.key_pages, new.pages()) => {
            let (key, pages) = (keys.key(LAYOUT), new.order_pages.to_le_bytes());
            let set = |memory: &mut FlashMemory<'_>| keys.set(memory, NAMES, &key, &pages, None);
            let (set, lsn) = keys.exclusive(memory, &[key.hash], set)?;
            set?;
            memory.durable(lsn)?;
            Some(new.order_pages)
        }
        None => None,
    };
    let order_pages = order_pages.filter(|pages| key_pages + pages <= all);
    let damaged = || Error::Damaged { path, error: NotKeyspace::Other };
    let order_pages = order_pages.ok_or_else(damaged)?;
    Ok((keys, Layout { key_pages, order_pages, structure_pages: all - key_pages - order_pages }))
}
