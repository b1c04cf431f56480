//! The keyspace against the obvious map, in DRAM: the same answers whatever happens in between.

mod large;
mod model;
mod room;
