//! `ebbtide doctor`.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use ebbtide_study::doctor::{self, DoctorError};

use crate::exit::{Failure, print};
use crate::{progress, sizes};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Where the data is or will be: a folder (a test file is made in it and removed), a file or a
    /// block device (only read)
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// How long to measure at each queue depth, in seconds; 0 measures nothing
    #[arg(long, value_parser = sizes::number, default_value = "0.4")]
    seconds: f64,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopper = stop.clone();
    ctrlc::set_handler(move || stopper.store(true, Ordering::Relaxed))?;
    let options = doctor::Options {
        data: arguments.data.clone(),
        seconds_per_depth: arguments.seconds,
        ..doctor::Options::default()
    };
    let bar = progress::bar();
    let report = doctor::examine(&options, |at| {
        progress::show(&bar, &at.step, at.done);
        if stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    bar.finish_and_clear();
    let report = report.map_err(|error| match error {
        DoctorError::Interrupted => Failure::run(error),
        other => Failure::input(other),
    })?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        report.to_string()
    };
    print(&text)
}
