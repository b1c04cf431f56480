//! Tests that `size` and `sim` have equal figures for a simulated design.

use ebbtide_core::Watch;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Outcome, Plan, simulate};
use ebbtide_study::size::{self, Input, Machine, Need, SizeOptions, SizedDesign};
use ebbtide_workloads::Kind;

const DATA: u64 = 8 << 20;
const SLO_US: f64 = 2_000.0;
const LOAD: f64 = 0.5;

fn sized(name: Kind, designs: &[&str]) -> Vec<SizedDesign> {
    let input =
        Input::Workload { name, dataset_bytes: DATA, theta: 0.99, miss_interval_us: 10.0, seed: 1 };
    let own = SizeOptions::new(input);
    let options = SizeOptions { slo_us: SLO_US, load: LOAD, policies: Vec::new(), ..own };
    let mut machine = Machine::published().expect("the shipped files resolve");
    let wanted = |name: &str| designs.is_empty() || designs.contains(&name);
    machine.designs.retain(|design| wanted(&design.design));
    size::run(&options, &machine, Watch::unattended()).expect("a sizing").designs
}

/// The design with the DRAM of `need`, as `ebbtide sim` runs it.
fn ran(design: &str, workload: Kind, need: &Need, arrivals: Offered) -> Outcome {
    // If all data is in DRAM, the size of a cache does not matter.
    let dram = if need.dram_bytes < DATA { need.dram_bytes } else { DATA / 2 };
    // The last-level cache keeps its share of the data, in whole sets of lines of 64 bytes.
    let own = resolve(design, &[]).expect("a design");
    let set = own.llc.ways as u64 * 64;
    let sets = (own.llc.size.0 * DATA / own.dataset.size.0 / set).max(1);
    let llc = (set << sets.ilog2()).to_string();
    let (data, dram) = (DATA.to_string(), dram.to_string());
    let keys = [
        ("cores.count", "1"),
        ("llc.size", &llc),
        ("dataset.size", &data),
        ("dram_cache.size", &dram),
        ("workload.theta", "0.99"),
        ("workload.miss_interval_us", "10"),
        ("workload.lru_share", "0.03"),
    ];
    let config = resolve(design, &keys).expect("a machine that can be built");
    simulate(&Plan { config, workload, jobs: 10_000, seed: 1, arrivals }).expect("jobs end")
}

fn holds(program: Kind, designs: &[&str]) {
    for SizedDesign { anatomy, need, refuted, .. } in sized(program, designs) {
        let what = format!("{} under {program}", anatomy.design);
        let Some(need) = need else {
            // The largest memory below all data, in whole sets, is not enough.
            let tried = refuted.unwrap_or_else(|| panic!("{what}: no model found a size"));
            let late = tried.p99_us.is_none_or(|us| us > SLO_US);
            assert!(late || tried.throughput_kept <= LOAD, "{what}: {tried:?}");
            assert!(tried.dram_bytes >= DATA / 2, "{what}: {tried:?}");
            continue;
        };
        let tried = need.tried.unwrap_or_else(|| panic!("{what} was not simulated"));
        assert_eq!(tried.dram_bytes, need.dram_bytes, "{what}");
        let kept = ran(&anatomy.design, program, &need, Offered::Saturating).ratio_to_dram;
        let promised = need.throughput_kept;
        assert!((kept / promised - 1.0).abs() < 1e-9, "{what}: {kept}, promised {promised}");
        let offered = ran(&anatomy.design, program, &need, Offered::PoissonShare(LOAD));
        let p99_us = offered.response_ns.p99 as f64 / 1e3;
        assert!(!offered.is_overloaded(), "{what}");
        assert!(p99_us <= SLO_US, "{what}: p99 {p99_us} us with {need:?}");
    }
}

/// A design with large pages, one with slow faults, and the recommended one.
const THREE: [&str; 3] = ["lhams-e", "hams-mmap", "astriflash"];

#[test]
fn designs_under_array_swap_keep_what_is_promised() {
    holds(Kind::ArraySwap, &THREE);
}

#[test]
fn designs_under_a_hash_table_keep_what_is_promised() {
    holds(Kind::HashTable, &THREE);
}

#[test]
fn designs_under_tatp_keep_what_is_promised() {
    holds(Kind::Tatp, &THREE);
}

#[test]
#[ignore = "takes minutes in a debug build"]
fn all_designs_keep_what_is_promised() {
    for program in [Kind::ArraySwap, Kind::HashTable, Kind::Tatp] {
        holds(program, &[]);
    }
}
