//! Typed structures over any [`Memory`](ebbtide_core::Memory): a [`Vector`] and a hash [`Map`], and
//! a [`Region`] that finds room for them.
//!
//! A structure is a few numbers: where it lies and how large it is. It is copied freely and shared
//! by all jobs on all cores; what it holds is in memory alone. An address range of zeros is an
//! empty one, so nothing is formatted, and a fresh extend region is ready for use.
//!
//! Every operation on an entry is atomic: other jobs see it done or not begun, however accesses
//! interleave. One that a device error ends has either happened or not.
//!
//! ```
//! use ebbtide_structures::{Map, Region, RegionFull, Vector};
//! use ebbtide_core::Addr;
//!
//! let mut region = Region::new(Addr(0), 1 << 30);
//! let scores: Map<u64, [u64; 2]> = region.map(1_000_000)?;
//! let totals: Vector<u64> = region.vector(1_000)?;
//! # Ok::<(), RegionFull>(())
//! ```

#![forbid(unsafe_code)]

mod map;
mod region;
mod retry;
mod vector;

pub mod checksum;
pub mod hash;
pub mod image;
pub mod latch;
pub mod masstree;
pub mod red_black_tree;
pub mod silo;

pub use image::{ALL_LINES, PageBytes};
pub use map::{Map, MapFull};
pub use region::{Region, RegionFull};
pub use vector::Vector;

use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, Value};

const PAGE: u64 = PAGE_BYTES as u64;
const LINE: u64 = LINE_BYTES as u64;

/// Bytes from one value to the next, chosen such that none crosses a line.
const fn slot_bytes<T: Value>() -> u64 {
    let bytes = size_of::<T>();
    assert!(bytes > 0 && bytes <= LINE_BYTES && bytes.is_multiple_of(8), "not a `Value`'s size");
    bytes.next_power_of_two() as u64
}

/// Where a structure may begin.
fn check_base(base: Addr) {
    assert!(base.page_offset() == 0, "a structure begins at a page, not at {base:?}");
}

/// A job read something that cannot be right: what it read and where, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);
