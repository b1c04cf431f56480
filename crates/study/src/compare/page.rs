//! A comparison as a page: the result in words, throughput and tail by design, and every figure.

use ebbtide_core::counted;
use ebbtide_report::{BarChart, LineChart, Page, PageReport, Range, figure, microseconds};
use serde_json::Value;

use super::{BASELINE, ComparedDesign, Comparison};

/// The systems of designs, by the start of their names. Any other name is a design of the user's
/// own.
const FAMILIES: [(&str, &[&str]); 7] = [
    ("DRAM", &["dram-only"]),
    ("AstriFlash", &["astriflash"]),
    ("AstriFlash's baselines", &["os-swap", "flash-sync"]),
    ("FlatFlash and its baselines", &["flatflash", "unified-mmap", "traditional-stack"]),
    ("HAMS and its baselines", &["lhams", "thams", "hams-mmap", "nvdimm", "optane"]),
    ("CXL-flash", &["cxl-flash"]),
    ("SkyByte", &["skybyte"]),
];

/// The name of designs that are not shipped.
const OWN: &str = "from files";

/// Designs that the result names behind the fastest.
const NEXT: usize = 3;

/// Memory whose prices differ by less than this factor costs the same.
const SAME_PRICE: f64 = 1.25;

impl PageReport for Comparison {
    /// The result in words, charts of throughput, tail and flash traffic, a chart of cost if it
    /// differs, and the table.
    fn page(&self) -> Page {
        let mut page = Page::new(&format!("Every design under {}", self.work))
            .paragraph(&self.finding())
            .paragraph(&format!("{}.", self.heading()))
            .section("What decides")
            .bars(
                self.by_design("Throughput by design", "relative to DRAM-only", |row| {
                    row.ratio_to_dram
                })
                .reference(1.0, "DRAM-only"),
            )
            .bars(
                self.by_design("p99 by design", "99th percentile, microseconds", |row| row.p99_us)
                    .log_if_wide(),
            );
        if let Some(limits) = self.busy() {
            page = page.bars(limits).paragraph(
                "Cores that are busy all the time limit a design by what they execute, misses \
                 included; cores that are not wait for memory.",
            );
        }
        if self.prices_differ() {
            page = page.section("Against cost").lines(self.against_cost());
        }
        page = page
            .section("Flash traffic")
            .bars(self.traffic())
            .section("Figures")
            .table(self.table());
        let page = self.notes().iter().fold(page, |page, note| page.paragraph(&format!("{note}.")));
        let configs = self.designs.iter().map(|row| {
            let config = serde_json::to_string(&row.outcome["config"]).unwrap_or_default();
            format!("{}: {config}", row.design)
        });
        page.section("Configurations").preformatted(&configs.collect::<Vec<_>>().join("\n"))
    }

    /// One row a design.
    fn records(&self) -> serde_json::Result<Vec<Value>> {
        self.designs.iter().map(serde_json::to_value).collect()
    }

    fn printed_columns(&self) -> &'static [&'static str] {
        &[
            "design",
            "ratio_to_dram",
            "throughput_per_s",
            "p50_us",
            "p99_us",
            "flash_read_mb_per_s",
            "flash_write_mb_per_s",
            "lifetime.round_the_clock",
            "energy.total_uj",
            "price.dram_gib",
            "price.dollars",
            "saving",
            "effectiveness",
        ]
    }
}

impl Comparison {
    fn others(&self) -> impl Iterator<Item = &ComparedDesign> + Clone {
        self.designs.iter().filter(|row| row.design != BASELINE)
    }

    /// The designs whose memory is cheaper than DRAM-only's, the fastest first. All designs if none
    /// is cheaper.
    fn ranked(&self) -> (Vec<&ComparedDesign>, bool) {
        let is_cheaper = |row: &&ComparedDesign| row.saving >= SAME_PRICE;
        let any = self.others().any(|row| is_cheaper(&row));
        let mut ranked: Vec<_> = self.others().filter(|row| !any || is_cheaper(row)).collect();
        ranked.sort_by(|a, b| b.ratio_to_dram.total_cmp(&a.ratio_to_dram));
        (ranked, any)
    }

