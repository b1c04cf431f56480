//! Every design at one scale under one program: `cargo run --release -p ebbtide-sim --example
//! designs -- WORKLOAD DENOMINATOR JOBS`.

use std::error::Error;

use ebbtide_sim::{Offered, Plan, designs, simulate};
use ebbtide_workloads::Kind;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize, default: &str| arguments.get(i).cloned().unwrap_or(default.into());
    let workload = argument(0, "hash-table").parse::<Kind>()?;
    let denominator: u64 = argument(1, "64").parse()?;
    let jobs: u64 = argument(2, "40000").parse()?;
    println!("design             ratio  miss us  p50 us  p99 us  misses/job  Macc/s  wall s");
    for design in designs::ALL {
        let config = designs::resolve(design.name, &[])?.scaled(1, denominator);
        let plan = Plan { config, workload, jobs, seed: 1, arrivals: Offered::Saturating };
        let outcome = simulate(&plan)?;
        println!(
            "{:<18} {:>5.3}  {:>7.1}  {:>6.1}  {:>6.1}  {:>10.3}  {:>6.1}  {:>6.1}",
            outcome.design,
            outcome.ratio_to_dram,
            outcome.miss_interval_us,
            outcome.service_ns.p50 as f64 / 1e3,
            outcome.service_ns.p99 as f64 / 1e3,
            outcome.memory.cache.misses as f64 / outcome.jobs as f64,
            outcome.accesses_per_wall_s / 1e6,
            outcome.wall_s,
        );
    }
    Ok(())
}
