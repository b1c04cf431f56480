//! The server over the real engine and a real file, driven over real sockets; and its commands over
//! plain memory, without any.

mod arguments;
mod client;
mod cold;
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
