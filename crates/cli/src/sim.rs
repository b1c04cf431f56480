//! `ebbtide sim`.

use std::path::{Path, PathBuf};

use clap::Args;
use ebbtide_sim::config::{Config, Scale};
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Plan, ReplayError, SimError, designs};
use ebbtide_study::energy::{EnergyTable, Meter};
use ebbtide_study::simulate::{self, SimReport};
use ebbtide_trace::Space;
use ebbtide_workloads::Kind;

use crate::exit::Failure;
use crate::output::Output;
use crate::{numbers, progress};

/// The default of `--jobs`: they take a second to simulate, and their warm-up about a minute.
const JOBS: u64 = 20_000;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Design to simulate: a name (`ebbtide designs` lists them) or a TOML file of parameters
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "astriflash")]
    design: String,
    /// Program to run (`ebbtide bench --list` describes them) [default: hash-table]
    #[arg(long)]
    workload: Option<Kind>,
    /// Trace to replay instead of a program, directly into the memory side, in any format of `trace
    /// convert`; - is standard input
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["workload", "jobs", "seed", "seeds", "arrivals"]
    )]
    trace: Option<PathBuf>,
    /// Addresses to replay: virtual, or physical where the trace has them
    #[arg(long, default_value = "virtual", requires = "trace")]
    address: Space,
    /// Apply a preset, a named set of parameters: atc23 is the simulator of the CXL-flash study
    #[arg(long, value_name = "NAME")]
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
    /// Run this many seeds, starting with --seed, and print means with 95% confidence intervals
    #[arg(long, value_name = "COUNT", value_parser = numbers::at_least_one)]
    seeds: Option<u64>,
    /// Arrivals of jobs: saturating (a job is always waiting), or poisson:SHARE of the maximum
    /// throughput of DRAM-only
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
    let (config, meter) = machine(arguments)?;
    let report = match &arguments.trace {
        Some(path) => replayed(path, arguments, &config, meter.as_ref())?,
        None => simulated(arguments, config, meter.as_ref())?,
    };
    arguments.output.finish(&report)
}

/// The resolved machine, and a meter of its energy. A machine at a smaller scale represents the
/// whole.
fn machine(arguments: &Arguments) -> Result<(Config, Option<Meter>), Failure> {
    let preset = arguments.preset.iter().map(|name| ("preset", name.as_str()));
    let set = arguments.set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let overrides: Vec<(&str, &str)> = preset.chain(set).collect();
    let whole = resolve(&arguments.design, &overrides).map_err(Failure::input)?;
    let config = arguments.scale.of(whole.clone());
    config.check().map_err(Failure::input)?;
    let table = energy_table(arguments.energy.as_deref())?;
    let has_flash = designs::has_flash(&config).map_err(Failure::input)?;
    let meter = Meter::new(&table, &whole, has_flash).map_err(Failure::input)?;
    Ok((config, meter))
}

/// The energy table in `file`, or the shipped table.
pub(crate) fn energy_table(file: Option<&Path>) -> Result<EnergyTable, Failure> {
    file.map_or_else(
        || Ok(EnergyTable::shipped()),
        |file| EnergyTable::read(file).map_err(Failure::input),
    )
}

fn replayed(
    path: &Path,
    arguments: &Arguments,
    config: &Config,
    meter: Option<&Meter>,
) -> Result<SimReport, Failure> {
    let trace = arguments.address.of(ebbtide_trace::open(path).map_err(Failure::trace)?);
    // While standard input waits for more, only the end of the process ends the wait.
    if path != Path::new("-") {
        progress::on_interrupt()?;
    }
    let report = progress::shown(|watch| simulate::run_trace(config, meter, trace, watch));
    match report {
        Ok(report) => report.ok_or_else(|| Failure::run("cancelled")),
        Err(ReplayError::Trace(error)) => Err(Failure::trace(error)),
        Err(error) => Err(Failure::input(error)),
    }
}

fn simulated(
    arguments: &Arguments,
    config: Config,
    meter: Option<&Meter>,
) -> Result<SimReport, Failure> {
    let plan = Plan {
        config,
        workload: arguments.workload.unwrap_or(Kind::HashTable),
        jobs: arguments.jobs,
        seed: arguments.seed,
        arrivals: arguments.arrivals,
    };
    let report = progress::watched(|watch| match arguments.seeds {
        Some(count) => simulate::run_seeds(&plan, count, meter, watch).map(SimReport::Runs),
        None => simulate::run(&plan, arguments.explain, meter, watch)
            .map(|run| SimReport::Run(Box::new(run))),
    })?;
    report.map_err(|error| match error {
        SimError::Config(_) | SimError::Shape(_) => Failure::input(error),
        _ => Failure::run(error),
    })
}
