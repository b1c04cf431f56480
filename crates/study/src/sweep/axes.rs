//! [`Sweep`]: the axes of a sweep, as a TOML file lists them.

use std::fmt::Display;

use ebbtide_core::find_by_name;
use ebbtide_sim::config::Scale;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Plan, designs};
use ebbtide_workloads::Kind;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::SweepError;

/// A parameter and its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// An option of `ebbtide sim`, such as `design`, or a key of a configuration with its section,
    /// such as `dram_cache.size`.
    pub key: String,
    /// The values as given, at least one.
    pub values: Vec<String>,
}

impl Axis {
    /// Returns true if there is more than one value.
    pub fn varies(&self) -> bool {
        self.values.len() > 1
    }
}

/// Every combination of the values of some axes. The last axis varies fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    axes: Vec<Axis>,
}

/// The options of `ebbtide sim` that a file can have: name, name of a list, and default.
const KEYS: [(&str, &str, &str); 6] = [
    ("design", "designs", "astriflash"),
    ("workload", "workloads", "hash-table"),
    ("arrivals", "arrivals", "saturating"),
    ("scale", "scales", "1/1"),
    ("jobs", "jobs", "20000"),
    ("seed", SEEDS, "1"),
];

/// The key of a list of seeds, or of their number.
const SEEDS: &str = "seeds";

/// The table of a file for keys of a configuration.
const SET: &str = "set";

/// The most points of a sweep. A larger sweep is rejected as a mistake.
const POINTS_MAX: usize = 100_000;

/// The sweep that `ebbtide sweep` runs without a file.
const STANDARD: &str = include_str!("../../configs/sweep.toml");

impl Sweep {
    /// Returns the sweep that `ebbtide sweep` runs without a file: designs over miss intervals.
    pub fn standard() -> Sweep {
        Sweep::parse("configs/sweep.toml", STANDARD).expect("the shipped sweep is valid")
    }

