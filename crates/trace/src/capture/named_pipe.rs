//! [`NamedPipe`]: Valgrind's output on one process, whatever programs it executes.
//!
//! Valgrind closes its log when the process executes another program, and the Valgrind that begins
//! then opens the log anew, by a name with the process's number. The name of the traced process is a
//! pipe. Processes that it starts have other numbers: Valgrind makes a file for each, which is
//! emptied again and again.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::pipe::fcntl_setpipe_size;
use tempfile::TempDir;

use super::BUFFER_BYTES;

/// How often the files of other processes are emptied.
const EMPTY_EVERY: Duration = Duration::from_millis(100);

/// A folder with the pipe of the traced process, and files of the processes that it starts.
pub(super) struct NamedPipe {
    folder: TempDir,
    is_open: bool,
    emptied: Instant,
}

impl NamedPipe {
    /// An empty folder.
    pub(super) fn new() -> io::Result<NamedPipe> {
        let folder = tempfile::Builder::new().prefix("ebbtide-trace-").tempdir()?;
        Ok(NamedPipe { folder, is_open: false, emptied: Instant::now() })
    }

    /// A shell that makes the pipe of its own process and becomes `valgrind`, whose arguments are to
    /// be added. The number of a process is only known once it runs.
    pub(super) fn shell(&self) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "mkfifo -m 600 \"$0/$$\" && exec valgrind \"$@\""]);
        shell.arg(self.folder.path());
        shell
    }

    /// Valgrind's option that names the log.
    pub(super) fn log_file(&self) -> OsString {
        // Valgrind replaces %p by the number of the process.
        let folder = self.folder.path().to_string_lossy().replace('%', "%%");
        format!("--log-file={folder}/%p").into()
    }

    /// The pipe of process `id`, when it is there; once.
    pub(super) fn opened(&mut self, id: u32) -> io::Result<Option<File>> {
        let own = self.path(id);
        if self.is_open {
            if self.emptied.elapsed() >= EMPTY_EVERY {
                self.empty_others(&own);
                self.emptied = Instant::now();
            }
            return Ok(None);
        }
        let flags = OFlags::NONBLOCK.bits() as i32;
        match OpenOptions::new().read(true).custom_flags(flags).open(&own) {
            Ok(pipe) => {
                // With a smaller pipe, reading is slower.
                let _ = fcntl_setpipe_size(&pipe, BUFFER_BYTES);
                self.is_open = true;
                Ok(Some(pipe))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn path(&self, id: u32) -> PathBuf {
        self.folder.path().join(id.to_string())
    }

    /// Empties the files of other processes, and removes those whose process has ended.
    fn empty_others(&self, own: &Path) {
        for entry in fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            if path == own {
                continue;
            }
            // What cannot be emptied now is emptied next time, or goes with the folder.
            let is_alive = Path::new("/proc").join(entry.file_name()).exists();
            let _ = match is_alive {
                true => File::options().write(true).open(&path).and_then(|file| file.set_len(0)),
                false => fs::remove_file(&path),
            };
        }
    }
}
