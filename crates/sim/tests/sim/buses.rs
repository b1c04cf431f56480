//! Each transfer takes its time on its bus, for every design and program.

use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, Time};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Outcome, Plan, designs, replay, simulate};
use ebbtide_trace::{Access, Op, Source, TraceError};
use ebbtide_workloads::Kind;

use crate::common::machine;

/// A machine whose buses are the narrowest part: fast flash, no computing, one slow controller.
fn narrow(design: &str) -> Config {
    // CXL-flash and SkyByte have a modelled SSD, with other names for its times.
    let is_modelled = design == "cxl-flash" || design.starts_with("skybyte");
    let flash = if is_modelled { "flash.program_us" } else { "flash.write_us" };
    machine(
        design,
        &[&NARROW[..], &[("flash.read_us", "2"), (flash, "2")]].concat(),
        "4MiB",
        "2MiB",
    )
}

const NARROW: [(&str, &str); 8] = [
    ("cores.count", "4"),
    ("llc.size", "512KiB"),
    ("dataset.size", "64MiB"),
    ("dram.controllers", "1"),
    ("dram.cas_cycles_per_8_bytes", "4"),
    ("link.bandwidth_gb_per_s", "1"),
    ("workload.work_us", "0.5"),
    ("workload.theta", "0.2"),
];

/// The same over a modelled SSD of one slow channel with `dies` dies.
fn narrow_flash(design: &str, dies: &str) -> Config {
    let flash = [
        ("flash.preset", "ull"),
        ("flash.channels", "1"),
        ("flash.chips_per_channel", dies),
        ("flash.bus_mt_per_s", "400"),
    ];
    machine(design, &[&NARROW[..], &flash].concat(), "4MiB", "2MiB")
}

fn run(config: &Config, workload: Kind) -> Outcome {
    let plan = Plan {
        config: config.clone(),
        workload,
        jobs: 3_000,
        seed: 1,
        arrivals: Offered::Saturating,
    };
    simulate(&plan).expect("jobs end")
}

/// Nanoseconds that a controller needs for `bytes`.
fn on_controller_ns(config: &Config, bytes: u64) -> f64 {
    let cycles = bytes.div_ceil(8) * config.dram.cas_cycles_per_8_bytes;
    cycles as f64 * 1e3 / config.cores.frequency_mhz as f64
}

#[test]
fn no_bus_carries_more_than_it_can() {
    for design in designs::ALL {
        let config = narrow(design.name);
        for workload in [Kind::ArraySwap, Kind::Tatp, Kind::HashTable] {
            let outcome = run(&config, workload);
            let (cache, traffic) = (&outcome.memory.cache, &outcome.memory.traffic);
            let what = format!("{} under {workload}", design.name);
            // Transfers at the two ends of the measured part belong to it only in part.
            let page = config.mos.as_ref().map_or(PAGE_BYTES as u64, |mos| mos.page.0);
            let under_way = (2 * cache.in_flight_peak + 64) * page;
            let [inward, outward] = [traffic.dram_page_lines_in, traffic.dram_page_lines_out]
                .map(|lines| lines * LINE_BYTES as u64);
            let time_ns = outcome.simulated_ns as f64;
            for bytes in [inward, outward] {
                let needs_ns =
                    bytes.saturating_sub(under_way) as f64 / config.link.bandwidth_gb_per_s as f64;
                assert!(needs_ns <= time_ns, "{what}: the link needs {needs_ns} of {time_ns} ns");
            }
            // Lines that the chip read. Tag lookups move no line.
            let of_device = config.device.is_some() && config.promotion.is_none();
            let lines = if of_device { 0 } else { cache.hits * LINE_BYTES as u64 };
            let bytes = inward + outward + traffic.copied_bytes + lines;
            let needs_ns = on_controller_ns(&config, bytes.saturating_sub(under_way));
            let lines_ns = if config.promotion.is_some() { 0.0 } else { needs_ns };
            assert!(lines_ns <= time_ns, "{what}: the controller needs {needs_ns} of {time_ns} ns");
            let ratio = outcome.ratio_to_dram;
            assert!(ratio <= 1.05, "{what}: {ratio} of DRAM-only");
            if let Some(device) = &config.device {
                let needs_ns = traffic.device_dram_bytes.saturating_sub(under_way)
                    / LINE_BYTES as u64
                    * device.dram_bus_ns;
                assert!(needs_ns as f64 <= time_ns, "{what}: its DRAM needs {needs_ns} ns");
                // Lines and pages of both directions.
                let needs_ns = traffic.link_bytes.saturating_sub(under_way) as f64
                    / (2 * config.link.bandwidth_gb_per_s) as f64;
                assert!(needs_ns <= time_ns, "{what}: the link needs {needs_ns} of {time_ns} ns");
            }
        }
    }
}

