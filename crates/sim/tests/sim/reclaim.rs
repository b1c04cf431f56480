//! Tests that a kernel's faults wait for written frames once no free frame is left.

use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Outcome, Plan, simulate};
use ebbtide_workloads::Kind;

/// A run of array-swap, which dirties most pages.
fn swapped(design: &str, keys: &[(&str, &str)]) -> Outcome {
    let small = [
        ("cores.count", "4"),
        ("llc.size", "64KiB"),
        ("dataset.size", "16MiB"),
        ("dram_cache.size", "1MiB"),
        ("workload.work_us", "10"),
    ];
    let config = resolve(design, &[&small, keys].concat()).expect("a machine that can be built");
    let workload = Kind::ArraySwap;
    simulate(&Plan { config, workload, jobs: 4_000, seed: 1, arrivals: Offered::Saturating })
        .expect("jobs end")
}

/// A link so slow that a page takes 4 us to leave.
const SLOW: (&str, &str) = ("link.bandwidth_gb_per_s", "1");

#[test]
fn faults_without_a_free_frame_wait_for_the_write_of_a_page() {
    let rate = |free| swapped("hams-mmap", &[SLOW, ("os.free_pages", free)]).jobs_per_s;
    let (none, one, many) = (rate("0"), rate("1"), rate("4194"));
    assert!(none < 0.97 * many, "{none} jobs/s without free frames, {many} with enough");
    assert!(none < one && one <= 1.01 * many, "{none}, {one}, {many} jobs/s");
}

#[test]
fn threads_of_the_operating_system_hide_the_wait_for_a_frame() {
    let rate = |free| swapped("os-swap", &[SLOW, ("os.free_pages", free)]).jobs_per_s;
    let (none, many) = (rate("0"), rate("4194"));
    assert!((none / many - 1.0).abs() < 0.02, "{none} jobs/s without free frames, {many} with");
}

#[test]
fn without_a_free_frame_a_fault_of_one_core_takes_a_write_longer_per_dirty_page() {
    let alone = |free| swapped("hams-mmap", &[("cores.count", "1"), SLOW, ("os.free_pages", free)]);
    let (none, enough) = (alone("0"), alone("4194"));
    // Runs end at other moments of a job.
    let pages = [&none, &enough].map(|run| run.memory.cache.evictions_dirty);
    assert!(pages[0].abs_diff(pages[1]) < 5, "{pages:?}: the same pages come and go");
    let longer_us = (none.simulated_ns - enough.simulated_ns) as f64 / 1e3;
    let a_page = longer_us / pages[0] as f64;
    // 9 us until the request, the page out of DRAM, 4.1 us on the link and its latency of 0.4 us.
    assert!((4.0..16.0).contains(&a_page), "{a_page} us a dirty page");
}

#[test]
fn reads_wait_for_no_frame_where_pages_are_clean() {
    let reads = |free| {
        let small = [
            ("cores.count", "2"),
            ("llc.size", "64KiB"),
            ("dataset.size", "16MiB"),
            ("dram_cache.size", "1MiB"),
            ("os.free_pages", free),
        ];
        let config = resolve("os-swap", &small).expect("a machine that can be built");
        let (workload, arrivals) = (Kind::HashTable, Offered::Saturating);
        simulate(&Plan { config, workload, jobs: 1_000, seed: 1, arrivals }).expect("jobs end")
    };
    let (none, enough) = (reads("0"), reads("4194"));
    assert_eq!(none.memory.cache.evictions_dirty, 0);
    assert_eq!(none.simulated_ns, enough.simulated_ns);
}
