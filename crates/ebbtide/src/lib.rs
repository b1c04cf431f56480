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

pub use ebbtide_core::Memory;
pub use ebbtide_core::durability::Policy;
pub use ebbtide_engine::embedded::{
    Builder, Elements, Error, FixedKey, Futures, Iter, KEY_BYTES_MAX, Key, KeyBytes, Keys, List,
    MAPS_MAX, Map, NAME_BYTES_MAX, Ordered, OrderedMap, Pending, Range, Scope, Store, Typed,
    Unordered, VALUE_BYTES_MAX, order_bytes_for,
};
pub use ebbtide_engine::{FlashMemory, Snapshot};

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
    pub use ebbtide_core::Value;
    pub use ebbtide_structures::{Map, Vector};
}
