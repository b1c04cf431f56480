//! The option that names the format of `--trace`.

use ebbtide_trace::Format;

use crate::names;

/// The format of the trace that `--trace` names.
#[derive(clap::Args)]
pub(crate) struct TraceFormat {
    /// Format of the trace [default: by the ending of its name, such as .ebt or .csv]. It is
    /// native, text, csv, lackey, ramulator, dramsim3, oracleGeneral, champsim or drmemtrace
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "trace",
        value_parser = names::format(),
        hide_possible_values = true
    )]
    pub(crate) format: Option<Format>,
}
