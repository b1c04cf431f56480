//! [`CaptureError`]: why a program cannot be traced.

use std::io;
use std::process::ExitStatus;

use thiserror::Error;

use crate::TraceError;
use crate::filter::CacheError;
use crate::lackey::LackeyError;

/// An error of tracing a program.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// Valgrind is not installed.
    #[error("valgrind is not installed; on Debian and Ubuntu: apt-get install valgrind")]
    NoValgrind,
    /// The program does not exist.
    #[error("cannot run '{0}': no such program")]
    NoProgram(String),
    /// The caches are impossible.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Valgrind cannot be run or read from.
    #[error("cannot run valgrind: {0}")]
    Valgrind(io::Error),
    /// Valgrind ended before the program began. It has printed the reason.
    #[error("valgrind did not start the program ({status})")]
    NotStarted {
        /// Its exit status.
        status: ExitStatus,
    },
    /// Valgrind's output is invalid.
    #[error(transparent)]
    Output(#[from] LackeyError),
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl CaptureError {
    /// Returns true if the user can correct the error and nothing was run.
    pub fn is_input(&self) -> bool {
        matches!(self, CaptureError::NoProgram(_) | CaptureError::Cache(_))
    }
}
