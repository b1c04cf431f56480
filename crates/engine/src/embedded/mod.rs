//! The library that programs embed: a [`Store`] that is opened by a [`Builder`], with maps by name.
//!
//! Users reach it as the crate `ebbtide`. One file has the keys and values of all maps, their
//! order, and typed structures, each in a part of its address space.

mod builder;
mod entries;
mod error;
mod futures;
mod growth;
mod key;
mod layout;
mod limits;
mod list;
mod map;
mod ordered_map;
mod pending;
mod room;
mod scope;
mod shared;
mod space;
mod store;
mod typed;
mod values;
mod walk;

pub use builder::{Builder, is_of, order_bytes_for};
pub use ebbtide_structures::keyspace::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use error::Error;
pub use futures::Futures;
pub use key::{FixedKey, Key, KeyBytes};
pub use limits::{MAPS_MAX, NAME_BYTES_MAX};
pub use list::{Elements, List};
pub use map::{Map, Unordered};
pub use ordered_map::{Ordered, OrderedMap};
pub use pending::Pending;
pub use scope::Scope;
pub use store::Store;
pub use typed::Typed;
pub use walk::{Iter, Keys, Range};
