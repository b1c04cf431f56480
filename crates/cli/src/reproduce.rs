//! `ebbtide reproduce`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ebbtide_study::report::check_folder;
use ebbtide_study::reproduce::{Cancel, Options, ReproduceError, astriflash};

use crate::exit::{Failure, print, say};
use crate::{progress, sizes};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Whose claims
    #[arg(value_enum)]
    paper: Paper,
    /// A 64th of the paper's capacities: minutes instead of most of an hour
    #[arg(long)]
    quick: bool,
    /// Seed of layouts, job streams and arrivals
    #[arg(long, value_parser = sizes::count::<u64>, default_value = "1")]
    seed: u64,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Also write a page of charts (report.html) and CSV files into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Paper {
    /// AstriFlash, HPCA 2023
    Astriflash,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(folder) = &arguments.report {
        check_folder(folder).map_err(Failure::input)?;
    }
    let (cancel, bar) = (Cancel::default(), progress::bar());
    let canceller = cancel.clone();
    ctrlc::set_handler(move || canceller.cancel())?;
    let options = Options {
        quick: arguments.quick,
        seed: arguments.seed,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    if !arguments.quick {
        say(
            "at the paper's capacities this takes most of an hour on two cores; --quick takes minutes",
        );
    }
    let Paper::Astriflash = arguments.paper;
    let shown = |share| progress::show(&bar, "simulating", share);
    let result = astriflash::reproduce(&options, &cancel, &shown);
    bar.finish_and_clear();
    let result = result.map_err(|error: ReproduceError| Failure::run(error))?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&result)? + "\n"
    } else {
        result.to_string()
    };
    print(&text)?;
    if let Some(folder) = &arguments.report {
        let written = result.page().write(folder)?;
        say(&format!("the report is in {}", written[0].display()));
    }
    Ok(())
}
