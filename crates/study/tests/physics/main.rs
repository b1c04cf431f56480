//! Tests the model's physics: directions, bounds, equivalences, scale, queues and intervals.
//!
//! By default the test is short.
//! `EBBTIDE_PHYSICS=long cargo test --release -p ebbtide-study --test physics` takes every design,
//! more values of each parameter, and larger machines.

mod bounds;
mod direction;
mod equivalence;
mod queues;

use ebbtide_sim::config::Config;
use ebbtide_sim::designs::{self, resolve};
use ebbtide_sim::{Offered, Outcome, Plan, simulate};
use ebbtide_workloads::Kind;

/// Keys with their values.
type Keys<'a> = &'a [(&'a str, &'a str)];

/// Whether the long test was requested.
fn is_long() -> bool {
    std::env::var("EBBTIDE_PHYSICS").is_ok_and(|value| value == "long")
}

/// Every design. In a short run, one design of each kind of memory.
fn tried() -> Vec<&'static str> {
    const SHORT: [&str; 6] =
        ["astriflash", "os-swap", "flash-sync", "lhams-e", "cxl-flash", "flatflash"];
    let all = designs::ALL.iter().map(|design| design.name);
    all.filter(|name| is_long() || SHORT.contains(name)).collect()
}

/// A small machine of `design` with `keys`. `None` if the design lacks one of them.
fn machine(design: &str, keys: Keys<'_>) -> Option<Config> {
    let size = [
        ("cores.count", "2"),
        ("llc.size", "64KiB"),
        ("dataset.size", "16MiB"),
        ("workload.work_us", "10"),
        ("workload.theta", "0.9"),
    ];
    let own = resolve(design, &[]).expect("a design");
    let promotes = own.promotion.is_some();
    let dram: Keys<'_> = match promotes {
        true => &[("dram_cache.size", "160KiB"), ("promotion.size", "1MiB")],
        false => &[("dram_cache.size", "1MiB")],
    };
    let log: Keys<'_> = if own.write_log.is_some() { &[("write_log.size", "64KiB")] } else { &[] };
    resolve(design, &[&size[..], dram, log, keys].concat()).ok()
}

/// Jobs of a run.
fn jobs() -> u64 {
    if is_long() { 10_000 } else { 1_000 }
}

fn run(config: Config) -> Outcome {
    run_seed(config, 1, jobs(), Offered::Saturating)
}

/// Runs `jobs` jobs, and checks every bound.
fn run_seed(config: Config, seed: u64, jobs: u64, arrivals: Offered) -> Outcome {
    let plan = Plan { config, workload: Kind::ArraySwap, jobs, seed, arrivals };
    let outcome = simulate(&plan).expect("jobs end");
    bounds::check(&outcome);
    outcome
}
