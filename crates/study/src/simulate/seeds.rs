//! [`run_seeds`]: the same program under several seeds, on host threads, with confidence intervals.

use ebbtide_core::Watch;
use ebbtide_sim::{Plan, SimError};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Run, run};
use crate::energy::Meter;
use crate::side_by_side::{host_threads, side_by_side};
use ebbtide_report::statistics::Estimate;

/// Runs that differ only in their seed.
#[derive(Debug, Serialize)]
pub struct Runs {
    /// The runs, in the order of seeds.
    pub runs: Vec<Run>,
    /// Every figure of a run as an [`Estimate`] over the seeds, under the keys of a run. Inputs and
    /// figures of the host are left out.
    pub summary: Value,
}

/// Simulates `plan` with `count` consecutive seeds, starting with its own, on all host cores. With
/// a `meter`, adds the energy. The number of host cores does not change the result.
///
/// # Errors
/// [`SimError`] of the first seed that fails.
///
/// # Panics
/// When `count` is zero.
pub fn run_seeds(
    plan: &Plan,
    count: u64,
    meter: Option<&Meter>,
    watch: Watch<'_>,
) -> Result<Runs, SimError> {
    assert!(count > 0, "at least one seed");
    let runs = side_by_side(count as usize, host_threads(), watch, |number, watch| {
        let plan = Plan { seed: plan.seed.wrapping_add(number as u64), ..plan.clone() };
        let show =
            |stage: &str, share: f64| watch.show(&format!("seed {}: {stage}", plan.seed), share);
        run(&plan, false, meter, watch.telling(&show))
    })?;
    let summary = summary(&runs);
    Ok(Runs { runs, summary })
}

/// Keys that are inputs of a run or depend on the host. They are not figures.
const NO_FIGURES: [&str; 7] =
    ["config", "seed", "arrivals", "jobs", "wall_s", "accesses_per_wall_s", "warnings"];

/// Every figure of `runs` as an [`Estimate`], under its own key.
fn summary(runs: &[Run]) -> Value {
    let values: Vec<Value> = runs
        .iter()
        .map(|run| {
            let mut value = serde_json::to_value(run).expect("an outcome is plain data");
            if let Value::Object(keys) = &mut value {
                keys.retain(|key, _| !NO_FIGURES.contains(&key.as_str()));
            }
            value
        })
        .collect();
    estimates(&values.iter().collect::<Vec<_>>()).unwrap_or(Value::Null)
}

/// One object with the common keys of `values`, with estimates for numbers. Everything else is left
/// out.
fn estimates(values: &[&Value]) -> Option<Value> {
    match values.first()? {
        Value::Object(first) => {
            let keys = first.keys().filter_map(|key| {
                let inner: Vec<&Value> = values.iter().filter_map(|value| value.get(key)).collect();
                Some((key.clone(), estimates(&inner)?))
            });
            Some(Value::Object(keys.collect::<Map<_, _>>()))
        }
        Value::Number(_) => {
            let numbers: Vec<f64> = values.iter().filter_map(|value| value.as_f64()).collect();
            serde_json::to_value(Estimate::of(&numbers)).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_become_estimates_and_names_go() {
        let runs = [1.0, 3.0].map(|x| json!({"name": "a", "x": x, "in": {"y": 2 * x as u64}}));
        let summary = estimates(&runs.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(summary["x"]["mean"], 2.0);
        assert_eq!(summary["in"]["y"]["mean"], 4.0);
        assert!(summary.get("name").is_none());
        // One degree of freedom: 12.7 standard errors of 1.
        let high = summary["x"]["ci95"][1].as_f64().unwrap();
        assert!((high - 14.7062).abs() < 1e-4, "{high}");
    }
}
