//! [`capture`]: traces the memory accesses of a running program.
//!
//! The program runs under Valgrind's stock memory tracer, whose output comes through a pipe. The
//! trace has the accesses that pass one core's caches. The program's input, output and exit status
//! are unchanged.

mod error;
mod named_pipe;
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

/// Which programs are traced beside the one that was named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    /// None: a program that replaces it (`exec`) runs untraced.
    Nothing,
    /// Those that replace it in its process, as after a wrapper script. Programs that it starts in
    /// other processes are slow and leave no entries.
    Exec,
    /// These, and those that it starts in other processes, each in an address space of its own.
    Children,
}

/// What to trace, and how.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The caches before memory.
    pub hierarchy: Hierarchy,
    /// Picoseconds that an instruction takes.
    pub ps_per_instruction: f64,
    /// Which other programs are traced.
    pub follow: Follow,
    /// Entries that are skipped at the start, while the caches warm up.
    pub skip: u64,
    /// The number of entries after which the program is ended.
    pub limit: Option<u64>,
}

impl CaptureOptions {
    /// One line that says what is traced and how; it is stored in the trace.
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

/// Counts of a capture so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Instructions executed.
    pub instructions: u64,
    /// Loads and stores.
    pub data_accesses: u64,
    /// Lines read from or written to memory: entries, including skipped ones.
    pub reached_memory: u64,
    /// Entries written.
    pub written: u64,
    /// Entries written whose physical address is known.
    pub physical: u64,
    /// Programs traced.
    pub processes: usize,
}

/// Why a capture ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The program ended.
    Program(ExitStatus),
    /// [`CaptureOptions::limit`] was reached, and the program was ended.
    Limit,
    /// The caller asked for it, and the program was ended.
    Stopped,
}

/// The result of a capture.
#[derive(Clone, Debug)]
pub struct Captured {
    /// The counts.
    pub counts: Counts,
    /// Why it ended.
    pub ended: Ended,
    /// The commands of the programs traced, in the order in which they began.
    pub programs: Vec<String>,
    /// Whether the kernel did not give physical addresses, which needs CAP_SYS_ADMIN (root).
    pub physical_forbidden: bool,
}

/// Bytes read at once: the capacity of the pipe.
const BUFFER_BYTES: usize = 1 << 20;

/// With fewer bytes than this in the pipe, the reader sleeps for [`REST`]. A reader that blocks on
/// the pipe would be woken for every line.
const WORTHWHILE_BYTES: usize = BUFFER_BYTES / 4;

/// How long the reader sleeps: a fraction of the time in which the tracer fills the pipe.
const REST: Duration = Duration::from_millis(2);

/// The time after which a program that was asked to end is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Runs the program to its end, calls `write` with every entry and `watch` with the counts from
/// time to time. Ends the program once `stop` is set.
///
/// # Errors
/// When Valgrind or the program cannot be started, or `write` fails. The program is then killed.
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
            // The program has ended.
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
            // A background process of the program may hold the pipe open for ever.
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
        programs: recorder.programs().to_vec(),
        ended: ended_at.map_or(Ended::Program(status), |(why, _)| why),
        physical_forbidden: streams.iter().any(|stream| stream.process.physical_forbidden()),
    })
}

/// Reads the bytes that `stream` has without waiting. Returns their number.
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
