//! `ebbtide sim`.

use std::path::{Path, PathBuf};

use clap::Args;
use ebbtide_core::Watch;
use ebbtide_sim::config::Scale;
use ebbtide_sim::{Offered, designs};
use ebbtide_study::energy::EnergyTable;
use ebbtide_study::simulate::{self, SimOptions, SimWork};
use ebbtide_trace::{Beyond, Space};
use ebbtide_workloads::Kind;

use crate::exit::Failure;
use crate::output::Output;
use crate::trace_format::TraceFormat;
use crate::{names, numbers, progress};

/// The default of `--jobs`. They take less time to simulate than the warm-up.
const JOBS: u64 = 20_000;

/// The default of `--seeds`: enough for a useful interval.
const SEEDS: u64 = 3;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Design to simulate: a name (`ebbtide designs` lists them) or a TOML file of parameters
    #[arg(
        long,
        value_name = "NAME|FILE.toml",
        default_value = "astriflash",
        value_parser = names::design(),
        hide_possible_values = true
    )]
    design: String,
    /// Program to run (`ebbtide bench --list` describes them) [default: hash-table]
    #[arg(long, value_parser = names::workload(), hide_possible_values = true)]
    workload: Option<Kind>,
    /// Trace to replay instead of a program, directly into the memory side; - is standard input
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["workload", "jobs", "seed", "seeds", "arrivals"]
    )]
    trace: Option<PathBuf>,
    #[command(flatten)]
    trace_format: TraceFormat,
    /// Addresses to replay: virtual, or physical where the trace has them
    #[arg(long, default_value = "virtual", requires = "trace")]
    address: Space,
    /// Addresses of the trace beyond the modelled data: fold (move their regions of 2 MiB to unused
    /// regions) or refuse
    #[arg(long, value_name = "fold|refuse", default_value = "fold", requires = "trace")]
    beyond: Beyond,
    /// Run each thread of the trace on a core: its number modulo cores.count. A core computes as
    /// long as the thread did, and waits for what it reads. Without this, accesses enter at their
    /// times
    #[arg(long, requires = "trace")]
    by_thread: bool,
    /// Apply a preset, a named set of parameters: atc23 is the simulator of the CXL-flash study
    #[arg(
        long,
        value_name = "NAME",
        value_parser = names::of::<String>(designs::preset_names()),
        hide_possible_values = true
    )]
    preset: Option<String>,
    /// Set a parameter, such as dram_cache.ways=8. Repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = numbers::setting)]
    set: Vec<(String, String)>,
    /// Scale of dataset, DRAM cache and last-level cache: a fraction such as 1/64
    #[arg(long, value_name = "FRACTION", default_value_t = Scale::WHOLE)]
    scale: Scale,
    /// Jobs to measure after the warm-up
    #[arg(long, value_name = "COUNT", value_parser = numbers::at_least_one, default_value_t = JOBS)]
    jobs: u64,
    /// Seed of data, jobs and arrivals
    #[arg(long, value_parser = numbers::count::<u64>, default_value = "1")]
    seed: u64,
    /// Run this many seeds, starting with --seed, and print means with 95% confidence intervals.
    /// With 1, print every figure of that run [default: 3, or 1 with --explain]
    #[arg(long, value_name = "COUNT", value_parser = numbers::seeds)]
    seeds: Option<u64>,
    /// Arrivals of jobs: saturating (a job is always waiting), or poisson:SHARE of the maximum
    /// throughput of DRAM-only, into a queue for each core
    #[arg(long, default_value = "saturating")]
    arrivals: Offered,
    /// Energy of operations: a TOML file with the keys of configs/energy.toml [default: that file]
    #[arg(long, value_name = "FILE.toml")]
    energy: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Also print the timeline of a typical miss
    #[arg(long, conflicts_with_all = ["trace", "seeds"])]
    explain: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.output.check()?;
    let options = options(arguments)?;
    let waits_for_input = arguments.trace.as_deref() == Some(Path::new("-"));
    let simulated = |watch: Watch<'_>| simulate::simulate(&options, watch);
    // While standard input waits for more, only the end of the process ends the wait.
    let report = match waits_for_input {
        true => progress::shown(simulated),
        false => progress::watched(simulated)?,
    };
    let report = report.map_err(|error| Failure::of(error.is_input(), error))?;
    arguments.output.finish(&report)
}

fn options(arguments: &Arguments) -> Result<SimOptions, Failure> {
    let Arguments { design, preset, set, scale, .. } = arguments;
    let work = match &arguments.trace {
        Some(path) => SimWork::Trace {
            path: path.clone(),
            format: arguments.trace_format.format,
            address: arguments.address,
            beyond: arguments.beyond,
            by_thread: arguments.by_thread,
        },
        None => SimWork::Program {
            workload: arguments.workload.unwrap_or(Kind::HashTable),
            jobs: arguments.jobs,
            seed: arguments.seed,
            seeds: match arguments.seeds {
                None if arguments.explain => None,
                None => Some(SEEDS),
                Some(1) => None,
                seeds => seeds,
            },
            arrivals: arguments.arrivals,
            explain: arguments.explain,
        },
    };
    Ok(SimOptions {
        design: design.clone(),
        preset: preset.clone(),
        set: set.clone(),
        scale: *scale,
        energy: energy_table(arguments.energy.as_deref())?,
        work,
    })
}

/// The energy table in `file`, or the shipped table.
pub(crate) fn energy_table(file: Option<&Path>) -> Result<EnergyTable, Failure> {
    file.map_or_else(
        || Ok(EnergyTable::shipped()),
        |file| EnergyTable::read(file).map_err(Failure::input),
    )
}
