//! [`run_seeds`]: the same program under several seeds, on host threads, with confidence intervals.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ebbtide_sim::{Outcome, Plan, SimError, Simulation};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Watch;
use crate::statistics::Estimate;

/// Runs that differ in their seed alone.
#[derive(Debug, Serialize)]
pub struct Runs {
    /// What came out, in the order of seeds.
    pub runs: Vec<Outcome>,
    /// Every figure of a run, under the same keys, as an [`Estimate`].
    pub summary: Value,
}

/// Simulates `plan` with `count` seeds from its own on, as many at once as the host has cores. The
/// result does not depend on how many that are.
///
/// # Errors
/// [`SimError`] of the first seed that has one.
///
/// # Panics
/// When `count` is zero.
pub fn run_seeds(plan: &Plan, count: u64, watch: Watch<'_>) -> Result<Runs, SimError> {
    assert!(count > 0, "at least one seed");
    let board = Board { next: AtomicU64::new(0), shares: Mutex::new(vec![0.0; count as usize]) };
    let work = || {
        let mut found = Vec::new();
        while let Some(number) = board.take(count) {
            let plan = Plan { seed: plan.seed.wrapping_add(number), ..plan.clone() };
            let tell = |stage: &str, share: f64| {
                let all = board.tell(number, share);
                watch(&format!("seed {}: {stage}", plan.seed), all);
            };
            let outcome = Simulation::warmed(&plan, &tell).and_then(|mut sim| sim.measure(&tell));
            if outcome.is_err() {
                board.close(count);
            }
            found.push((number, outcome));
        }
        found
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(count as usize);
    let mut found: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    found.sort_by_key(|(number, _)| *number);
    let runs = found.into_iter().map(|(_, outcome)| outcome).collect::<Result<Vec<_>, _>>()?;
    let summary = summary(&runs);
    Ok(Runs { runs, summary })
}

/// Which run is next, and how far each is.
struct Board {
    next: AtomicU64,
    shares: Mutex<Vec<f64>>,
}

impl Board {
    fn take(&self, count: u64) -> Option<u64> {
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < count)
    }

    /// No run starts any more.
    fn close(&self, count: u64) {
        self.next.fetch_max(count, Ordering::Relaxed);
    }

    /// Run `number` has gone `share` of its way. Gives the share of all.
    fn tell(&self, number: u64, share: f64) -> f64 {
        let Ok(mut shares) = self.shares.lock() else { return share };
        shares[number as usize] = share;
        shares.iter().sum::<f64>() / shares.len() as f64
    }
}

/// What a run is given, or depends on the host.
const NO_FIGURES: [&str; 6] =
    ["config", "seed", "arrivals", "jobs", "wall_s", "accesses_per_wall_s"];

/// Every figure of `runs` as an [`Estimate`], under its own key.
fn summary(runs: &[Outcome]) -> Value {
    let values: Vec<Value> = runs
        .iter()
        .map(|outcome| {
            let mut value = serde_json::to_value(outcome).expect("an outcome is plain data");
            if let Value::Object(keys) = &mut value {
                keys.retain(|key, _| !NO_FIGURES.contains(&key.as_str()));
            }
            value
        })
        .collect();
    estimates(&values.iter().collect::<Vec<_>>()).unwrap_or(Value::Null)
}

/// The same object as each of `values` with estimates in the place of numbers, and nothing in the
/// place of all else.
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
