//! A report as a page of charts and tables, and as CSV.

use ebbtide_core::counted;
use ebbtide_sim::Distribution;
use ebbtide_sim::config::Config;
use serde_json::Value;

use super::result::{result_of_replay, result_of_run, result_of_runs};
use super::text::{machine, timeline_table, warmed};
use super::{Replayed, Run, Runs, SimReport};
use crate::energy::Energy;
use ebbtide_report::each_leaf;
use ebbtide_report::{BarChart, Page, PageReport, Range, Table, figure};

impl PageReport for SimReport {
    /// The page: latencies as a chart, the figures, and every parameter.
    fn page(&self) -> Page {
        match self {
            SimReport::Run(run) => of_run(run),
            SimReport::Runs(runs) => of_runs(runs),
            SimReport::Replay(replay) => of_replay(replay),
        }
    }

    /// One row a run.
    fn records(&self) -> serde_json::Result<Vec<Value>> {
        match self {
            SimReport::Runs(runs) => runs.runs.iter().map(serde_json::to_value).collect(),
            one => Ok(vec![serde_json::to_value(one)?]),
        }
    }
}

fn of_run(run: &Run) -> Page {
    let outcome = &run.outcome;
    let latencies = [
        ("access beyond the chip", &outcome.latency_ns),
        ("access, in memory", &outcome.device_latency_ns),
        ("job, from its start", &outcome.service_ns),
        ("job, from its arrival", &outcome.response_ns),
    ];
    let title = format!("{} on {}", outcome.design, outcome.workload);
    let page = Page::new(&title)
        .paragraph(&result_of_run(outcome))
        .paragraph(&format!("{}.", machine(&outcome.config)))
        .paragraph(&format!("{}.", capitalised(&warmed(&outcome.warm_up))))
        .section("Throughput")
        .bars(ratio(&title, Range::single(outcome.ratio_to_dram)));
    let page = match &run.typical_miss {
        Some(miss) => page.section("A typical miss").table(timeline_table(miss)),
        None => page,
    };
    finish(energies(page, run.energy.as_ref()), &latencies, &[run], &outcome.config)
}

fn of_replay(replayed: &Replayed) -> Page {
    let replay = &replayed.replay;
    let latencies = [
        ("access, from its time", &replay.latency_ns),
        ("access, in memory", &replay.device_latency_ns),
    ];
    let page = Page::new(&format!("{} on a trace", replay.design))
        .paragraph(&result_of_replay(replay))
        .paragraph(&format!("{}; the DRAM cache started empty.", machine(&replay.config)));
    finish(energies(page, replayed.energy.as_ref()), &latencies, &[replayed], &replay.config)
}

fn of_runs(runs: &Runs) -> Page {
    let Some(first) = runs.runs.first() else { return Page::new("No runs") };
    let first = &first.outcome;
    let title = format!("{} on {}", first.design, first.workload);
    let mut ratios: Vec<f64> = runs.runs.iter().map(|run| run.outcome.ratio_to_dram).collect();
    ratios.sort_by(f64::total_cmp);
    let range =
        Range { min: ratios[0], median: ratios[ratios.len() / 2], max: ratios[ratios.len() - 1] };
    let page = Page::new(&title)
        .paragraph(&result_of_runs(runs))
        .paragraph(&format!("{}; {}.", machine(&first.config), counted(ratios.len(), "seed")))
        .section("Throughput")
        .bars(ratio(&title, range))
        .section("Figures")
        .table(estimates(&runs.summary));
    parameters(page, &runs.runs.iter().collect::<Vec<_>>(), &first.config)
}

/// A bar for each part of the energy.
fn energies(page: Page, energy: Option<&Energy>) -> Page {
    let Some(energy) = energy else { return page };
    let label = format!("microjoules: {} for each {}", figure(energy.total_uj), energy.per);
    let chart = BarChart::new("Energy, by where it goes", &label);
    let parts = energy.parts();
    let parts = parts.iter().filter(|(_, uj)| *uj > 0.0);
    let chart =
        parts.fold(chart, |chart, (name, uj)| chart.group(name, [("energy", Range::single(*uj))]));
    page.section("Energy").bars(chart)
}

fn ratio(title: &str, range: Range) -> BarChart {
    let label = "throughput relative to DRAM-only";
    BarChart::new("Throughput over DRAM-only's", label)
        .reference(1.0, "DRAM-only")
        .group("", [(title, range)])
}

/// Latencies, then every figure and parameter of a run.
fn finish<T: serde::Serialize>(
    page: Page,
    latencies: &[(&str, &Distribution)],
    runs: &[&T],
    config: &Config,
) -> Page {
    let mut chart = BarChart::new("Latency", "microseconds");
    for (name, distribution) in latencies {
        let us = |ns: u64| Range::single(ns as f64 / 1e3);
        let Distribution { p50, p99, p999, .. } = distribution;
        let bars = [("p50", us(*p50)), ("p99", us(*p99)), ("p99.9", us(*p999))];
        chart = chart.group(name, bars);
    }
    let figures = runs.first().map(leaves).unwrap_or_default();
    let table = figures.into_iter().fold(Table::new("Figures", ["figure", "value"]), Table::row);
    let page = page.section("Latency").bars(chart.log_if_wide()).section("Figures").table(table);
    parameters(page, runs, config)
}

/// The parameters of a run as a table, and every figure of every run for a CSV file.
fn parameters<T: serde::Serialize>(page: Page, runs: &[&T], config: &Config) -> Page {
    let config = serde_json::to_value(config).unwrap_or_default();
    let mut settings = Vec::new();
    each_leaf(&config, "", &mut |name, value| settings.push(format!("{name} = {value}")));
    let rows: Vec<Vec<[String; 2]>> = runs.iter().map(leaves).collect();
    let header = rows.first().into_iter().flatten().map(|[name, _]| name.as_str());
    let table = Table::new("results", header);
    let table = rows
        .iter()
        .fold(table, |table, row| table.row(row.iter().map(|[_, value]| value.as_str())));
    page.section("Configuration").preformatted(&settings.join("\n")).data(table)
}

fn estimates(summary: &Value) -> Table {
    let mut rows = Vec::new();
    each_leaf(summary, "", &mut |name, value| {
        let Some(name) = name.strip_suffix(".mean").filter(|_| value.is_number()) else { return };
        let interval = summary.pointer(&format!("/{}/ci95", name.replace('.', "/")));
        let end = |index: usize| interval.and_then(|interval| interval[index].as_f64());
        rows.push((name.to_string(), [value.as_f64(), end(0), end(1)]));
    });
    let table = Table::new("Means over the seeds", ["figure", "mean", "95% from", "to"]);
    rows.into_iter().fold(table, |table, (name, numbers)| table.cells([name], numbers))
}

/// The names and values of a run's figures, with the names of the JSON form.
fn leaves(run: &impl serde::Serialize) -> Vec<[String; 2]> {
    let mut value = serde_json::to_value(run).unwrap_or_default();
    if let Value::Object(keys) = &mut value {
        keys.remove("config");
    }
    let mut leaves = Vec::new();
    each_leaf(&value, "", &mut |name, value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        leaves.push([name.to_string(), text]);
    });
    leaves
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
