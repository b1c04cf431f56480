//! `ebbtide size`.

use std::path::PathBuf;

use clap::Args;
use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::{Bytes, Span};
use ebbtide_papers::astriflash::judge_trace;
use ebbtide_study::size::{self, Input, Machine, SizeOptions};
use ebbtide_workloads::Kind;

use crate::exit::Failure;
use crate::market::Market;
use crate::output::Output;
use crate::trace_format::TraceFormat;
use crate::{names, numbers, progress};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Trace of the program to size; - is standard input
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["workload", "dataset", "theta", "miss_interval", "seed"]
    )]
    trace: Option<PathBuf>,
    #[command(flatten)]
    trace_format: TraceFormat,
    /// Execution time of a job of the trace. A trace does not record where jobs end [default: 10us]
    #[arg(long, value_name = "TIME")]
    job: Option<Span>,
    /// Program to size (`ebbtide bench --list` describes them) [default: hash-table]
    #[arg(long, value_parser = names::workload(), hide_possible_values = true)]
    workload: Option<Kind>,
    /// Size of the program's data
    #[arg(long, default_value = "1GiB", value_name = "SIZE")]
    dataset: Bytes,
    /// Zipf skew of the program's keys; 0 is uniform
    #[arg(long, value_parser = numbers::number, default_value = "0.99", allow_hyphen_values = true)]
    theta: f64,
    /// Mean execution time between misses with 3% of the program's data in DRAM
    #[arg(long, default_value = "10us", value_name = "TIME")]
    miss_interval: Span,
    /// Seed of data and jobs
    #[arg(long, value_parser = numbers::count::<u64>, default_value = "1")]
    seed: u64,
    /// Service-level objective: the p99 response time
    #[arg(long, default_value = "1ms", value_name = "TIME")]
    slo: Span,
    /// Offered load, as a share of the maximum throughput with all data in DRAM
    #[arg(long, value_parser = numbers::number, default_value = "0.8", allow_hyphen_values = true)]
    load: f64,
    #[command(flatten)]
    market: Market,
    /// Cores that share the flash. Each has its own stream of jobs
    #[arg(long, value_parser = numbers::count::<u32>, default_value = "1", value_name = "COUNT")]
    cores: u32,
    /// Least lifetime of the SSD in years of continuous use. More DRAM means fewer writes
    #[arg(long, value_parser = numbers::number, value_name = "YEARS", allow_hyphen_values = true)]
    min_lifetime: Option<f64>,
    /// The machine to size: a file of costs from `doctor --write`, or the word `published`
    /// [default: machine.toml if it exists, else a current drive]
    #[arg(long, value_name = "FILE.toml|published")]
    machine: Option<PathBuf>,
    /// Also compare the trace with the statements of AstriFlash's paper on services
    #[arg(long)]
    claims: bool,
    /// Additional replacement policies to draw miss ratios by size of DRAM for, with commas between
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "mini-sim",
        value_parser = names::of::<PolicyKind>(PolicyKind::ALL.map(PolicyKind::name)),
        hide_possible_values = true
    )]
    policy: Vec<PolicyKind>,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    for (given, option) in [(arguments.job.is_some(), "--job"), (arguments.claims, "--claims")] {
        if given && arguments.trace.is_none() {
            return Err(Failure::input(format!("{option}: expected --trace FILE with it")));
        }
    }
    arguments.output.check()?;
    let machine = Machine::chosen(arguments.machine.as_deref()).map_err(Failure::input)?;
    let report = progress::watched(|watch| size::run(&options(arguments), &machine, watch))?;
    let mut report = report.map_err(|error| Failure::of(error.is_input(), error))?;
    if arguments.claims {
        judge_trace(&mut report, &machine);
    }
    arguments.output.finish(&report)?;
    report.unmet.map_or(Ok(()), |unmet| Err(Failure::input(unmet)))
}

fn options(arguments: &Arguments) -> SizeOptions {
    let input = match &arguments.trace {
        Some(path) => Input::Trace {
            path: path.clone(),
            format: arguments.trace_format.format,
            job_us: arguments.job.unwrap_or(Span::from_us(10)).as_us_f64(),
        },
        None => Input::Workload {
            name: arguments.workload.unwrap_or(Kind::HashTable),
            dataset_bytes: arguments.dataset.0,
            theta: arguments.theta,
            miss_interval_us: arguments.miss_interval.as_us_f64(),
            seed: arguments.seed,
        },
    };
    SizeOptions {
        slo_us: arguments.slo.as_us_f64(),
        load: arguments.load,
        market: arguments.market.options(),
        cores: arguments.cores,
        min_lifetime_years: arguments.min_lifetime,
        policies: arguments.policy.clone(),
        ..SizeOptions::new(input)
    }
}
