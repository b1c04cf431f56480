//! [`Keyspace`]: databases of keys with values of any size and times of expiry, all in memory
//! pages.
//!
//! It holds the data of a key-value server. Every database has a tree of 4 KiB leaves over 48-bit
//! hashes of its keys. A small value lies next to its key, so a cold look-up reads one page. A
//! larger one has pages of its own, which the entry lists. Its bytes beyond whole pages lie next to
//! the key if they are few enough. A value of more than [`WHOLE_BYTES_MAX`] is written and read
//! [piece by piece](Large). Nothing outside of memory grows with the number of keys.
//!
//! ```text
//! page 0     identity, detached values, allocator, a line a database, discarded trees, 256 stripe
//!            latches
//! page 1–8   keys and keys with expiry, by database and stripe
//! page 9 on  leaves, inner pages, values, lists of free pages
//! ```
//!
//! The first word of every page from 9 on is a latch, and nothing else is ever stored there.
//!
//! # Concurrency
//! A key belongs to a *stripe*. A job that changes keys holds their stripes
//! ([`Keyspace::exclusive`]). So no other job sees a change half done, and a value that was read
//! stays until it is written. A job that reads without a stripe does so in
//! [`Keyspace::consistent`].
//!
//! ```
//! use ebbtide_core::Addr;
//! use ebbtide_structures::keyspace::{HashSecret, Keyspace};
//! use ebbtide_testbed::Plain;
//!
//! let mut memory = Plain::zeroed(1 << 20);
//! let keys = Keyspace::format(&mut memory, Addr(0), 256, HashSecret([3, 4]));
//! let key = keys.key(b"greeting");
//! let (set, _) = keys.exclusive(&mut memory, &[key.hash], |memory| {
//!     keys.set(memory, 0, &key, b"hello", None)
//! })?;
//! assert_eq!(set, Ok(false), "there was no such key");
//! let mut value = Vec::new();
//! let entry = keys.find(&mut memory, 0, &key, &mut value).expect("it is there");
//! assert_eq!((entry.value_bytes, &value[..]), (5, &b"hello"[..]));
//! # Ok::<(), ebbtide_core::durability::TransactionError>(())
//! ```

mod change;
mod collection;
mod detached;
mod discard;
mod due;
mod due_record;
mod entry;
mod expire;
mod inner;
mod join;
mod key;
mod kind;
mod large;
mod layout;
mod leaf;
mod order;
mod pages;
mod reclaim;
mod sample;
mod tree;
mod values;
mod varint;

use ebbtide_core::durability::{Lsn, TransactionError};
use ebbtide_core::{Addr, FullMemory, PAGE_BYTES};
use smallvec::SmallVec;

pub use collection::{
    Collection, Consumer, ELEMENT_BYTES_MAX, EntryId, ExpiredFields, Field, Group, GroupRecord,
    MEMBER_BYTES_MAX, NAME_BYTES_MAX, ORDERED_BYTES_MAX, Pending, SCAN_END, Score, StreamState,
    fields_of,
};
pub use entry::{Entry, LargeId, VALUE_BYTES_MAX, WHOLE_BYTES_MAX};
pub use expire::{Due, Expired};
pub use key::{HashSecret, KEY_BYTES_MAX, Key, SLOTS, hashes_of_slot, slot};
pub use kind::Kind;
pub use large::Large;
pub use layout::HASHES;
pub use pages::Full;
pub use sample::Sampled;

use crate::latch;
use entry::{load_key, load_kind};
use layout::PageNumber;
use order::Order;
use pages::Pages;
use tree::Tree;

/// Databases of a keyspace.
pub const DATABASES: usize = 16;

/// Number of stripes of keys. A key of hash `h` belongs to stripe `h % STRIPES`.
pub const STRIPES: u64 = 256;

/// The first word of a keyspace: its name, and the version of its format in the last byte.
const MAGIC: u64 = u64::from_le_bytes(*b"EBBKEYS\x00") | VERSION << VERSION_SHIFT;
const VERSION: u64 = 8;

/// The oldest version that is opened. It has strings only, version 5 has no streams, version 6 no
/// consumer groups, and version 7 no values with tails. Other values have the same form in all of
/// them.
const VERSION_MIN: u64 = 4;
const VERSION_SHIFT: u32 = 56;

/// Offsets of the parts of the header page.
const DETACHED: u64 = 32;
const ALLOCATOR: u64 = 64;
const DATABASE_LINES: u64 = 128;
const DISCARDED: u64 = DATABASE_LINES + DATABASES as u64 * 64;
const STRIPE_LATCHES: u64 = 2048;

