//! [`run_all`]: many runs of the simulator, which share what they have in common.

use std::collections::BTreeMap;
use std::time::Duration;

use ebbtide_core::{Stopped, Watch};
use ebbtide_sim::{Outcome, Plan, Shared, SimError};
use thiserror::Error;

use crate::side_by_side::side_by_side_by_cost;

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
    let groups = groups(plans);
    let costs: Vec<f64> = groups.iter().map(Group::cost).collect();
    let outcomes = side_by_side_by_cost(&costs, threads, watch, |number, watch| {
        groups[number].run(plans, watch)
    })?;
    let outcomes: BTreeMap<usize, Outcome> = outcomes.into_iter().flatten().collect();
    Ok(plans.iter().map(|plan| outcomes[&first(plans, plan)].clone()).collect())
}

/// The host time of [`run_all`] on one thread, about.
pub fn host_time(plans: &[Plan]) -> Duration {
    Duration::from_secs_f64(groups(plans).iter().map(Group::cost).sum())
}

/// The number of the first of `plans` that equals `plan`.
fn first(plans: &[Plan], plan: &Plan) -> usize {
    plans.iter().position(|other| other == plan).unwrap_or(0)
}

/// The groups in which [`run_all`] runs `plans`, the longest first: one that begins last would keep
/// a host core waiting for it.
pub fn groups(plans: &[Plan]) -> Vec<Group> {
    let numbers = (0..plans.len()).filter(|n| first(plans, &plans[*n]) == *n).collect();
    let groups = together(numbers, |a, b| same_jobs(&plans[*a], &plans[*b]));
    let mut groups: Vec<Group> = groups.into_iter().map(|group| Group::new(plans, group)).collect();
    groups.sort_by(|a, b| b.cost().total_cmp(&a.cost()));
    groups
}

/// Plans over the same jobs, those with the same warm-up next to one another: their numbers, and
/// the seconds that each takes on the host, about.
pub struct Group(Vec<(usize, f64)>);

impl Group {
    fn new(plans: &[Plan], numbers: Vec<usize>) -> Group {
        let ordered =
            together(numbers, |a, b| Shared::same_warm_up(&plans[*a], &plans[*b])).concat();
        let times = Shared::host_times(&ordered.iter().map(|n| &plans[*n]).collect::<Vec<_>>());
        Group(ordered.into_iter().zip(times.iter().map(Duration::as_secs_f64)).collect())
    }

    /// The numbers of the plans, in the order in which they run.
    pub fn numbers(&self) -> Vec<usize> {
        self.0.iter().map(|(number, _)| *number).collect()
    }

    /// The seconds that they take on the host, about.
    pub fn cost(&self) -> f64 {
        self.0.iter().map(|(_, cost)| cost).sum()
    }

    /// Runs the plans, one after the other.
    fn run(&self, plans: &[Plan], watch: Watch<'_>) -> Result<Vec<(usize, Outcome)>, RunError> {
        let mut shared = Shared::default();
        let (mut outcomes, mut done) = (Vec::new(), 0.0);
        for (number, cost) in &self.0 {
            let plan = &plans[*number];
            let (from, to) = (done / self.cost(), (done + cost) / self.cost());
            let outcome = watch.within(from, to, |watch| {
                shared.warmed(plan, watch).and_then(|mut run| run.measure(watch))
            });
            outcomes.push((*number, outcome.map_err(|error| RunError::of(plan, error))?));
            done += cost;
        }
        Ok(outcomes)
    }
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
