//! A report as text for a terminal.

use std::fmt::{self, Display, Formatter};

use ebbtide_core::{LINE_BYTES, PAGE_BYTES, counted};
use ebbtide_flash::DriveCounters;
use ebbtide_sim::config::Config;
use ebbtide_sim::memory_side::{CacheCounters, Counters};
use ebbtide_sim::{
    Breakdown, Coherence, Distribution, FlashOutcome, FlashUse, Lifetime, Offered, Outcome,
    PrefetchOutcome, Replay, ServiceParts, Timeline, WarmUp,
};
use serde_json::Value;

use super::result::{result_of_run, result_of_runs};
use super::{Replayed, Run, Runs, SimReport};
use crate::energy::Energy;
use ebbtide_report::{Table, figure};

impl Display for SimReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SimReport::Run(one) => {
                run(f, one)?;
                one.typical_miss.as_ref().map_or(Ok(()), |miss| timeline(f, miss))
            }
            SimReport::Runs(runs) => several(f, runs),
            SimReport::Replay(replay) => replayed(f, replay),
        }
    }
}

fn run(f: &mut Formatter<'_>, Run { outcome, warnings, energy, .. }: &Run) -> fmt::Result {
    heading(f, outcome, &format!("seed {}", outcome.seed))?;
    writeln!(f, "{}", result_of_run(outcome))?;
    warn(f, warnings.iter().map(String::as_str))?;
    warm_up(f, &outcome.warm_up)?;
    let ratio = outcome.ratio_to_dram;
    line(f, "throughput", &format!("{:.0} jobs/s, {ratio:.3} of DRAM-only", outcome.jobs_per_s))?;
    let interval = figure(outcome.miss_interval_us);
    line(f, "miss interval", &format!("{interval} us of execution a miss and core"))?;
    let Coherence { forwards, invalidations, upgrades } = outcome.coherence;
    line(
        f,
        "coherence",
        &format!(
            "{forwards} lines from another core, {invalidations} lost to one; {upgrades} upgrades"
        ),
    )?;
    memory(f, &outcome.memory, &outcome.flash, outcome.lifetime_years.as_ref(), energy.as_ref())?;
    let ServiceParts { mean, slowest } = &outcome.service_parts;
    line(f, "a job's time", &format!("{}, on the average", spent(mean)))?;
    line(f, "", &format!("{}, of the slowest 1%", spent(slowest)))?;
    line(f, "link", &link_use(outcome))?;
    line(f, "flash queue", &flash_use(outcome))?;
    let walks = outcome.page_walks as f64 / outcome.accesses.max(1) as f64;
    let walked = format!("{}% of accesses walk the page tables", figure(100.0 * walks));
    line(f, "TLB misses", &walked)?;
    let mut times = vec![
        ("access beyond the chip", &outcome.latency_ns),
        ("access, in memory", &outcome.device_latency_ns),
        ("job, from its start", &outcome.service_ns),
    ];
    if !outcome.is_overloaded() {
        times.push(("job, from its arrival", &outcome.response_ns));
    }
    distributions(f, &times)?;
    host(f, outcome.accesses, outcome.simulated_ns, outcome.wall_s, outcome.accesses_per_wall_s)
}

/// The share of the links' bandwidth that pages took, in each direction.
fn link_use(outcome: &Outcome) -> String {
    let Outcome { config, memory, simulated_ns, .. } = outcome;
    let links = config.links().unwrap_or(1);
    let bytes = (config.link.bandwidth_gb_per_s * links * simulated_ns) as f64;
    let share = |lines: u64| figure(100.0 * (lines * LINE_BYTES as u64) as f64 / bytes);
    let traffic = &memory.traffic;
    let (inward, outward) = (share(traffic.dram_page_lines_in), share(traffic.dram_page_lines_out));
    format!("pages take {inward}% of it inward and {outward}% outward")
}

/// The use of flash, in words.
fn flash_use(outcome: &Outcome) -> String {
    let FlashUse { mean_queue_depth: depth, planes_busy } = outcome.flash_use;
    let planes = planes_busy.map_or(String::new(), |share| {
        format!("; planes are busy {}% of the time", figure(100.0 * share))
    });
    format!("{} commands in the device on the average{planes}", figure(depth))
}

