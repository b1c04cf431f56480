//! [`TransactionError`]: why a transaction did not take place, or cannot become durable.

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
    /// A write or a flush of the log has failed, so nothing more can be made durable. Memory can still
    /// be read. The store must be opened again, which recovers all that is durable.
    #[error("the log cannot be written any more: {reason}")]
    WritingEnded {
        /// What the device said, in one line.
        reason: String,
    },
}
