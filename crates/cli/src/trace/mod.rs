//! `ebbtide trace`.

mod convert;
mod info;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Instant;

use clap::{Args, Subcommand};
use ebbtide_core::{Bytes, counted};
use ebbtide_trace::capture::{self, Captured, Counts, Ended, Follow};
use ebbtide_trace::native::NativeWriter;
use ebbtide_trace::{CacheShape, Compression, Hierarchy, Output};

use crate::exit::{Failure, INTERRUPTED, say};
use crate::output::check_is_no_store;
use crate::{numbers, progress};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    capture: Capture,
}

#[derive(Subcommand)]
enum Verb {
    /// Convert a trace to another format, map it to physical addresses, or insert hints
    ///
    /// Reports which fields the new format cannot hold.
    Convert(convert::Arguments),
    /// Describe a trace: count, reads and writes, footprint, locality, and hot pages
    Info(info::Arguments),
}

#[derive(Args)]
struct Capture {
    /// Trace file to write, in the native format (.ebt)
    #[arg(short, long, value_name = "FILE", required = true)]
    output: Option<PathBuf>,
    /// Trace only the started process, with the programs that it executes in its place. Count the
    /// other processes [default: trace all, each in an address space of its own]
    #[arg(long)]
    one_process: bool,
    /// Trace only the named program. Programs that it executes or starts run at full speed
    #[arg(long, conflicts_with = "one_process")]
    no_follow: bool,
    /// Terminate the command after this many entries
    #[arg(long, value_name = "COUNT", value_parser = numbers::count::<u64>)]
    limit: Option<u64>,
    /// Skip this many entries at the start
    #[arg(long, value_name = "COUNT", value_parser = numbers::count::<u64>, default_value = "0")]
    skip: u64,
    /// First-level caches, one for instructions and one for data: size and ways
    #[arg(long, value_name = "SIZE,WAYS", value_parser = cache, default_value = "64KiB,4")]
    l1: CacheShape,
    /// Last-level cache: size and ways
    #[arg(long, value_name = "SIZE,WAYS", value_parser = cache, default_value = "1MiB,16")]
    llc: CacheShape,
    /// Cycles per instruction. With --ghz it turns the instructions before an entry into its time
    #[arg(long, value_parser = rate, default_value = "1")]
    cpi: f64,
    /// Clock rate of the core in GHz
    #[arg(long, value_parser = rate, default_value = "2")]
    ghz: f64,
    /// Program to trace, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn cache(text: &str) -> Result<CacheShape, String> {
    let parts = text.split_once(',');
    let shape = parts.and_then(|(bytes, ways)| {
        let Bytes(bytes) = bytes.parse().ok()?;
        Some(CacheShape { bytes, ways: ways.trim().parse().ok()? })
    });
    shape.ok_or_else(|| format!("'{text}' is no cache; expected something like 1MiB,16"))
}

fn rate(text: &str) -> Result<f64, String> {
    let number = numbers::number(text)?;
    let is_possible = (1e-3..=1e3).contains(&number);
    is_possible.then_some(number).ok_or_else(|| "expected 0.001 to 1000".to_string())
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.verb {
        Some(Verb::Convert(arguments)) => convert::run(&arguments),
        Some(Verb::Info(arguments)) => info::run(&arguments),
        None => trace(arguments.capture),
    }
}

/// Room for the description. It names the programs once they are known.
const DESCRIPTION_BYTES: usize = 2048;

/// Traces the command and ends with its exit status.
fn trace(arguments: Capture) -> Result<(), Failure> {
    let path = arguments.output.as_deref().expect("clap requires it");
    let ps_per_instruction = 1000.0 * arguments.cpi / arguments.ghz;
    let options = capture::CaptureOptions {
        hierarchy: Hierarchy { l1: arguments.l1, llc: arguments.llc },
        ps_per_instruction,
        follow: match (arguments.one_process, arguments.no_follow) {
            (true, _) => Follow::Exec,
            (false, true) => Follow::Nothing,
            (false, false) => Follow::Children,
        },
        skip: arguments.skip,
        limit: arguments.limit,
        command: arguments.command,
    };
    check_is_no_store(path)?;
    let output = Output::create(path, Compression::None).map_err(Failure::input)?;
    let mut writer = NativeWriter::with_room(output, &options.description(), DESCRIPTION_BYTES)?;
    let stop = progress::on_interrupt()?;
    let (spinner, start) = (progress::Spinner::new(), Instant::now());
    let mut watch = |counts: &Counts| {
        let rate = counts.instructions as f64 / start.elapsed().as_secs_f64() / 1e6;
        let (written, executed) = (counts.written as f64 / 1e6, counts.instructions as f64 / 1e6);
        spinner.show(&format!(
            "{written:.1} M entries of {executed:.0} M instructions, {rate:.1} M instructions/s"
        ));
    };
    let captured = capture::capture(&options, &mut |access| writer.write(access), &mut watch, stop);
    spinner.clear();
    let captured = captured.map_err(|error| Failure::of(error.is_input(), error))?;
    writer.describe(&captured.description(&options))?;
    let bytes = writer.finish()?;
    summarise(&captured, path, bytes);
    match captured.ended {
        Ended::Program(status) => pass_on(status),
        Ended::Limit => Ok(()),
        Ended::Stopped => Err(Failure::silent(INTERRUPTED)),
    }
}

fn summarise(captured: &Captured, path: &Path, bytes: u64) {
    let Captured { counts, ended, programs, still_running, physical_forbidden } = captured;
    let Counts { instructions, written, physical, untraced, .. } = *counts;
    if *physical_forbidden {
        say("virtual addresses only: physical ones need root (CAP_SYS_ADMIN)");
    } else if physical < written {
        say(&format!("{} of {written} entries have no physical address", written - physical));
    }
    let all = programs.iter().map(Vec::len).sum::<usize>();
    if all > 1 || counts.threads > 0 || untraced > 0 {
        say(&format!("traced {}: {}", counted(all, "program"), captured.traced()));
    }
    if untraced > 0 {
        say(&format!(
            "{} ran untraced: without --one-process all are traced",
            counted(untraced, "more process")
        ));
    }
    if *still_running > 0 {
        say(&format!("{still_running} traced processes went on after the command, untraced"));
    }
    let why = match ended {
        Ended::Program(status) => match status.signal() {
            Some(signal) => format!("; the program was ended by signal {signal}"),
            None => String::new(),
        },
        Ended::Limit => "; the program was ended at the limit".to_string(),
        Ended::Stopped => "; stopped early".to_string(),
    };
    say(&format!(
        "{}: {written} entries of {instructions} instructions, {:.2} bytes an entry{why}",
        path.display(),
        bytes as f64 / written.max(1) as f64
    ));
}

/// Ends this program with the exit status of the traced one.
fn pass_on(status: ExitStatus) -> Result<(), Failure> {
    // Shells add 128 to the number of the signal that ended a program.
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(0) => Ok(()),
        code => Err(Failure::silent(code.unwrap_or(1))),
    }
}
