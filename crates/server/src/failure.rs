//! [`Failure`]: why a command has no reply but an error.

use std::borrow::Cow;

use ebbtide_core::durability::TransactionError;
use ebbtide_structures::keyspace::Full;

/// Why a command has no reply but an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The error reply.
    Reply(Cow<'static, str>),
    /// It concerns a value that a single transaction cannot write. Nothing has changed.
    TooLarge,
    /// There is no room for what it writes.
    Full,
}

impl Failure {
    /// The error reply.
    pub fn text(&self) -> &str {
        match self {
            Failure::Reply(text) => text,
            Failure::Full => "OOM command not allowed when used memory > 'maxmemory'.",
            Failure::TooLarge => {
                "ERR a value of more than 32704 bytes cannot be written by this command, or not between MULTI and EXEC"
            }
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
        // Clients know this word of Redis for a server that cannot save changes.
        let word = if error.is_input() { "ERR" } else { "MISCONF" };
        format!("{word} {error}").into()
    }
}

impl From<Full> for Failure {
    fn from(_: Full) -> Failure {
        Failure::Full
    }
}
