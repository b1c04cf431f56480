//! Flash as memory: maps in a file far larger than DRAM, and jobs that a miss does not block.
//!
//! ```no_run
#![doc = include_str!("../examples/quickstart.rs")]
//! ```
//!
//! The keys and values lie in the file. They survive a crash, and all memory stays within the DRAM
//! budget. Any thread may call the store.
//!
//! | to | use |
//! |---|---|
//! | open or make a store, and enlarge it | [`Store::builder`], [`Store::grow`] |
//! | keep keys and values of bytes | [`Store::map`] |
//! | keep them in order, and read ranges | [`Store::ordered_map`] |
//! | give keys and values Rust types | [`Map::typed`] |
//! | keep values of a Rust type by index | [`Store::list`] |
//! | change a value as one transaction | [`Map::update`] |
//! | change many keys as one transaction, or fast | [`Map::apply`], [`Map::load`] |
//! | call maps from async tasks | [`Map::futures`] |
//! | keep values of fixed size, for jobs | [`Store::vector`], [`Store::typed_map`] |
//! | run a job over those | [`Store::run`], or [`Store::submit`] for many at once |
//! | run many jobs that borrow | [`Store::scope`] |
//! | change several of those as one | [`Store::transaction`] |
//! | use existing containers with plain pointers | [`mapped`] |
//!
//! Examples: `counters` is a durable service under tokio, `bulk_import` loads 10 million records,
//! and `readers_and_writers` has threads of both kinds.
//!
//! A job runs on a user-level thread of one of the store's cores. When it touches a page that is on
//! flash, the core runs other jobs until the page is there. So many jobs at once hide the latency
//! of the drive; one caller that waits for each answer sees it.
//!
//! The crate has no logic of its own. Programs with data structures of their own use
//! `ebbtide-engine`.

#![forbid(unsafe_code)]

/// A job of a store gets a [`FlashMemory`], which has the calls of this trait. Pass that type to
/// the structures of [`typed`]. A job may have several transactions of its own:
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// use ebbtide::typed::Vector;
/// use ebbtide::{FlashMemory, Memory, Store};
///
/// fn total(memory: &mut FlashMemory<'_>, prices: Vector<u64>) -> u64 {
///     (0..prices.len()).map(|item| prices.get(memory, item)).sum()
/// }
///
/// let store = Store::builder(path).size("4MiB").structures("1MiB").dram("8MiB").open()?;
/// let prices = store.vector::<u64>("prices", 100)?;
/// let sum = store.run(move |memory| {
///     let (sum, lsn) = memory.transaction(|memory| {
///         prices.set(memory, 7, 12);
///         total(memory, prices)
///     })?;
///     memory.durable(lsn)?; // the price survives a crash from here on
///     Ok(sum)
/// })?;
/// assert_eq!(sum, 12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use ebbtide_core::Memory;
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// use ebbtide::{Policy, Store};
///
/// let policy: Policy = "every:1s".parse()?;
/// let builder = Store::builder(path).size("4MiB").dram("8MiB");
/// let users = builder.durability(policy).open()?.map("users")?;
/// users.insert("ada", "Lovelace")?; // a crash may lose the last second
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use ebbtide_core::durability::Policy;
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// use ebbtide::{Error, FlashMemory, Store};
///
/// fn hello(_memory: &mut FlashMemory<'_>) -> Result<&'static str, Error> {
///     Ok("runs on a user-level thread")
/// }
///
/// let store = Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// assert_eq!(store.run(hello)?, "runs on a user-level thread");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use ebbtide_engine::FlashMemory;
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// use ebbtide::{Snapshot, Store};
///
/// let store = Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// let before: Snapshot = store.counters()?;
/// store.map("users")?.insert("ada", "Lovelace")?;
/// assert!(store.counters()?.accesses > before.accesses);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use ebbtide_engine::Snapshot;
pub use ebbtide_engine::embedded::{
    Builder, Elements, Error, FixedKey, Futures, Iter, KEY_BYTES_MAX, Key, KeyBytes, Keys, List,
    MAPS_MAX, Map, NAME_BYTES_MAX, Ordered, OrderedMap, Pending, Range, Scope, Store, Typed,
    Unordered, VALUE_BYTES_MAX, order_bytes_for,
};

/// Plain pointers to data on flash, for containers that exist already. `docs/MAPPED.md` has the
/// rules.
///
/// ```
/// use ebbtide::mapped::{Heap, MappedStore, RwLock};
/// use hashbrown::HashMap;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("regions.ebb");
/// # if ebbtide::mapped::KernelSupport::ask().is_err() {
/// #     return Ok(());
/// # }
/// let store = MappedStore::builder(path).size("64MiB").dram("24MiB").open()?;
/// let heap = Heap::new(&store.mapped("48MiB")?);
/// let users: &RwLock<_> = Box::leak(Box::new(RwLock::new(HashMap::new_in(heap))));
/// store.run(|| users.write().insert(1u64, 815u64))?;
/// assert_eq!(store.run(|| users.read().get(&1).copied())?, Some(815));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod mapped {
    pub use ebbtide_engine::mapped::{
        ALIGNMENT, Heap, KernelSupport, MappedBuilder, MappedCounts, MappedError, MappedStore,
        NoSwitch, Pinned, RawLock, Region, RwLock, STACK_BYTES, STACK_BYTES_MIN, let_others_run,
        no_switch,
    };
}

/// Structures of values of fixed size, which jobs use. [`Store::vector`] and [`Store::typed_map`]
/// find them.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// use ebbtide::Store;
///
/// let store = Store::builder(path).size("4MiB").structures("4MiB").dram("8MiB").open()?;
/// let scores = store.typed_map::<u64, [u64; 2]>("scores", 1_000)?;
/// let sum = store.transaction(move |memory| {
///     scores.insert(memory, 7, [3, 4])?;
///     Ok(scores.get(memory, 7).map(|[a, b]| a + b))
/// })?;
/// assert_eq!(sum, Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod typed {
    /// ```
    /// use ebbtide::typed::Value;
    ///
    /// fn words<V: Value>() -> usize {
    ///     size_of::<V>() / 8
    /// }
    /// assert_eq!((words::<u64>(), words::<[u64; 3]>()), (1, 3));
    /// ```
    pub use ebbtide_core::Value;
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data.ebb");
    /// # let builder = ebbtide::Store::builder(path).size("4MiB").structures("1MiB").dram("8MiB");
    /// # let store = builder.open()?;
    /// use ebbtide::typed::Map;
    ///
    /// let ages: Map<u64, u64> = store.typed_map("ages", 100)?;
    /// store.transaction(move |memory| Ok(ages.insert(memory, 1, 36)?))?;
    /// assert_eq!(store.run(move |memory| Ok(ages.get(memory, 1)))?, Some(36));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub use ebbtide_structures::Map;
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data.ebb");
    /// # let builder = ebbtide::Store::builder(path).size("4MiB").structures("1MiB").dram("8MiB");
    /// # let store = builder.open()?;
    /// use ebbtide::typed::Vector;
    ///
    /// let visits: Vector<u64> = store.vector("visits", 200)?;
    /// store.run(move |memory| Ok(visits.update(memory, 7, |count| count + 1)))?;
    /// assert_eq!(store.run(move |memory| Ok(visits.get(memory, 7)))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub use ebbtide_structures::Vector;
}

/// The blocks of code of the guide compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/RUST.md")]
struct Guide;
