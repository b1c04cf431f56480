//! Durable memory: what a program is told of its transactions, and the protocol behind it.
//!
//! * [`Lsn`]: the place of a transaction in the log, and with it the order of all of them.
//! * [`TransactionError`]: why a transaction did not take place, or cannot become durable.

mod error;
mod lsn;

pub use error::TransactionError;
pub use lsn::Lsn;
