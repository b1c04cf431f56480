//! [`Lsn`]: a place in the log.

use std::fmt;

/// A log sequence number: how much of the log must be on the device for a transaction to survive a
/// crash.
///
/// Transactions take effect in the order of their numbers, and become durable in that order. So
/// when one is durable, all earlier ones are. Numbers grow over the whole life of a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The number of a transaction that needs no log. It is durable already, or its memory never
    /// makes anything durable.
    pub const ZERO: Lsn = Lsn(0);
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