    /// Parses `text`, the TOML contents of `file`. It has options of `ebbtide sim` and, under
    /// `[set]`, keys of a configuration. Each has a value or a list of values.
    ///
    /// # Errors
    /// [`SweepError::Malformed`] when `text` is not such a file or has more than 100,000 points.
    /// [`SweepError::UnknownKey`] for an unknown option. Keys under `[set]` are checked by
    /// [`Sweep::check`].
    pub fn parse(file: &str, text: &str) -> Result<Sweep, SweepError> {
        let malformed = |reason| SweepError::Malformed { file: file.to_string(), reason };
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            malformed(format!("line {line}: {}", error.message()))
        })?;
        let set = match table.remove(SET) {
            None => Table::new(),
            Some(Value::Table(set)) => set,
            Some(_) => {
                return Err(malformed(format!("{SET}: expected a table of keys and values")));
            }
        };
        let known: Vec<(&str, ())> =
            KEYS.iter().map(|(key, ..)| (*key, ())).chain([(SET, ())]).collect();
        let mut axes = Vec::new();
        for (key, plural, default) in KEYS {
            let values = match (table.remove(key), table.remove(plural)) {
                (Some(_), Some(_)) => {
                    return Err(malformed(format!("{key} and {plural}: expected one of them")));
                }
                (None, Some(Value::Integer(count))) if plural == SEEDS => {
                    seeds(count).map_err(malformed)?
                }
                (Some(value), None) | (None, Some(value)) => {
                    values(key, value).map_err(malformed)?
                }
                (None, None) => vec![default.to_string()],
            };
            axes.push(Axis { key: key.to_string(), values });
        }
        if let Some((key, _)) = table.into_iter().next() {
            let error = find_by_name("key", &key, &known).expect_err("it was not taken out");
            return Err(SweepError::UnknownKey { file: file.to_string(), error });
        }
        let seed = axes.pop().expect("there are keys");
        add_keys(&mut axes, "", set).map_err(malformed)?;
        axes.push(seed);
        let counts = axes.iter().map(|axis| axis.values.len());
        let points = counts.fold(1, |product: usize, count| product.saturating_mul(count));
        if points > POINTS_MAX {
            return Err(malformed(format!("{points} points: expected at most {POINTS_MAX}")));
        }
        Ok(Sweep { axes })
    }

    /// Returns the axes, the slowest first.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns the number of points: the combinations of all values.
    pub fn points(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// Returns the values of point `number` (from 0), one for each axis.
    pub fn values(&self, number: usize) -> Vec<&str> {
        let mut rest = number;
        let mut values: Vec<&str> = Vec::with_capacity(self.axes.len());
        for Axis { values: all, .. } in self.axes.iter().rev() {
            values.push(&all[rest % all.len()]);
            rest /= all.len();
        }
        values.reverse();
        values
    }

    /// Returns point `number` (from 0) as keys and values, one pair for each axis.
    pub fn point(&self, number: usize) -> Vec<(String, String)> {
        let values = self.axes.iter().zip(self.values(number));
        values.map(|(axis, value)| (axis.key.clone(), value.to_string())).collect()
    }

    /// Whether `key` is an option of `ebbtide sim`. All others are keys of a configuration.
    pub(super) fn is_option(key: &str) -> bool {
        KEYS.iter().any(|(option, ..)| *option == key)
    }

    /// A sweep over the `axes` of an earlier sweep.
    pub(super) fn over(axes: Vec<Axis>) -> Sweep {
        Sweep { axes }
    }

    /// The values that distinguish point `number` from other points.
    pub(super) fn label(&self, number: usize) -> String {
        let values = self.axes.iter().zip(self.values(number));
        let told = values.filter(|(axis, _)| axis.varies() || axis.key == "design");
        told.map(|(axis, value)| format!("{} {value}", axis.key)).collect::<Vec<_>>().join(", ")
    }

    /// Checks that the machine of every point can be built.
    ///
    /// # Errors
    /// [`SweepError::Point`] for the first machine that cannot be built.
    pub fn check(&self) -> Result<(), SweepError> {
        self.plans().map(drop)
    }

    /// Every point as a plan of the simulator. Checks that every machine can be built.
    ///
    /// # Errors
    /// [`SweepError::Point`] for the first machine that cannot be built.
    pub(super) fn plans(&self) -> Result<Vec<Plan>, SweepError> {
        let plan = |number| {
            let point = || self.label(number);
            self.plan(number).map_err(|reason| SweepError::Point { point: point(), reason })
        };
        (0..self.points()).map(plan).collect()
    }

    fn plan(&self, number: usize) -> Result<Plan, String> {
        let point: Vec<(&str, &str)> =
            self.axes.iter().map(|axis| axis.key.as_str()).zip(self.values(number)).collect();
        let of = |name: &str| {
            let found = point.iter().find(|(key, _)| *key == name);
            found.expect("every sweep has every key").1
        };
        let set: Vec<_> = point.iter().copied().filter(|(key, _)| !Sweep::is_option(key)).collect();
        let config = resolve(of("design"), &set).map_err(text)?;
        let config = of("scale").parse::<Scale>().map_err(text)?.of(config);
        config.check().map_err(text)?;
        designs::compose(&config).map_err(text)?;
        Ok(Plan {
            config,
            workload: of("workload").parse::<Kind>().map_err(text)?,
            jobs: whole("jobs", of("jobs"), 1)?,
            seed: whole("seed", of("seed"), 0)?,
            arrivals: of("arrivals").parse::<Offered>().map_err(text)?,
        })
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn whole(key: &str, value: &str, least: u64) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| *number >= least);
    number.ok_or_else(|| format!("{key} = {value}: expected a whole number from {least} on"))
}

/// Adds an axis for every key of `table`, a section of a configuration.
fn add_keys(axes: &mut Vec<Axis>, section: &str, table: Table) -> Result<(), String> {
    for (key, value) in table {
        let key = format!("{section}{key}");
        match value {
            Value::Table(inner) => add_keys(axes, &format!("{key}."), inner)?,
            value => {
                let values = values(&key, value)?;
                axes.push(Axis { key, values });
            }
        }
    }
    Ok(())
}

/// The values in `given`.
fn values(key: &str, given: Value) -> Result<Vec<String>, String> {
    let listed = match given {
        Value::Array(listed) => listed,
        value => vec![value],
    };
    let mut values = Vec::new();
    for value in listed {
        let value = match value {
            Value::String(text) => text,
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => value.to_string(),
            _ => return Err(format!("{key}: expected a value or a list of values")),
        };
        if values.contains(&value) {
            return Err(format!("{key}: {value} is listed twice"));
        }
        values.push(value);
    }
    if values.is_empty() {
        return Err(format!("{key}: expected at least one value"));
    }
    Ok(values)
}

