//! The server over the real engine, a real file and real sockets, and its commands over plain
//! memory.

mod arguments;
mod blocking;
mod client;
mod cold;
mod collection_arguments;
mod collections;
mod commands;
mod connections;
mod cores;
mod differential;
mod documentation;
mod full_disk;
mod large;
mod many;
mod memory;
mod monitoring;
mod month;
mod months;
mod redis;
mod retaken;
mod sessions;
mod space;
mod stores;
mod tls;
