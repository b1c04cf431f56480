//! The number of a client.

/// The number of a connection. Numbers are never reused.
pub type ClientId = u64;
