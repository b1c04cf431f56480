//! [`ProcessLog`]: Valgrind's output on one process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, OFlags, fallocate, mknodat};
use rustix::pipe::fcntl_setpipe_size;

use super::BUFFER_BYTES;
use crate::lackey::LineSplitter;

/// Valgrind's output on one process, read without waiting.
pub(super) struct ProcessLog {
    pub(super) id: u32,
    /// The output up to the first program that the process executes; `None` once it is read.
    file: Option<LogFile>,
    /// The output from then on.
    pipe: File,
    file_lines: LineSplitter,
    pipe_lines: LineSplitter,
    /// The last read found nothing.
    is_idle: bool,
}

/// Returns whether the process exists, including one whose end its parent has not collected.
pub(super) fn is_alive(id: u32) -> bool {
    Path::new("/proc").join(id.to_string()).exists()
}

/// Result of a read.
pub(super) enum Found<'a> {
    /// This many bytes, and the splitter of the part of the output that they belong to.
    Bytes(usize, &'a mut LineSplitter),
    /// Nothing now.
    Nothing,
    /// Nothing more: the process has ended.
    End,
}

impl ProcessLog {
    /// The log of a process whose output goes to the pipe at `path` from its beginning.
    pub(super) fn of_pipe(id: u32, path: &Path) -> io::Result<ProcessLog> {
        Ok(ProcessLog::new(id, None, open_pipe(path)?))
    }

    /// The log of a process whose output goes to the file at `path`. Puts a pipe in the file's
    /// place, which the process opens when it executes a program.
    pub(super) fn of_file(id: u32, path: &Path) -> io::Result<ProcessLog> {
        let file = File::options().read(true).write(true).open(path)?;
        let pipe = path.with_extension("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        fs::rename(&pipe, path)?;
        let file = LogFile { file, offset: 0, freed: 0 };
        Ok(ProcessLog::new(id, Some(file), open_pipe(path)?))
    }

    fn new(id: u32, file: Option<LogFile>, pipe: File) -> ProcessLog {
        let (file_lines, pipe_lines) = (LineSplitter::default(), LineSplitter::default());
        ProcessLog { id, file, pipe, file_lines, pipe_lines, is_idle: false }
    }

    /// Reads bytes into `buffer` without waiting.
    ///
    /// # Errors
    /// When they cannot be read, or the process writes its file faster than it is read.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Found<'_>> {
        // Before the read: a process that ends after it may have written more.
        let has_ended = self.is_idle && !is_alive(self.id);
        let (count, is_piped) = self.read_some(buffer)?;
        self.is_idle = count == 0;
        Ok(match count {
            0 if has_ended => Found::End,
            0 => Found::Nothing,
            count if is_piped => Found::Bytes(count, &mut self.pipe_lines),
            count => Found::Bytes(count, &mut self.file_lines),
        })
    }

    /// Reads from the file, and once the process has opened the pipe and the file is read to its
    /// end, from the pipe. Returns the bytes and whether they are from the pipe.
    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
        if let Some(file) = &mut self.file {
            // Before the read: what is in the pipe was written after all that is in the file.
            let is_executed = is_readable(&self.pipe)?;
            let count = file.read(buffer)?;
            if count > 0 || !is_executed {
                return Ok((count, false));
            }
            self.file = None;
        }
        match self.pipe.read(buffer) {
            Ok(count) => Ok((count, true)),
            Err(error) if super::is_passing(&error) => Ok((0, true)),
            Err(error) => Err(error),
        }
    }
}

/// Opens a pipe to read from it without waiting.
fn open_pipe(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let pipe = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // With a smaller pipe, reading is slower.
    let _ = fcntl_setpipe_size(&pipe, BUFFER_BYTES);
    Ok(pipe)
}

/// Whether there are bytes in the pipe.
fn is_readable(pipe: &File) -> io::Result<bool> {
    let mut polled = [PollFd::new(pipe, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(polled[0].revents().contains(PollFlags::IN))
}

/// The file of a process that was forked.
struct LogFile {
    file: File,
    /// The bytes that were read.
    offset: u64,
    /// The bytes whose space on the disk was given back.
    freed: u64,
}

/// Bytes of a file after which their space is given back.
const FREE_AFTER: u64 = 1 << 20;

/// The bytes that a file may be ahead of its reader. A file does not slow its writer down, as a
/// pipe does.
const BEHIND_MAX: u64 = 1 << 30;

impl LogFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.metadata()?.len();
        if length < self.offset {
            // Another Valgrind has opened it before the pipe was there.
            (self.offset, self.freed) = (0, 0);
        }
        if length - self.offset > BEHIND_MAX {
            return Err(io::Error::other(
                "a forked process is more than 1 GiB ahead of its tracer; --one-process leaves it out",
            ));
        }
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        if self.offset - self.freed >= FREE_AFTER {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Some file systems cannot: the file then takes its space to its end.
            let _ = fallocate(&self.file, flags, self.freed, self.offset - self.freed);
            self.freed = self.offset;
        }
        Ok(count)
    }
}
