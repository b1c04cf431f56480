//! A job's result on its way to the thread or task that waits for it.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::core::job_error::{JobError, discard};
use crate::core::worker::check_not_in_a_job;
use crate::host::adaptive_spin::{self, AdaptiveSpin};

/// A handle for a job's result.
///
/// A thread waits for it with [`wait`](Ticket::wait). A task of any executor waits for it as a
/// [`Future`]. Dropping it does not wait for the job, which still runs. The job's value is then
/// dropped, and a panic in that drop is ignored. A ticket takes about 100 bytes and its result.
#[must_use = "a job's result, also its error, is in its ticket"]
pub struct Ticket<T> {
    place: Arc<Place<T>>,
}

/// Sends a ticket its result. If dropped without one, the ticket reports that the job never ran.
pub(crate) struct Sender<T> {
    place: Arc<Place<T>>,
}

struct Place<T> {
    state: Mutex<State<T>>,
    news: Condvar,
    /// The first result was put. Threads poll this without the lock.
    is_there: AtomicBool,
}

thread_local! {
    /// How long this thread polls for results.
    static SPIN: Cell<AdaptiveSpin> = const { Cell::new(AdaptiveSpin::new()) };
}

enum State<T> {
    /// Not there yet; the task to wake when it is.
    Waiting(Option<Waker>),
    There(Result<T, JobError>),
    Taken,
}

/// Returns a ticket and its sender.
pub(crate) fn ticket<T>() -> (Sender<T>, Ticket<T>) {
    let state = Mutex::new(State::Waiting(None));
    let is_there = AtomicBool::new(false);
    let place = Arc::new(Place { state, news: Condvar::new(), is_there });
    (Sender { place: place.clone() }, Ticket { place })
}

impl<T> Sender<T> {
    pub(crate) fn send(self, result: Result<T, JobError>) {
        self.place.put(result);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // Only a bug of the cores can end them before a job that was submitted.
        self.place.put(Err(JobError::Panicked("the engine ended before the job did".into())));
    }
}

impl<T> Place<T> {
    /// Puts the first result; ignores later ones.
    fn put(&self, result: Result<T, JobError>) {
        let mut state = self.state.lock();
        let State::Waiting(waker) = &mut *state else { return };
        let waker = waker.take();
        *state = State::There(result);
        self.is_there.store(true, Ordering::Release);
        self.news.notify_all();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Polls for the result, as long as the thread's last waits say. To sleep and be woken costs
    /// far more than most jobs.
    fn poll_for_it(&self) {
        let mut spin = SPIN.get();
        let most = spin.begin();
        let mut polls = 0;
        while polls < most && !self.is_there.load(Ordering::Acquire) {
            adaptive_spin::pause(polls);
            polls += 1;
        }
        spin.ended((polls < most).then_some(polls));
        SPIN.set(spin);
    }
}

impl<T> State<T> {
    fn take(&mut self) -> Option<Result<T, JobError>> {
        match std::mem::replace(self, State::Taken) {
            State::There(result) => Some(result),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl<T> Ticket<T> {
    /// Waits for the job's end and returns its result.
    ///
    /// # Errors
    /// When a device error, a deadlock or a panic ended the job.
    ///
    /// # Panics
    /// Inside a job, whose core would wait with it. Also after the future has returned the result.
    pub fn wait(self) -> Result<T, JobError> {
        check_not_in_a_job("waiting for a ticket");
        self.place.poll_for_it();
        let mut state = self.place.state.lock();
        loop {
            assert!(!matches!(*state, State::Taken), "{TAKEN}");
            if let Some(result) = state.take() {
                return result;
            }
            self.place.news.wait(&mut state);
        }
    }

    /// Waits at most `at_most` for the job's end. If `at_most` is zero, does not wait, and may be
    /// called inside a job.
    ///
    /// # Errors
    /// Returns the ticket if the job has not ended by then.
    ///
    /// # Panics
    /// As [`wait`](Ticket::wait), unless `at_most` is zero.
    pub fn wait_for(self, at_most: Duration) -> Result<Result<T, JobError>, Ticket<T>> {
        if !at_most.is_zero() {
            check_not_in_a_job("waiting for a ticket");
        }
        let until = Instant::now().checked_add(at_most);
        let mut state = self.place.state.lock();
        loop {
            assert!(!matches!(*state, State::Taken), "{TAKEN}");
            if let Some(result) = state.take() {
                return Ok(result);
            }
            let late = match until {
                Some(until) => self.place.news.wait_until(&mut state, until).timed_out(),
                None => {
                    self.place.news.wait(&mut state);
                    false
                }
            };
            if late {
                let result = state.take();
                drop(state);
                return result.ok_or(self);
            }
        }
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        // The value is not wanted, and the core would have dropped it had it come a moment later.
        // So a panic in its drop ends nothing, in either order.
        let unwanted = std::mem::replace(&mut *self.place.state.lock(), State::Taken);
        discard(unwanted);
    }
}

const TAKEN: &str = "the ticket's result was taken before";

/// Ready when the job has ended.
///
/// # Panics
/// When it is polled after it was ready.
impl<T> Future for Ticket<T> {
    type Output = Result<T, JobError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.place.state.lock();
        assert!(!matches!(*state, State::Taken), "{TAKEN}");
        if let Some(result) = state.take() {
            return Poll::Ready(result);
        }
        *state = State::Waiting(Some(context.waker().clone()));
        Poll::Pending
    }
}
