//! [`watched`]: runs on a separate thread, so that Ctrl-C and progress reach Python.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ebbtide_core::{Stop, Watch};
use pyo3::prelude::*;

use crate::failure::Failure;

/// Time between two checks of signals and progress.
const LOOK: Duration = Duration::from_millis(20);

/// Longest wait for a stopped run. A run that checks its stop request later than that ends alone,
/// and its result is dropped.
const PATIENCE: Duration = Duration::from_millis(100);

/// The stage and the share done, until they are reported.
type News = Mutex<Option<(String, f64)>>;

/// Runs `work` without the interpreter's lock. It stops if a signal handler raises, as on Ctrl-C,
/// or if `progress` raises. `progress` is called with a stage and a share from 0 to 1.
///
/// # Errors
/// Returns the error of `work`, a signal handler or `progress`.
pub(crate) fn watched<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(Watch<'_>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    watched_by(py, Arc::new(Stop::new()), progress, work)
}

/// As [`watched`], with a stop request that other threads may set.
///
/// # Errors
/// As [`watched`].
pub(crate) fn watched_by<T: Send + 'static>(
    py: Python<'_>,
    stop: Arc<Stop>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(Watch<'_>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::channel();
    let news = Arc::new(News::default());
    let (their_stop, their_news) = (stop.clone(), news.clone());
    let run = move || {
        let tell = |stage: &str, share: f64| {
            let mut news = their_news.lock().unwrap_or_else(PoisonError::into_inner);
            *news = Some((stage.to_string(), share));
        };
        let result = catch_unwind(AssertUnwindSafe(|| work(Watch::new(&tell, &their_stop))));
        // A run that was given up has no receiver.
        let _ = sender.send(result);
    };
    let thread = thread::Builder::new().name("ebbtide".to_string()).spawn(run);
    thread.map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
    loop {
        let (given_back, result) = py.detach(move || {
            let result = receiver.recv_timeout(LOOK);
            (receiver, result)
        });
        receiver = given_back;
        match result {
            Ok(Ok(result)) => return Ok(result?),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::run("the run ended without a result").into());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(error) = look(py, progress, &news) {
            stop.stop();
            py.detach(move || drop(receiver.recv_timeout(PATIENCE)));
            return Err(error);
        }
    }
}

fn look(py: Python<'_>, progress: Option<&Bound<'_, PyAny>>, news: &News) -> PyResult<()> {
    py.check_signals()?;
    let news = news.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let (Some(progress), Some((stage, share))) = (progress, news) {
        progress.call1((stage, share))?;
    }
    Ok(())
}
