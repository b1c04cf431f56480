//! Tests that queues under load agree with theory, and that confidence intervals cover the true
//! value.

use ebbtide_report::statistics::Estimate;
use ebbtide_sim::Offered;

use crate::{is_long, machine, run_seed};

#[test]
fn jobs_of_equal_length_wait_as_in_m_d_1() {
    let keys = [("cores.count", "1"), ("workload.work_us", "100"), ("llc.size", "64KiB")];
    let jobs = if is_long() { 200_000 } else { 30_000 };
    for load in [0.3, 0.6] {
        let config = machine("dram-only", &keys).expect("a machine");
        let outcome = run_seed(config, 1, jobs, Offered::PoissonShare(load));
        let service = outcome.service_ns.mean;
        let waited = outcome.response_ns.mean - service;
        let exact = load / (2.0 * (1.0 - load)) * service;
        assert!((waited / exact - 1.0).abs() < 0.08, "at {load}: {waited} ns, M/D/1 {exact} ns");
    }
}

#[test]
fn intervals_of_three_seeds_cover_the_mean_of_many() {
    let groups = if is_long() { 60 } else { 12 };
    let jobs = 200;
    let ratios: Vec<f64> = (1..=3 * groups)
        .map(|seed| {
            let config = machine("flash-sync", &[]).expect("a machine");
            run_seed(config, seed, jobs, Offered::Saturating).ratio_to_dram
        })
        .collect();
    let mean = Estimate::of(&ratios).mean;
    let cover = |seeds: &&[f64]| {
        let [low, high] = Estimate::of(seeds).ci95.expect("several seeds");
        (low..=high).contains(&mean)
    };
    let covered = ratios.chunks(3).filter(cover).count() as f64;
    // 95% are expected. With sixty groups, less than 80% occurs once in several hundred runs.
    let share = covered / groups as f64;
    assert!(share >= 0.8, "{covered} of {groups} intervals hold {mean}: {ratios:?}");
    // Very wide intervals would cover, too.
    let widths = ratios.chunks(3).filter_map(|seeds| Estimate::of(seeds).half_width());
    let width = widths.sum::<f64>() / groups as f64;
    assert!(width < 0.3 * mean, "an interval reaches {width} from {mean}");
}
