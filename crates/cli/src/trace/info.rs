//! `ebbtide trace info`.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use ebbtide_trace::{Format, Source, Statistics};
use serde::Serialize;

use crate::exit::{Failure, say};
use crate::names;
use crate::output::emit;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Trace to describe; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Format of the trace [default: by the ending of its name, such as .ebt or .csv]. It is
    /// native, text, csv, lackey, ramulator, dramsim3, oracleGeneral, champsim or drmemtrace
    #[arg(
        long,
        value_name = "FORMAT",
        value_parser = names::format(),
        hide_possible_values = true
    )]
    format: Option<Format>,
    /// Print JSON instead of a table and a chart
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut source =
        ebbtide_trace::open_as(&arguments.file, arguments.format).map_err(Failure::trace)?;
    if let Some(remark) = source.remark() {
        say(&remark);
    }
    let origin = source.origin().map(str::to_string);
    let statistics = Statistics::gather(&mut source).map_err(Failure::trace)?;
    emit(&Description { origin, statistics }, arguments.json)
}

/// Origin and statistics of a trace.
#[derive(Serialize)]
struct Description {
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(flatten)]
    statistics: Statistics,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            writeln!(f, "of                 {origin}")?;
        }
        write!(f, "{}", self.statistics)
    }
}