/// Prints each of `warnings` once.
fn warn<'a>(f: &mut Formatter<'_>, warnings: impl Iterator<Item = &'a str>) -> fmt::Result {
    let mut said: Vec<&str> = Vec::new();
    for warning in warnings.filter(|warning| !warning.is_empty()) {
        if !said.contains(&warning) {
            writeln!(f, "warning: {warning}")?;
            said.push(warning);
        }
    }
    Ok(())
}

/// Returns the parts of a job's time in words, in microseconds.
pub fn spent(parts: &Breakdown) -> String {
    let Breakdown { running_ns, memory_ns, core_ns, latch_ns } = parts;
    let us = |ns: &f64| figure(ns / 1e3);
    format!(
        "{} us running, {} waiting for memory, {} for the core, {} for latches",
        us(running_ns),
        us(memory_ns),
        us(core_ns),
        us(latch_ns)
    )
}

/// A miss with a step in each line.
fn timeline(f: &mut Formatter<'_>, miss: &Timeline) -> fmt::Result {
    let Timeline { core, thread, page, of_misses, .. } = miss;
    let (access, total) = (if miss.write { "store to" } else { "load from" }, miss.total_ns / 1e3);
    writeln!(
        f,
        "\na typical miss, the median of {of_misses}: {total:.3} us for a {access} page {page} by \
         thread {thread} of core {core}"
    )?;
    write!(f, "{}", timeline_table(miss))
}

/// The steps of a miss. Steps of the core and of memory overlap.
pub(super) fn timeline_table(miss: &Timeline) -> Table {
    let title = format!("The miss of median length, of {}", miss.of_misses);
    let table = Table::new(&title, ["who", "what", "at ns", "takes ns"]);
    miss.steps.iter().fold(table, |table, step| {
        table.numbers([step.who, step.what], [step.from_ns, step.for_ns])
    })
}

fn replayed(
    f: &mut Formatter<'_>,
    Replayed { replay, warnings, energy }: &Replayed,
) -> fmt::Result {
    let Replay { design, accesses, config, .. } = replay;
    let cores = replay.cores.map(|count| format!(", its threads on {}", counted(count, "core")));
    let cores = cores.unwrap_or_default();
    let accesses_of = counted(accesses, "access");
    writeln!(f, "{design}: {accesses_of} of a trace{cores}, without the caches of a chip")?;
    writeln!(f, "{}; the DRAM cache starts empty", machine(config))?;
    warn(f, warnings.iter().map(String::as_str))?;
    writeln!(f)?;
    memory(f, &replay.memory, &replay.flash, replay.lifetime_years.as_ref(), energy.as_ref())?;
    if let Some(prefetch) = replay.prefetch.as_ref().filter(|prefetch| prefetch.issued > 0) {
        let PrefetchOutcome { issued, used, late, .. } = prefetch;
        line(
            f,
            "prefetch",
            &format!("{}, {used} used, {late} of those late", counted(issued, "page")),
        )?;
        let [covered, polluted] =
            [prefetch.coverage, prefetch.pollution].map(|share| figure(share * 100.0));
        let of = format!("{covered}% of accesses hit them; {polluted}% of misses are due to them");
        line(f, "", &of)?;
    }
    distributions(
        f,
        &[
            ("access, from its time", &replay.latency_ns),
            ("access, in memory", &replay.device_latency_ns),
        ],
    )?;
    host(f, *accesses, replay.simulated_ns, replay.wall_s, replay.accesses_per_wall_s)
}

fn heading(f: &mut Formatter<'_>, outcome: &Outcome, seeds: &str) -> fmt::Result {
    let Outcome { design, workload, jobs, .. } = outcome;
    let load = match outcome.arrivals {
        Offered::Saturating => "always a job waiting".to_string(),
        Offered::PoissonShare(share) => {
            format!("Poisson arrivals at {share} of DRAM-only's throughput, a queue a core")
        }
    };
    writeln!(f, "{design} on {workload}: {}, {load}, {seeds}", counted(jobs, "job"))?;
    writeln!(f, "{}", machine(&outcome.config))
}

