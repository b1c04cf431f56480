//! `ebbtide doctor`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use ebbtide_measure::bench::{BenchError, Cancel, Mode, measure_profile};
use ebbtide_measure::doctor::{self, DoctorError};
use indicatif::ProgressBar;

use crate::exit::{Failure, print};
use crate::{progress, sizes, stop};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Where the data is or will be: a folder (a test file is made in it and removed), a file or a
    /// block device (only read)
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// How long to measure at each queue depth, in seconds; 0 measures nothing
    #[arg(long, value_parser = sizes::number, default_value = "0.4")]
    seconds: f64,
    /// Also measure what misses cost in every memory, in a minute or so and with 2 GiB of files, and
    /// write that into this file, for `size --machine` and `bench --predict --machine`
    #[arg(long, value_name = "FILE.toml")]
    write: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let cancel = stop::on_interrupt()?;
    let folder = arguments.data.clone().unwrap_or_else(|| PathBuf::from("."));
    if arguments.write.is_some() && !folder.is_dir() {
        let given = folder.display();
        return Err(Failure::input(format!("--data {given}: with --write, expected a folder")));
    }
    let options = doctor::Options {
        data: arguments.data.clone(),
        seconds_per_depth: arguments.seconds,
        ..doctor::Options::default()
    };
    let bar = progress::bar();
    let report = doctor::examine(&options, |at| {
        progress::show(&bar, &at.step, at.done);
        if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let report = report.map_err(|error| match error {
        DoctorError::Interrupted => Failure::run(error),
        other => Failure::input(other),
    });
    let report = report.and_then(|report| {
        if let Some(path) = &arguments.write {
            write_profile(path, &folder, &cancel, &bar)?;
        }
        Ok(report)
    });
    bar.finish_and_clear();
    let report = report?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        report.to_string()
    };
    print(&text)
}

/// Measures what misses cost, with files in `folder`, and writes it to `path`.
fn write_profile(
    path: &Path,
    folder: &Path,
    cancel: &Cancel,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let modes = Mode::ALL.map(|(_, mode)| mode).into_iter().filter(|mode| *mode != Mode::Dram);
    let modes: Vec<Mode> = modes.collect();
    let shown = |stage: &str, share: f64| progress::show(bar, stage, share);
    let profile = measure_profile(&folder.join("ebbtide.data"), &modes, cancel, &shown);
    let profile = profile.map_err(|error: BenchError| {
        if error.is_input() { Failure::input(error) } else { Failure::run(error) }
    })?;
    let failed = |error| Failure::run(format!("cannot write {}: {error}", path.display()));
    profile.write(path).map_err(failed)
}
