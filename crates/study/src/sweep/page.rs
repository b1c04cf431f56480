//! Results as a page: a chart for each figure, over the numeric axis if there is one.

use std::collections::BTreeMap;

use ebbtide_core::{Bytes, counted};
use serde_json::Value;

use super::Axis;
use super::results::{SweepPoint, Swept};
use ebbtide_report::statistics::Estimate;
use ebbtide_report::{
    BarChart, Column, LineChart, Page, Range, Table, figure as number_of, suits_log_axis,
};

/// A figure of a run in tables and charts.
pub(super) struct Figure {
    /// Heading in a table.
    pub(super) heading: &'static str,
    /// Label on a chart, with the unit.
    label: &'static str,
    /// Whether its axis may be logarithmic.
    log: bool,
    pub(super) of: fn(&Value) -> f64,
}

/// The figures of a run on the page. The data files have all figures.
pub(super) const FIGURES: [Figure; 5] = [
    Figure {
        heading: "of DRAM",
        label: "throughput relative to DRAM-only",
        log: false,
        of: |outcome| number(outcome, "/ratio_to_dram"),
    },
    Figure {
        heading: "p50 us",
        label: "median of service, microseconds",
        log: true,
        of: |outcome| number(outcome, "/service_ns/p50") / 1e3,
    },
    Figure {
        heading: "p99 us",
        label: "99th percentile of service, microseconds",
        log: true,
        of: |outcome| number(outcome, "/service_ns/p99") / 1e3,
    },
    Figure {
        heading: "misses/job",
        label: "misses a job",
        log: false,
        of: |outcome| a_job(outcome, "/dram_cache/misses"),
    },
    Figure {
        heading: "writes/job",
        label: "pages written to flash a job",
        log: false,
        of: |outcome| a_job(outcome, "/flash/writes"),
    },
];

fn number(outcome: &Value, pointer: &str) -> f64 {
    outcome.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0)
}

fn a_job(outcome: &Value, pointer: &str) -> f64 {
    number(outcome, pointer) / number(outcome, "/jobs").max(1.0)
}

impl Swept {
    /// The means of points that differ only in the seed, with half the width of their 95%
    /// confidence intervals. `None` if no run was repeated with another seed.
    pub(super) fn means(&self) -> Option<Table> {
        self.axes.iter().find(|axis| axis.key == "seed" && axis.varies())?;
        let varying = |axis: &&Axis| axis.varies() && axis.key != "seed";
        let header = self.axes.iter().filter(varying).map(|axis| axis.key.as_str());
        let figures = FIGURES.iter().flat_map(|figure| [figure.heading, "+-"]);
        let table = Table::new("Means of the seeds", header.chain(figures));
        Some(self.groups(None).into_values().fold(table, |table, points| {
            let values = self.axes.iter().zip(&points[0].values);
            let values = values.filter(|(axis, _)| varying(axis)).map(|(_, value)| value);
            let figures = FIGURES.iter().flat_map(|figure| {
                let measured: Vec<f64> =
                    points.iter().map(|point| (figure.of)(&point.outcome)).collect();
                let estimate = Estimate::of(&measured);
                [Some(estimate.mean), estimate.half_width()]
            });
            table.cells(values, figures)
        }))
    }