/// The most important sizes. JSON and the report have all sizes.
pub(super) fn machine(config: &Config) -> String {
    let (dataset, dram) = (config.dataset.size, config.dram_cache.size);
    let cores = counted(config.cores.count, "core");
    format!("{cores}, {dataset} of data, {dram} of DRAM as its cache")
}

fn warm_up(f: &mut Formatter<'_>, warm_up: &WarmUp) -> fmt::Result {
    writeln!(f, "{}", warmed(warm_up))?;
    let (job, work) = (figure(warm_up.job_ns / 1e3), figure(warm_up.work_ns / 1e3));
    let misses = figure(warm_up.lru_misses_per_job);
    let interval = warm_up
        .miss_interval_us
        .map_or(String::new(), |us| format!(", once every {} us of a core", figure(us)));
    writeln!(
        f,
        "a job takes {job} us in DRAM, {work} of them added work; plain LRU misses {misses} times in \
         it{interval}\n"
    )
}

/// The warm-up, in one line.
pub(super) fn warmed(warm_up: &WarmUp) -> String {
    format!(
        "warmed up with {} untimed jobs until evictions were {:.1}% of the pages that came; {} \
         timed jobs not counted",
        warm_up.untimed_jobs,
        warm_up.evictions_per_miss * 100.0,
        warm_up.timed_jobs,
    )
}

fn memory(
    f: &mut Formatter<'_>,
    counters: &Counters,
    flash: &FlashOutcome,
    lifetime: Option<&Lifetime>,
    energy: Option<&Energy>,
) -> fmt::Result {
    let Counters { cache, footprints, .. } = counters;
    let CacheCounters { hits, hits_under_miss, misses, .. } = cache;
    line(
        f,
        "DRAM cache",
        &format!("{hits} hits, {hits_under_miss} under a miss, {misses} misses"),
    )?;
    if footprints.refilled_bytes > 0 {
        let (later, pages) = (footprints.underpredictions, *misses as f64 * PAGE_BYTES as f64);
        let share = figure(100.0 * footprints.refilled_bytes as f64 / pages);
        line(f, "footprints", &format!("{share}% of whole pages; {later} lines fetched later"))?;
    }
    let CacheCounters { evictions_clean, evictions_dirty, stalls, in_flight_peak, .. } = cache;
    line(f, "", &format!("{evictions_clean} clean and {evictions_dirty} dirty evictions"))?;
    let in_flight = counted(in_flight_peak, "page");
    line(f, "", &format!("{}; at most {in_flight} on their way", counted(stalls, "stall")))?;
    let FlashOutcome { reads, writes, erases, .. } = flash;
    let counts = [(reads, "read"), (writes, "write"), (erases, "erase")];
    line(f, "flash", &counts.map(|(count, noun)| counted(count, noun)).join(", "))?;
    for (number, DriveCounters { reads, writes, erases }) in (1..).zip(&flash.drives) {
        let counts = format!("{reads} reads, {writes} writes, {erases} erases");
        line(f, "", &format!("drive {number}: {counts}"))?;
    }
    let (amplified, blocked) = (flash.write_amplification, flash.gc_blocked_share * 100.0);
    let blocked = figure(blocked);
    line(f, "", &format!("{amplified:.2} pages programmed per page written"))?;
    line(f, "", &format!("{blocked}% of commands waited for garbage collection"))?;
    if let Some(Lifetime { round_the_clock, working_hours }) = lifetime {
        let (all, working) = (figure(*round_the_clock), figure(*working_hours));
        match round_the_clock.is_finite() {
            true => {
                line(f, "lifetime", &format!("{all} years, or {working} of 2080 hours each"))?;
            }
            false => line(f, "lifetime", "nothing was written, so nothing wears")?,
        }
    }
    if let Some(energy) = energy {
        line(f, "energy", &energy.to_string())?;
    }
    writeln!(f)
}

fn line(f: &mut Formatter<'_>, label: &str, text: &str) -> fmt::Result {
    writeln!(f, "{label:<15}{text}")
}

