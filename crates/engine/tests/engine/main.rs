//! The engine over real files, drives and threads.

#[path = "../common/mod.rs"]
mod common;
mod compare_exchange;
mod copies;
mod deadlocks;
mod durable_programs;
mod embedded;
mod faults;
mod forgotten;
mod kept_stores;
mod library;
mod misses;
mod network;
mod options;
mod other_cores;
mod persist;
mod plain_array;
mod prefetch;
mod ranges;
mod replay;
mod roots;
mod row_file;
mod row_writes;
mod store;
mod store_files;
mod stuck;
mod swarm;
mod transactions;
mod unreadable_blocks;
mod used_stores;
