//! The answer as text for a terminal: one line for who decides, then the tables.

use std::fmt::{self, Display, Formatter};

use super::demand::Sampling;
use super::least_dram::time;
use super::{CellLifetime, CostAndLifetime, Report, SizedDesign};

impl Report {
    /// The answer in a line.
    pub fn recommendation(&self) -> String {
        let chosen = self.designs.iter().find(|design| design.anatomy.design == self.recommended);
        let answer = chosen.and_then(|design| Some((design.need?, design.worth.as_ref()?)));
        let Some((need, worth)) = answer else { return "nothing to recommend".to_string() };
        let options = &self.options;
        let size = options.ssd_bytes.map_or(self.demand.dataset_pages * 4096, |bytes| bytes);
        let lasts = match worth.years(options.cells) {
            Some(years) => {
                let size = bytes(size as f64);
                format!("{} of {} flash last {}", size, options.cells, lasting(years))
            }
            None => "the SSD does not wear".to_string(),
        };
        format!(
            "{} of DRAM, {} of the {} of data: p99 within {} at {}% load on {}, {}% of DRAM-only's \
             throughput, memory {} times cheaper, {lasts}",
            bytes(need.dram_bytes as f64),
            percent(need.dram_share),
            bytes((self.demand.dataset_pages * 4096) as f64),
            time(options.slo_us),
            number(options.load * 100.0),
            self.recommended,
            number(need.throughput_kept * 100.0),
            number(worth.saving),
        )
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.recommendation())?;
        let demand = &self.demand;
        writeln!(
            f,
            "{}: {} of data, {} accesses counted; a job executes {} and makes {} accesses to {} \
             pages",
            demand.source,
            bytes((demand.dataset_pages * 4096) as f64),
            demand.accesses,
            time(demand.job_us),
            number(demand.accesses_per_job),
            demand.pages_per_job,
        )?;
        let knee = &self.knee;
        writeln!(
            f,
            "knee of the LRU curve: {} ({}), {} of accesses miss, one every {} of execution; {} \
             without waiting would take {}/s from flash (Eq. 1)",
            bytes(knee.dram_bytes as f64),
            percent(knee.dram_share),
            percent(knee.miss_ratio),
            time(knee.miss_interval_us),
            cores(self.options.cores),
            bytes(knee.flash_bytes_per_s),
        )?;
        curves(f, self)?;
        writeln!(
            f,
            "\nleast DRAM for a p99 of {} at {}% of DRAM-only's load, with {}; analytic queue and \
             event model",
            time(self.options.slo_us),
            number(self.options.load * 100.0),
            self.machine,
        )?;
        designs(f, &self.designs)?;
        lifetimes(f, self)?;
        if !self.beside.claims.is_empty() {
            writeln!(f, "\nbeside what AstriFlash says of services\n{}", self.beside)?;
        }
        self.notices.iter().try_for_each(|notice| writeln!(f, "\nnote: {notice}"))
    }
}

/// Shares of the data in the table of miss ratios.
const SHARES: [f64; 7] = [0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.3];

fn curves(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let demand = &report.demand;
    write!(f, "\n{:<22}", "miss ratio with DRAM of")?;
    SHARES.iter().try_for_each(|share| write!(f, "{:>9}", percent(*share)))?;
    writeln!(f)?;
    let size = |share: f64| (demand.dataset_pages as f64 * share) as u64;
    for curve in &demand.curves {
        write!(f, "{:<22}", curve.policy)?;
        let ratios = SHARES.map(|share| curve.curve.miss_ratio(size(share)));
        ratios.iter().try_for_each(|ratio| write!(f, "{:>9}", percent(*ratio)))?;
        writeln!(f)?;
    }
    write!(f, "{:<22}", "lru: us between misses")?;
    for share in SHARES {
        let every_us = demand.access_us() / demand.lru().miss_ratio(size(share));
        write!(f, "{:>9}", number(every_us))?;
    }
    writeln!(f, "\n{}", sampling(&demand.sampling))
}

/// What the curves are from, and how far off they are.
fn sampling(sampling: &Sampling) -> String {
    let rate = percent(sampling.rate);
    if sampling.rate == 1.0 {
        return "all curves are exact: every access was counted".to_string();
    }
    let Some((most, mean)) = sampling.error else {
        return format!(
            "all curves are from a sample of {rate} of the pages, their error not measured: too many \
             pages for an exact one"
        );
    };
    let small_caches = sampling.small_caches_error.map_or(String::new(), |(most, mean)| {
        format!("; in small caches of these pages, as other policies are, {most:.4} and {mean:.4}")
    });
    format!(
        "lru is exact; from a sample of {rate} of the pages its ratio is at most {most:.4} off, \
         {mean:.4} on average{small_caches}"
    )
}