    /// What varies and what was found, a sentence each.
    pub(super) fn findings(&self) -> Vec<String> {
        let varying: Vec<usize> = (0..self.axes.len())
            .filter(|axis| self.axes[*axis].varies() && self.axes[*axis].key != "seed")
            .collect();
        let told = varying.iter().map(|axis| {
            let Axis { key, values } = &self.axes[*axis];
            format!("{key} ({})", values.join(", "))
        });
        let told: Vec<String> = told.collect();
        let mut findings = match told.is_empty() {
            true => return Vec::new(),
            false => vec![format!("What varies: {}.", told.join("; "))],
        };
        let mean = |points: &[&SweepPoint]| {
            let all = points.iter().map(|point| (FIGURES[0].of)(&point.outcome));
            all.sum::<f64>() / points.len().max(1) as f64
        };
        // The values of an axis by the mean throughput of their points, the least first.
        let by_value = |axis: usize| {
            let values = self.axes[axis].values.iter().map(|value| {
                let here: Vec<_> =
                    self.points.iter().filter(|point| point.values[axis] == *value).collect();
                (mean(&here), value)
            });
            let mut values: Vec<_> = values.collect();
            values.sort_by(|a, b| a.0.total_cmp(&b.0));
            values
        };
        let spread = |values: &[(f64, &String)]| {
            values.last().map_or(0.0, |last| last.0) - values.first().map_or(0.0, |first| first.0)
        };
        let widest = varying.iter().map(|axis| (*axis, by_value(*axis)));
        let widest = widest.max_by(|a, b| spread(&a.1).total_cmp(&spread(&b.1)));
        if let Some((axis, values)) = widest
            && let (Some((least, worst)), Some((most, best))) = (values.first(), values.last())
            && varying.len() > 1
        {
            findings.push(format!(
                "Throughput relative to DRAM-only depends most on {}: on the average {} with {best} \
                 and {} with {worst}.",
                self.axes[axis].key,
                number_of(*most),
                number_of(*least),
            ));
        }
        let groups = self.groups(None);
        let mut points: Vec<_> = groups.values().map(|points| (mean(points), points[0])).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let (Some((least, worst)), Some((most, best))) = (points.first(), points.last()) {
            findings.push(format!(
                "The fastest combination, {}, has {} of DRAM-only's throughput; the slowest, {}, \
                 has {}.",
                self.name(best, None),
                number_of(*most),
                self.name(worst, None),
                number_of(*least),
            ));
        }
        findings
    }

    /// Charts of the figures, and a data file of all columns.
    pub(super) fn page(&self, columns: &[Column]) -> Page {
        let fixed = self.axes.iter().filter(|axis| !axis.varies());
        let fixed = fixed.map(|axis| format!("{} {}", axis.key, axis.values[0]));
        let runs = counted(self.points.len(), "run");
        let findings = self.findings();
        let page = findings.iter().fold(Page::new("A sweep"), |page, text| page.paragraph(text));
        let page = page.paragraph(&format!("{runs}. {}.", fixed.collect::<Vec<_>>().join(", ")));
        let over = (0..self.axes.len()).find_map(|axis| Some((axis, self.numbers(axis)?)));
        let page = FIGURES.iter().fold(page, |page, figure| match &over {
            Some((axis, numbers)) => page.lines(self.lines(figure, *axis, numbers)),
            None => page.bars(self.bars(figure)),
        });
        let page = match self.means() {
            Some(means) => page.section("Means of the seeds, with 95% intervals").table(means),
            None => page,
        };
        let header = columns.iter().map(|column| column.name.as_str());
        let mut rows: Vec<_> = columns.iter().map(Column::texts).collect();
        let rows = self.points.iter().map(|_| {
            rows.iter_mut().map(|column| column.next().unwrap_or_default()).collect::<Vec<_>>()
        });
        page.data(rows.fold(Table::new("results", header), Table::row))
    }

    /// The values of an axis as numbers, with their unit. `None` unless the axis varies and all are
    /// numbers. Seeds do not count as numbers.
    fn numbers(&self, axis: usize) -> Option<(Vec<f64>, &'static str)> {
        let axis = &self.axes[axis];
        let numbers = || axis.values.iter().map(|value| quantity(value));
        let unit = numbers().next()??.1;
        let numbers = numbers().map(|number| number.filter(|(_, its)| *its == unit));
        let numbers = numbers.map(|number| Some(number?.0)).collect::<Option<Vec<f64>>>()?;
        (axis.varies() && axis.key != "seed").then_some((numbers, unit))
    }