#[test]
fn no_channel_and_no_plane_does_more_than_it_can() {
    // One die is busier than its channel. Eight are less busy.
    for (design, dies) in designs::ALL.iter().flat_map(|design| [(design, 1), (design, 8)]) {
        let config = narrow_flash(design.name, &dies.to_string());
        if !designs::has_flash(&config).expect("a machine") {
            continue;
        }
        let outcome = run(&config, Kind::ArraySwap);
        let (flash, time_us) = (&outcome.flash, outcome.simulated_ns as f64 / 1e3);
        // Commands in flight at the start belong to the measured part only in part.
        let less = |count: u64| count.saturating_sub(64) as f64;
        let (reads, programs) = (less(flash.array_reads), less(flash.pages_programmed) / 4.0);
        let channel_us = (reads + 4.0 * programs) * PAGE_BYTES as f64 / 400.0;
        let plane_us = (reads * 3.0 + programs * 100.0) / f64::from(dies);
        assert!(flash.reads > 100, "{}: {flash:?}", design.name);
        for (what, needs_us) in [("channel", channel_us), ("plane", plane_us)] {
            let name = design.name;
            assert!(needs_us <= time_us, "{name}: the {what} needs {needs_us} of {time_us} us");
        }
    }
}

/// Reads of one page, ten of them in each nanosecond.
struct OnePage(u64);

impl Source for OnePage {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        let more = self.0 < 20_000;
        let access = |number: u64| {
            Access::new(
                Time::from_ps(number * 100),
                Addr(number % 64 * LINE_BYTES as u64),
                8,
                Op::Read,
            )
        };
        batch.extend((self.0..(self.0 + 1_000).min(20_000)).map(access));
        self.0 += 1_000;
        Ok(more)
    }
}

#[test]
fn requests_that_were_merged_read_their_lines() {
    let end = |design: &str| {
        let replayed = replay(&narrow(design), &mut OnePage(0)).expect("a whole trace");
        replayed.simulated_ns
    };
    let in_dram = end("dram-only");
    for design in ["os-swap", "astriflash", "flash-sync", "hams-mmap", "lhams-e"] {
        assert!(end(design) >= in_dram, "{design}: {} ns, {in_dram} in DRAM", end(design));
    }
}

#[test]
fn drives_have_a_link_each_and_a_page_crosses_one() {
    let slow = |drives: &str| {
        let keys = [
            ("cores.count", "2"),
            ("llc.size", "512KiB"),
            ("dataset.size", "64MiB"),
            ("dram_cache.size", "4MiB"),
            ("switch.threads", "1"),
            ("workload.work_us", "100"),
            ("workload.theta", "0"),
            ("flash.preset", "tlc-pcie4"),
            ("flash.drives", drives),
            ("link.bandwidth_gb_per_s", "1"),
        ];
        let config = resolve("flash-sync", &keys).expect("a machine that can be built");
        // Almost no request waits, so a page takes the time of its own link.
        run(&config, Kind::HashTable).device_latency_ns.p99
    };
    let (one, many) = (slow("1"), slow("16"));
    assert!(
        (one as f64 / many as f64 - 1.0).abs() < 0.03,
        "{one} ns over one link, {many} over 16"
    );
}
