//! [`Dictionary`]: keys and values of any bytes in a store that survives crashes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ebbtide_core::durability::TransactionError;
use ebbtide_core::{Addr, Bytes, Memory, PAGE_BYTES};
use ebbtide_structures::keyspace::{
    Full, HASHES, KEY_BYTES_MAX, Keyspace, NotKeyspace, PAGES_MIN, WHOLE_BYTES_MAX,
};
use thiserror::Error;

use crate::api::budget::Budget;
use crate::api::engine::Engine;
use crate::api::engine_error::EngineError;
use crate::api::job_queue::Jobs;
use crate::api::key_changes::{change, join_sparse, new_secret, value_of};
use crate::api::options::Options;
use crate::core::flash_memory::FlashMemory;
use crate::core::job_error::JobError;
use crate::host::of_process::OfProcess;
use crate::store::{Access, NewStore, Store, StoreError};
use crate::sync::counters::Snapshot;

const TAG: &str = "dictionary";

/// The log takes this share of the capacity, within bounds.
const LOG_SHARE: u64 = 16;
const LOG_BYTES: std::ops::RangeInclusive<u64> = 4 << 20..=1 << 30;

/// The database of the keyspace that is used.
const DATABASE: usize = 0;

/// Keys and values of any bytes in a file, behind a DRAM cache. Any thread may use it.
///
/// Changes are made together or not at all, and a change that has returned is durable under
/// [`Options::durability`]. After a fork it belongs to the parent.
pub struct Dictionary {
    jobs: OfProcess<Jobs>,
    keys: Keyspace,
    /// The hash where joining leaves continues.
    join_from: Arc<AtomicU64>,
}

/// Shows what every core is doing and the fibers that wait for each page or word, as [`Engine`]
/// does.
impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary").field("jobs", &*self.jobs).finish_non_exhaustive()
    }
}

/// A key, and its new value or `None` to remove it.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// Why a dictionary cannot be opened or used.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum DictionaryError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("{}: holds '{found}', expected '{TAG}'", path.display())]
    Other { path: PathBuf, found: String },
    #[error("{}: has a capacity of {found}, expected {given}", path.display())]
    Capacity { path: PathBuf, found: Bytes, given: Bytes },
    #[error("a capacity of {given}, expected {least} to {most}")]
    BadCapacity { given: Bytes, least: Bytes, most: Bytes },
    #[error("{}: {error}", path.display())]
    Damaged { path: PathBuf, error: NotKeyspace },
    #[error("a key of {0} bytes, expected at most {KEY_BYTES_MAX}")]
    LongKey(usize),
    #[error("a value of {0} bytes, expected at most {WHOLE_BYTES_MAX}")]
    LongValue(usize),
    #[error("the store is full: nothing of the change took place")]
    Full,
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    #[error(transparent)]
    Job(#[from] JobError),
    #[error("opened by process {0}, before a fork: expected to be opened again after it")]
    Forked(u32),
}

impl From<StoreError> for DictionaryError {
    fn from(error: StoreError) -> DictionaryError {
        DictionaryError::Engine(error.into())
    }
}

impl DictionaryError {
    /// True if the user's input is at fault, rather than the device.
    pub fn is_input(&self) -> bool {
        match self {
            DictionaryError::Engine(EngineError::Store(error)) => error.is_input(),
            DictionaryError::Transaction(error) => error.is_input(),
            DictionaryError::Engine(EngineError::Io { .. }) | DictionaryError::Job(_) => false,
            _ => true,
        }
    }
}

impl Dictionary {
    /// Opens the dictionary in the file at `path` and recovers it. Makes one if there is no file or
    /// its making was cut off. `capacity` is the size of its pages: keys, values and index. An
    /// existing one may be opened without it. A new one made without it has the capacity `usual`.
    ///
    /// # Errors
    /// [`DictionaryError`] when the file holds something else or has another capacity, and as
    /// [`Engine::open`].
    pub fn open(
        path: &Path,
        capacity: Option<Bytes>,
        usual: Bytes,
        options: &Options,
    ) -> Result<Dictionary, DictionaryError> {
        let new = new_store(path, capacity.unwrap_or(usual));
        let store = match new.is_free()? {
            true => made(new, capacity.unwrap_or(usual), options)?,
            false => found(path, capacity)?,
        };
        let store = Arc::new(store);
        let engine = Engine::open(&store, options).inspect_err(|_| store.discard_new())?;
        let jobs = Arc::new(engine).start()?;
        let damaged = |error| DictionaryError::Damaged { path: path.to_path_buf(), error };
        let keys = jobs.submit(open_keys).wait()??.map_err(damaged)?;
        Ok(Dictionary { jobs: OfProcess::new(jobs), keys, join_from: Arc::default() })
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`DictionaryError`] when it cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DictionaryError> {
        let (keys, bytes) = (self.keys, key.to_vec());
        self.run(move |memory| value_of(&keys, memory, DATABASE, &keys.key(&bytes)))
    }

    /// Whether there is a value of `key`.
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub fn contains(&self, key: &[u8]) -> Result<bool, DictionaryError> {
        let (keys, bytes) = (self.keys, key.to_vec());
        self.run(move |memory| {
            let key = keys.key(&bytes);
            keys.consistent(memory, key.hash, |memory| {
                keys.find(memory, DATABASE, &key, &mut Vec::new()).is_some()
            })
        })
    }

