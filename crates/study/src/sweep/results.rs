//! [`Swept`]: the outcome of every point, as rows with named columns.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::{Axis, Sweep};
use ebbtide_report::each_leaf;
use ebbtide_report::{Column, Columns, Page, Report, ReportError, parquet_bytes, write_whole};

/// The results of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Swept {
    /// The axes, the slowest first.
    pub axes: Vec<Axis>,
    /// The points in their order, the last axis fastest.
    pub points: Vec<SweepPoint>,
}

/// A run of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepPoint {
    /// The values of the point, one for each axis.
    pub values: Vec<String>,
    /// The outcome, with the keys of `ebbtide sim --json`.
    pub outcome: Value,
}

/// Keys that depend on the host. They are left out, so a sweep always has the same tables.
pub(super) const OF_THE_HOST: [&str; 2] = ["wall_s", "accesses_per_wall_s"];

impl Report for Swept {
    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    fn columns(&self) -> serde_json::Result<Vec<Column>> {
        Ok(self.all_columns())
    }

    fn pages(&self) -> Vec<Page> {
        vec![self.page(&self.all_columns())]
    }

    /// Writes the page, and every figure and parameter of every point as CSV and as Parquet.
    fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        let columns = self.all_columns();
        let mut written = self.page(&columns).write(folder)?;
        let name = "results.parquet";
        write_whole(folder, name, &parquet_bytes(&columns))?;
        written.push(folder.join(name));
        Ok(written)
    }
}

impl Swept {
    /// Returns the results of `sweep`, with the `outcomes` of its points in their order.
    ///
    /// # Panics
    /// When the numbers of outcomes and points differ.
    pub fn new(sweep: &Sweep, outcomes: Vec<Value>) -> Swept {
        assert_eq!(outcomes.len(), sweep.points(), "an outcome a point");
        let own = |values: Vec<&str>| values.into_iter().map(str::to_string).collect();
        let points = outcomes.into_iter().enumerate();
        let points = points
            .map(|(number, outcome)| SweepPoint { values: own(sweep.values(number)), outcome })
            .collect();
        Swept { axes: sweep.axes().to_vec(), points }
    }

    /// First the axes, then the outcomes, then the resolved parameters.
    pub(super) fn all_columns(&self) -> Vec<Column> {
        let mut columns = Columns::of_rows(self.points.len());
        for (row, point) in self.points.iter().enumerate() {
            for (axis, value) in self.axes.iter().zip(&point.values) {
                let number = serde_json::from_str(value).ok().filter(Value::is_number);
                columns.put(&axis.key, row, &number.unwrap_or_else(|| value.as_str().into()));
            }
        }
        let axes = columns.count();
        for (row, point) in self.points.iter().enumerate() {
            each_leaf(&point.outcome, "", &mut |name, value| {
                // The load is an axis, in any JSON form.
                let axis = name.starts_with("arrivals");
                if !axis && !OF_THE_HOST.contains(&name) && !columns.is_among(name, axes) {
                    columns.put(name, row, value);
                }
            });
        }
        let mut columns = columns.into_columns();
        columns[axes..].sort_by_key(|column| column.name.starts_with("config."));
        columns
    }
}

/// The figures of an outcome that do not depend on the host.
pub(super) fn of_the_model(outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    if let Value::Object(keys) = &mut outcome {
        keys.retain(|key, _| !OF_THE_HOST.contains(&key.as_str()));
    }
    outcome
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// Made-up results of two designs by two sizes by two seeds.
    pub(in crate::sweep) fn swept() -> Swept {
        let sweep = Sweep::parse(
            "file",
            "design = [\"astriflash\", \"os-swap\"]\nseeds = [1, 2]\n\
             [set]\ndram_cache.size = [\"4GiB\", \"8GiB\"]",
        );
        let outcomes = (0..8).map(|n: u64| {
            json!({
                "design": "x", "seed": n, "jobs": 20_000, "arrivals": "saturating",
                "wall_s": n, "ratio_to_dram": 0.5 + n as f64 / 100.0, "jobs_per_s": 1e6,
                "service_ns": { "p99": 10_000 * n }, "dram_cache": { "misses": 500 * n },
                "flash": { "writes": 100 * n },
                "lifetime_years": if n < 4 { Value::Null } else { json!({ "working_hours": 2.5 }) },
                "config": { "dram_cache": { "ways": 4 } },
            })
        });
        Swept::new(&sweep.unwrap(), outcomes.collect())
    }

    #[test]
    fn columns_are_axes_then_figures_then_parameters() {
        let columns = swept().all_columns();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "design",
                "workload",
                "arrivals",
                "scale",
                "jobs",
                "dram_cache.size",
                "seed",
                "dram_cache.misses",
                "flash.writes",
                "jobs_per_s",
                "lifetime_years",
                "ratio_to_dram",
                "service_ns.p99",
                "lifetime_years.working_hours",
                "config.dram_cache.ways",
            ]
        );
        let of = |name: &str| &columns.iter().find(|column| column.name == name).unwrap().values;
        assert_eq!(of("dram_cache.size")[2], Some("8GiB".into()));
        assert_eq!(of("seed")[..3], [Some(1.into()), Some(2.into()), Some(1.into())]);
        assert_eq!(of("lifetime_years.working_hours")[3..5], [None, Some(2.5.into())]);
    }
}