    /// Points by their values, except `axis` and seeds.
    fn groups(&self, axis: Option<usize>) -> BTreeMap<Vec<usize>, Vec<&SweepPoint>> {
        let mut groups: BTreeMap<Vec<usize>, Vec<&SweepPoint>> = BTreeMap::new();
        for point in &self.points {
            let places = self.axes.iter().zip(&point.values).enumerate();
            let places = places.filter(|(index, (its, _))| {
                its.varies() && its.key != "seed" && Some(*index) != axis
            });
            let place =
                places.map(|(_, (axis, value))| axis.values.iter().position(|v| v == value));
            groups.entry(place.map(Option::unwrap_or_default).collect()).or_default().push(point);
        }
        groups
    }

    /// The common values of the points of a group.
    fn name(&self, point: &SweepPoint, axis: Option<usize>) -> String {
        let values = self.axes.iter().zip(&point.values).enumerate();
        let values = values
            .filter(|(index, (its, _))| its.varies() && its.key != "seed" && Some(*index) != axis);
        let told = values.map(|(_, (axis, value))| match axis.key.as_str() {
            "design" | "workload" => value.clone(),
            key => format!("{key} {value}"),
        });
        told.collect::<Vec<_>>().join(", ")
    }

    /// `figure` over `axis`, as the mean over seeds.
    fn lines(
        &self,
        figure: &Figure,
        axis: usize,
        (numbers, unit): &(Vec<f64>, &'static str),
    ) -> LineChart {
        let Axis { key, values } = &self.axes[axis];
        let label = if unit.is_empty() { key.clone() } else { format!("{key}, {unit}") };
        let chart = LineChart::new(figure.heading, &label, figure.label);
        let chart = self.groups(Some(axis)).values().fold(chart, |chart, points| {
            let mut series: Vec<(f64, f64)> = values
                .iter()
                .zip(numbers)
                .filter_map(|(value, x)| {
                    let here = points.iter().filter(|point| point.values[axis] == *value);
                    let y: Vec<f64> = here.map(|point| (figure.of)(&point.outcome)).collect();
                    (!y.is_empty()).then(|| (*x, y.iter().sum::<f64>() / y.len() as f64))
                })
                .collect();
            series.sort_by(|a, b| a.0.total_cmp(&b.0));
            chart.series(&self.name(points[0], Some(axis)), series)
        });
        let is_log_x = is_geometric(numbers) || suits_log_axis(numbers.iter().copied());
        let chart = if is_log_x { chart.log_x() } else { chart };
        if figure.log { chart.log_y_if_wide() } else { chart }
    }

    /// `figure` as a bar for each group, with the range over the seeds.
    fn bars(&self, figure: &Figure) -> BarChart {
        let bars = self.groups(None).into_values().map(|points| {
            let mut y: Vec<f64> = points.iter().map(|point| (figure.of)(&point.outcome)).collect();
            y.sort_by(f64::total_cmp);
            let range = Range { min: y[0], median: y[y.len() / 2], max: y[y.len() - 1] };
            (self.name(points[0], None), range)
        });
        let chart = BarChart::new(figure.heading, figure.label).group("", bars);
        if figure.log { chart.log_if_wide() } else { chart }
    }
}

/// Whether each of at least three numbers is the same multiple of the one before it. They are then
/// at equal distances on a logarithmic axis.
fn is_geometric(numbers: &[f64]) -> bool {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let factors: Vec<f64> = sorted.windows(2).map(|pair| pair[1] / pair[0]).collect();
    let is_same = |factor: &f64| (factor / factors[0] - 1.0).abs() < 0.01 && *factor > 1.0;
    factors.len() >= 2 && sorted[0] > 0.0 && factors.iter().all(is_same)
}

/// A number and its unit. The text is a plain number, a size, or a load as a share.
fn quantity(text: &str) -> Option<(f64, &'static str)> {
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some((number, ""));
    }
    if let Some(share) = text.strip_prefix("poisson:") {
        return Some((share.parse().ok()?, "share of DRAM-only's throughput"));
    }
    let Bytes(bytes) = text.parse().ok()?;
    Some((bytes as f64 / f64::from(1 << 30), "GiB"))
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::swept;
    use super::*;

