//! Tests that equivalent machines have equal results.

use ebbtide_core::{Addr, Time};
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Plan, replay, simulate};
use ebbtide_trace::{Access, Compression, Format, Op, Output, open};
use ebbtide_workloads::Kind;

use crate::{Keys, is_long, machine, run, tried};

/// A switch without cost.
const FREE_SWITCH: Keys<'_> = &[("switch.cost_ns", "0"), ("cores.flush_cycles", "0")];

#[test]
fn a_single_thread_waits_as_one_that_blocks() {
    let switching = [FREE_SWITCH, &[("switch.threads", "1"), ("switch.arrivals", "notified")]];
    let switching = machine("astriflash", &switching.concat()).expect("a machine");
    let blocking = machine("flash-sync", FREE_SWITCH).expect("a machine");
    let [switching, blocking] = [switching, blocking].map(|config| run(config).jobs_per_s);
    assert!((switching / blocking - 1.0).abs() < 0.02, "{switching} and {blocking} jobs/s");
}

#[test]
fn without_costs_and_latency_a_design_is_dram_only() {
    let free = [
        ("switch.cost_ns", "0"),
        ("cores.flush_cycles", "0"),
        ("os.fault_us", "0"),
        ("os.io_us", "0"),
        ("os.install_ns", "0"),
        ("os.switch_us", "0"),
        ("os.shootdown_us", "0"),
        ("os.interrupt_ns", "0"),
        ("os.minor_fault_ns", "0"),
        ("link.latency_ns", "0"),
        ("link.bandwidth_gb_per_s", "10000"),
        ("dram_cache.tag_bytes", "0"),
        ("dram_cache.backside_cycles", "0"),
        ("dram_cache.evict_buffer", "1024"),
        ("workload.work_us", "60"),
    ];
    for design in tried() {
        let config = machine(design, &free).expect("a machine");
        let Some(config) = with_free_flash(design, config, &free) else { continue };
        let ratio = run(config).ratio_to_dram;
        assert!((0.94..=1.05).contains(&ratio), "{design}: {ratio} of DRAM-only");
    }
}

/// `config` with flash that takes no time. `None` for devices that serve lines, as their DRAM takes
/// time.
fn with_free_flash(
    design: &str,
    config: ebbtide_sim::config::Config,
    free: Keys<'_>,
) -> Option<ebbtide_sim::config::Config> {
    let flash: Keys<'_> = &[("flash.read_us", "0"), ("flash.write_us", "0")];
    let hams: Keys<'_> = &[("mos.lookup_ns", "0"), ("mos.lock_ns", "0"), ("mos.page", "4KiB")];
    let ssd_dram: Keys<'_> = &[("mos.ssd_dram", "0B")];
    if config.device.is_some() {
        return None;
    }
    let hams: &[Keys<'_>] = if config.mos.is_some() { &[hams, ssd_dram] } else { &[] };
    machine(design, &[&[free, flash], hams].concat().concat())
}

#[test]
fn what_a_design_does_not_have_changes_nothing() {
    for (design, keys) in [
        ("dram-only", &["flash.read_us", "link.latency_ns", "switch.cost_ns", "os.fault_us"][..]),
        ("flash-sync", &["switch.cost_ns", "switch.threads", "os.io_us", "os.switch_us"]),
        ("astriflash", &["os.fault_us", "os.io_us", "os.threads", "os.shootdown_us"]),
        ("os-swap", &["switch.cost_ns", "switch.threads", "dram_cache.backside_cycles"]),
        ("lhams-e", &["switch.threads", "os.fault_us", "os.io_us", "dram_cache.mshr_ways"]),
    ] {
        let run = |keys: Keys<'_>| {
            let outcome = run(machine(design, keys).expect("a machine"));
            (outcome.simulated_ns, outcome.memory, outcome.flash)
        };
        let usual = run(&[]);
        let set: Vec<_> = keys.iter().map(|key| (*key, "7")).collect();
        assert_eq!(run(&set), usual, "{design}: {keys:?}");
    }
}

#[test]
fn a_trace_does_the_same_in_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let access = |number: u64| {
        Access::new(
            Time::from_ns(number * 300),
            Addr(number * 40_507 % (1 << 16) * 64),
            64,
            if number.is_multiple_of(3) { Op::Write } else { Op::Read },
        )
    };
    let accesses: Vec<Access> = (0..5_000).map(access).collect();
    let replayed = ["t.ebt", "t.txt", "t.csv"].map(|name| {
        let path = folder.path().join(name);
        let format = Format::of_name(&path).expect("a name").expect("an ending");
        let output = Output::create(&path, Compression::None).expect("a file");
        let mut sink = format.write(output, "a test").expect("a writer");
        accesses.iter().for_each(|access| sink.write(access).expect("room"));
        sink.finish().expect("room");
        let config = machine("astriflash", &[]).expect("a machine");
        let replay = replay(&config, &mut open(&path).expect("a trace")).expect("a whole trace");
        (replay.accesses, replay.simulated_ns, replay.memory, replay.flash)
    });
    assert_eq!(replayed[0], replayed[1]);
    assert_eq!(replayed[0], replayed[2]);
}

#[test]
fn ratios_do_not_depend_on_scale() {
    // Small machines have few pages, and threads that collide on them.
    let (scales, designs) = match is_long() {
        true => ([256, 64], vec!["astriflash", "flash-sync", "os-swap", "dram-only"]),
        false => ([1_024, 512], vec!["flash-sync"]),
    };
    for design in designs {
        let ratio = |scale| {
            let config = resolve(design, &[]).expect("a design").scaled(1, scale);
            let (workload, arrivals) = (Kind::HashTable, Offered::Saturating);
            let jobs = if is_long() { 20_000 } else { 4_000 };
            simulate(&Plan { config, workload, jobs, seed: 1, arrivals }).expect("jobs end")
        };
        let [small, large] = scales.map(|scale| ratio(scale).ratio_to_dram);
        assert!((small / large - 1.0).abs() < 0.12, "{design}: {small} and {large} of DRAM-only");
    }
}
