//! Calibration gives jobs the computing with which they miss at the wanted interval, on any number
//! of cores.

use ebbtide_core::{PAGE_BYTES, Watch};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Outcome, Plan, simulate};
use ebbtide_workloads::Kind;

/// The programs of AstriFlash.
const PROGRAMS: [Kind; 7] = [
    Kind::ArraySwap,
    Kind::RedBlackTree,
    Kind::HashTable,
    Kind::Tatp,
    Kind::Tpcc,
    Kind::Silo,
    Kind::Masstree,
];

fn machine(design: &str, cores: u64, overrides: &[(&str, &str)]) -> Config {
    let (count, llc) = (cores.to_string(), format!("{}KiB", 16 * cores.next_power_of_two().max(4)));
    let size = [
        ("cores.count", count.as_str()),
        ("llc.size", llc.as_str()),
        ("dataset.size", "256MiB"),
        ("dram_cache.size", "8MiB"),
    ];
    resolve(design, &[&size, overrides].concat()).expect("a machine that can be built")
}

fn run(config: Config, workload: Kind) -> Outcome {
    let plan = Plan { config, workload, jobs: 500, seed: 1, arrivals: Offered::Saturating };
    simulate(&plan).expect("jobs end")
}

/// Checks that programs miss at the wanted interval, and that cores are busy for at most the whole
/// time.
fn misses_at_the_wanted_interval(cores: u64, programs: &[Kind]) {
    for &program in programs {
        let outcome = run(machine("dram-only", cores, &[]), program);
        let warm_up = &outcome.warm_up;
        let dram_jobs_per_s = outcome.jobs_per_s / outcome.ratio_to_dram;
        let busy = dram_jobs_per_s * warm_up.job_ns / 1e9;
        let what = format!("{program} on {cores} cores");
        assert!(busy <= cores as f64 * (1.0 + 1e-9), "{what}: {busy} cores compute");
        let wanted = outcome.config.workload.miss_interval_us;
        let interval = warm_up.miss_interval_us.expect("it misses");
        assert!((interval / wanted - 1.0).abs() < 0.01, "{what}: {interval} us");
        assert!(warm_up.work_ns < warm_up.job_ns, "{what}: {warm_up:?}");
    }
}

#[test]
fn jobs_of_one_core_miss_at_the_wanted_interval() {
    misses_at_the_wanted_interval(1, &PROGRAMS);
}

#[test]
#[ignore = "slow"]
fn jobs_of_16_cores_miss_at_the_wanted_interval() {
    misses_at_the_wanted_interval(16, &PROGRAMS);
}

#[test]
fn jobs_of_64_cores_miss_at_the_wanted_interval() {
    // The other programs take minutes.
    misses_at_the_wanted_interval(64, &PROGRAMS[..4]);
}

#[test]
fn a_job_takes_as_long_as_dram_only_really_needs_for_it() {
    let config = machine("dram-only", 16, &[]);
    let plan = Plan {
        config,
        workload: Kind::HashTable,
        jobs: 16_000,
        seed: 1,
        arrivals: Offered::Saturating,
    };
    let mut run = ebbtide_sim::Simulation::warmed(&plan, Watch::unattended()).expect("it warms up");
    let outcome = run.measure(Watch::unattended()).expect("jobs end");
    let ratio = outcome.service_ns.mean / outcome.warm_up.job_ns;
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
}

#[test]
fn a_size_that_is_varied_does_not_change_what_jobs_compute() {
    let work = |design: &str, key: &str, size: u64| {
        let size = (size * PAGE_BYTES as u64).to_string();
        let outcome = run(machine(design, 2, &[(key, size.as_str())]), Kind::HashTable);
        (outcome.warm_up.work_ns, outcome.warm_up.lru_misses_per_job)
    };
    for (design, key) in [("astriflash", "dram_cache.size"), ("os-swap", "dram_cache.size")] {
        assert_eq!(work(design, key, 1_024), work(design, key, 8_192), "{design}");
    }
}
