//! The keyspace against the obvious map, in DRAM: the same answers after any operations in between.

mod collections;
mod expiry;
mod groups;
mod large;
mod model;
mod room;
mod space;
mod together;
