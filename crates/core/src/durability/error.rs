//! [`TransactionError`]: why a transaction did not take place, or cannot become durable.
//! [`Aborted`]: why a transaction that may give up did not take place.

use thiserror::Error;

/// Why a transaction did not take place, or cannot become durable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TransactionError {
    /// The transaction stores more than the limit. Nothing of it took place.
    #[error("a transaction stores {what}, expected at most {max}, which is {bound}")]
    TooLarge {
        /// The quantity that is too large, with its amount.
        what: String,
        /// The bound.
        max: u64,
        /// What the bound depends on.
        bound: &'static str,
    },
    /// `durable` was called inside a transaction. The transaction commits only after its body, so
    /// waiting would never end.
    #[error(
        "durable was called inside a transaction, which commits only at its end: call it afterwards"
    )]
    Inside,
    /// The body ran again and again, each time for the same reason, and another run would not help.
    /// Nothing of the transaction took place.
    #[error("a transaction has run {runs} times and never ends: {reason}")]
    NoProgress {
        /// How often the body ran.
        runs: u32,
        /// The reason of each further run, in one line.
        reason: String,
    },
    /// Pages cannot be written, although the log can. No transaction can go on without that. Memory
    /// can be read. Transactions are accepted again as soon as a page could be written.
    #[error("pages cannot be written, transactions are refused until they can: {reason}")]
    PagesFail {
        /// The device's error, in one line.
        reason: String,
    },
    /// The device has had no room for the log for a while. Memory can be read. Once there is room,
    /// the committed transactions that wait are written, and new ones are accepted.
    #[error("the log cannot be written, transactions are refused until it can: {reason}")]
    LogFull {
        /// The device's error, in one line.
        reason: String,
    },
    /// A write or a flush of the log has failed, so nothing more can be made durable. Memory can
    /// still be read. The store must be opened again, which recovers all that is durable.
    #[error("the log cannot be written any more: {reason}")]
    WritingEnded {
        /// The device's error, in one line.
        reason: String,
    },
}

impl TransactionError {
    /// Returns true if the transaction itself, rather than the device, is at fault.
    pub fn is_input(&self) -> bool {
        match self {
            TransactionError::TooLarge { .. }
            | TransactionError::Inside
            | TransactionError::NoProgress { .. } => true,
            TransactionError::PagesFail { .. }
            | TransactionError::LogFull { .. }
            | TransactionError::WritingEnded { .. } => false,
        }
    }
}

/// Why a transaction that may give up ([`Memory::try_transaction`](crate::Memory::try_transaction))
/// did not take place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Aborted<E> {
    /// The body returned this error.
    #[error("the transaction was given up: {0}")]
    GivenUp(E),
    /// The transaction could not take place.
    #[error(transparent)]
    Failed(#[from] TransactionError),
}
