//! [`Program`]: the traced program under Valgrind, and the logs of its processes.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};

use super::log_folder::LogFolder;
use super::process_log::ProcessLog;
use super::recorder::Process;
use super::{CaptureError, CaptureOptions, Follow};

/// Valgrind's output on one process.
pub(super) struct Stream {
    pub(super) log: ProcessLog,
    pub(super) process: Process,
}

/// A program that runs under Valgrind; killed when dropped.
pub(super) struct Program {
    child: Child,
    folder: LogFolder,
    follow: Follow,
    /// Processes found so far, traced or not.
    processes: u64,
}

impl Program {
    /// Starts the program.
    pub(super) fn start(options: &CaptureOptions) -> Result<Program, CaptureError> {
        let (name, arguments) = options.command.split_first().expect("a command has a name");
        if !is_program(OsStr::new("valgrind")) {
            return Err(CaptureError::NoValgrind);
        }
        if !is_program(name) {
            return Err(CaptureError::NoProgram(name.display().to_string()));
        }
        let started = LogFolder::new().and_then(|folder| {
            let mut shell = folder.shell();
            // VALGRIND_OPTS and .valgrindrc must not change what it prints.
            shell.args(["--command-line-only=yes", "--tool=lackey", "--trace-mem=yes"]);
            // The scheduler's messages name the threads.
            shell.args(["--basic-counts=no", "--vgdb=no", "--trace-sched=yes"]);
            shell.args(match options.follow {
                Follow::Nothing => ["--trace-children=no", "--child-silent-after-fork=yes"],
                Follow::Exec | Follow::Children => {
                    ["--trace-children=yes", "--child-silent-after-fork=no"]
                }
            });
            let child = shell.arg(folder.log_file()).arg("--").arg(name).args(arguments).spawn()?;
            Ok(Program { child, folder, follow: options.follow, processes: 0 })
        });
        started.map_err(CaptureError::Valgrind)
    }

    /// Adds the streams that have come since the last call. Returns the number of processes that
    /// have come and are not traced.
    pub(super) fn take_new(&mut self, streams: &mut Vec<Stream>) -> Result<u64, CaptureError> {
        let id = self.child.id();
        let started = self.folder.started(id).map_err(CaptureError::Valgrind)?;
        let mut logs: Vec<ProcessLog> = started.into_iter().collect();
        let mut untraced = 0;
        match self.follow {
            Follow::Nothing => {}
            Follow::Exec => untraced = self.folder.empty_others(id),
            Follow::Children => {
                logs.extend(self.folder.others(id).map_err(CaptureError::Valgrind)?);
            }
        }
        streams.extend(logs.into_iter().map(|log| {
            self.processes += 1;
            Stream { log, process: Process::new(self.processes - 1) }
        }));
        Ok(untraced)
    }

    /// Removes the state of the stream of a process that has ended.
    pub(super) fn forget(&mut self, stream: &Stream) {
        self.folder.forget(stream.log.id);
    }

    /// The program's exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, CaptureError> {
        self.child.try_wait().map_err(CaptureError::Valgrind)
    }

    /// Sends `signal` to the program and to all processes of `streams`.
    pub(super) fn signal(&self, streams: &[Stream], signal: Signal) {
        // A process that has just ended needs no signal. The program was not reaped yet.
        let _ = kill_process(Pid::from_child(&self.child), signal);
        for stream in streams.iter().filter(|stream| stream.log.id != self.child.id()) {
            if let Some(pid) = Pid::from_raw(stream.log.id as i32) {
                let _ = kill_process(pid, signal);
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(&[], Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Whether `name` is an executable file, as a path or in a folder of PATH.
fn is_program(name: &OsStr) -> bool {
    let executable = |path: &Path| {
        let metadata = path.metadata();
        metadata
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    let path = Path::new(name);
    if path.components().count() > 1 || path.is_absolute() {
        return executable(path);
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| executable(&folder.join(path)))
}
