//! [`Failure`]: reasons for an error reply.

use std::borrow::Cow;

use ebbtide_core::durability::TransactionError;
use ebbtide_engine::JobError;
use ebbtide_structures::keyspace::Full;

/// The reason for an error reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The error reply.
    Reply(Cow<'static, str>),
    /// The keys are not served here. It is the error of `EXEC`, too.
    Elsewhere(Cow<'static, str>),
    /// No free page for the write.
    Full,
}

impl Failure {
    /// Text of the error reply.
    pub fn text(&self) -> &str {
        match self {
            Failure::Reply(text) | Failure::Elsewhere(text) => text,
            Failure::Full => "OOM command not allowed when used memory > 'maxmemory'.",
        }
    }
}

impl From<&'static str> for Failure {
    fn from(text: &'static str) -> Failure {
        Failure::Reply(text.into())
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Reply(text.into())
    }
}

impl From<TransactionError> for Failure {
    fn from(error: TransactionError) -> Failure {
        // Redis clients know MISCONF as the error of a server that cannot save changes.
        let word = if error.is_input() { "ERR" } else { "MISCONF" };
        format!("{word} {error}").into()
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Failure {
        let is_unsaved = matches!(&error, JobError::Fault(fault) if fault.writes_fail);
        let word = if is_unsaved { "MISCONF" } else { "ERR" };
        format!("{word} {error}").into()
    }
}

impl From<Full> for Failure {
    fn from(_: Full) -> Failure {
        Failure::Full
    }
}
