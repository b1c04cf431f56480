//! A load on a server that speaks the protocol of Redis: how fast it answers, and whether it is right.
//!
//! [`run`] writes all keys, sends reads and writes over many connections for a while, checks every value
//! that is read, and returns a [`LoadReport`]. A load that is to [survive](LoadOptions::survive) a server's end
//! waits until it answers again and checks that every write that it acknowledged is there.
//! [`against`] runs the same load on a stock Redis beside Ebbtide's server.

pub mod against;
mod connection;
mod drive;
mod ledger;
mod options;
mod probe;
mod replies;
mod report;
mod socket;

pub use drive::run;
pub use options::{LoadError, LoadOptions, Server};
pub use report::{LoadReport, ProbeReport, ResponseTimes};
