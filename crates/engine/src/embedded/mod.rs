//! The library that programs embed: a [`Store`] that is opened by a [`Builder`], with maps by name.
//!
//! Users reach it as the crate `ebbtide`. One file has the keys and values of all maps, their order, and typed
//! structures, each in a part of its address space.

mod builder;
mod entries;
mod error;
mod limits;
mod map;
mod ordered_map;
mod shared;
mod store;

pub use builder::{Builder, order_bytes_for};
pub use error::Error;
pub use limits::{MAPS_MAX, NAME_BYTES_MAX, ORDERED_KEY_BYTES_MAX};
pub use map::{Iter, Map, Unordered};
pub use ordered_map::{Ordered, OrderedMap, Range};
pub use store::{Pending, Store};
