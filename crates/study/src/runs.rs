//! [`run_all`]: many runs of the simulator, which share what they have in common.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ebbtide_core::{Stopped, Watch};
use ebbtide_sim::{Outcome, Plan, Shared, SimError};
use thiserror::Error;

use crate::side_by_side::side_by_side;

/// Why a run has no outcome.
#[derive(Debug, Error)]
pub enum RunError {
    /// The run failed.
    #[error("{design} under {workload}: {error}")]
    Failed {
        /// The design it ran on.
        design: String,
        /// The program it ran.
        workload: &'static str,
        /// What failed.
        error: Box<SimError>,
    },
    /// The user stopped the run.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl RunError {
    /// The error of a run of `workload` on `design` that ended in `error`.
    pub fn new(design: &str, workload: &'static str, error: SimError) -> RunError {
        match error {
            SimError::Stopped(stopped) => stopped.into(),
            error => {
                RunError::Failed { design: design.to_string(), workload, error: Box::new(error) }
            }
        }
    }

    /// The error of a run of `plan` that ended in `error`.
    pub fn of(plan: &Plan, error: SimError) -> RunError {
        RunError::new(&plan.config.design, plan.workload.name(), error)
    }
}

/// The outcomes of `plans`, in their order, on up to `threads` host threads. Equal plans run once,
/// and plans over the same jobs share their warm-up.
///
/// # Errors
/// The error of the first plan that failed, or [`RunError::Stopped`] once `watch` says stop.
pub fn run_all(plans: &[Plan], threads: usize, watch: Watch<'_>) -> Result<Vec<Outcome>, RunError> {
    let first = |plan: &Plan| plans.iter().position(|other| other == plan).unwrap_or(0);
    let numbers: Vec<usize> = (0..plans.len()).filter(|n| first(&plans[*n]) == *n).collect();
    let mut groups = together(numbers, |a, b| same_jobs(&plans[*a], &plans[*b]));
    // The longest first: one that begins last would keep a host core waiting for it.
    groups.sort_by_key(|group| Reverse(group.len()));
    let outcomes = side_by_side(groups.len(), threads, watch, |number, watch| {
        run_group(plans, groups[number].clone(), watch)
    })?;
    let outcomes: BTreeMap<usize, Outcome> = outcomes.into_iter().flatten().collect();
    Ok(plans.iter().map(|plan| outcomes[&first(plan)].clone()).collect())
}

/// Runs the plans with these `numbers`, one after the other.
fn run_group(
    plans: &[Plan],
    numbers: Vec<usize>,
    watch: Watch<'_>,
) -> Result<Vec<(usize, Outcome)>, RunError> {
    let mut shared = Shared::default();
    let count = numbers.len() as f64;
    let ordered = together(numbers, |a, b| Shared::same_warm_up(&plans[*a], &plans[*b]));
    let run = |(done, number): (usize, usize)| {
        let plan = &plans[number];
        let part = |stage: &str, share: f64| watch.show(stage, (done as f64 + share) / count);
        let watch = watch.telling(&part);
        let outcome = shared.warmed(plan, watch).and_then(|mut run| run.measure(watch));
        Ok((number, outcome.map_err(|error| RunError::of(plan, error))?))
    };
    ordered.into_iter().flatten().enumerate().map(run).collect()
}

fn same_jobs(a: &Plan, b: &Plan) -> bool {
    let dataset = |plan: &Plan| (plan.config.dataset.clone(), plan.config.workload.theta);
    a.workload == b.workload && a.seed == b.seed && dataset(a) == dataset(b)
}

/// `items` in groups that are `alike`; items and groups keep the given order.
fn together<T>(items: Vec<T>, alike: impl Fn(&T, &T) -> bool) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|group| alike(&group[0], &item)) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alike_comes_together_in_the_order_given() {
        let groups = together(vec![3, 10, 5, 12, 1], |a, b| a / 10 == b / 10);
        assert_eq!(groups, [vec![3, 5, 1], vec![10, 12]]);
    }
}
