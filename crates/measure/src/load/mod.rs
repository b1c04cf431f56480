//! A load on a server that speaks the protocol of Redis. It measures speed and checks every answer.
//!
//! [`run`] writes all keys, then sends reads and writes over many connections for a while. It
//! checks every value that it reads, and returns a [`LoadReport`]. A load may have to
//! [survive](LoadOptions::survive) a server's end. Then it waits until the server answers again,
//! and checks every acknowledged write.
//!
//! [`against`] compares the same load on a stock Redis and on Ebbtide's server.

pub mod against;
mod connection;
mod drive;
mod kind;
mod ledger;
mod options;
mod probe;
mod replies;
mod report;
mod socket;

pub use drive::run;
pub use kind::Kind;
pub use options::{LoadError, LoadOptions, Server};
pub use report::{LoadReport, ProbeReport, ResponseTimes};
pub use socket::trust;
