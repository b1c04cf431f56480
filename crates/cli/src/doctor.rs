//! `ebbtide doctor`.

use std::path::{Path, PathBuf};

use clap::Args;
use ebbtide_core::Watch;
use ebbtide_measure::bench::{Mode, measure_profile};
use ebbtide_measure::doctor::{self, DoctorError};

use crate::exit::Failure;
use crate::output::{check_is_no_store, emit};
use crate::{numbers, progress};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Location of the data. In a folder, a test file is made and removed. A file or block device
    /// is only read
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Seconds to measure at each queue depth; 0 measures nothing
    #[arg(long, value_parser = numbers::number, default_value = "0.4")]
    seconds: f64,
    /// Also measure the cost of a miss in every memory and write it into this file, for `size
    /// --machine` and `bench --predict --machine`. This takes about a minute and 2 GiB of files
    #[arg(long, value_name = "FILE.toml")]
    write: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = arguments.data.clone().unwrap_or_else(|| PathBuf::from("."));
    if arguments.write.is_some() && !folder.is_dir() {
        let given = folder.display();
        return Err(Failure::input(format!("--data {given}: with --write, expected a folder")));
    }
    arguments.write.as_deref().map_or(Ok(()), check_is_no_store)?;
    let options = doctor::DoctorOptions {
        data: arguments.data.clone(),
        seconds_per_depth: arguments.seconds,
        ..doctor::DoctorOptions::default()
    };
    let report = progress::watched(|watch| {
        let report = doctor::examine(&options, watch)
            .map_err(|error| Failure::of(!matches!(error, DoctorError::Stopped(_)), error))?;
        if let Some(path) = &arguments.write {
            write_profile(path, &folder, watch)?;
        }
        Ok::<_, Failure>(report)
    })??;
    emit(&report, arguments.json)
}

/// Measures the cost of a miss, with files in `folder`, and writes it to `path`.
fn write_profile(path: &Path, folder: &Path, watch: Watch<'_>) -> Result<(), Failure> {
    let modes = Mode::USUAL.into_iter().filter(|mode| *mode != Mode::Dram);
    let modes: Vec<Mode> = modes.collect();
    let profile = measure_profile(&folder.join("ebbtide.data"), &modes, watch)
        .map_err(|error| Failure::of(error.is_input(), error))?;
    let failed = |error| Failure::run(format!("cannot write {}: {error}", path.display()));
    profile.write(path).map_err(failed)
}