fn distributions(f: &mut Formatter<'_>, rows: &[(&str, &Distribution)]) -> fmt::Result {
    let header = ["microseconds", "mean", "p50", "p99", "p99.9", "max", "% below 1 us"];
    let table = rows.iter().fold(Table::new("", header), |table, (name, distribution)| {
        let Distribution { mean, p50, p99, p999, max, sub_us_share } = distribution;
        let us = [p50, p99, p999, max].map(|ns| Some(*ns as f64 / 1e3));
        let percent = sub_us_share.map(|share| share * 100.0);
        table.cells([name], [Some(mean / 1e3)].into_iter().chain(us).chain([percent]))
    });
    writeln!(f, "{table}")
}

fn host(
    f: &mut Formatter<'_>,
    accesses: u64,
    simulated_ns: u64,
    wall_s: f64,
    per_s: f64,
) -> fmt::Result {
    let (simulated, rate) = (figure(simulated_ns as f64 / 1e6), figure(per_s / 1e6));
    let wall = figure(wall_s);
    let accesses = counted(accesses, "access");
    writeln!(f, "{accesses} in {simulated} ms; {wall} s here, {rate} M accesses/s")
}

/// The warnings of `runs`. A warning that not all runs share names its seed.
fn warnings_by_seed(runs: &[Run]) -> Vec<String> {
    let of_run = |run: &Run| {
        let seed = run.outcome.seed;
        let named = |warning: &String| match runs.iter().all(|run| run.warnings.contains(warning)) {
            true => warning.clone(),
            false => format!("seed {seed}: {warning}"),
        };
        run.warnings.iter().map(named).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of_run).collect()
}

fn several(f: &mut Formatter<'_>, runs: &Runs) -> fmt::Result {
    let (Some(first), Some(last)) = (runs.runs.first(), runs.runs.last()) else { return Ok(()) };
    let (first, last) = (&first.outcome, &last.outcome);
    heading(f, first, &format!("seeds {} to {}", first.seed, last.seed))?;
    writeln!(f, "{}", result_of_runs(runs))?;
    let warnings = warnings_by_seed(&runs.runs);
    warn(f, warnings.iter().map(String::as_str))?;
    for Run { outcome, .. } in &runs.runs {
        writeln!(f, "seed {}: {}", outcome.seed, warmed(&outcome.warm_up))?;
    }
    let header = ["", "mean", "95% confidence from", "to"];
    let table = SUMMARY.iter().fold(Table::new("", header), |table, (label, pointer, scale)| {
        let number = |value: &Value| value.as_f64().map(|value| value * scale);
        let Some(estimate) = runs.summary.pointer(pointer) else { return table };
        let numbers = [&estimate["mean"], &estimate["ci95"][0], &estimate["ci95"][1]].map(number);
        if numbers[0].is_some() { table.cells([label], numbers) } else { table }
    });
    write!(f, "\n{table}")
}

/// The figures that are shown for several seeds: the name, the path in the summary, and the
/// summary's unit divided by the shown unit.
pub(super) const SUMMARY: [(&str, &str, f64); 20] = [
    ("jobs/s", "/jobs_per_s", 1.0),
    ("throughput over DRAM-only's", "/ratio_to_dram", 1.0),
    ("us of execution a miss", "/miss_interval_us", 1.0),
    ("DRAM cache: hits", "/dram_cache/hits", 1.0),
    ("DRAM cache: hits under a miss", "/dram_cache/hits_under_miss", 1.0),
    ("DRAM cache: misses", "/dram_cache/misses", 1.0),
    ("DRAM cache: clean evictions", "/dram_cache/evictions_clean", 1.0),
    ("DRAM cache: dirty evictions", "/dram_cache/evictions_dirty", 1.0),
    ("flash: reads", "/flash/reads", 1.0),
    ("flash: writes", "/flash/writes", 1.0),
    ("flash: pages per page written", "/flash/write_amplification", 1.0),
    ("us an access, mean", "/latency_ns/mean", 1e-3),
    ("us an access, p99", "/latency_ns/p99", 1e-3),
    ("us an access in memory, mean", "/device_latency_ns/mean", 1e-3),
    ("us an access in memory, p99", "/device_latency_ns/p99", 1e-3),
    ("us a job, mean", "/service_ns/mean", 1e-3),
    ("us a job, p99", "/service_ns/p99", 1e-3),
    ("us a response, p99", "/response_ns/p99", 1e-3),
    ("years of life", "/lifetime_years/round_the_clock", 1.0),
    ("uJ a job", "/energy/total_uj", 1.0),
];
