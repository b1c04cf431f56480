//! Copies the store to a new file, for `BGSAVE TO`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use ebbtide_core::Stop;
use ebbtide_engine::Engine;

/// State of a copy of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Copied {
    /// No copy was made.
    Never,
    /// It is under way.
    UnderWay,
    /// It is complete, in this file.
    Done(PathBuf),
    /// It failed, for this reason.
    Failed(String),
}

/// Copies the store, one copy at a time.
#[derive(Default)]
pub(crate) struct Copying {
    last: Option<Copy>,
}

struct Copy {
    path: PathBuf,
    stop: Arc<Stop>,
    /// The result, once the copy has ended.
    outcome: Arc<Mutex<Option<Result<(), String>>>>,
    thread: Option<JoinHandle<()>>,
}

impl Copying {
    /// Begins a copy on a thread.
    pub(crate) fn begin(&mut self, engine: &Arc<Engine>, path: &Path) -> Result<(), String> {
        if matches!(self.state(), Copied::UnderWay) {
            return Err("Background save already in progress".into());
        }
        if path.exists() {
            return Err(format!("{}: is there already", path.display()));
        }
        let (stop, outcome) = (Arc::new(Stop::new()), Arc::new(Mutex::new(None)));
        let path = path.to_path_buf();
        let thread = {
            let (engine, path, stop, outcome) =
                (engine.clone(), path.clone(), stop.clone(), outcome.clone());
            std::thread::Builder::new().name("ebbtide-copy".into()).spawn(move || {
                let copied = engine.copy_to(&path, &stop).map_err(|error| error.to_string());
                *outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(copied);
            })
        };
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        self.last = Some(Copy { path, stop, outcome, thread: Some(thread) });
        Ok(())
    }

    /// State of the last copy.
    pub(crate) fn state(&self) -> Copied {
        let Some(last) = &self.last else { return Copied::Never };
        let ended = last.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let outcome = last.outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match &*outcome {
            Some(Ok(())) => Copied::Done(last.path.clone()),
            Some(Err(reason)) => Copied::Failed(reason.clone()),
            None if ended => Copied::Failed("the copy ended in a panic".into()),
            None => Copied::UnderWay,
        }
    }
}

/// Stops a copy under way. The engine removes its file.
impl Drop for Copying {
    fn drop(&mut self) {
        if let Some(last) = &mut self.last
            && let Some(thread) = last.thread.take()
        {
            last.stop.stop();
            // The panic was printed when it happened.
            let _ = thread.join();
        }
    }
}
