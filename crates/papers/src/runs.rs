//! Runs of the simulator side by side, under a paper's options.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ebbtide_core::Watch;
use ebbtide_sim::{Outcome, Plan, Shared, SimError};

use super::{ReproduceError, ReproduceOptions};
use ebbtide_study::side_by_side::side_by_side;

/// The outcome of each of `plans`, in their order. Equal plans are run once, and plans over the same
/// jobs share what they have in common.
///
/// # Errors
/// The first plan's that failed; or that `watch` stopped it.
pub(super) fn run_all(
    plans: &[Plan],
    options: &ReproduceOptions,
    watch: Watch<'_>,
) -> Result<Vec<Outcome>, ReproduceError> {
    let first = |plan: &Plan| plans.iter().position(|other| other == plan).unwrap_or(0);
    let numbers: Vec<usize> = (0..plans.len()).filter(|n| first(&plans[*n]) == *n).collect();
    let mut groups = together(numbers, |a, b| same_jobs(&plans[*a], &plans[*b]));
    // The longest first: one that begins last would keep a host core waiting for it.
    groups.sort_by_key(|group| Reverse(group.len()));
    let outcomes = run_each(groups.len(), options, watch, |number, watch| {
        run_group(plans, groups[number].clone(), watch)
    })?;
    let outcomes: BTreeMap<usize, Outcome> = outcomes.into_iter().flatten().collect();
    Ok(plans.iter().map(|plan| outcomes[&first(plan)].clone()).collect())
}

/// Runs those of `plans` that `numbers` are of, one after the other.
fn run_group(
    plans: &[Plan],
    numbers: Vec<usize>,
    watch: Watch<'_>,
) -> Result<Vec<(usize, Outcome)>, ReproduceError> {
    let mut shared = Shared::default();
    let count = numbers.len() as f64;
    let ordered = together(numbers, |a, b| Shared::same_warm_up(&plans[*a], &plans[*b]));
    let run = |(done, number): (usize, usize)| {
        let plan = &plans[number];
        let part = |stage: &str, share: f64| watch.show(stage, (done as f64 + share) / count);
        let watch = watch.telling(&part);
        let outcome = shared.warmed(plan, watch).and_then(|mut run| run.measure(watch));
        Ok((number, outcome.map_err(|error| failed(plan, error))?))
    };
    ordered.into_iter().flatten().enumerate().map(run).collect()
}

/// What `run` gives for every number below `count`, in that order, run side by side. `progress` is
/// told the share that is done.
///
/// # Errors
/// That of the lowest number that failed; or that `watch` stopped it.
pub(super) fn run_each<T: Send>(
    count: usize,
    options: &ReproduceOptions,
    watch: Watch<'_>,
    run: impl Fn(usize, Watch<'_>) -> Result<T, ReproduceError> + Sync,
) -> Result<Vec<T>, ReproduceError> {
    side_by_side(count, options.threads, watch, run)
}

/// That a run of `plan` ended in `error`.
pub(super) fn failed(plan: &Plan, error: SimError) -> ReproduceError {
    failed_on(&plan.config.design, plan.workload.name(), error)
}

/// That a run of `workload` on `design` ended in `error`.
pub(super) fn failed_on(design: &str, workload: &'static str, error: SimError) -> ReproduceError {
    match error {
        SimError::Stopped(stopped) => stopped.into(),
        error => {
            ReproduceError::Run { design: design.to_string(), workload, error: Box::new(error) }
        }
    }
}

fn same_jobs(a: &Plan, b: &Plan) -> bool {
    let dataset = |plan: &Plan| (plan.config.dataset.clone(), plan.config.workload.theta);
    a.workload == b.workload && a.seed == b.seed && dataset(a) == dataset(b)
}

/// `items` in groups that are `alike`, each in the order given, and the groups too.
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
