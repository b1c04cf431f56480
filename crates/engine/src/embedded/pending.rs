//! [`Pending`]: the result of a job or a change on its way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ebbtide_core::durability::TransactionError;

use super::error::Error;
use crate::api::ticket::Ticket;
use crate::core::job_error::JobError;

/// The result of a job or a change that was submitted. A thread [waits](Pending::wait) for it, or a
/// task of any executor awaits it. Dropping it does not stop the job.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// let jobs: Vec<_> = (0..10u64).map(|n| store.submit(move |_memory| Ok(n * n))).collect();
/// let sum: u64 = jobs.into_iter().map(|job| job.wait()).sum::<Result<u64, ebbtide::Error>>()?;
/// assert_eq!(sum, 285);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a job's result, also its error, is in it"]
pub struct Pending<T>(Kind<T>);

/// The result of a change, and why it could not be committed.
type Commit<T> = Result<Result<T, Error>, TransactionError>;

enum Kind<T> {
    Job(Ticket<Result<T, Error>>),
    Commit(Ticket<Commit<T>>),
    /// It was not submitted. Without an error, that was taken.
    Refused(Option<Error>),
}

impl<T> Pending<T> {
    /// A job that was submitted, or the reason why it was not.
    pub(super) fn of(submitted: Result<Ticket<Result<T, Error>>, Error>) -> Pending<T> {
        Pending(submitted.map_or_else(|error| Kind::Refused(Some(error)), Kind::Job))
    }

    /// As [`of`](Pending::of), for a change.
    pub(super) fn of_commit(submitted: Result<Ticket<Commit<T>>, Error>) -> Pending<T> {
        Pending(submitted.map_or_else(|error| Kind::Refused(Some(error)), Kind::Commit))
    }

    /// Waits for the end of the job or the change.
    ///
    /// # Errors
    /// Its error, and what ended it: a fault of the device, a deadlock or a panic.
    ///
    /// # Panics
    /// Inside a job, whose core would wait with it.
    pub fn wait(self) -> Result<T, Error> {
        match self.0 {
            Kind::Job(ticket) => ticket.wait()?,
            Kind::Commit(ticket) => committed(ticket.wait()),
            Kind::Refused(error) => Err(error.unwrap_or(Error::Closed)),
        }
    }
}

fn committed<T>(ended: Result<Commit<T>, JobError>) -> Result<T, Error> {
    ended??
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Kind::Job(ticket) => Pin::new(ticket).poll(context).map(|ended| ended?),
            Kind::Commit(ticket) => Pin::new(ticket).poll(context).map(committed),
            Kind::Refused(error) => Poll::Ready(Err(error.take().unwrap_or(Error::Closed))),
        }
    }
}
