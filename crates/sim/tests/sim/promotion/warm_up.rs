//! A warm-up must fill host DRAM as well as the device's cache. Otherwise the measured machine is
//! not in a steady state.

use ebbtide_core::Watch;
use ebbtide_sim::designs::compose;
use ebbtide_sim::{Machine, warm_up};
use ebbtide_workloads::{Kind, Shape};

use super::driven::config;

#[test]
fn warm_up_ends_when_host_dram_gives_up_a_page_for_each_it_takes() {
    let config = config(&[
        ("cores.count", "2"),
        ("llc.size", "256KiB"),
        ("dataset.size", "64MiB"),
        ("promotion.size", "16MiB"),
        ("promotion.threshold_max", "1"),
    ]);
    let shape = Shape { dataset_bytes: config.dataset.size.0, ..Shape::default() };
    let program = Kind::ArraySwap.build(&shape).unwrap();
    let mut machine = Machine::new(&config, compose(&config).unwrap(), program).unwrap();
    warm_up(&mut machine, &config, Watch::unattended()).unwrap();
    machine.run(1_000).unwrap();
    let counters = machine.take_measured().counters;
    let (taken, given) = (counters.promotion.promotions, counters.promotion.demotions);
    assert!(taken > 100 && given.abs_diff(taken) <= 1, "{taken} taken, {given} given up");
}
