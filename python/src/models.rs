//! The commands that simulate or compute. Their arguments are text.

use std::collections::HashMap;
use std::sync::Arc;

use ebbtide_core::replacement::{PolicyKind, Replacement};
use ebbtide_core::{Bytes, Span, Stop, Watch};
use ebbtide_papers::{ReproduceOptions, Selection, astriflash::judge_trace};
use ebbtide_sim::Offered;
use ebbtide_sim::config::{Config, ConfigError, Scale};
use ebbtide_sim::designs::{self, Parts, with_policy, with_prefetcher};
use ebbtide_study::compare::{CompareError, CompareOptions, Work};
use ebbtide_study::market::Market;
use ebbtide_study::side_by_side::host_threads;
use ebbtide_study::simulate::{self as simulation, SimOptions, SimWork, SimulateError};
use ebbtide_study::size::{Cells, Input, Machine, SizeError, SizeOptions};
use ebbtide_trace::Space;
use ebbtide_workloads::Kind;
use pyo3::prelude::*;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::policy::{PythonPolicy, PythonPrefetcher, Trouble};
use crate::report::Report;
use crate::watched::{watched, watched_by};

/// Parameters and their values, as `--set` takes them.
type Set = Vec<(String, String)>;

/// A caller's policy or prefetcher, if there is one.
type Own = Option<Py<PyAny>>;

/// Simulates one design on one program or trace.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    arguments: HashMap<String, String>,
    set: Set,
    replacement: Own,
    prefetcher: Own,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Report> {
    let options = sim_options(&Arguments(arguments), set)?;
    if replacement.is_some() || prefetcher.is_some() {
        return with_own(py, options, replacement, prefetcher, progress.as_ref());
    }
    watched(py, progress.as_ref(), move |watch| {
        simulation::simulate(&options, watch).map(Report::new).map_err(simulate_failed)
    })
}

fn simulate_failed(error: SimulateError) -> Failure {
    match error {
        SimulateError::Stopped(_) => Failure::Stopped,
        error => Failure::of(error.is_input(), error),
    }
}

/// Simulates with a policy or a prefetcher in Python. Its first exception ends the run.
fn with_own(
    py: Python<'_>,
    options: SimOptions,
    replacement: Own,
    prefetcher: Own,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Report> {
    if !matches!(&options.work, SimWork::Program { seeds: None, .. }) {
        let text =
            "replacement and prefetcher: expected one run of a program, without trace and seeds";
        return Err(Failure::input(text).into());
    }
    if replacement.is_some() && prefetcher.is_some() {
        let text = "replacement and prefetcher: expected one of them";
        return Err(Failure::input(text).into());
    }
    let stop = Arc::new(Stop::new());
    let trouble = Trouble::new(stop.clone());
    let noted = trouble.clone();
    let run = move |watch: Watch<'_>| {
        // The run holds the interpreter's lock, so that calls of the policy need not wait for it.
        // Each report of progress lets other threads have it.
        let tell = |stage: &str, share: f64| {
            watch.show(stage, share);
            Python::attach(|py| py.detach(|| ()));
        };
        let compose = |config: &Config| match (&replacement, &prefetcher) {
            (Some(policy), _) => compose_with_policy(config, policy, &noted),
            (_, Some(prefetcher)) => {
                Python::attach(|py| match PythonPrefetcher::new(py, prefetcher, noted.clone()) {
                    Ok(prefetcher) => with_prefetcher(config, Box::new(prefetcher)),
                    Err(error) => {
                        noted.note(error);
                        designs::compose(config)
                    }
                })
            }
            _ => designs::compose(config),
        };
        let watch = watch.telling(&tell);
        let report = Python::attach(|_| {
            simulation::simulate_with(&options, &compose, watch).map(Report::new)
        });
        report.map_err(simulate_failed)
    };
    let report = watched_by(py, stop, progress, run);
    trouble.take().map_or(report, Err)
}

fn compose_with_policy(
    config: &Config,
    policy: &Py<PyAny>,
    trouble: &Trouble,
) -> Result<Parts, ConfigError> {
    with_policy(config, |geometry| -> Box<dyn Replacement> {
        Python::attach(|py| match PythonPolicy::new(py, policy, geometry, trouble.clone()) {
            Ok(policy) => Box::new(policy),
            Err(error) => {
                trouble.note(error);
                PolicyKind::Fifo.build(geometry, 1, 1)
            }
        })
    })
}

