//! The number of a client.

/// The number of a connection. It is never used again.
pub type ClientId = u64;
