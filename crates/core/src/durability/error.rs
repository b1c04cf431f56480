//! [`TransactionError`]: why a transaction did not take place, or cannot become durable. [`Aborted`]: why one
//! that may give up did not.

use thiserror::Error;

/// Why a transaction did not take place, or cannot become durable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TransactionError {
    /// The transaction stores more than one may. Nothing of it took place.
    #[error("a transaction stores {what}, expected at most {max}")]
    TooLarge {
        /// What it has too much of, with the amount.
        what: String,
        /// The bound.
        max: u64,
    },
    /// Inside a transaction, nothing of it can be waited for: it is not committed before its body ends.
    #[error(
        "durable inside a transaction: expected after it, since nothing of it is committed before"
    )]
    Inside,
    /// The body ran again and again, and each run failed for the same reason, so that no further one would
    /// end otherwise. Nothing of the transaction took place.
    #[error("a transaction has run {runs} times and never ends: {reason}")]
    NoProgress {
        /// How often the body ran.
        runs: u32,
        /// What was in the way each time, in one line.
        reason: String,
    },
    /// Pages cannot be written, although the log can, and no transaction can go on without that. Memory can
    /// be read. Transactions are accepted again as soon as a page could be written.
    #[error("pages cannot be written, transactions are refused until they can: {reason}")]
    PagesFail {
        /// What the device said, in one line.
        reason: String,
    },
    /// The device has had no room for the log for a while. Memory can be read. What was committed and is not
    /// durable is written as soon as there is room, and transactions are accepted again.
    #[error("the log cannot be written, transactions are refused until it can: {reason}")]
    LogFull {
        /// What the device said, in one line.
        reason: String,
    },
    /// A write or a flush of the log has failed, so nothing more can be made durable. Memory can still
    /// be read. The store must be opened again, which recovers all that is durable.
    #[error("the log cannot be written any more: {reason}")]
    WritingEnded {
        /// What the device said, in one line.
        reason: String,
    },
}

impl TransactionError {
    /// Whether the transaction itself, rather than the device, is at fault.
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

/// Why a transaction that may give up ([`Memory::try_transaction`](crate::Memory::try_transaction)) did not
/// take place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Aborted<E> {
    /// The body returned this error.
    #[error("the transaction was given up: {0}")]
    GivenUp(E),
    /// The transaction could not take place.
    #[error(transparent)]
    Failed(#[from] TransactionError),
}
