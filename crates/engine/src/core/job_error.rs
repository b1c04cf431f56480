//! Why a job did not end well.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbtide_core::{Addr, MemoryFault};
use thiserror::Error;

/// Why a job did not end well.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JobError {
    /// The device could not give a page.
    #[error(transparent)]
    Fault(#[from] MemoryFault),
    /// The job panicked.
    #[error("the job panicked: {0}")]
    Panicked(String),
    /// The job waited for another job that could never run.
    #[error(transparent)]
    Deadlock(Deadlock),
}

/// Ends a job that waits on a word when no job that could wake it runs or can start. Either waiting
/// jobs hold the user-level threads of all cores, or the engine is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "deadlock: the job waits on the word at {:#x}, all {waiting} jobs under way wait on words, and no \
     other job can start",
    at.0
)]
pub struct Deadlock {
    /// The word that the job waited on.
    pub at: Addr,
    /// How many jobs waited, on all cores.
    pub waiting: u32,
}

impl JobError {
    /// The error of a job that unwound with `payload`.
    pub(crate) fn from_unwind(payload: Box<dyn Any + Send>) -> JobError {
        let payload = match MemoryFault::from_unwind(payload) {
            Ok(fault) => return JobError::Fault(fault),
            Err(payload) => payload,
        };
        let payload = match payload.downcast::<Deadlock>() {
            Ok(deadlock) => return JobError::Deadlock(*deadlock),
            Err(payload) => payload,
        };
        let message = payload
            .downcast_ref::<&str>()
            .map(|message| (*message).to_string())
            .or_else(|| payload.downcast_ref::<String>().cloned());
        discard(payload);
        JobError::Panicked(message.unwrap_or_else(|| "without a message".into()))
    }
}

/// Drops a job's value or panic payload. A panic in that drop belongs to the program and ends
/// nothing.
pub(crate) fn discard(value: impl Sized) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // It may panic as well when it is dropped.
        std::mem::forget(payload);
    }
}
