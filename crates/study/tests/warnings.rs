//! Tests that each warning about a run appears when it is due, and only then.

use ebbtide_core::Watch;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Plan};
use ebbtide_study::simulate::run;
use ebbtide_workloads::Kind;

/// The warnings of a small run of `design` with `keys`.
fn warnings(design: &str, keys: &[(&str, &str)], jobs: u64, arrivals: Offered) -> Vec<String> {
    let size = [
        ("cores.count", "2"),
        ("llc.size", "64KiB"),
        ("dataset.size", "16MiB"),
        ("dram_cache.size", "512KiB"),
        ("switch.threads", "8"),
    ];
    let config = resolve(design, &[&size, keys].concat()).expect("a machine that can be built");
    let plan = Plan { config, workload: Kind::ArraySwap, jobs, seed: 1, arrivals };
    run(&plan, false, None, Watch::unattended()).expect("jobs end").warnings
}

/// Whether one of `warnings` begins with `start`.
fn says(warnings: &[String], start: &str) -> bool {
    warnings.iter().any(|warning| warning.starts_with(start))
}

#[test]
fn a_run_to_which_more_jobs_come_than_end_is_overloaded() {
    let of = |load| warnings("flash-sync", &[], 2_000, Offered::PoissonShare(load));
    let (much, little) = (of(0.9), of(0.05));
    assert!(says(&much, "overloaded: "), "{much:?}");
    assert!(!says(&little, "overloaded: "), "{little:?}");
}

#[test]
fn a_run_whose_halves_differ_is_not_steady() {
    // A drive with room takes writes faster than one that collects garbage.
    let fresh = [("flash.preset", "tlc-pcie4")];
    let (fresh, flat) = (
        warnings("astriflash", &fresh, 2_000, Offered::Saturating),
        warnings("astriflash", &[], 2_000, Offered::Saturating),
    );
    assert!(
        says(&fresh, "not steady: ") && fresh.iter().any(|w| w.contains("--jobs")),
        "{fresh:?}"
    );
    assert!(!says(&flat, "not steady: "), "{flat:?}");
}

#[test]
fn threads_that_are_resumed_before_flash_can_have_answered_are_told_of() {
    let of = |keys: &[_]| warnings("astriflash", keys, 1_500, Offered::Saturating);
    let early = of(&[("switch.ripe_after_us", "10")]);
    assert!(says(&early, "switch.ripe_after_us = 10, but flash needs 50 us"), "{early:?}");
    for keys in [&[][..], &[("switch.ripe_after_us", "50")]] {
        let fine = of(keys);
        assert!(!says(&fine, "switch.ripe_after_us"), "{keys:?}: {fine:?}");
    }
}

#[test]
fn cores_that_run_too_far_ahead_are_refused() {
    let refused = |ns: &str| resolve("astriflash", &[("cores.run_ahead_ns", ns)]).err();
    assert_eq!(refused("1000"), None);
    let error = refused("1001").expect("results would depend on it").to_string();
    assert!(error.contains("cores.run_ahead_ns = 1001: expected 1 to 1000"), "{error}");
}

#[test]
fn cores_that_are_wider_than_the_model_allows_are_refused() {
    let refused = |width: &str| resolve("astriflash", &[("cores.width", width)]).err();
    assert_eq!(refused("8"), None);
    let error = refused("9").expect("its reorder buffer would hide too little").to_string();
    assert!(error.contains("cores.width = 9: expected 1 to 8"), "{error}");
}
