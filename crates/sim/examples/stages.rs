//! Measures the host time of a run's stages, by which `src/progress.rs` tells how much of a run is
//! done: of each program, microseconds a frame or a job.
//!
//! `cargo run --release -p ebbtide-sim --example stages [PROGRAM]...`

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use ebbtide_core::{PAGE_BYTES, Stop, Watch};
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Plan, Simulation};
use ebbtide_workloads::Kind;

const JOBS: u64 = 2_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    println!(
        "program, microseconds a frame: counting misses, warming up; a job: in DRAM, measuring"
    );
    for workload in Kind::ALL {
        if !named.is_empty() && !named.iter().any(|name| name == workload.name()) {
            continue;
        }
        let config = resolve("astriflash", &[])?.scaled(1, 256);
        let frames = config.dram_cache.size.0 as f64 / PAGE_BYTES as f64;
        let calibrated = 1_250.0 * config.cores.count as f64;
        let plan = Plan { config, workload, jobs: JOBS, seed: 1, arrivals: Offered::Saturating };
        let spent = spent(&plan)?;
        let us = |stage: &str, units: f64| spent.get(stage).unwrap_or(&0.0) * 1e6 / units;
        println!(
            "{:20} {:7.1} {:7.1} {:9.1} {:9.1}",
            workload.name(),
            us("counting misses", frames),
            us("warming up", frames),
            us("running in DRAM", calibrated),
            us("measuring", JOBS as f64),
        );
    }
    Ok(())
}

/// Seconds that each stage of a run of `plan` takes.
fn spent(plan: &Plan) -> Result<BTreeMap<String, f64>, ebbtide_sim::SimError> {
    let noted = Mutex::new((BTreeMap::new(), String::new(), Instant::now()));
    let note = |stage: &str, _: f64| {
        let (spent, before, since) = &mut *noted.lock().expect("no panic");
        *spent.entry(std::mem::replace(before, stage.to_string())).or_insert(0.0) +=
            since.elapsed().as_secs_f64();
        *since = Instant::now();
    };
    let stop = Stop::new();
    let watch = Watch::new(&note, &stop);
    Simulation::warmed(plan, watch)?.measure(watch)?;
    note("", 1.0);
    Ok(noted.into_inner().expect("no panic").0)
}