fn sim_options(arguments: &Arguments, set: Set) -> Result<SimOptions, Failure> {
    let work = match arguments.path("trace") {
        Some(path) => SimWork::Trace {
            path,
            format: None,
            address: arguments.value("address")?.unwrap_or(Space::Virtual),
            beyond: arguments.value("beyond")?.unwrap_or_default(),
            by_thread: false,
        },
        None => SimWork::Program {
            workload: arguments.value("workload")?.unwrap_or(Kind::HashTable),
            jobs: arguments.count("jobs", 1)?.unwrap_or(20_000),
            seed: arguments.count("seed", 0)?.unwrap_or(1),
            seeds: arguments.count("seeds", 1)?,
            arrivals: arguments.value("arrivals")?.unwrap_or(Offered::Saturating),
            explain: arguments.is_set("explain"),
        },
    };
    Ok(SimOptions {
        design: arguments.text("design").unwrap_or("astriflash").to_string(),
        preset: arguments.text("preset").map(str::to_string),
        set,
        scale: arguments.value("scale")?.unwrap_or(Scale::WHOLE),
        energy: arguments.energy()?,
        work,
    })
}

/// Simulates every design on the same work.
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    arguments: HashMap<String, String>,
    designs: Vec<String>,
    set: Set,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Report> {
    let options = compare_options(&Arguments(arguments), designs, set)?;
    watched(py, progress.as_ref(), move |watch| {
        let compared = ebbtide_study::compare::compare(&options, watch);
        compared.map(Report::new).map_err(|error| match error {
            CompareError::Stopped(_) => Failure::Stopped,
            error => Failure::of(error.is_input(), error),
        })
    })
}

fn compare_options(
    arguments: &Arguments,
    designs: Vec<String>,
    set: Set,
) -> Result<CompareOptions, Failure> {
    let work = match arguments.path("trace") {
        Some(path) => Work::Trace(path, None),
        None => {
            let workload = arguments.value("workload")?.unwrap_or(Kind::HashTable);
            let jobs = arguments.count("jobs", 1)?.unwrap_or(10_000);
            let seed = arguments.count("seed", 0)?.unwrap_or(1);
            Work::Program { workload, jobs, seed }
        }
    };
    Ok(CompareOptions {
        designs,
        work,
        set,
        scale: arguments.value("scale")?,
        threads: host_threads(),
        energy: arguments.energy()?,
        market: market(arguments)?,
    })
}

/// Returns the prices of memory and the drives to choose from.
fn market(arguments: &Arguments) -> Result<Market, Failure> {
    let mut market = Market::default();
    if let Some(price) = arguments.number("dram_price")? {
        market.prices.dram = price;
    }
    if let Some(price) = arguments.number("flash_price")? {
        market.prices.flash = price;
    }
    if let Some(Bytes(bytes)) = arguments.value("ssd")? {
        market.drive_bytes = bytes;
    }
    if let Some(cells) = arguments.text("cells") {
        market.cells = cells.to_uppercase().parse::<Cells>().map_err(Failure::input)?;
    }
    Ok(market)
}

