//! [`Program`]: the traced program under Valgrind, and the streams of Valgrind's output.

use std::env;
use std::ffi::OsStr;
use std::io::{self, PipeReader, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::linux::net::TcpStreamExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process};

use super::named_pipe::NamedPipe;
use super::recorder::Process;
use super::{BUFFER_BYTES, CaptureError, CaptureOptions, Follow};
use crate::lackey::LineSplitter;

/// Valgrind's output on one program.
pub(super) struct Stream {
    /// A reader that never waits.
    pub(super) source: Box<dyn Read>,
    pub(super) lines: LineSplitter,
    pub(super) process: Process,
}

impl Stream {
    fn new(source: impl Read + 'static, number: usize) -> Stream {
        let process = Process::new(number);
        Stream { source: Box::new(source), lines: LineSplitter::default(), process }
    }
}

/// The source of Valgrind's output.
enum Door {
    /// One pipe, `None` once it is taken. A pipe is twice as fast as connections.
    Pipe(Option<PipeReader>),
    /// One pipe that the process opens again when it executes another program.
    Named(NamedPipe),
    /// A connection for each program.
    Connections(TcpListener),
}

/// A connection from Valgrind, which writes every line by itself.
///
/// The sender holds small pieces back while one is not acknowledged (Nagle, RFC 896). So it sends
/// large pieces if acknowledgements are delayed.
struct Connection(TcpStream);

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The kernel may leave this mode by itself. Without it, reading is slower.
        let _ = self.0.set_quickack(false);
        self.0.read(buffer)
    }
}

/// A program that runs under Valgrind; killed when dropped.
pub(super) struct Program {
    child: Child,
    door: Door,
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
        let mut command = Command::new("valgrind");
        // VALGRIND_OPTS and .valgrindrc must not change what it prints.
        command.args(["--command-line-only=yes", "--tool=lackey", "--trace-mem=yes"]);
        command.args(["--basic-counts=no", "--vgdb=no"]);
        let started = if options.follow == Follow::Exec {
            NamedPipe::new().and_then(|pipe| {
                let mut shell = pipe.shell();
                shell.args(command.get_args());
                // Another Valgrind begins in every process that executes a program, and a process
                // that only forks stays silent.
                shell.args(["--trace-children=yes", "--child-silent-after-fork=yes"]);
                let child =
                    shell.arg(pipe.log_file()).arg("--").arg(name).args(arguments).spawn()?;
                Ok(Program { child, door: Door::Named(pipe) })
            })
        } else if options.follow == Follow::Children {
            let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok((listener.local_addr()?, listener))
            });
            listener.and_then(|(address, listener)| {
                command.args(["--trace-children=yes", &format!("--log-socket={address}")]);
                let child = command.arg("--").arg(name).args(arguments).spawn()?;
                Ok(Program { child, door: Door::Connections(listener) })
            })
        } else {
            io::pipe().and_then(|(reader, writer)| {
                ioctl_fionbio(&reader, true)?;
                // With a smaller pipe, reading is slower.
                let _ = fcntl_setpipe_size(&writer, BUFFER_BYTES);
                fcntl_setfd(&writer, FdFlags::empty())?;
                command.arg(format!("--log-fd={}", writer.as_raw_fd()));
                let child = command.arg("--").arg(name).args(arguments).spawn()?;
                Ok(Program { child, door: Door::Pipe(Some(reader)) })
            })
        };
        started.map_err(CaptureError::Valgrind)
    }

    /// Adds the streams that have come since the last call.
    pub(super) fn take_new(&mut self, streams: &mut Vec<Stream>) -> Result<(), CaptureError> {
        match &mut self.door {
            Door::Pipe(reader) => {
                streams.extend(reader.take().map(|reader| Stream::new(reader, 0)));
            }
            Door::Named(pipe) => {
                let opened = pipe.opened(self.child.id()).map_err(CaptureError::Valgrind)?;
                streams.extend(opened.map(|reader| Stream::new(reader, 0)));
            }
            Door::Connections(listener) => loop {
                let stream = match listener.accept() {
                    Ok((stream, _)) => stream,
                    Err(error) if super::is_passing(&error) => break,
                    Err(error) => return Err(CaptureError::Valgrind(error)),
                };
                stream.set_nonblocking(true).map_err(CaptureError::Valgrind)?;
                streams.push(Stream::new(Connection(stream), streams.len()));
            },
        }
        Ok(())
    }

    /// The program's exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, CaptureError> {
        self.child.try_wait().map_err(CaptureError::Valgrind)
    }

    /// Asks the program to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills the program.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // A program that has just ended needs no signal; it was not reaped yet.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
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
