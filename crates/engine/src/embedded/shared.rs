//! [`Shared`]: the state that the handles of a store share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebbtide_structures::keyspace::{HASHES, Keyspace};
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};

use super::error::Error;
use super::layout::Layout;
use super::limits::{MAPS_MAX, NAME_BYTES_MAX, NAMES};
use super::pending::Pending;
use super::room::Room;
use super::space::{Changed, Space, committed};
use super::values;
use crate::api::engine::Engine;
use crate::api::job_queue::Jobs;
use crate::api::options::Options;
use crate::core::flash_memory::FlashMemory;
use crate::core::worker::check_not_in_a_job;
use crate::host::of_process::OfProcess;
use crate::store::Store as File;

/// An open store: jobs on its cores, and the places of its maps.
pub(super) struct Open {
    pub(super) jobs: Jobs,
    pub(super) space: Space,
    pub(super) layout: Layout,
}

impl Open {
    /// Starts the cores over the store in `file`. It is made by `new` if its memory is blank.
    pub(super) fn start(file: File, options: &Options, new: Layout) -> Result<Open, Error> {
        let file = Arc::new(file);
        Open::over(&file, options, new).inspect_err(|_| file.discard_new())
    }

    fn over(file: &Arc<File>, options: &Options, new: Layout) -> Result<Open, Error> {
        let engine = Engine::open(file, options);
        let jobs = Arc::new(engine.map_err(Error::of_engine)?).start();
        let (jobs, path) = (jobs.map_err(Error::of_engine)?, file.path().to_path_buf());
        let opened = jobs.submit(move |memory| {
            let (keys, layout, is_new) = Layout::of(memory, &path, new)?;
            let space = Space { keys, order: layout.order(), room: Room::default() };
            // Large values that a crash has left without a key.
            while space.room.reclaim_large(&keys, memory) {}
            Ok::<_, Error>((space, layout, is_new))
        });
        let (space, layout, is_new) = opened.wait()??;
        if is_new {
            // No policy lets a crash take the layout: the next opening may not name the sizes.
            jobs.checkpoint()?;
        }
        Ok(Open { jobs, space, layout })
    }
}

/// A store, how it was opened, and its open state. That is exchanged when the store grows, and gone
/// after a [stop](super::Store::stop).
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) options: Options,
    pub(super) open: OfProcess<RwLock<Option<Open>>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Shared");
        shown.field("path", &self.path);
        if let Ok(open) = self.open() {
            shown.field("jobs", &open.jobs);
        }
        shown.finish_non_exhaustive()
    }
}

/// The kind of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Map = 0,
    OrderedMap = 1,
    List = 2,
}

impl Kind {
    fn describe(self) -> &'static str {
        match self {
            Kind::Map => "a map",
            Kind::OrderedMap => "an ordered map",
            Kind::List => "a list",
        }
    }
}

impl Shared {
    pub(super) fn new(path: &Path, options: Options, open: Open) -> Shared {
        let open = OfProcess::new(RwLock::new(Some(open)));
        Shared { path: path.to_path_buf(), options, open }
    }

    /// The open store, which stays open as long as the result exists. Waits while the store grows.
    pub(super) fn open(&self) -> Result<MappedRwLockReadGuard<'_, Open>, Error> {
        self.open.check().map_err(Error::Forked)?;
        let open = self.open.try_read().unwrap_or_else(|| {
            check_not_in_a_job("waiting for a store that grows or stops");
            self.open.read()
        });
        RwLockReadGuard::try_map(open, Option::as_ref).map_err(|_| Error::Closed)
    }

    /// Lets all jobs end and closes the store.
    pub(super) fn stop(&self) -> Result<(), Error> {
        check_not_in_a_job("stopping a store");
        self.open.check().map_err(Error::Forked)?;
        let open = self.open.write().take();
        Ok(open.ok_or(Error::Closed)?.jobs.stop()?)
    }

    /// Submits a job.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Space, &mut FlashMemory<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        Pending::of(self.open().map(|open| {
            let space = open.space.clone();
            open.jobs.submit_now(move |memory| job(&space, memory))
        }))
    }

    /// Runs a job and waits for its result.
    pub(super) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Space, &mut FlashMemory<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.submit(job).wait()
    }

    /// Submits a job that ends in a transaction.
    pub(super) fn commit<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Space, &mut FlashMemory<'_>) -> Changed<T> + Send + 'static,
    ) -> Pending<T> {
        Pending::of_commit(self.open().map(|open| {
            let space = open.space.clone();
            open.jobs.submit_commit_now(move |memory| job(&space, memory))
        }))
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
            if let Some(value) = values::read_held(space, memory, NAMES, &entry) {
                let found = match value.first() {
                    Some(0) => Kind::Map,
                    Some(1) => Kind::OrderedMap,
                    _ => Kind::List,
                };
                if found != kind {
                    let (name, found) = (name.clone(), found.describe());
                    return Err(Error::OtherMap { name, found, expected: kind.describe() });
                }
                return Ok(usize::from(value.get(1).copied().unwrap_or(0)));
            }
            let taken = numbers(space, memory);
            let number = (0..MAPS_MAX).find(|number| !taken.contains(number));
            let number = number.ok_or(Error::TooManyMaps)?;
            keys.set(memory, NAMES, &entry, &[kind as u8, number as u8], None)?;
            Ok(number)
        };
        let numbered = self.commit(move |space, memory| {
            let find =
                |memory: &mut FlashMemory<'_>| committed(memory, |memory| find(space, memory));
            space.change(memory, NAMES, &[], find)
        });
        numbered.wait()
    }

    /// The names of all maps, in order.
    pub(super) fn names(&self) -> Result<Vec<String>, Error> {
        self.run(move |space, memory| {
            let mut names = all_names(&space.keys, memory);
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
fn numbers(space: &Space, memory: &mut FlashMemory<'_>) -> Vec<usize> {
    let names = all_names(&space.keys, memory);
    let values = names
        .iter()
        .filter_map(|name| values::read_held(space, memory, NAMES, &space.keys.key(name)));
    values.map(|value| usize::from(value.get(1).copied().unwrap_or(0))).collect()
}
