//! Tests that each parameter changes throughput in its direction, over its range.

use crate::{is_long, machine, run, tried};

/// The effect of a larger value on throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
enum More {
    Faster,
    Slower,
}
use More::{Faster, Slower};

/// Parameters, with values in increasing order. A short run uses the first and the last.
const FLASH_AND_LINK: &[(&str, &[&str], More)] = &[
    ("flash.read_us", &["3", "20", "60", "200"], Slower),
    ("link.latency_ns", &["0", "300", "3000", "30000"], Slower),
    ("link.bandwidth_gb_per_s", &["1", "2", "8", "64"], Faster),
];

const MEMORY: &[(&str, &[&str], More)] = &[
    ("dram_cache.size", &["1MiB", "2MiB", "4MiB", "8MiB"], Faster),
    ("promotion.size", &["1MiB", "2MiB", "4MiB", "8MiB"], Faster),
    ("dram.controllers", &["1", "2", "4"], Faster),
    ("dram.ras_cycles", &["20", "55", "200", "600"], Slower),
    ("dram.cas_cycles_per_8_bytes", &["1", "3", "8", "16"], Slower),
    ("device.dram_ns", &["20", "46", "200", "1000"], Slower),
    ("device.dram_banks", &["1", "4", "16"], Faster),
    ("mos.lookup_ns", &["0", "100", "1000", "10000"], Slower),
];

const CORES: &[(&str, &[&str], More)] = &[
    ("cores.count", &["1", "2", "4"], Faster),
    ("cores.frequency_mhz", &["1000", "2000", "4000"], Faster),
    ("workload.work_us", &["5", "10", "40", "100"], Slower),
    ("workload.theta", &["0", "0.5", "0.9", "1.2"], Faster),
    ("switch.cost_ns", &["0", "100", "1000", "5000"], Slower),
    ("switch.threads", &["1", "4", "16"], Faster),
    ("os.threads", &["1", "4", "16"], Faster),
    ("os.fault_us", &["0", "3", "10", "30"], Slower),
    ("os.io_us", &["0", "2", "10", "30"], Slower),
    ("os.switch_us", &["0", "5", "20"], Slower),
    ("os.shootdown_us", &["0", "10", "100"], Slower),
];

/// The most that a parameter without effect changes throughput. Another order of events changes
/// which jobs end last.
const CHANCE: f64 = 0.05;

fn has_its_direction(parameters: &[(&str, &[&str], More)]) {
    for design in tried() {
        for (key, values, more) in parameters {
            if *key == "dram_cache.size" && design == "flatflash" {
                continue;
            }
            let ends = [values[0], values[values.len() - 1]];
            let values = if is_long() { values } else { &ends[..] };
            let rates: Vec<f64> = values
                .iter()
                .map_while(|value| machine(design, &[(*key, *value)]))
                .map(|config| run(config).jobs_per_s)
                .collect();
            for pair in rates.windows(2) {
                let change = if *more == Faster { pair[1] / pair[0] } else { pair[0] / pair[1] };
                assert!(change > 1.0 - CHANCE, "{design}: {key} = {values:?}, {more:?}: {rates:?}");
            }
        }
    }
}

#[test]
fn of_flash_and_its_link() {
    has_its_direction(FLASH_AND_LINK);
}

#[test]
fn of_memory() {
    has_its_direction(MEMORY);
}

#[test]
fn of_cores_and_systems() {
    has_its_direction(CORES);
}

/// Parameters that must matter: the design, and the least fall of throughput.
#[test]
fn what_a_design_waits_for_matters() {
    for (design, key, less, more) in [
        ("flash-sync", "flash.read_us", "3", "200"),
        ("flash-sync", "link.latency_ns", "0", "30000"),
        ("astriflash", "switch.cost_ns", "0", "5000"),
        ("os-swap", "os.fault_us", "0", "30"),
        ("lhams-e", "link.bandwidth_gb_per_s", "64", "1"),
        ("cxl-flash", "device.dram_ns", "20", "1000"),
        ("flatflash", "link.latency_ns", "0", "30000"),
    ] {
        let rate = |value| run(machine(design, &[(key, value)]).expect("it has it")).jobs_per_s;
        let (fast, slow) = (rate(less), rate(more));
        assert!(slow < 0.97 * fast, "{design}: {key} of {less} and {more}: {fast}, {slow} jobs/s");
    }
}
