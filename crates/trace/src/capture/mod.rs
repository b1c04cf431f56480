//! [`capture`]: traces the memory accesses of a running program.
//!
//! The program runs under Valgrind's stock memory tracer, whose output on every process comes
//! through a pipe or a file. The trace has the accesses that pass one core's caches. The program's
//! input, output and exit status are unchanged.

mod error;
mod log_folder;
mod page_map;
mod process_log;
mod program;
mod recorder;

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use ebbtide_core::Stop;
pub use error::CaptureError;
use process_log::{Found, is_alive};
use program::{Program, Stream};
use recorder::Recorder;
use rustix::process::Signal;

use crate::filter::Hierarchy;
use crate::{Access, TraceError};

/// The programs that are traced in addition to the named one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    /// None: a program that replaces it (`exec`) runs untraced.
    Nothing,
    /// Those that replace it in its process, as after a wrapper script. Processes that it starts
    /// are slow and leave no entries. They are counted.
    Exec,
    /// These, and the processes that it starts or forks, each in an address space of its own.
    Children,
}

/// The options of a capture.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The caches before memory.
    pub hierarchy: Hierarchy,
    /// Time of an instruction in picoseconds.
    pub ps_per_instruction: f64,
    /// The programs that are traced in addition to the named one.
    pub follow: Follow,
    /// Number of entries that are skipped at the start, while the caches warm up.
    pub skip: u64,
    /// Number of entries after which the program is ended. With `None`, it runs to its end.
    pub limit: Option<u64>,
}

impl CaptureOptions {
    /// Returns one line on the program and the conditions. It describes a trace until the capture
    /// has ended.
    pub fn description(&self) -> String {
        let command: Vec<_> = self.command.iter().map(|part| part.display().to_string()).collect();
        format!("{}; {}", command.join(" "), self.conditions())
    }

    /// How the program is traced.
    fn conditions(&self) -> String {
        let Hierarchy { l1, llc } = self.hierarchy;
        format!(
            "through L1 {} bytes {} ways, LLC {} bytes {} ways; {} ps an instruction",
            l1.bytes, l1.ways, llc.bytes, llc.ways, self.ps_per_instruction,
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
    /// Processes traced.
    pub processes: u64,
    /// Started threads, without the first thread of each program. Valgrind runs one thread at a
    /// time.
    pub threads: u64,
    /// Processes that were not traced, with [`Follow::Exec`].
    pub untraced: u64,
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
    /// The commands of the programs that ran in each process traced, one after the other.
    pub programs: Vec<Vec<String>>,
    /// Processes traced that went on after the program had ended, without being traced.
    pub still_running: u64,
    /// True if the kernel refused physical addresses, because they need `CAP_SYS_ADMIN` (root).
    pub physical_forbidden: bool,
}

impl Captured {
    /// Returns one line on the traced programs, processes and threads, and the conditions.
    pub fn description(&self, options: &CaptureOptions) -> String {
        format!("{}; {}", self.traced(), options.conditions())
    }

    /// Returns the traced programs and the numbers of processes and threads as text. Programs of
    /// one process are joined by "then".
    pub fn traced(&self) -> String {
        let Counts { processes, threads, untraced, .. } = self.counts;
        let processes_of = self.programs.iter().map(|programs| {
            programs.iter().map(|command| shortened(command)).collect::<Vec<_>>().join(", then ")
        });
        let mut text = processes_of.collect::<Vec<_>>().join("; ");
        let mut add = |count: u64, one: &str, many: &str| match count {
            0 => {}
            1 => text += &format!("; 1 {one}"),
            count => text += &format!("; {count} {many}"),
        };
        add(if processes > 1 { processes } else { 0 }, "process", "processes");
        add(threads, "more thread, run in turns", "more threads, run in turns");
        add(untraced, "process not traced", "processes not traced");
        text
    }
}

/// The start of a long command.
fn shortened(command: &str) -> String {
    const LETTERS: usize = 60;
    match command.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &command[..end]),
        None => command.to_string(),
    }
}

/// Bytes read at once: the capacity of the pipe.
const BUFFER_BYTES: usize = 1 << 20;

/// With fewer bytes than this in the pipe, the reader sleeps for [`REST`]. A reader that blocks on
/// the pipe would be woken for every line.
const WORTHWHILE_BYTES: usize = BUFFER_BYTES / 4;

/// Sleep of the reader: a fraction of the time that the tracer takes to fill the pipe.
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
    let mut physical_forbidden = false;
    let mut status = None;
    let mut ended_at = None::<(Ended, Instant)>;
    loop {
        let untraced = program.take_new(&mut streams)?;
        recorder.leave_out(untraced);
        let (mut bytes, mut index) = (0, 0);
        while let Some(stream) = streams.get_mut(index) {
            match read(stream, &mut buffer, &mut recorder)? {
                Some(count) => (bytes, index) = (bytes + count, index + 1),
                None => {
                    let ended = streams.swap_remove(index);
                    physical_forbidden |= ended.process.physical_forbidden();
                    program.forget(&ended);
                }
            }
        }
        watch(recorder.counts());
        match ended_at {
            // The program has ended.
            _ if status.is_some() => {}
            None if stop.is_stopped() => {
                program.signal(&streams, Signal::TERM);
                ended_at = Some((Ended::Stopped, Instant::now()));
            }
            None if recorder.is_full() => {
                program.signal(&streams, Signal::TERM);
                ended_at = Some((Ended::Limit, Instant::now()));
            }
            Some((_, since)) if since.elapsed() > GRACE => program.signal(&streams, Signal::KILL),
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
    physical_forbidden |= streams.iter().any(|stream| stream.process.physical_forbidden());
    Ok(Captured {
        counts: *recorder.counts(),
        programs: recorder.programs(),
        ended: ended_at.map_or(Ended::Program(status), |(why, _)| why),
        still_running: streams.iter().filter(|stream| is_alive(stream.log.id)).count() as u64,
        physical_forbidden,
    })
}

/// Reads the bytes that `stream` has without waiting. Returns their number, or `None` if its
/// process has ended.
fn read(
    stream: &mut Stream,
    buffer: &mut [u8],
    recorder: &mut Recorder<'_>,
) -> Result<Option<usize>, CaptureError> {
    match stream.log.read(buffer).map_err(CaptureError::Valgrind)? {
        Found::Bytes(count, lines) => {
            let process = &mut stream.process;
            lines.parse(&buffer[..count], &mut |line| recorder.record(process, line))?;
            Ok(Some(count))
        }
        Found::Nothing => Ok(Some(0)),
        Found::End => Ok(None),
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