    #[test]
    fn an_axis_of_numbers_is_what_charts_run_over() {
        let swept = swept();
        let axis = swept.axes.iter().position(|axis| axis.key == "dram_cache.size").unwrap();
        assert_eq!(swept.numbers(axis), Some((vec![4.0, 8.0], "GiB")));
        assert!((0..swept.axes.len()).all(|other| other == axis || swept.numbers(other).is_none()));
        let groups = swept.groups(Some(axis));
        assert_eq!(groups.values().map(Vec::len).collect::<Vec<_>>(), [4, 4]);
        assert_eq!(swept.name(groups[&vec![1]][0], Some(axis)), "os-swap");
        let html = swept.page(&swept.all_columns()).html().unwrap();
        // The mean of both seeds at the first size.
        assert!(html.contains("dram_cache.size, GiB") && html.contains("0.505"), "{html}");
    }

    #[test]
    fn a_sweep_begins_with_what_varies_and_what_was_found() {
        let swept = swept();
        let findings = swept.findings();
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings[0].contains("dram_cache.size (4GiB, 8GiB)"), "{findings:?}");
        assert!(!findings[0].contains("seed"), "{findings:?}");
        // 0.50 to 0.57 in the order of design, size and seed.
        assert!(findings[1].contains("depends most on design"), "{findings:?}");
        assert!(findings[2].contains("0.565") && findings[2].contains("0.505"), "{findings:?}");
        assert!(swept.to_string().starts_with(&findings[0]));
    }

    #[test]
    fn without_such_an_axis_charts_have_a_bar_a_combination() {
        let mut swept = swept();
        swept.axes.iter_mut().find(|axis| axis.key == "dram_cache.size").unwrap().values[0] =
            "all".to_string();
        swept.points.retain(|point| point.values[5] == "8GiB");
        let html = swept.page(&swept.all_columns()).html().unwrap();
        assert!(html.contains("astriflash, dram_cache.size 8GiB"), "{html}");
    }

    #[test]
    fn seeds_are_told_as_means_with_intervals() {
        let mut swept = swept();
        let text = swept.to_string();
        // A row for each pair: 0.50 and 0.51, 0.52 and 0.53, and so on. The interval of two is 12.7
        // / sqrt(2) of their deviation.
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("GiB ")).collect();
        assert_eq!(rows.len(), 4, "{text}");
        assert!(rows[0].contains("0.505") && rows[0].contains("0.0635"), "{text}");
        assert!(text.contains("means of 2 seeds"), "{text}");
        let seed = swept.axes.iter_mut().find(|axis| axis.key == "seed").unwrap();
        seed.values.truncate(1);
        swept.points.retain(|point| point.values[6] == "1");
        assert!(swept.means().is_none() && !swept.to_string().contains("means of"));
    }

    #[test]
    fn numbers_that_double_are_at_equal_distances() {
        assert!(is_geometric(&[1.0, 2.0, 4.0]) && is_geometric(&[100.0, 25.0, 50.0]));
        assert!(!is_geometric(&[1.0, 2.0]) && !is_geometric(&[1.0, 2.0, 3.0]));
        assert!(!is_geometric(&[0.0, 0.0, 0.0]) && !is_geometric(&[2.0, 2.0, 2.0]));
    }

    #[test]
    fn numbers_sizes_and_loads_are_quantities() {
        assert_eq!(quantity("0.5"), Some((0.5, "")));
        assert_eq!(quantity("512MiB"), Some((0.5, "GiB")));
        assert_eq!(quantity("poisson:0.5").map(|(share, _)| share), Some(0.5));
        assert_eq!(
            [quantity("saturating"), quantity("lru"), quantity("1/64"), quantity("nan")],
            [None; 4]
        );
    }
}
