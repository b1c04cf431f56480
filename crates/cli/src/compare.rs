//! `ebbtide compare`.

use std::path::PathBuf;

use clap::Args;
use ebbtide_sim::config::Scale;
use ebbtide_sim::designs;
use ebbtide_study::compare::{self, CompareOptions, Work};
use ebbtide_study::side_by_side::host_threads;
use ebbtide_workloads::Kind;

use crate::exit::Failure;
use crate::market::Market;
use crate::output::Output;
use crate::sim::energy_table;
use crate::trace_format::TraceFormat;
use crate::{names, numbers, progress};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Program to run (`ebbtide bench --list` describes them) [default: hash-table]
    #[arg(
        value_parser = names::with(program, Kind::ALL.map(Kind::name)),
        hide_possible_values = true
    )]
    workload: Option<Kind>,
    /// Trace to replay instead of a program, directly into the memory side of each design
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "jobs", "seed"])]
    trace: Option<PathBuf>,
    #[command(flatten)]
    trace_format: TraceFormat,
    /// Design to compare with DRAM-only: a name or a TOML file of parameters. Repeatable [default:
    /// all]
    #[arg(
        long,
        value_name = "NAME|FILE.toml",
        value_parser = names::design(),
        hide_possible_values = true
    )]
    design: Vec<String>,
    /// Set a parameter of every design, such as flash.preset=tlc. Repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = numbers::setting)]
    set: Vec<(String, String)>,
    /// Scale of dataset, DRAM cache and last-level cache [default: 1/64; with a trace, as much data
    /// as it touches]
    #[arg(long, value_name = "FRACTION")]
    scale: Option<Scale>,
    /// Jobs to measure after the warm-up
    #[arg(long, value_name = "COUNT", value_parser = numbers::at_least_one, default_value = "10000")]
    jobs: u64,
    /// Seed of data and jobs
    #[arg(long, value_parser = numbers::count::<u64>, default_value = "1")]
    seed: u64,
    /// Energy of operations: a TOML file with the keys of configs/energy.toml [default: that file]
    #[arg(long, value_name = "FILE.toml")]
    energy: Option<PathBuf>,
    #[command(flatten)]
    market: Market,
    #[command(flatten)]
    output: Output,
}

/// Parses the name of a program. The name of a design gets an error of its own.
fn program(name: &str) -> Result<Kind, String> {
    name.parse::<Kind>().map_err(|error| match designs::find(name) {
        Ok(_) => "it is a design, expected a program".to_string(),
        Err(_) => error.to_string(),
    })
}

/// Returns a hint on how to choose a design.
pub(crate) fn chosen(design: &str) -> String {
    format!("designs are chosen with --design {design}")
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.output.check()?;
    let options = options(arguments)?;
    let comparison = progress::watched(|watch| compare::compare(&options, watch))?;
    arguments.output.finish(&comparison.map_err(|error| Failure::of(error.is_input(), error))?)
}

fn options(arguments: &Arguments) -> Result<CompareOptions, Failure> {
    let Arguments { workload, trace, design, set, scale, jobs, seed, .. } = arguments;
    let work = match trace {
        Some(path) if path.as_os_str() == "-" => {
            return Err(Failure::input("--trace -: expected a file, which every design can read"));
        }
        Some(path) => Work::Trace(path.clone(), arguments.trace_format.format),
        None => {
            let workload = workload.unwrap_or(Kind::HashTable);
            Work::Program { workload, jobs: *jobs, seed: *seed }
        }
    };
    Ok(CompareOptions {
        designs: design.clone(),
        work,
        set: set.clone(),
        scale: *scale,
        threads: host_threads(),
        energy: energy_table(arguments.energy.as_deref())?,
        market: arguments.market.options(),
    })
}
