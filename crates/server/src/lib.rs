//! A server that speaks the protocol of Redis. Its keys, index and values live on flash.
//!
//! [`serve`] runs it on the core loop of the [engine](ebbtide_engine): sockets and flash share a
//! ring, and a command is a job on a fiber. Commands work in a
//! [`Keyspace`](ebbtide_structures::keyspace::Keyspace), so nothing in DRAM grows with the number
//! of keys.
//!
//! * [`resp`]: requests and replies as bytes.
//! * [`command`]: the table that dispatches commands. [`commands_page`] is made from it.
//! * [`client`]: one connection's requests and replies, without its socket. It runs over any
//!   [`Memory`](ebbtide_core::Memory), so tests need no network.

#![warn(clippy::too_many_lines)]
#![forbid(unsafe_code)]

pub mod acl;
mod acl_file;
pub mod channels;
pub mod client;
pub mod client_id;
mod clock;
pub mod cluster;
pub mod command;
mod copying;
mod documentation;
pub mod events;
mod evict;
pub mod eviction;
pub mod failure;
mod follower;
pub mod following;
pub mod geo;
mod glob;
pub mod hyperloglog;
pub mod large;
pub mod log;
mod metrics;
mod number;
mod options;
mod patience;
pub mod pause;
mod protocol;
pub mod rdb;
mod reserved;
pub mod resp;
mod run;
mod script;
mod secret;
mod service;
pub mod session;
pub mod shared;
pub mod slow;
mod space;
mod sparse;
pub mod state;
pub mod statistics;
pub mod storage;
mod supervisor;
mod target;
mod tls;
mod upkeep;
pub mod waiting;
pub mod watched;

pub use documentation::commands_page;
pub use eviction::EvictionPolicy;
pub use options::{CAPACITY_BYTES, ClusterFile, KEEPALIVE_S, ServeError, ServeOptions, TlsFiles};
pub use run::{STORE_TAG, Started, serve};
