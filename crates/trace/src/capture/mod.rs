//! [`capture`]: what a program's accesses to memory are, as it runs.
//!
//! The program runs under Valgrind's stock memory tracer, whose text comes through a pipe; what
//! passes the caches of one core is what memory sees. Nothing of the program's own input, output or
//! exit status is touched.

mod error;
mod page_map;
mod program;
mod recorder;

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use ebbtide_core::Stop;
pub use error::CaptureError;
use program::{Program, Stream};
use recorder::Recorder;

use crate::filter::Hierarchy;
use crate::{Access, TraceError};

/// What to trace, and how.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The caches before memory.
    pub hierarchy: Hierarchy,
    /// Picoseconds that an instruction takes.
    pub ps_per_instruction: f64,
    /// Also trace the programs that it starts, each in an address space of its own.
    pub children: bool,
    /// Entries left out at the start, while the caches warm up.
    pub skip: u64,
    /// Entries after which the program is ended.
    pub limit: Option<u64>,
}

impl CaptureOptions {
    /// What is traced and how, in one line, for whoever finds the trace.
    pub fn description(&self) -> String {
        let Hierarchy { l1, llc } = self.hierarchy;
        let command: Vec<_> = self.command.iter().map(|part| part.display().to_string()).collect();
        format!(
            "{}; through L1 {} bytes {} ways, LLC {} bytes {} ways; {} ps an instruction",
            command.join(" "),
            l1.bytes,
            l1.ways,
            llc.bytes,
            llc.ways,
            self.ps_per_instruction,
        )
    }
}

/// What was seen so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Instructions executed.
    pub instructions: u64,
    /// Loads and stores.
    pub data_accesses: u64,
    /// Lines that memory was asked to read or write: entries, including those skipped.
    pub reached_memory: u64,
    /// Entries written.
    pub written: u64,
    /// Of these, those whose physical address is known.
    pub physical: u64,
    /// Programs traced.
    pub processes: usize,
}

/// Why a capture ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The program did.
    Program(ExitStatus),
    /// [`CaptureOptions::limit`] was reached, and the program was ended.
    Limit,
    /// Somebody asked for it, and the program was ended.
    Stopped,
}

/// A trace that was captured.
#[derive(Clone, Copy, Debug)]
pub struct Captured {
    /// What was seen.
    pub counts: Counts,
    /// Why it ended.
    pub ended: Ended,
    /// The system did not tell physical addresses: that needs CAP_SYS_ADMIN (root).
    pub physical_forbidden: bool,
}

/// Bytes read at once, as many as the pipe holds.
const BUFFER_BYTES: usize = 1 << 20;

/// With fewer bytes than this at hand, the tracer is left alone for [`REST`]: a reader that waits
/// in the pipe would be woken for every line.
const WORTHWHILE_BYTES: usize = BUFFER_BYTES / 4;

/// A fraction of the time in which the tracer fills the pipe.
const REST: Duration = Duration::from_millis(2);

/// How long a program that is ended may take before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Runs the program to its end and gives every entry to `write`; tells `watch` how far it is now
/// and then. Ends the program once `stop` is set.
///
/// # Errors
/// When Valgrind or the program cannot be started, or `write` fails; the program is then killed.
pub fn capture(
    options: &CaptureOptions,
    write: &mut dyn FnMut(&Access) -> Result<(), TraceError>,
    watch: &mut dyn FnMut(&Counts),
    stop: &Stop,
) -> Result<Captured, CaptureError> {
    let mut recorder = Recorder::new(options, write)?;
    let mut program = Program::start(options)?;
    let mut streams = Vec::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut status = None;
    let mut ended_at = None::<(Ended, Instant)>;
    loop {
        program.take_new(&mut streams)?;
        let mut bytes = 0;
        for stream in &mut streams {
            bytes += read(stream, &mut buffer, &mut recorder)?;
        }
        watch(recorder.counts());
        match ended_at {
            // It has ended by itself.
            _ if status.is_some() => {}
            None if stop.is_stopped() => {
                program.terminate();
                ended_at = Some((Ended::Stopped, Instant::now()));
            }
            None if recorder.is_full() => {
                program.terminate();
                ended_at = Some((Ended::Limit, Instant::now()));
            }
            Some((_, since)) if since.elapsed() > GRACE => program.kill(),
            _ => {}
        }
        if bytes == 0 {
            // A program that it left behind may hold the pipe open for ever.
            if status.is_some() {
                break;
            }
            status = program.ended()?;
        }
        if bytes < WORTHWHILE_BYTES && status.is_none() {
            thread::sleep(REST);
        }
    }
    let status = status.expect("the loop ends with it");
    if recorder.counts().processes == 0 && ended_at.is_none() {
        return Err(CaptureError::NotStarted { status });
    }
    Ok(Captured {
        counts: *recorder.counts(),
        ended: ended_at.map_or(Ended::Program(status), |(why, _)| why),
        physical_forbidden: streams.iter().any(|stream| stream.process.physical_forbidden()),
    })
}

/// Takes what is at hand of `stream`. Gives how many bytes that were.
fn read(
    stream: &mut Stream,
    buffer: &mut [u8],
    recorder: &mut Recorder<'_>,
) -> Result<usize, CaptureError> {
    match stream.source.read(buffer) {
        Ok(count) => {
            let process = &mut stream.process;
            stream.lines.parse(&buffer[..count], &mut |line| recorder.record(process, line))?;
            Ok(count)
        }
        Err(error) if is_passing(&error) => Ok(0),
        // The process was killed.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(0),
        Err(error) => Err(CaptureError::Valgrind(error)),
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