    /// The result in a few sentences: the fastest designs that are cheaper than DRAM-only, and
    /// those of the user.
    pub(super) fn finding(&self) -> String {
        let (ranked, are_cheaper) = self.ranked();
        let shortest = ranked.iter().min_by(|a, b| a.p99_us.total_cmp(&b.p99_us));
        let (Some(fastest), Some(shortest)) = (ranked.first(), shortest) else {
            return "Nothing was compared with DRAM-only.".to_string();
        };
        let tail = match shortest.design == fastest.design {
            true => format!("and has the shortest tail, {} at p99", microseconds(fastest.p99_us)),
            false => format!(
                "at a p99 of {}; {} has the shortest tail, {}",
                microseconds(fastest.p99_us),
                shortest.design,
                microseconds(shortest.p99_us)
            ),
        };
        let (all, count) = (self.others().count(), ranked.len());
        let is_cheaper = are_cheaper && count < all;
        let count = counted(count, "design");
        let of = match is_cheaper {
            true => format!("Of {count} with cheaper memory than DRAM-only"),
            false => format!("Of {count} beside DRAM-only"),
        };
        let mut finding = format!(
            "{of}, {} keeps most of its throughput, {}, {tail}. The memory of {} costs {} of \
             DRAM-only's.",
            fastest.design,
            figure(fastest.ratio_to_dram),
            fastest.design,
            figure(1.0 / fastest.saving),
        );
        let next: Vec<String> = ranked[1..]
            .iter()
            .take(NEXT)
            .map(|row| format!("{} with {}", row.design, figure(row.ratio_to_dram)))
            .collect();
        if !next.is_empty() {
            finding += &format!(" Next are {}.", next.join(", "));
        }
        for own in self.others().filter(|row| family(&row.design) == OWN) {
            let (ratio, p99) = (figure(own.ratio_to_dram), microseconds(own.p99_us));
            finding += &match ranked.iter().position(|row| row.design == own.design) {
                Some(place) => {
                    let place = place + 1;
                    format!(" {} is number {place} with {ratio} at a p99 of {p99}.", own.design)
                }
                None => format!(" {} is not cheaper and keeps {ratio}.", own.design),
            };
        }
        finding
    }

    /// True if the memory of designs differs in price. DRAM-only does not count.
    fn prices_differ(&self) -> bool {
        let prices = self.others().map(|row| row.price.dollars);
        let most = prices.clone().fold(0.0, f64::max);
        prices.clone().any(|price| price * SAME_PRICE < most)
    }

    /// A point for each design, in the colours of the bars.
    fn against_cost(&self) -> LineChart {
        let chart = LineChart::new("Throughput against cost", "dollars of memory", "of DRAM-only");
        let families = self.families();
        self.designs.iter().fold(chart.log_x(), |chart, row| {
            let own = families.iter().position(|name| *name == family(&row.design));
            let point = [(row.price.dollars, row.ratio_to_dram)];
            chart.series_of(own.unwrap_or_default(), &row.design, point)
        })
    }

    /// The families that are compared, in their order. It decides the colours of charts.
    fn families(&self) -> Vec<&'static str> {
        let names = FAMILIES.iter().map(|(name, _)| *name).chain([OWN]);
        let is_here = |name: &&str| self.designs.iter().any(|row| family(&row.design) == *name);
        names.filter(is_here).collect()
    }

    /// A bar for each design, grouped by family, the best of a family first.
    fn by_design(&self, title: &str, label: &str, of: fn(&ComparedDesign) -> f64) -> BarChart {
        self.grouped(BarChart::new(title, label), |row| Some(of(row)))
    }

    /// The share of time that cores execute, if the work is a program.
    fn busy(&self) -> Option<BarChart> {
        let share = |row: &ComparedDesign| row.outcome["busy_share"].as_f64();
        self.designs.iter().any(|row| share(row).is_some()).then(|| {
            self.grouped(BarChart::new("Busy cores by design", "share of the time"), share)
        })
    }

    fn grouped(&self, chart: BarChart, of: impl Fn(&ComparedDesign) -> Option<f64>) -> BarChart {
        self.families().into_iter().fold(chart.colour_by_group(), |chart, name| {
            let mut rows: Vec<&ComparedDesign> =
                self.designs.iter().filter(|row| family(&row.design) == name).collect();
            rows.sort_by(|a, b| b.ratio_to_dram.total_cmp(&a.ratio_to_dram));
            let bars: Vec<_> = rows
                .iter()
                .filter_map(|row| Some((row.design.clone(), Range::single(of(row)?))))
                .collect();
            // A family without a value keeps its place, so colours are the same in all charts.
            chart.group(name, bars)
        })
    }

    fn traffic(&self) -> BarChart {
        let chart = BarChart::new("Flash traffic", "MB a second");
        let writes = self.designs.iter().any(|row| row.flash_write_mb_per_s > 0.0);
        self.designs.iter().fold(chart, |chart, row| {
            let read = [("read", row.flash_read_mb_per_s)].into_iter();
            let bars = read.chain(writes.then_some(("written", row.flash_write_mb_per_s)));
            chart.group(&row.design, bars.map(|(name, value)| (name, Range::single(value))))
        })
    }
}

fn family(design: &str) -> &'static str {
    let is_of = |starts: &[&str]| starts.iter().any(|start| design.starts_with(start));
    let found = FAMILIES.iter().find(|(_, starts)| is_of(starts));
    found.filter(|_| !design.ends_with(".toml")).map_or(OWN, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use ebbtide_sim::designs;

    use super::*;

    #[test]
    fn every_shipped_design_has_a_family() {
        for design in designs::ALL {
            assert_ne!(family(design.name), OWN, "{}", design.name);
        }
        assert_eq!(family("astriflash-mine.toml"), OWN);
    }
}
