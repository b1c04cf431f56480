//! Tests that each parameter changes throughput in its direction, over its range.

use ebbtide_sim::Offered;
use ebbtide_sim::designs::resolve;

use crate::{is_long, machine, run, run_seed, tried};

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
    ("device.index_ns", &["0", "72", "300", "1000"], Slower),
    ("write_log.size", &["8KiB", "64KiB", "512KiB"], Faster),
    ("mos.lookup_ns", &["0", "100", "1000", "10000"], Slower),
];

const CORES: &[(&str, &[&str], More)] = &[
    ("cores.count", &["1", "2", "4"], Faster),
    ("cores.frequency_mhz", &["1000", "2000", "4000"], Faster),
    ("cores.width", &["1", "2", "4", "8"], Faster),
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

/// A count of misses that no run reaches. Read-ahead stays on.
const ALWAYS: (&str, &str) = ("os.read_ahead_misses", "1000000000");

/// Keys that stay fixed while `key` of `design` changes. More DRAM turns Linux's read-ahead on,
/// which is a change of its own: `read_ahead_of_linux_comes_on_with_more_dram`.
fn held(design: &str, key: &str) -> &'static [(&'static str, &'static str)] {
    let reads_ahead = resolve(design, &[]).expect("a design").os.read_ahead.0 > 0;
    if reads_ahead && key == "dram_cache.size" { &[ALWAYS] } else { &[] }
}

fn has_its_direction(parameters: &[(&str, &[&str], More)]) {
    for design in tried() {
        for (key, values, more) in parameters {
            let promotes = resolve(design, &[]).expect("a design").promotion.is_some();
            if *key == "dram_cache.size" && promotes {
                continue;
            }
            let ends = [values[0], values[values.len() - 1]];
            let values = if is_long() { values } else { &ends[..] };
            let rates: Vec<f64> = values
                .iter()
                .map_while(|value| {
                    machine(design, &[&[(*key, *value)], held(design, key)].concat())
                })
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

/// A job's computing takes a fixed time. A wider core does more instructions in that time, so its
/// reorder buffer is full sooner. With one as much larger, a wider core is faster.
#[test]
fn a_wider_core_with_a_larger_reorder_buffer_is_faster() {
    let rate = |(width, rob)| {
        let wide = [("cores.width", width), ("cores.rob_entries", rob)];
        let keys = [&wide[..], &[("workload.work_us", "0.5")]].concat();
        run(machine("dram-only", &keys).expect("it has them")).jobs_per_s
    };
    let rates = [("1", "32"), ("2", "64"), ("4", "128"), ("8", "256")].map(rate);
    assert!(rates.is_sorted_by(|less, more| less < more), "{rates:?} jobs/s");
}

/// Throughput, and pages read for each fault on an absent page, for DRAM of 1 to 8 MiB.
fn by_size(keys: &[(&str, &str)]) -> Vec<[f64; 2]> {
    let of = |size| {
        let keys = [&[("dram_cache.size", size)], keys].concat();
        let config = machine("hams-mmap-linux", &keys).expect("it has them");
        let outcome = run_seed(config, 1, 5_000, Offered::Saturating);
        let cache = outcome.memory.cache;
        [outcome.jobs_per_s, (cache.misses + cache.read_ahead) as f64 / cache.misses as f64]
    };
    ["1MiB", "2MiB", "4MiB", "8MiB"].into_iter().map(of).collect()
}

/// Linux reads a page alone while most faults meet absent pages. More DRAM brings read-ahead back,
/// since each page that is mapped around a fault counts as a use. The link then carries 30 pages a
/// fault. With read-ahead always off or always on, more DRAM is faster.
#[test]
fn read_ahead_of_linux_comes_on_with_more_dram() {
    let (linux, off, on) = (by_size(&[]), by_size(&[("os.read_ahead", "0B")]), by_size(&[ALWAYS]));
    for fixed in [&off, &on] {
        assert!(fixed.is_sorted_by(|less, more| less[0] < more[0]), "{fixed:?}");
    }
    assert!(off.iter().all(|[_, pages]| *pages == 1.0), "{off:?}");
    assert!(on.iter().all(|[_, pages]| *pages > 20.0), "{on:?}");
    // The smallest DRAM is as without read-ahead, and more is as with it.
    let same = |one: f64, other: f64| (one / other - 1.0).abs() < 0.1;
    assert!(same(linux[0][1], 1.0) && same(linux[0][0], off[0][0]), "{linux:?}, off {off:?}");
    for (linux, on) in linux[1..].iter().zip(&on[1..]) {
        assert!(same(linux[0], on[0]) && same(linux[1], on[1]), "{linux:?}, always on {on:?}");
    }
    assert!(linux[1][0] < 0.5 * linux[0][0], "{linux:?}");
}
