//! The result of a simulation in one or two sentences, before its figures.

use ebbtide_sim::{Outcome, Replay};
use serde_json::Value;

use super::Runs;
use ebbtide_report::{figure, microseconds};

/// The result of one run.
pub(super) fn result_of_run(outcome: &Outcome) -> String {
    let Outcome { design, workload, ratio_to_dram, jobs_per_s, service_ns, .. } = outcome;
    let us = |ns: u64| microseconds(ns as f64 / 1e3);
    format!(
        "{design} has {} of DRAM-only's throughput under {workload}, {} jobs a second. A job takes \
         {} in the median and {} at p99.",
        figure(*ratio_to_dram),
        figure(*jobs_per_s),
        us(service_ns.p50),
        us(service_ns.p99),
    )
}

/// The result of several seeds.
pub(super) fn result_of_runs(runs: &Runs) -> String {
    let Some(first) = runs.runs.first() else { return "Nothing was simulated.".to_string() };
    let Outcome { design, workload, .. } = &first.outcome;
    let estimate = |name: &str| runs.summary.pointer(&format!("/{name}"));
    let number = |name: &str| estimate(name).and_then(Value::as_f64);
    let shown = |name: &str, scale: f64| number(name).map(|number| figure(number * scale));
    let interval = match (shown("ratio_to_dram/ci95/0", 1.0), shown("ratio_to_dram/ci95/1", 1.0)) {
        (Some(from), Some(to)) => format!(" (95% confidence: {from} to {to})"),
        _ => String::new(),
    };
    format!(
        "{design} has {} of DRAM-only's throughput under {workload}{interval}, {} jobs a second. A \
         job takes {} us in the median and {} us at p99.",
        shown("ratio_to_dram/mean", 1.0).unwrap_or_default(),
        shown("jobs_per_s/mean", 1.0).unwrap_or_default(),
        shown("service_ns/p50/mean", 1e-3).unwrap_or_default(),
        shown("service_ns/p99/mean", 1e-3).unwrap_or_default(),
    )
}

/// The result of a replay.
pub(super) fn result_of_replay(replay: &Replay) -> String {
    let Replay { design, accesses, simulated_ns, memory, latency_ns, .. } = replay;
    let misses = 100.0 * memory.cache.misses as f64 / (*accesses).max(1) as f64;
    let us = |ns: u64| microseconds(ns as f64 / 1e3);
    format!(
        "{design} serves {accesses} accesses in {}; {}% of them miss. An access takes {} in the \
         median and {} at p99.",
        us(*simulated_ns),
        figure(misses),
        us(latency_ns.p50),
        us(latency_ns.p99),
    )
}
