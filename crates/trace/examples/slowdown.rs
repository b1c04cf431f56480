//! Prints how much slower a traced program is than under the same Valgrind tool with its output to
//! /dev/null. Wall-clock and processor time, medians over interleaved rounds.
//!
//!     cargo run --release -p ebbtide-trace --example slowdown -- [--children] ROUNDS COMMAND ARGS…

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use ebbtide_core::Stop;
use ebbtide_trace::capture::{CaptureOptions, Ended, Follow, capture};
use ebbtide_trace::native::NativeWriter;
use ebbtide_trace::{Compression, Hierarchy, Output};

/// Time of a run in seconds: wall-clock, and processor time of it and its children.
struct Cost {
    wall: f64,
    processor: f64,
}

fn cost(run: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<Cost, Box<dyn Error>> {
    let (start, before) = (Instant::now(), processor()?);
    run()?;
    Ok(Cost { wall: start.elapsed().as_secs_f64(), processor: processor()? - before })
}

/// Returns the processor time of this process and of the children it has waited for, in seconds.
fn processor() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    // Fields 14 to 17 of proc_pid_stat(5), in ticks of 10 ms; the first here is field 3.
    let ticks = fields.split(' ').skip(11).take(4).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
}

/// Runs the tool alone. Its standard error and the program's output go to /dev/null.
fn plain(command: &[OsString], children: bool) -> Result<(), Box<dyn Error>> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=no"]);
    valgrind.args(children.then_some("--trace-children=yes")).arg("--").args(command);
    let status = valgrind.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("valgrind: {status}").into()) }
}

fn traced(command: &[OsString], children: bool, path: &Path) -> Result<(), Box<dyn Error>> {
    let options = CaptureOptions {
        command: command.to_vec(),
        hierarchy: Hierarchy::default(),
        ps_per_instruction: 500.0,
        follow: if children { Follow::Children } else { Follow::Exec },
        skip: 0,
        limit: None,
    };
    let mut writer = NativeWriter::new(Output::create(path, Compression::None)?, "")?;
    let mut write = |access: &_| writer.write(access);
    let captured = capture(&options, &mut write, &mut |_| (), &Stop::new())?;
    writer.finish()?;
    match captured.ended {
        Ended::Program(status) if status.success() => Ok(()),
        other => Err(format!("the program ended otherwise: {other:?}").into()),
    }
}

fn median(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    format!("{:.2} ({least:.2}-{most:.2})", values[values.len() / 2])
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1).peekable();
    let children = arguments.next_if(|argument| argument == "--children").is_some();
    let rounds = arguments.next().and_then(|rounds| rounds.to_str()?.parse::<u32>().ok());
    let command: Vec<_> = arguments.collect();
    let (Some(rounds @ 1..), false) = (rounds, command.is_empty()) else {
        return Err("expected a number of rounds and a command".into());
    };
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("trace.ebt");
    let (mut walls, mut processors) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let plain = cost(|| plain(&command, children))?;
        let traced = cost(|| traced(&command, children, &path))?;
        println!(
            "round {round}: /dev/null {:.2} s, {:.2} s of processors; traced {:.2} s, {:.2} s",
            plain.wall, plain.processor, traced.wall, traced.processor
        );
        walls.push(traced.wall / plain.wall);
        processors.push(traced.processor / plain.processor);
    }
    println!("traced / plain: wall {}, processors {}", median(walls), median(processors));
    Ok(())
}
