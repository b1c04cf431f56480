//! `ebbtide size`.

use std::path::PathBuf;

use clap::Args;
use ebbtide_core::UnknownName;
use ebbtide_core::replacement::PolicyKind;
use ebbtide_measure::bench::Profile;
use ebbtide_papers::astriflash::judge_trace;
use ebbtide_report::check_folder;
use ebbtide_study::size::{self, Input, Machine, Options, SizeError};
use ebbtide_workloads::Kind;

use crate::exit::{Failure, print, say};
use crate::{progress, sizes, stop};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Size the program that made this trace; - is standard input
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["workload", "dataset", "theta", "miss_interval", "seed"]
    )]
    trace: Option<PathBuf>,
    /// Execution of a job of the trace, which does not say where jobs end
    #[arg(long, value_name = "TIME", value_parser = sizes::micros, default_value = "10us")]
    job: f64,
    /// Size this program (`ebbtide bench --list` says what each does) [default: hash-table]
    #[arg(long, value_parser = workload)]
    workload: Option<Kind>,
    /// Size of the program's data
    #[arg(long, value_parser = sizes::bytes, default_value = "1GiB", value_name = "SIZE")]
    dataset: u64,
    /// Zipf skew of the program's keys; 0 is uniform
    #[arg(long, value_parser = sizes::number, default_value = "0.99", allow_hyphen_values = true)]
    theta: f64,
    /// How long the program executes between misses with 3% of its data in DRAM
    #[arg(long, value_parser = sizes::micros, default_value = "10us", value_name = "TIME")]
    miss_interval: f64,
    /// Seed of data and jobs
    #[arg(long, value_parser = sizes::count::<u64>, default_value = "1")]
    seed: u64,
    /// The p99 response that must be kept
    #[arg(long, value_parser = sizes::micros, default_value = "1ms", value_name = "TIME")]
    slo: f64,
    /// Jobs that arrive, as a share of what the same cores can do with all data in DRAM
    #[arg(long, value_parser = sizes::number, default_value = "0.8", allow_hyphen_values = true)]
    load: f64,
    /// Dollars for a GB of DRAM
    #[arg(long, value_parser = sizes::number, default_value = "3.0", allow_hyphen_values = true)]
    dram_price: f64,
    /// Dollars for a GB of flash
    #[arg(long, value_parser = sizes::number, default_value = "0.1", allow_hyphen_values = true)]
    flash_price: f64,
    /// Cores that share the flash, each with such a stream of jobs
    #[arg(long, value_parser = sizes::count::<u32>, default_value = "1", value_name = "COUNT")]
    cores: u32,
    /// Size of the SSD, for its lifetime [default: as large as the data]
    #[arg(long, value_parser = sizes::bytes, value_name = "SIZE")]
    ssd: Option<u64>,
    /// Kind of flash: ull, slc, mlc or tlc
    #[arg(long, value_parser = cells, default_value = "tlc", value_name = "KIND")]
    cells: &'static str,
    /// How long it must last in use round the clock: more DRAM spares it writes
    #[arg(long, value_parser = sizes::number, value_name = "YEARS", allow_hyphen_values = true)]
    min_lifetime: Option<f64>,
    /// Size Ebbtide on the machine that `doctor --write` has measured, instead of the published designs
    #[arg(long, value_name = "FILE.toml")]
    machine: Option<PathBuf>,
    /// Also draw the curves of these replacement policies
    #[arg(long, value_delimiter = ',', value_parser = policy, default_value = "adaptive-lrfu")]
    policy: Vec<PolicyKind>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Also write a page of charts (report.html) and CSV files into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

fn workload(name: &str) -> Result<Kind, UnknownName> {
    Kind::from_name(name)
}

fn policy(name: &str) -> Result<PolicyKind, UnknownName> {
    PolicyKind::from_name(name)
}

fn cells(name: &str) -> Result<&'static str, UnknownName> {
    let kinds = size::CELLS.map(|(kind, _)| (kind, kind));
    ebbtide_core::find_by_name("kind of flash", &name.to_uppercase(), &kinds)
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(folder) = &arguments.report {
        check_folder(folder).map_err(Failure::input)?;
    }
    let machine = match &arguments.machine {
        None => Machine::published().map_err(Failure::input)?,
        Some(path) => Machine::from(&Profile::read(path).map_err(Failure::input)?),
    };
    let cancel = stop::on_interrupt()?;
    let bar = progress::late_bar();
    let watch = |stage: &str, share: f64| bar.show(stage, share);
    let report = size::run(&options(arguments), &machine, &cancel, &watch);
    bar.clear();
    let mut report = report.map_err(|error: SizeError| {
        if error.is_input() { Failure::input(error) } else { Failure::run(error) }
    })?;
    judge_trace(&mut report, &machine);
    let text = if arguments.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        report.to_string()
    };
    // Printed first: what was found is not lost if the report cannot be written after all.
    print(&text)?;
    if let Some(folder) = &arguments.report {
        let written = report.write(folder)?;
        say(&format!("the report is in {}", written[0].display()));
    }
    Ok(())
}

fn options(arguments: &Arguments) -> Options {
    let input = match &arguments.trace {
        Some(path) => Input::Trace { path: path.clone(), job_us: arguments.job },
        None => Input::Workload {
            name: arguments.workload.unwrap_or(Kind::HashTable).name(),
            dataset_bytes: arguments.dataset,
            theta: arguments.theta,
            miss_interval_us: arguments.miss_interval,
            seed: arguments.seed,
        },
    };
    Options {
        slo_us: arguments.slo,
        load: arguments.load,
        dram_price: arguments.dram_price,
        flash_price: arguments.flash_price,
        cores: arguments.cores,
        ssd_bytes: arguments.ssd,
        cells: arguments.cells,
        min_lifetime_years: arguments.min_lifetime,
        policies: arguments.policy.iter().map(|kind| kind.name()).collect(),
        ..Options::new(input)
    }
}
