//! [`LogFolder`]: the folder where Valgrind writes a log for every traced process.
//!
//! A log has the number of its process as its name. Valgrind opens it when it begins, when the
//! process executes another program, and in a forked process. The log of the started process is a
//! pipe from the beginning. The number of any other process is only known once Valgrind has made a
//! file for it. That file is read, and a pipe replaces it under its name. If the process then
//! executes a program, as most forked processes do, the new Valgrind opens the pipe.

use std::ffi::OsString;
use std::fs::{self, DirEntry, File};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;
use tempfile::TempDir;

use super::process_log::{ProcessLog, is_alive};

/// Interval at which the files of untraced processes are emptied.
const EMPTY_EVERY: Duration = Duration::from_millis(100);

/// A folder with the logs of the process that is started and of those that it starts.
pub(super) struct LogFolder {
    folder: TempDir,
    /// The processes whose logs were found and not yet forgotten.
    known: FxHashSet<u32>,
    emptied: Instant,
}

impl LogFolder {
    /// An empty folder.
    pub(super) fn new() -> io::Result<LogFolder> {
        let folder = tempfile::Builder::new().prefix("ebbtide-trace-").tempdir()?;
        Ok(LogFolder { folder, known: FxHashSet::default(), emptied: Instant::now() })
    }

    /// A shell that makes the pipe of its own process and becomes `valgrind`, whose arguments are
    /// to be added. The number of a process is only known once it runs.
    pub(super) fn shell(&self) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "mkfifo -m 600 \"$0/$$\" && exec valgrind \"$@\""]);
        shell.arg(self.folder.path());
        shell
    }

    /// Valgrind's option that names the logs.
    pub(super) fn log_file(&self) -> OsString {
        // Valgrind replaces %p by the number of the process.
        let folder = self.folder.path().to_string_lossy().replace('%', "%%");
        format!("--log-file={folder}/%p").into()
    }

    /// The log of the process `id` that was started, when it is there; once.
    pub(super) fn started(&mut self, id: u32) -> io::Result<Option<ProcessLog>> {
        if self.known.contains(&id) {
            return Ok(None);
        }
        match ProcessLog::of_pipe(id, &self.path(id)) {
            Ok(log) => {
                self.known.insert(id);
                Ok(Some(log))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The logs of processes other than `started` that have come since the last call.
    pub(super) fn others(&mut self, started: u32) -> io::Result<Vec<ProcessLog>> {
        let mut found = Vec::new();
        for (id, path) in self.other_logs(started) {
            if !self.known.contains(&id) {
                found.push(ProcessLog::of_file(id, &path)?);
                self.known.insert(id);
            }
        }
        Ok(found)
    }

    /// Empties the files of processes other than `started`, and removes those whose process has
    /// ended. Returns the number of processes that are new.
    pub(super) fn empty_others(&mut self, started: u32) -> u64 {
        if self.emptied.elapsed() < EMPTY_EVERY {
            return 0;
        }
        self.emptied = Instant::now();
        let mut new = 0;
        for (id, path) in self.other_logs(started) {
            new += u64::from(self.known.insert(id));
            // What cannot be emptied now is emptied next time, or goes with the folder.
            let _ = if is_alive(id) {
                File::options().write(true).open(&path).and_then(|file| file.set_len(0))
            } else {
                self.known.remove(&id);
                fs::remove_file(&path)
            };
        }
        new
    }

    /// Removes the log of a process that has ended. Another process may get its number.
    pub(super) fn forget(&mut self, id: u32) {
        self.known.remove(&id);
        // What cannot be removed goes with the folder.
        let _ = fs::remove_file(self.path(id));
    }

    /// The logs of processes other than `started`, which makes its own pipe at any moment.
    fn other_logs(&self, started: u32) -> Vec<(u32, PathBuf)> {
        let entries = fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        let log = |entry: DirEntry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()));
        entries.filter_map(log).filter(|(id, _)| *id != started).collect()
    }

    fn path(&self, id: u32) -> PathBuf {
        self.folder.path().join(id.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipe_of_the_started_process_is_not_taken_for_the_log_of_another() {
        let mut folder = LogFolder::new().expect("a folder");
        let (started, other) = (1, 2);
        // The pipe comes after `started` has looked for it.
        assert!(folder.started(started).expect("no pipe yet").is_none());
        let pipe = Command::new("mkfifo").arg(folder.path(started)).status().expect("mkfifo");
        assert!(pipe.success());
        fs::write(folder.path(other), "").expect("a log");
        let found = folder.others(started).expect("a log that is a file");
        assert_eq!(found.iter().map(|log| log.id).collect::<Vec<_>>(), [other]);
        assert!(folder.started(started).expect("a pipe").is_some());
    }
}
