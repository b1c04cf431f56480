//! `ebbtide trace info`.

use std::path::PathBuf;

use clap::Args;
use ebbtide_trace::{Format, Statistics};

use crate::exit::Failure;
use crate::output::emit;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Trace to describe; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Format of the trace: native, text, csv, lackey, ramulator, dramsim3, oracleGeneral [default:
    /// by the ending of its name: .ebt, .txt, .csv, .lackey, .ramulator, .dramsim3, .oracleGeneral]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Print JSON instead of a table and a chart
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut source =
        ebbtide_trace::open_as(&arguments.file, arguments.format).map_err(Failure::trace)?;
    let statistics = Statistics::gather(&mut source).map_err(Failure::trace)?;
    emit(&statistics, arguments.json)
}
