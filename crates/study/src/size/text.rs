//! The result as text for a terminal: a recommendation in one line, then the tables.

use std::fmt::{self, Display, Formatter};

use ebbtide_core::counted;
use ebbtide_report::{Table, bytes, figure, microseconds, percent, years};

use super::demand::Sampling;
use super::{CellLifetime, CostAndLifetime, Report, SizedDesign};

impl Report {
    /// The recommendation in one line.
    pub(crate) fn recommendation(&self) -> String {
        let chosen = self.designs.iter().find(|design| design.anatomy.design == self.recommended);
        let answer = chosen.and_then(|design| Some((design.need?, design.worth.as_ref()?)));
        let Some((need, worth)) = answer else {
            let unmet = self.unmet.as_deref().unwrap_or("no size of DRAM meets the objective");
            return format!("nothing to recommend: {unmet}");
        };
        let options = &self.options;
        let market = &options.market;
        let size = market.flash_bytes(self.demand.dataset_pages * 4096);
        let lasts = match worth.years(market.cells) {
            Some(lifetime) => {
                let size = bytes(size as f64);
                format!("{} of {} flash last {}", size, market.cells, years(lifetime))
            }
            None => "the SSD does not wear".to_string(),
        };
        format!(
            "{} of DRAM, {} of the {} of data: p99 within {} at {}% load on {}, {}% of DRAM-only's \
             throughput, memory {} times cheaper, {lasts}",
            bytes(need.dram_bytes as f64),
            percent(need.dram_share),
            bytes((self.demand.dataset_pages * 4096) as f64),
            microseconds(options.slo_us),
            figure(options.load * 100.0),
            self.recommended,
            figure(need.throughput_kept * 100.0),
            figure(worth.saving),
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
            microseconds(demand.job_us),
            figure(demand.accesses_per_job),
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
            microseconds(knee.miss_interval_us),
            counted(self.options.cores, "core"),
            bytes(knee.flash_bytes_per_s),
        )?;
        curves(f, self)?;
        writeln!(
            f,
            "\nleast DRAM for a p99 of {} at {}% of DRAM-only's load, with {}; by the analytic queue, \
             the event model and the simulated design",
            microseconds(self.options.slo_us),
            figure(self.options.load * 100.0),
            self.machine,
        )?;
        write!(f, "{}", designs(&self.designs))?;
        if self.models_differ() {
            writeln!(f, "{MODELS_DIFFER}")?;
        }
        lifetimes(f, self)?;
        if !self.beside.claims.is_empty() {
            writeln!(f, "\nbeside what AstriFlash says of services\n{}", self.beside)?;
        }
        self.notices.iter().try_for_each(|notice| writeln!(f, "\nnote: {notice}"))
    }
}

/// The reason why the two models need different sizes of DRAM.
pub(super) const MODELS_DIFFER: &str = "the two differ because the queue lets each part of a job wait \
    once, on a core that takes the place of several slow ones; in the event model a job waits for the \
    core again after every read. The larger answer counts";

impl Report {
    /// Whether the two models differ by more than a quarter on some design.
    pub(super) fn models_differ(&self) -> bool {
        self.designs.iter().filter_map(|design| design.need).any(|need| {
            let sizes = [need.analytic_dram_bytes as f64, need.simulated_dram_bytes as f64];
            sizes[0].max(sizes[1]) > 1.25 * sizes[0].min(sizes[1])
        })
    }
}

/// Shares of the data in the table of miss ratios.
const SHARES: [f64; 7] = [0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.3];

fn curves(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let demand = &report.demand;
    let size = |share: f64| (demand.dataset_pages as f64 * share) as u64;
    let header: Vec<String> = SHARES.map(percent).to_vec();
    let header = ["miss ratio with DRAM of"].into_iter().chain(header.iter().map(String::as_str));
    let table = demand.curves.iter().fold(Table::new("", header), |table, curve| {
        let ratios = SHARES.map(|share| percent(curve.curve.miss_ratio(size(share))));
        table.row([curve.policy.to_string()].into_iter().chain(ratios))
    });
    let every_us = |share| demand.access_us() / demand.lru().miss_ratio(size(share));
    let every_us = SHARES.map(|share| Some(every_us(share)).filter(|us| us.is_finite()));
    write!(f, "\n{}", table.cells(["lru: us between misses"], every_us))?;
    writeln!(f, "{}", sampling(&demand.sampling))
}

/// The sample of the curves, and its error.
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

/// The result of each design, in fewer columns than on the page.
fn designs(designs: &[SizedDesign]) -> Table {
    let header = [
        "design",
        "analytic",
        "event",
        "design itself",
        "% of data",
        "p99 us",
        "kept",
        "us/miss",
        "saving",
        "perf/$",
    ];
    designs.iter().fold(Table::new("", header), |table, design| {
        let name = design.anatomy.design.as_str();
        let (Some(need), Some(worth)) = (&design.need, &design.worth) else {
            return table.cells([name, "not met", "not met", "not met"], [None; 6]);
        };
        let mib = [need.analytic_dram_bytes, need.simulated_dram_bytes];
        let [analytic, simulated] = mib.map(|size| bytes(size as f64));
        let itself = need.tried.map_or("-".to_string(), |tried| bytes(tried.dram_bytes as f64));
        table.cells(
            [name, &analytic, &simulated, &itself],
            [
                Some(need.dram_share * 100.0),
                Some(need.p99_us()),
                Some(need.throughput_kept),
                need.miss_interval_us,
                Some(worth.saving),
                Some(worth.effectiveness),
            ],
        )
    })
}

fn lifetimes(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let chosen = report.designs.iter().find(|design| design.anatomy.design == report.recommended);
    let Some(worth) = chosen.and_then(|design| design.worth.as_ref()) else { return Ok(()) };
    let CostAndLifetime { dollars, dollars_dram_only, lifetimes, .. } = worth;
    writeln!(
        f,
        "\n{}: ${} instead of ${}; {}/s from flash and {}/s to it on {}",
        report.recommended,
        figure(*dollars),
        figure(*dollars_dram_only),
        bytes(worth.flash_read_bytes_per_s),
        bytes(worth.flash_write_bytes_per_s),
        counted(report.options.cores, "core"),
    )?;
    let lasts = |lifetime: Option<f64>| lifetime.map_or("no wear".to_string(), years);
    let last = |lifetime: &CellLifetime| {
        let CellLifetime { cells, years } = lifetime;
        format!("{cells} {}", lasts(*years))
    };
    let all: Vec<String> = lifetimes.iter().map(last).collect();
    writeln!(f, "until the SSD is worn out, in continuous use: {}", all.join(", "))?;
    match (report.options.min_lifetime_years, chosen.and_then(|design| design.need)) {
        (Some(years), Some(need)) => writeln!(
            f,
            "to last {} years, {} flash needs {} of DRAM before it",
            figure(years),
            report.options.market.cells,
            bytes(need.lasting_dram_bytes as f64),
        ),
        _ => Ok(()),
    }
}