/// The first page of counts, and the first page without a fixed use.
const COUNTS_PAGE: u64 = 1;
const FIRST_FREE: PageNumber = 9;

/// The fewest pages of a keyspace.
pub const PAGES_MIN: u64 = 64;

/// Numbers of keys of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All keys, including those that have expired and were not removed yet.
    pub keys: u64,
    /// Keys with a time of expiry.
    pub expiring: u64,
}

/// Why the memory has no usable keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotKeyspace {
    /// The memory holds something else, or a damaged keyspace.
    #[error("the memory holds no keyspace")]
    Other,
    /// The memory holds a keyspace of another version of the format.
    #[error(
        "the keyspace has version {0} of its format, expected {VERSION_MIN} to {VERSION}: the build \
         that made it can read its keys"
    )]
    Version(u64),
}

/// A key found by a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scanned {
    /// The key.
    pub key: Vec<u8>,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<u64>,
    /// The kind of its value.
    pub kind: Kind,
}

/// Databases of keys in memory. It is a handle of a few numbers, which jobs copy and share.
#[derive(Clone, Copy, Debug)]
pub struct Keyspace {
    base: Addr,
    pages: Pages,
    secret: HashSecret,
    now_ms: u64,
    keeps_expired: bool,
}

impl Keyspace {
    /// Makes an empty keyspace of the `pages` pages from `base` on.
    ///
    /// # Panics
    /// When there are fewer than [`PAGES_MIN`] or more than 2³², or `base` is not the start of a
    /// page.
    pub fn format<M: FullMemory>(
        memory: &mut M,
        base: Addr,
        pages: u64,
        secret: HashSecret,
    ) -> Keyspace {
        crate::check_base(base);
        assert!((PAGES_MIN..=1 << 32).contains(&pages), "a keyspace of {pages} pages");
        for word in 0..u64::from(FIRST_FREE) * PAGE_BYTES as u64 / 8 {
            memory.store(base + word * 8, 0u64);
        }
        let keyspace = Keyspace::new(base, pages, secret);
        keyspace.pages.format(memory, FIRST_FREE);
        memory.store(base + 8, [pages, secret.0[0], secret.0[1]]);
        memory.store(base, MAGIC);
        keyspace
    }

