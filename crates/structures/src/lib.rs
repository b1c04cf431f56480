//! Typed data structures over any [`Memory`](ebbtide_core::Memory).
//!
//! The same structure works in DRAM, on flash through the engine, and in the simulator, because it
//! reaches its data through `Memory` alone. Programs, the server and users build on these:
//!
//! | structure | what it is | for |
//! |---|---|---|
//! | [`Vector`] | a fixed number of values | users |
//! | [`Map`] | a hash table of fixed capacity | users |
//! | [`BTree`] | rows by key, in order, in pages: a B+-tree | users |
//! | [`Region`] | an allocator of address ranges for these | users |
//! | [`OrderedMap`] | words by byte strings, in order, in a [`BTree`] | users |
//! | [`Catalogue`] | any of these, found again by name | users |
//! | [`keyspace::Keyspace`] | keys and values of any size, with expiry, found by hash | the crate `ebbtide`, the server |
//! | [`red_black_tree::TreeShape`] | the computed shape of a large red-black tree | programs |
//!
//! They use a few parts that a new structure can use too:
//!
//! * [`latch`]: the lock that lies in the data it protects.
//! * [`checksum`]: tells a damaged record from a whole one ([`Corrupt`]).
//! * [`image`]: writes the lines of an initial page.
//! * [`hash`]: mixes bits.
//!
//! A handle such as [`Vector`] is a few numbers: an address and a size. Jobs on all cores copy and
//! share it; the data are in memory alone. An address range of zeros is an empty [`Vector`],
//! [`Map`] or [`BTree`], so a fresh extend region needs no formatting.
//!
//! Every operation on an entry is atomic: other jobs see it done or not begun, in any interleaving
//! of accesses. An operation that a device error ends has either happened or not.
//!
//! Several operations on structures for users and on a keyspace are atomic together in a
//! [transaction](ebbtide_core::Memory::transaction). Their reads are checked again when it commits.
//! Plain loads are not checked again, nor are the reads of [`checksum`].
//!
//! ```
//! use ebbtide_core::Addr;
//! use ebbtide_structures::Region;
//! use ebbtide_testbed::Plain;
//!
//! // Any memory serves; this one is a vector of words.
//! let mut memory = Plain::zeroed(1 << 20);
//! let mut region = Region::new(Addr(0), 1 << 20);
//! let scores = region.map::<u64, [u64; 2]>(1_000)?;
//! let totals = region.vector::<u64>(10)?;
//!
//! scores.insert(&mut memory, 7, [3, 4])?;
//! totals.update(&mut memory, 0, |total| total + 1);
//! assert_eq!(scores.get(&mut memory, 7), Some([3, 4]));
//! assert_eq!(totals.get(&mut memory, 0), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(clippy::too_many_lines)]
#![forbid(unsafe_code)]

mod b_tree;
mod catalogue;
mod map;
mod ordered_map;
mod region;
pub mod retry;
mod row;
mod vector;

pub mod checksum;
pub mod hash;
pub mod image;
pub mod keyspace;
pub mod latch;
pub mod red_black_tree;

pub use b_tree::BTree;
pub use catalogue::{Catalogue, CatalogueError, NAME_BYTES_MAX};
pub use image::{ALL_LINES, PageBytes};
pub use map::{Map, MapFull};
pub use ordered_map::OrderedMap;
pub use region::{Region, RegionFull};
pub use row::{ROW_WORDS_MAX, Row};
pub use vector::Vector;

use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, Value};

const PAGE: u64 = PAGE_BYTES as u64;
const LINE: u64 = LINE_BYTES as u64;

/// Bytes from one value to the next: a power of two, so that no value crosses a line.
const fn slot_bytes<T: Value>() -> u64 {
    let bytes = size_of::<T>();
    assert!(bytes > 0 && bytes <= LINE_BYTES && bytes.is_multiple_of(8), "not a `Value`'s size");
    bytes.next_power_of_two() as u64
}

/// Checks that a structure begins at a page.
fn check_base(base: Addr) {
    assert!(base.page_offset() == 0, "a structure begins at a page, not at {base:?}");
}

/// The error that a job read invalid data. In one line, it names the data and the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Corrupt(pub String);

/// The reason why a tree has not done what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The pages are not those of the tree.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// There is no page for a new row.
    #[error("the tree at {base:?} is full: all its {pages} pages are in use")]
    Full {
        /// The start of the tree.
        base: Addr,
        /// Its number of pages.
        pages: u64,
    },
}
