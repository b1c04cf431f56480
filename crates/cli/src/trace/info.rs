//! `ebbtide trace info`.

use std::path::PathBuf;

use clap::Args;
use ebbtide_trace::Statistics;

use crate::exit::Failure;
use crate::output::emit;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Trace to describe, in any format; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print JSON instead of a table and a chart
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut source = ebbtide_trace::open(&arguments.file).map_err(Failure::trace)?;
    let statistics = Statistics::gather(&mut source).map_err(Failure::trace)?;
    emit(&statistics, arguments.json)
}