/// The first `count` seeds.
fn seeds(count: i64) -> Result<Vec<String>, String> {
    match usize::try_from(count) {
        Ok(count) if (1..=POINTS_MAX).contains(&count) => {
            Ok((1..=count).map(|seed| seed.to_string()).collect())
        }
        _ => Err(format!("{SEEDS} = {count}: expected their number, 1 to {POINTS_MAX}, or a list")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sweep_of_skybyte_names_designs_programs_and_keys_that_exist() {
        let text = include_str!("../../configs/skybyte.toml");
        let sweep = Sweep::parse("configs/skybyte.toml", text).unwrap();
        assert_eq!(sweep.plans().unwrap().len(), 7 * 3);
    }

    fn refused(text: &str) -> String {
        let error = match Sweep::parse("file", text) {
            Err(error) => error,
            Ok(sweep) => sweep.plans().unwrap_err(),
        };
        assert!(error.is_input());
        let error = error.to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn a_number_of_seeds_is_that_many_seeds() {
        let seeds = |text: &str| {
            let sweep = Sweep::parse("a file", text).expect("a sweep");
            sweep.axes().last().expect("seeds").values.clone()
        };
        assert_eq!(seeds("seeds = 3"), ["1", "2", "3"]);
        assert_eq!(seeds("seeds = [3]"), ["3"]);
        assert_eq!(seeds("seed = 3"), ["3"]);
    }

    #[test]
    fn every_combination_is_a_point_and_the_last_axis_changes_fastest() {
        let text = "design = [\"astriflash\", \"os-swap\"]\nscale = \"1/64\"\nseeds = [1, 2]\n\
                    [set]\ndram_cache.mshr = [64, 128]\nworkload.theta = 0.5\n";
        let sweep = Sweep::parse("file", text).unwrap();
        assert_eq!(sweep.points(), 8);
        let plans = sweep.plans().unwrap();
        let points: Vec<_> = plans
            .iter()
            .map(|plan| (plan.config.design.as_str(), plan.config.dram_cache.mshr, plan.seed))
            .collect();
        let expected: Vec<_> = ["astriflash", "os-swap"]
            .into_iter()
            .flat_map(|design| [64, 128].map(|mshr| [1, 2].map(|seed| (design, mshr, seed))))
            .flatten()
            .collect();
        assert_eq!(points, expected);
        assert!(plans.iter().all(|plan| plan.config.workload.theta == 0.5));
        assert!(plans.iter().all(|plan| plan.config.dataset.size.0 == 4 << 30));
    }

    #[test]
    fn what_cannot_be_swept_is_one_line_that_says_why() {
        for (text, expected) in [
            ("desing = \"astriflash\"", "did you mean 'design'?"),
            ("design = \"astroflash\"", "did you mean 'astriflash'?"),
            ("workload = [\"hash-table\", \"hash\"]", "workload hash: unknown"),
            ("design = []", "design: expected at least one value"),
            ("seed = [1, 1]", "seed: 1 is listed twice"),
            ("seed = -1", "seed = -1: expected a whole number from 0 on"),
            ("seed = 1\nseeds = [2]", "seed and seeds: expected one of them"),
            ("seeds = 0", "seeds = 0: expected their number, 1 to"),
            ("seeds = -3", "seeds = -3: expected their number"),
            ("jobs = [1, 0]", "jobs = 0: expected a whole number from 1 on"),
            ("scale = \"2\"", "'2' is not a fraction up to 1"),
            ("arrivals = \"poisson\"", "'poisson' is not a load"),
            ("design = 1 2", "file: line 1:"),
            ("design = [[\"astriflash\"]]", "design: expected a value or a list of values"),
            ("set = 1", "set: expected a table"),
            ("[set]\ndram_cache.way = 1", "dram_cache.way"),
            ("[set]\ndram_cache.ways = [4, 0.5]", "dram_cache.ways 0.5: "),
            ("[set]\ndram_cache.ways = [4, 3]", "a power of two of 4 KiB pages"),
        ] {
            let error = refused(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        let many: Vec<String> = (1..=1_000).map(|n| n.to_string()).collect();
        let error = refused(&format!("seed = [{0}]\njobs = [{0}]", many.join(", ")));
        assert!(error.contains("at most 100000"), "{error}");
    }

    #[test]
    fn the_shipped_sweep_can_be_run() {
        assert!(Sweep::standard().plans().unwrap().len() > 4);
    }
}
