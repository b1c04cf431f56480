//! Tests that no link, controller, channel, plane or core does more than it can.

use ebbtide_core::{LINE_BYTES, PAGE_BYTES};
use ebbtide_flash::Config as Flash;
use ebbtide_sim::Outcome;

/// Checks every bound of a run. Work at its two ends belongs to it only in part.
pub fn check(outcome: &Outcome) {
    let Outcome { config, memory, simulated_ns, flash, .. } = outcome;
    let (cache, traffic, time_ns) = (&memory.cache, &memory.traffic, *simulated_ns as f64);
    let page = config.mos.as_ref().map_or(PAGE_BYTES as u64, |mos| mos.page.0);
    let under_way = (2 * cache.in_flight_peak + 64) * page;
    let fits = |what: &str, needs_ns: f64| {
        let of = (&outcome.design, outcome.seed);
        assert!(needs_ns <= time_ns, "{of:?}: {what} needs {needs_ns} of {time_ns} ns\n{config:?}");
    };
    let less = |bytes: u64| bytes.saturating_sub(under_way) as f64;
    let [inward, outward] = [traffic.dram_page_lines_in, traffic.dram_page_lines_out]
        .map(|lines| lines * LINE_BYTES as u64);
    let device = config.flash_device().expect("it ran");
    let links = config.links().expect("it ran");
    let link = (config.link.bandwidth_gb_per_s * links) as f64;
    for bytes in [inward, outward] {
        fits("the link", less(bytes) / link);
    }
    fits("the link, both ways", less(traffic.link_bytes) / 2.0 / link);
    let cycles = less(inward + outward + traffic.copied_bytes) / 8.0
        * config.dram.cas_cycles_per_8_bytes as f64;
    let controllers = config.dram.controllers as f64;
    fits("DRAM", cycles * 1e3 / config.cores.frequency_mhz as f64 / controllers);
    if let Some(device) = &config.device {
        let lines = less(traffic.device_dram_bytes) / LINE_BYTES as f64;
        fits("the device's DRAM", lines * device.dram_bus_ns as f64);
    }
    if let Flash::Ssd(ssd) = &device {
        let planes = f64::from(ssd.planes());
        let reads = flash.array_reads.saturating_sub(1_024) as f64;
        fits("all planes", reads * ssd.read_us * 1e3 / planes);
        let per_ns = ssd.bus_mt_per_s * f64::from(ssd.bus_bytes) / 1e3;
        let channels = f64::from(ssd.channels * ssd.drives);
        if per_ns > 0.0 {
            fits("all channels", reads * PAGE_BYTES as f64 / per_ns / channels);
        }
        let busy = outcome.flash_use.planes_busy.unwrap_or(0.0);
        assert!(busy <= 1.0 + 1e-9, "planes are busy for {busy} of the time");
    }
    let dram_only = outcome.ratio_to_dram;
    assert!(dram_only <= 1.05, "{}: {dram_only} of DRAM-only", outcome.design);
    let cores = outcome.jobs_per_s / dram_only * outcome.warm_up.job_ns / 1e9;
    assert!(cores <= config.cores.count as f64 * (1.0 + 1e-9), "{cores} cores compute");
    assert!(outcome.busy_share <= 1.0);
}
