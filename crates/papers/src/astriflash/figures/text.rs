//! AstriFlash's figures and tables in plain text, in the paper's own form.

use std::fmt;

use crate::astriflash::AstriFlash;
use crate::astriflash::experiments::{
    ByDesign, DESIGNS, LOADED, LoadRow, WorkloadRow, of as value_of,
};
use ebbtide_report::statistics::Estimate;

impl fmt::Display for AstriFlash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AstriFlash { scale_denominator, seed, seeds, .. } = self;
        writeln!(
            f,
            "AstriFlash (HPCA'23), capacities 1/{scale_denominator} of the paper's, {seeds} seeds from \
             {seed}; ± is the 95% interval over them"
        )?;
        self.figure1(f)?;
        self.table1(f)?;
        writeln!(f, "\nFig. 9: throughput relative to DRAM-only")?;
        self.by_design(f, |row| &row.throughput, &self.mean_throughput, "mean")?;
        writeln!(f, "\nTable II: p99 of service over Flash-Sync's")?;
        self.by_design(f, |row| &row.p99_over_flash_sync, &self.geometric_mean_p99, "geo. mean")?;
        self.figure10(f)?;
        self.sensitivity(f)?;
        self.moved_by_scale(f)?;
        if self.host.is_none() {
            writeln!(f, "\nAS5 and AS13 to AS15 are about real hosts: --real measures this one.")?;
        }
        write!(f, "\n{}", self.findings)
    }
}

/// Capacities of Fig. 1 that are printed, as shares of the data.
const PRINTED: [f64; 7] = [0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.5];

impl AstriFlash {
    fn figure1(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nFig. 1: misses in % of accesses, over DRAM in % of the data")?;
        write!(f, "{:<16}", "")?;
        let headings = PRINTED.iter().map(|share| format!("{:.1}%", 100.0 * share));
        headings.into_iter().try_for_each(|heading| write!(f, " {heading:>6}"))?;
        writeln!(f, "   knee")?;
        for row in &self.miss_curves {
            write!(f, "{:<16}", row.workload)?;
            for share in PRINTED {
                let at = row.points.iter().take_while(|(at, _)| *at <= share * (1.0 + 1e-9)).last();
                write!(f, " {:>6.2}", at.map_or(100.0, |(_, misses)| 100.0 * misses))?;
            }
            writeln!(f, " {:>5.1}%", 100.0 * row.knee.dram_share)?;
        }
        Ok(())
    }

    fn table1(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.parameters;
        let (cores, cache) = (&c.cores, &c.dram_cache);
        writeln!(f, "\nTable I: parameters (sources in configs/astriflash.toml)")?;
        for (part, text) in [
            (
                "Cores",
                format!(
                    "{} of {} MHz, {} wide, {} entries to reorder; {} user-level threads each, {} ns a \
                     switch",
                    cores.count,
                    cores.frequency_mhz,
                    cores.width,
                    cores.rob_entries,
                    c.switch.threads,
                    c.switch.cost_ns
                ),
            ),
            ("L1", format!("{}, {} ways, {} cycles", c.l1.size, c.l1.ways, c.l1.latency_cycles)),
            (
                "LLC",
                format!(
                    "{} in all, {} ways, {} cycles",
                    c.llc.size, c.llc.ways, c.llc.latency_cycles
                ),
            ),
            (
                "NoC",
                format!(
                    "mesh of {} columns, {} bytes, {} cycles a hop",
                    c.noc.columns, c.noc.link_bytes, c.noc.hop_cycles
                ),
            ),
            ("TLB", format!("{} and {} entries", c.tlb.l1_entries, c.tlb.l2_entries)),
            (
                "DRAM",
                format!(
                    "{} controllers, RAS {} cycles, CAS {} cycles for 8 bytes",
                    c.dram.controllers, c.dram.ras_cycles, c.dram.cas_cycles_per_8_bytes
                ),
            ),
            (
                "DRAM cache",
                format!(
                    "{}, {} ways, {} miss status entries, backside {} cycles a command",
                    cache.size, cache.ways, cache.mshr, cache.backside_cycles
                ),
            ),
            ("Dataset", c.dataset.size.to_string()),
            ("Flash", toml::to_string(&c.flash).unwrap_or_default().trim().replace('\n', ", ")),
        ] {
            writeln!(f, "  {part:<11} {text}")?;
        }
        Ok(())
    }