    /// Makes `changes` in one step, in their order. Returns when they may be acknowledged.
    ///
    /// # Errors
    /// [`DictionaryError`]; none of the changes took place, unless the log can no longer be written
    /// ([`TransactionError::WritingEnded`]).
    pub fn change(&self, changes: Vec<Change>) -> Result<(), DictionaryError> {
        for (key, value) in &changes {
            if key.len() > KEY_BYTES_MAX {
                return Err(DictionaryError::LongKey(key.len()));
            }
            if let Some(value) = value.as_ref().filter(|v| v.len() > WHOLE_BYTES_MAX) {
                return Err(DictionaryError::LongValue(value.len()));
            }
        }
        self.check_process()?;
        if changes.is_empty() {
            return Ok(());
        }
        let (keys, join_from) = (self.keys, self.join_from.clone());
        let ticket = self.jobs.submit_commit(move |memory| {
            let hashes: Vec<u64> = changes.iter().map(|(key, _)| keys.key(key).hash).collect();
            let make = |memory: &mut FlashMemory<'_>| make_all(&keys, memory, &changes);
            let place = (DATABASE, &hashes[..]);
            let committed = change(&keys, memory, place, &join_from, make, |Full| true)?;
            for hash in hashes {
                join_sparse(&keys, memory, DATABASE, hash);
            }
            Ok(committed)
        });
        ticket.wait()??.map_err(|Full| DictionaryError::Full)
    }

    /// Returns the number of keys. Exact while there are no changes.
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub fn len(&self) -> Result<u64, DictionaryError> {
        let keys = self.keys;
        self.run(move |memory| keys.counts(memory, DATABASE).keys)
    }

    /// Whether there are no keys, as exactly as [`len`](Dictionary::len).
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub fn is_empty(&self) -> Result<bool, DictionaryError> {
        Ok(self.len()? == 0)
    }

    /// Returns some keys from the place `from` on, and the place to continue from if there are
    /// more. Start with 0. A key that exists during the whole walk is met exactly once.
    ///
    /// # Errors
    /// As [`get`](Dictionary::get).
    pub fn keys(&self, from: u64) -> Result<(Vec<Vec<u8>>, Option<u64>), DictionaryError> {
        let keys = self.keys;
        self.run(move |memory| {
            let mut scanned = Vec::new();
            let next = keys.scan(memory, DATABASE, from, &mut scanned);
            let found = scanned.into_iter().map(|scanned| scanned.key).collect();
            (found, (next < HASHES).then_some(next))
        })
    }

    /// Returns the engine's counts since it was opened.
    pub fn counters(&self) -> Snapshot {
        self.jobs.engine().counters().snapshot()
    }

    /// Refuses a forked child, as everything that uses the keys does.
    ///
    /// # Errors
    /// [`DictionaryError::Forked`] in another process than the one that has opened it.
    pub fn check_process(&self) -> Result<(), DictionaryError> {
        self.jobs.check().map_err(DictionaryError::Forked)
    }

    fn run<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut FlashMemory<'_>) -> R + Send + 'static,
    ) -> Result<R, DictionaryError> {
        self.check_process()?;
        Ok(self.jobs.submit(job).wait()?)
    }
}

/// The store that is there.
fn found(path: &Path, capacity: Option<Bytes>) -> Result<Store, DictionaryError> {
    let store = Store::open(path, 0, Access::Exclusive)?;
    let header = store.header();
    let path = || path.to_path_buf();
    if header.tag != TAG {
        return Err(DictionaryError::Other { path: path(), found: header.tag });
    }
    let found = Bytes(header.pages * PAGE_BYTES as u64);
    if let Some(given) =
        capacity.filter(|given| given.0.div_ceil(PAGE_BYTES as u64) != header.pages)
    {
        return Err(DictionaryError::Capacity { path: path(), found, given });
    }
    Ok(store)
}

/// A store for a dictionary of this capacity, without spare places as yet.
fn new_store(path: &Path, capacity: Bytes) -> NewStore {
    let pages = capacity.0.div_ceil(PAGE_BYTES as u64);
    let (path, tag) = (path.to_path_buf(), TAG.into());
    NewStore { path, offset: 0, pages, spare_pages: 0, tag, force: false }
}

fn made(new: NewStore, given: Bytes, options: &Options) -> Result<Store, DictionaryError> {
    let (pages, least, most) = (new.pages, PAGES_MIN, 1 << 32);
    if !(least..=most).contains(&pages) {
        let bytes = |pages| Bytes(pages * PAGE_BYTES as u64);
        let (least, most) = (bytes(least), bytes(most));
        return Err(DictionaryError::BadCapacity { given, least, most });
    }
    let frames = Budget::divide(options, pages)?.frames as u64;
    let new = NewStore { spare_pages: (pages / 4).max(frames), ..new };
    let log_bytes = (given.0 / LOG_SHARE).clamp(*LOG_BYTES.start(), *LOG_BYTES.end());
    Ok(Store::create_persistent(&new, log_bytes)?)
}

/// The keyspace in all of memory, which is made if that is blank.
fn open_keys(
    memory: &mut FlashMemory<'_>,
) -> Result<Result<Keyspace, NotKeyspace>, TransactionError> {
    if memory.load::<u64>(Addr(0)) != 0 {
        return Ok(Keyspace::open(memory, Addr(0)));
    }
    let secret = new_secret();
    let pages = memory.size_bytes() / PAGE_BYTES as u64;
    let (keys, lsn) =
        memory.transaction(|memory| Keyspace::format(memory, Addr(0), pages, secret))?;
    memory.durable(lsn)?;
    Ok(Ok(keys))
}

/// Makes changes in their order.
fn make_all(keys: &Keyspace, memory: &mut FlashMemory<'_>, changes: &[Change]) -> Result<(), Full> {
    for (key, value) in changes {
        let key = keys.key(key);
        match value {
            Some(value) => keys.set(memory, DATABASE, &key, value, None).map(drop)?,
            None => {
                keys.remove(memory, DATABASE, &key);
            }
        }
    }
    Ok(())
}