fn designs(f: &mut Formatter<'_>, designs: &[SizedDesign]) -> fmt::Result {
    let names = ["analytic", "event", "% of data", "p99 us", "kept", "us/miss", "saving", "perf/$"];
    write!(f, "{:<18}", "design")?;
    names.iter().try_for_each(|name| write!(f, "{name:>10}"))?;
    writeln!(f)?;
    for design in designs {
        write!(f, "{:<18}", design.anatomy.design)?;
        let (Some(need), Some(worth)) = (&design.need, &design.worth) else {
            writeln!(f, "  no size of DRAM is enough")?;
            continue;
        };
        let cells = [
            bytes(need.analytic_dram_bytes as f64),
            bytes(need.simulated_dram_bytes as f64),
            number(need.dram_share * 100.0),
            number(need.analytic_p99_us.max(need.simulated_p99_us)),
            number(need.throughput_kept),
            need.miss_interval_us.map_or("-".to_string(), number),
            number(worth.saving),
            number(worth.effectiveness),
        ];
        cells.iter().try_for_each(|cell| write!(f, "{cell:>10}"))?;
        writeln!(f)?;
    }
    Ok(())
}

fn lifetimes(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let chosen = report.designs.iter().find(|design| design.anatomy.design == report.recommended);
    let Some(worth) = chosen.and_then(|design| design.worth.as_ref()) else { return Ok(()) };
    let CostAndLifetime { dollars, dollars_dram_only, lifetimes, .. } = worth;
    writeln!(
        f,
        "\n{}: ${} instead of ${}; {}/s from flash and {}/s to it on {}",
        report.recommended,
        number(*dollars),
        number(*dollars_dram_only),
        bytes(worth.flash_read_bytes_per_s),
        bytes(worth.flash_write_bytes_per_s),
        cores(report.options.cores),
    )?;
    let years = |years: Option<f64>| years.map_or("no wear".to_string(), lasting);
    let last = |lifetime: &CellLifetime| {
        let CellLifetime { cells, years: all, working_years } = lifetime;
        format!("{cells} {} ({})", years(*all), years(*working_years))
    };
    let all: Vec<String> = lifetimes.iter().map(last).collect();
    writeln!(f, "until the SSD is worn out (in years of 2080 hours): {}", all.join(", "))?;
    match (report.options.min_lifetime_years, chosen.and_then(|design| design.need)) {
        (Some(years), Some(need)) => writeln!(
            f,
            "to last {} years, {} flash needs {} of DRAM before it",
            number(years),
            report.options.cells,
            bytes(need.lasting_dram_bytes as f64),
        ),
        _ => Ok(()),
    }
}

/// Years, or the smaller unit that suits.
fn lasting(years: f64) -> String {
    let hours = years * 365.0 * 24.0;
    let units = [("years", 1.0 / (365.0 * 24.0)), ("days", 1.0 / 24.0), ("hours", 1.0)];
    let unit = units.iter().find(|(_, an_hour)| hours * an_hour >= 1.0);
    let (name, an_hour) = unit.copied().unwrap_or(("minutes", 60.0));
    format!("{} {name}", number(hours * an_hour))
}

/// Bytes with a unit, to three digits.
pub(super) fn bytes(bytes: f64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, shift)| bytes >= 2_f64.powi(*shift));
    let (name, shift) = unit.copied().unwrap_or(("B", 0));
    format!("{} {name}", number(bytes / 2_f64.powi(shift)))
}

fn cores(count: u32) -> String {
    if count == 1 { "1 core".to_string() } else { format!("{count} cores") }
}

fn percent(share: f64) -> String {
    format!("{}%", number(share * 100.0))
}

/// Three digits, or all before the point.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "-".to_string(),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.01 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_have_units() {
        assert_eq!(bytes(33_554_432.0), "32.0 MiB");
        assert_eq!(
            [number(1234.5), number(12.34), number(0.5), number(0.00123)],
            ["1234", "12.3", "0.50", "0.0012"]
        );
        assert_eq!(
            [12.0, 0.5, 0.001, 1e-7].map(lasting),
            ["12.0 years", "182 days", "8.76 hours", "0.05 minutes"]
        );
        assert_eq!([percent(0.03), time(1500.0)], ["3.00%", "1.500 ms"]);
    }
}