    fn by_design(
        &self,
        f: &mut fmt::Formatter<'_>,
        values: impl Fn(&WorkloadRow) -> &ByDesign<Estimate>,
        means: &ByDesign<Estimate>,
        mean_name: &str,
    ) -> fmt::Result {
        write!(f, "{:<12}", "")?;
        DESIGNS.iter().try_for_each(|design| write!(f, " {design:>16}"))?;
        writeln!(f)?;
        let named = self.workloads.iter().map(|row| (row.workload, values(row)));
        for (name, values) in named.chain([(mean_name, means)]) {
            write!(f, "{name:<12}")?;
            for design in DESIGNS {
                write!(f, " {:>16}", estimate(value_of(values, design), 3))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn figure10(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nFig. 10: TATP, p99 of response (of service) in us over load")?;
        write!(f, "{:>6}", "load")?;
        LOADED.iter().try_for_each(|design| write!(f, " {design:>26}"))?;
        writeln!(f)?;
        let of = |design: &'static str| self.loads.iter().filter(move |row| row.design == design);
        for (dram_only, astriflash) in of(LOADED[0]).zip(of(LOADED[1])) {
            let cell = |row: &LoadRow| {
                format!("{} ({:.0})", estimate(row.response_p99_us, 0), row.service_p99_us.mean)
            };
            writeln!(
                f,
                "{:>6.2} {:>26} {:>26}",
                dram_only.load,
                cell(dram_only),
                cell(astriflash)
            )?;
        }
        Ok(())
    }

    fn sensitivity(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nAssumptions varied, one at a time, under Array Swap (moves AS3, AS28, AS32)"
        )?;
        writeln!(f, "{:<44} {:>10} {:>16}", "", "throughput", "p99/Flash-Sync")?;
        for row in &self.assumptions {
            let what = match row.key {
                "" => format!("{} as it is", row.design),
                key => format!("{} {key} = {}", row.design, row.value),
            };
            writeln!(f, "{what:<44} {:>10.3} {:>16.3}", row.throughput, row.p99_over_flash_sync)?;
        }
        Ok(())
    }

    fn moved_by_scale(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.scales.first() else { return Ok(()) };
        writeln!(f, "\nHow far scale moves this (one seed; the paper's capacities are 1/1)")?;
        write!(f, "{:<38}", "")?;
        let denominators = self.scales.iter().map(|row| format!("1/{}", row.scale_denominator));
        denominators.into_iter().try_for_each(|scale| write!(f, " {scale:>7}"))?;
        writeln!(f)?;
        for (design, _) in &first.mean_throughput {
            write!(f, "{:<38}", format!("mean throughput, {design}"))?;
            let values = self.scales.iter().map(|row| value_of(&row.mean_throughput, design));
            values.into_iter().try_for_each(|value| write!(f, " {value:>7.3}"))?;
            writeln!(f)?;
        }
        for (workload, _) in &first.p99_over_flash_sync {
            write!(f, "{:<38}", format!("AstriFlash's p99, {workload}"))?;
            let values = self.scales.iter().map(|row| value_of(&row.p99_over_flash_sync, workload));
            values.into_iter().try_for_each(|value| write!(f, " {value:>7.2}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

fn estimate(estimate: Estimate, decimals: usize) -> String {
    match estimate.half_width() {
        Some(half) => format!("{:.decimals$} ±{half:.decimals$}", estimate.mean),
        None => format!("{:.decimals$}", estimate.mean),
    }
}