/// Computes the DRAM that a program needs.
#[pyfunction]
pub(crate) fn size(
    py: Python<'_>,
    arguments: HashMap<String, String>,
    policies: Option<Vec<String>>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Report> {
    let arguments = Arguments(arguments);
    let options = size_options(&arguments, policies)?;
    let machine = Machine::chosen(arguments.path("machine").as_deref()).map_err(Failure::input)?;
    let claims = arguments.is_set("claims");
    watched(py, progress.as_ref(), move |watch| {
        let report = ebbtide_study::size::run(&options, &machine, watch);
        let mut report = report.map_err(size_failed)?;
        if claims {
            judge_trace(&mut report, &machine);
        }
        Ok(Report::new(report))
    })
}

fn size_failed(error: SizeError) -> Failure {
    match error {
        SizeError::Stopped(_) => Failure::Stopped,
        error => Failure::of(error.is_input(), error),
    }
}

fn size_options(
    arguments: &Arguments,
    policies: Option<Vec<String>>,
) -> Result<SizeOptions, Failure> {
    let usual = SizeOptions::new(input(arguments)?);
    Ok(SizeOptions {
        slo_us: arguments.value::<Span>("slo")?.map_or(usual.slo_us, Span::as_us_f64),
        load: arguments.number("load")?.unwrap_or(usual.load),
        market: market(arguments)?,
        cores: match arguments.count("cores", 1)? {
            None => usual.cores,
            Some(cores) => u32::try_from(cores).unwrap_or(u32::MAX),
        },
        min_lifetime_years: arguments.number("min_lifetime")?,
        policies: policies.map_or(Ok(usual.policies), kinds)?,
        input: usual.input,
    })
}

fn input(arguments: &Arguments) -> Result<Input, Failure> {
    if let Some(path) = arguments.path("trace") {
        let job_us = arguments.value::<Span>("job")?.map_or(10.0, Span::as_us_f64);
        return Ok(Input::Trace { path, format: None, job_us });
    }
    match Input::default() {
        Input::Workload { name, dataset_bytes, theta, miss_interval_us, seed } => {
            let bytes = arguments.value::<Bytes>("dataset")?.map(|Bytes(bytes)| bytes);
            let interval = arguments.value::<Span>("miss_interval")?.map(Span::as_us_f64);
            Ok(Input::Workload {
                name: arguments.value("workload")?.unwrap_or(name),
                dataset_bytes: bytes.unwrap_or(dataset_bytes),
                theta: arguments.number("theta")?.unwrap_or(theta),
                miss_interval_us: interval.unwrap_or(miss_interval_us),
                seed: arguments.count("seed", 0)?.unwrap_or(seed),
            })
        }
        trace => Ok(trace),
    }
}

fn kinds(names: Vec<String>) -> Result<Vec<PolicyKind>, Failure> {
    names.iter().map(|name| name.parse().map_err(Failure::input)).collect()
}

/// Computes the miss ratio by size of DRAM.
#[pyfunction]
pub(crate) fn mrc(
    py: Python<'_>,
    arguments: HashMap<String, String>,
    policies: Vec<String>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Report> {
    let (input, policies) = (input(&Arguments(arguments))?, kinds(policies)?);
    watched(py, progress.as_ref(), move |watch| {
        let curves = ebbtide_study::size::miss_ratios(&input, &policies, watch);
        curves.map(Report::new).map_err(size_failed)
    })
}

/// Compares the claims of papers with our results.
#[pyfunction]
pub(crate) fn reproduce(
    py: Python<'_>,
    arguments: HashMap<String, String>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Report> {
    let arguments = Arguments(arguments);
    let papers = ebbtide_papers::named(arguments.text("paper").unwrap_or("all"));
    let papers = papers.map_err(Failure::input)?;
    let options = ReproduceOptions {
        selection: Selection::All,
        quick: arguments.is_set("quick"),
        real: arguments.is_set("real"),
        seed: arguments.count("seed", 0)?.unwrap_or(1),
        threads: host_threads(),
        traces: arguments.text("traces").map(Into::into),
    };
    watched(py, progress.as_ref(), move |watch| {
        let results = ebbtide_papers::reproduce(&papers, &options, watch);
        results.map(Report::new).map_err(|error| match error {
            _ if watch.is_stopped() => Failure::Stopped,
            error => Failure::run(error),
        })
    })
}

/// Returns the designs' names and descriptions.
#[pyfunction]
#[pyo3(name = "designs")]
pub(crate) fn designs_list() -> Vec<(&'static str, &'static str)> {
    designs::ALL.iter().map(|design| (design.name, design.about)).collect()
}

/// Returns the programs' names.
#[pyfunction]
pub(crate) fn workloads() -> Vec<&'static str> {
    Kind::ALL.map(Kind::name).to_vec()
}

/// Returns the parameters of a design with the values of `set`, as JSON and as TOML.
#[pyfunction]
pub(crate) fn resolve(design: &str, set: Set) -> PyResult<(String, String)> {
    let set: Vec<(&str, &str)> =
        set.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let config = designs::resolve(design, &set).map_err(Failure::input)?;
    let json = serde_json::to_string(&config).map_err(Failure::run)?;
    Ok((json, toml::to_string(&config).map_err(Failure::run)?))
}