    /// Opens the keyspace that was made at `base`.
    ///
    /// # Errors
    /// If there is none.
    pub fn open<M: FullMemory>(memory: &mut M, base: Addr) -> Result<Keyspace, NotKeyspace> {
        let [magic, pages, low, high]: [u64; 4] = memory.load(base);
        let fits = base.0.checked_add(pages.saturating_mul(PAGE_BYTES as u64));
        let fits = fits.is_some_and(|end| end <= memory.size_bytes());
        let version = magic >> VERSION_SHIFT;
        let named = magic ^ version << VERSION_SHIFT == MAGIC ^ VERSION << VERSION_SHIFT;
        if named && !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(NotKeyspace::Version(version));
        }
        if !named || pages < PAGES_MIN || !fits {
            return Err(NotKeyspace::Other);
        }
        Ok(Keyspace::new(base, pages, HashSecret([low, high])))
    }

    /// Returns the same keyspace in the current version of the format, with `pages` pages. New
    /// pages are empty. Builds that know only an older version then refuse it. No other job may
    /// use the keyspace.
    ///
    /// # Panics
    /// When there are fewer pages than before, or more than 2³².
    #[must_use]
    pub fn updated<M: FullMemory>(self, memory: &mut M, pages: u64) -> Keyspace {
        if memory.load::<u64>(self.base) != MAGIC {
            memory.store(self.base, MAGIC);
        }
        let before: u64 = memory.load(self.base + 8);
        assert!((before..=1 << 32).contains(&pages), "a keyspace of {pages} pages");
        if pages == before {
            return self;
        }
        memory.store(self.base + 8, pages);
        Keyspace::new(self.base, pages, self.secret)
    }

    fn new(base: Addr, pages: u64, secret: HashSecret) -> Keyspace {
        let pages = Pages::new(base, base + ALLOCATOR, pages);
        Keyspace { base, pages, secret, now_ms: 0, keeps_expired: false }
    }

    /// Returns the keyspace as of this time, in milliseconds since the Unix epoch. Keys that have
    /// expired by then make room for others.
    pub fn at(self, now_ms: u64) -> Keyspace {
        Keyspace { now_ms, ..self }
    }

    /// Returns the keyspace with this choice: if true, changes remove no other keys that have
    /// expired to make room. They are removed by [`expire`](Keyspace::expire) only.
    #[must_use]
    pub fn keeping_expired(self, keeps_expired: bool) -> Keyspace {
        Keyspace { keeps_expired, ..self }
    }

    /// `bytes` as a key of this keyspace.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        self.secret.key(bytes)
    }

    /// Runs `body` as one transaction that no other job sees half done. It may change keys of these
    /// hashes only. No hash stands for all keys: `body` then has the keyspace alone.
    ///
    /// # Errors
    /// As [`Memory::transaction`](ebbtide_core::Memory::transaction).
    pub fn exclusive<M: FullMemory, R>(
        &self,
        memory: &mut M,
        hashes: &[u64],
        body: impl FnMut(&mut M) -> R,
    ) -> Result<(R, Lsn), TransactionError> {
        self.alone(memory, hashes, |memory| memory.transaction(body))
    }

    /// Runs `body`, which may change keys of these hashes only. No other job changes or sees those
    /// keys during that. `body` makes its own transactions. No hash stands for all keys.
    pub fn alone<M: FullMemory, R>(
        &self,
        memory: &mut M,
        hashes: &[u64],
        body: impl FnOnce(&mut M) -> R,
    ) -> R {
        let mut latches: SmallVec<[Addr; 4]> = match hashes {
            [] => (0..STRIPES).map(|stripe| self.latch_of(stripe)).collect(),
            hashes => hashes.iter().map(|hash| self.latch_of(stripe(*hash))).collect(),
        };
        latches.sort_unstable();
        latches.dedup();
        latch::write_all(memory, &latches, body)
    }

    /// Waits until [`wake`](Keyspace::wake) is called for a stripe, while `still` returns true. The
    /// data that `still` reads may change only while the stripe is held alone, and `wake` must
    /// follow.
    pub fn wait_for<M: FullMemory>(&self, memory: &mut M, stripe: u64, still: impl Fn() -> bool) {
        let latch = self.latch_of(stripe);
        let seen = memory.load(latch);
        if still() {
            memory.wait(latch, seen);
        }
    }

    /// Wakes the jobs that wait for the stripes of these hashes.
    pub fn wake<M: FullMemory>(&self, memory: &mut M, hashes: &[u64]) {
        hashes.iter().for_each(|hash| memory.wake(self.latch_of(stripe(*hash))));
    }

    /// Runs `body`, which reads the key of this hash, until no job has changed a key of its stripe
    /// during a run. `body` must have no effect but its result.
    pub fn consistent<M: FullMemory, R>(
        &self,
        memory: &mut M,
        hash: u64,
        body: impl FnMut(&mut M) -> R,
    ) -> R {
        latch::read(memory, self.latch_of(stripe(hash)), body)
    }

    /// Looks a key up, and appends its value to `value` if that lies next to the key.
    pub fn find<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        value: &mut Vec<u8>,
    ) -> Option<Entry> {
        let start = value.len();
        let found = self.tree(database).read(memory, key.hash, |memory, page, header| {
            value.truncate(start);
            let found = leaf::find(memory, page, header, key)?;
            Entry::load(memory, found.at, leaf::end(page), value)
        });
        found.flatten()
    }

    /// Hints the page that a look-up of a key reads, so that it is fetched ahead.
    pub fn fetch_ahead<M: FullMemory>(&self, memory: &mut M, database: usize, key: &Key<'_>) {
        self.tree(database).hint(memory, key.hash);
    }

    /// Appends `length` bytes, from byte `offset` on, of an entry's value to `into`. The value must
    /// not be [inline](Entry::is_inline).
    pub fn read_range<M: FullMemory>(
        &self,
        memory: &mut M,
        entry: &Entry,
        offset: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) {
        values::read(&self.pages, memory, &entry.place, (offset, length), into);
    }

    /// Returns the numbers of keys of a database.
    pub fn counts<M: FullMemory>(&self, memory: &mut M, database: usize) -> Counts {
        let mut counts = Counts::default();
        for stripe in (0..STRIPES).step_by(8) {
            let words: [u64; 8] = memory.load(self.count_at(database, stripe));
            for word in words {
                counts.keys += word & u64::from(u32::MAX);
                counts.expiring += word >> 32;
            }
        }
        counts
    }

    /// Returns the number of free pages, and of all pages.
    pub fn free_pages<M: FullMemory>(&self, memory: &mut M) -> (u64, u64) {
        (self.pages.free(memory), memory.load(self.base + 8))
    }

    /// Appends the keys whose hash is at least `from`, for one leaf, to `into`. Returns the hash to
    /// go on with; [`HASHES`] at the end. Calls from 0 to the end meet a key exactly once if it is
    /// there all the time.
    pub fn scan<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        from: u64,
        into: &mut Vec<Scanned>,
    ) -> u64 {
        let start = into.len();
        let next = self.tree(database).read(memory, from, |memory, page, header| {
            into.truncate(start);
            leaf::each_entry(memory, page, header, |memory, at| {
                let mut key = Vec::new();
                if let Some(expires_at_ms) = load_key(memory, at, leaf::end(page), &mut key)
                    && self.key(&key).hash >= from
                    && let Some(kind) = load_kind(memory, at, leaf::end(page))
                    && !(kind == Kind::Hash && self.has_expired_fields_only(memory, page, at))
                {
                    into.push(Scanned { key, expires_at_ms, kind });
                }
            });
            header.high
        });
        next.unwrap_or(HASHES)
    }

    /// True if the entry at `at` is of a packed hash whose fields have all expired.
    fn has_expired_fields_only<M: FullMemory>(&self, memory: &mut M, page: Addr, at: Addr) -> bool {
        let mut value = Vec::new();
        Entry::load(memory, at, leaf::end(page), &mut value);
        collection::all_over(&value, self.now_ms)
    }

    /// Removes all keys of a database at once. [`reclaim`](Keyspace::reclaim) frees their pages. No
    /// other job may use the keyspace.
    pub fn clear<M: FullMemory>(&self, memory: &mut M, database: usize) {
        let tree = self.tree(database);
        for tree in [Some(tree), tree.due()].into_iter().flatten() {
            if let Some(root) = tree.take(memory) {
                while !discard::add(self, memory, root) {
                    self.reclaim(memory);
                }
            }
        }
        for stripe in 0..STRIPES {
            let at = self.count_at(database, stripe);
            if memory.load::<u64>(at) != 0 {
                memory.store(at, 0u64);
            }
        }
    }

    /// Frees one page of the index of a cleared database, with the values of its keys. Returns true
    /// if there was one.
    pub fn reclaim<M: FullMemory>(&self, memory: &mut M) -> bool {
        discard::reclaim(self, memory)
    }

    /// True if the leaf of this hash has lost enough entries that it should be
    /// [joined](Keyspace::join).
    pub fn is_sparse<M: FullMemory>(&self, memory: &mut M, database: usize, hash: u64) -> bool {
        self.tree(database).is_sparse(memory, hash)
    }

    /// Joins the leaf of this hash with its neighbours if their entries fit together. Returns true
    /// if a page was freed. The caller must hold a stripe, so that no database is cleared or
    /// swapped during the call.
    pub fn join<M: FullMemory>(&self, memory: &mut M, database: usize, hash: u64) -> bool {
        self.tree(database).join(memory, hash)
    }

    /// As [`join`](Keyspace::join). Also returns the hash at which the next leaf begins; [`HASHES`]
    /// at the end.
    pub fn join_from<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        from: u64,
    ) -> (bool, u64) {
        let joined = self.join(memory, database, from);
        let next = self.tree(database).read(memory, from, |_, _, header| header.high);
        (joined, next.unwrap_or(HASHES))
    }

    /// Exchanges two databases. No other job may use the keyspace.
    pub fn swap<M: FullMemory>(&self, memory: &mut M, one: usize, other: usize) {
        let mut exchange = |a: Addr, b: Addr| {
            let (in_a, in_b): (u64, u64) = (memory.load(a), memory.load(b));
            memory.store(a, in_b);
            memory.store(b, in_a);
        };
        for root in [tree::ROOT, due::BESIDE + tree::ROOT] {
            exchange(self.tree(one).line + root, self.tree(other).line + root);
        }
        for stripe in 0..STRIPES {
            exchange(self.count_at(one, stripe), self.count_at(other, stripe));
        }
    }

    fn tree(&self, database: usize) -> Tree {
        assert!(database < DATABASES);
        let line = self.base + DATABASE_LINES + database as u64 * 64;
        Tree { line, pages: self.pages, order: Order::Hashed(self.secret) }
    }

    fn count_at(&self, database: usize, stripe: u64) -> Addr {
        let index = database as u64 * STRIPES + stripe;
        self.base + COUNTS_PAGE * PAGE_BYTES as u64 + index * 8
    }

    fn latch_of(&self, stripe: u64) -> Addr {
        self.base + STRIPE_LATCHES + stripe * 8
    }
}

fn stripe(hash: u64) -> u64 {
    hash % STRIPES
}
