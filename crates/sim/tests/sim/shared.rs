//! Tests that runs share their common work, with unchanged results.

use std::sync::atomic::{AtomicBool, Ordering};

use ebbtide_core::{Stop, Watch};
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Outcome, Plan, Shared, simulate};
use ebbtide_workloads::Kind;

fn plan(design: &str, set: &[(&str, &str)]) -> Plan {
    let config = resolve(design, set).unwrap().scaled(1, 1024);
    Plan { config, workload: Kind::Tatp, jobs: 800, seed: 3, arrivals: Offered::Saturating }
}

/// A cache that can be divided by 1024.
const HAMS: &[(&str, &str)] = &[("llc.size", "128MiB")];

fn without_host_time(outcome: Outcome) -> String {
    let outcome = Outcome { wall_s: 0.0, accesses_per_wall_s: 0.0, ..outcome };
    format!("{outcome:?}")
}

#[test]
fn a_run_gives_the_same_by_itself_and_after_others_of_the_same_jobs() {
    let half_loaded = Plan { arrivals: Offered::PoissonShare(0.5), ..plan("astriflash", &[]) };
    let plans = [
        plan("astriflash", &[]),
        plan("flash-sync", &[]),
        plan("astriflash", &[("switch.threads", "4"), ("workload.miss_interval_us", "5")]),
        half_loaded,
        plan("os-swap", &[]),
        plan("astriflash-nodp", &[]),
        plan("astriflash-nops", &[]),
        plan("dram-only", &[]),
        plan("astriflash", &[("dram_cache.fill", "footprint")]),
        plan("cxl-flash", &[]),
        plan("cxl-flash", &[("prefetch.policy", "best-offset")]),
        plan("hams-mmap", HAMS),
        plan("lhams-e", HAMS),
        plan("thams-p", HAMS),
    ];
    let mut shared = Shared::default();
    let watch = Watch::unattended();
    for plan in plans {
        let together = shared.warmed(&plan, watch).and_then(|mut run| run.measure(watch));
        let together = without_host_time(together.unwrap());
        assert_eq!(together, without_host_time(simulate(&plan).unwrap()), "{}", plan.config.design);
    }
}

#[test]
fn a_shared_warm_up_is_not_repeated() {
    let mut shared = Shared::default();
    let warmed = |shared: &mut Shared, plan: &Plan| {
        let (stop, seen) = (Stop::new(), AtomicBool::new(false));
        let show = |stage: &str, _: f64| {
            // One pass may count misses and warm up.
            let is_untimed = ["warming up", "counting misses"].contains(&stage);
            seen.fetch_or(is_untimed, Ordering::Relaxed);
        };
        shared.warmed(plan, Watch::new(&show, &stop)).unwrap();
        seen.into_inner()
    };
    assert!(warmed(&mut shared, &plan("astriflash", &[])));
    assert!(!warmed(&mut shared, &plan("flash-sync", &[])));
    assert!(warmed(&mut shared, &plan("os-swap", &[])), "other frames");
    let other_seed = Plan { seed: 4, ..plan("os-swap", &[]) };
    assert!(warmed(&mut shared, &other_seed), "other jobs");
    assert!(warmed(&mut shared, &plan("cxl-flash", &[])));
    assert!(!warmed(&mut shared, &plan("cxl-flash", &[("prefetch.policy", "leap")])));
    assert!(warmed(&mut shared, &plan("lhams-e", HAMS)));
    assert!(!warmed(&mut shared, &plan("thams-p", HAMS)));
    assert!(!warmed(&mut shared, &plan("lhams-e", HAMS)));
}
