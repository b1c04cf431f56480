//! A cluster of servers that a file describes: which node serves which slots.
//!
//! [`Cluster`] finds the node of a command's keys. It does not change while the server runs. The
//! nodes do not talk to each other.

mod file;
mod map;

pub use file::read;
pub use map::{Cluster, Elsewhere, Node};
