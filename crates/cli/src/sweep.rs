//! `ebbtide sweep`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ebbtide_core::crc32c;
use ebbtide_study::side_by_side::host_threads;
use ebbtide_study::sweep::{self, Shard, Sweep, SweepOptions};

use crate::exit::{Failure, print};
use crate::output::Output;
use crate::{numbers, progress};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// What to combine: a TOML file with options of `ebbtide sim` and, under `[set]`, parameters.
    /// Each has a value or a list of values [default: three designs at several miss intervals]
    #[arg(value_name = "FILE.toml")]
    file: Option<PathBuf>,
    /// Run only part I of N of the points, into the folder shard-I-of-N of the results.
    /// `sweep merge` joins the parts, also from different machines
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Number of concurrent runs. It does not change the results [default: the host's cores]
    #[arg(long, value_name = "COUNT", value_parser = numbers::at_least_one)]
    threads: Option<u64>,
    /// Discard runs of another sweep or another build in the folder
    #[arg(long)]
    force: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Folder for finished runs, charts (report.html), CSV and Parquet [default: the name of the
    /// file with .results, in the current folder]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Also write each chart of that page as SVG and PDF, for a paper, into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "shard")]
    figures: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Verb {
    /// Join the results of the parts from `sweep --shard`
    ///
    /// Writes the same tables as one machine would have written.
    Merge(Merge),
}

#[derive(Args)]
struct Merge {
    /// Folders of the parts
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Folder for charts (report.html), CSV and Parquet [default: the folder above the first part]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Also write each chart of that page as SVG and PDF, for a paper, into this folder
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

/// The form of the result. The page is always written, into `folder`.
fn output(json: bool, folder: PathBuf, figures: Option<PathBuf>) -> Output {
    Output { json, report: Some(folder), figures }
}

fn merge(arguments: &Merge) -> Result<(), Failure> {
    let above = arguments.folders.first().and_then(|part| part.parent()).map(Path::to_path_buf);
    let folder = arguments.report.clone().or(above).unwrap_or_default();
    let output = output(arguments.json, folder, arguments.figures.clone());
    output.check()?;
    let swept = sweep::merge(&arguments.folders);
    output.finish(&swept.map_err(|error| Failure::of(error.is_input(), error))?)
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(Verb::Merge(arguments)) = &arguments.verb {
        return merge(arguments);
    }
    let (sweep, name) = match &arguments.file {
        None => (Sweep::standard(), "sweep".into()),
        Some(path) => {
            let shown = path.display().to_string();
            let text = fs::read_to_string(path);
            let text = text.map_err(|error| Failure::input(format!("{shown}: {error}")))?;
            let stem = path.file_stem().unwrap_or(path.as_os_str());
            (Sweep::parse(&shown, &text).map_err(Failure::input)?, stem.to_string_lossy())
        }
    };
    let folder = arguments.report.clone().unwrap_or_else(|| format!("{name}.results").into());
    let folder = match arguments.shard {
        None => folder,
        Some(shard) => folder.join(format!("shard-{shard}").replace('/', "-of-")),
    };
    let output = output(arguments.json, folder.clone(), arguments.figures.clone());
    output.check()?;
    let options = SweepOptions {
        folder,
        program: program()?,
        threads: arguments.threads.map_or_else(host_threads, |threads| threads as usize),
        force: arguments.force,
    };
    if let Some(shard) = arguments.shard {
        let done = progress::watched(|watch| sweep::run_shard(&sweep, shard, &options, watch))?;
        let done = done.map_err(|error| Failure::of(error.is_input(), error))?;
        return print(&format!("{done}\n"));
    }
    let swept = progress::watched(|watch| sweep::run(&sweep, &options, watch))?;
    output.finish(&swept.map_err(|error| Failure::of(error.is_input(), error))?)
}

/// The program and its version. A checksum distinguishes builds with the same version.
fn program() -> Result<String, Failure> {
    let file = std::env::current_exe().and_then(std::fs::read);
    let file =
        file.map_err(|error| Failure::run(format!("cannot read the program's own file: {error}")))?;
    Ok(format!("ebbtide {} ({:08x})", env!("CARGO_PKG_VERSION"), crc32c(&file)))
}
