//! The protocol of Redis, version 2 and 3: requests in, replies out, no socket.

mod buffer;
mod inline;
mod parse;
mod reply;

pub(crate) use buffer::reserve;
pub use parse::{Coming, Limits, Parser, ProtocolError, Request};
pub use reply::Reply;
