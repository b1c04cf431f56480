//! [`Lsn`]: a place in the log.

use std::fmt;

/// A log sequence number: how much of the log must be on the device for a transaction to survive a
/// crash.
///
/// Transactions take effect in the order of their numbers, and become durable in that order: once one
/// is durable, so are all that came before it. Numbers grow over the whole life of a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The number of everything that needs no log: it is durable, or never will be and says so.
    pub const ZERO: Lsn = Lsn(0);
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
