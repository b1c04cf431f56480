//! [`run_all`]: many runs of the simulator, with their common work done once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ebbtide_core::{Stopped, Watch};
use ebbtide_sim::{Outcome, Plan, Shared, SimError};
use thiserror::Error;

use crate::side_by_side::side_by_side_by_cost;

/// The error of a run without an outcome.
#[derive(Debug, Error)]
pub enum RunError {
    /// The run failed.
    #[error("{design} under {workload}: {error}")]
    Failed {
        /// The design.
        design: String,
        /// The program.
        workload: &'static str,
        /// The error.
        error: Box<SimError>,
    },
    /// The user stopped the run.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl RunError {
    /// Returns the error of a run of `workload` on `design`. A stop stays a stop.
    pub fn new(design: &str, workload: &'static str, error: SimError) -> RunError {
        match error {
            SimError::Stopped(stopped) => stopped.into(),
            error => {
                RunError::Failed { design: design.to_string(), workload, error: Box::new(error) }
            }
        }
    }

    /// Returns the error of a run of `plan`.
    pub fn of(plan: &Plan, error: SimError) -> RunError {
        RunError::new(&plan.config.design, plan.workload.name(), error)
    }
}

/// Runs `plans` on up to `threads` host threads and returns the outcomes in the order of `plans`.
/// Equal plans run once. Plans over the same jobs share work, such as an equal warm-up.
///
/// # Errors
/// The error of the first failed plan, or [`RunError::Stopped`] if `watch` requests a stop.
pub fn run_all(plans: &[Plan], threads: usize, watch: Watch<'_>) -> Result<Vec<Outcome>, RunError> {
    let groups = groups(plans);
    let counts: Vec<f64> = groups.iter().map(|group| group.len() as f64).collect();
    let outcomes = side_by_side_by_cost(&counts, threads, watch, |number, watch| {
        run_group(&groups[number], plans, watch)
    })?;
    let outcomes: BTreeMap<usize, Outcome> = outcomes.into_iter().flatten().collect();
    Ok(plans.iter().map(|plan| outcomes[&first(plans, plan)].clone()).collect())
}

/// The number of the first of `plans` that equals `plan`.
fn first(plans: &[Plan], plan: &Plan) -> usize {
    plans.iter().position(|other| other == plan).unwrap_or(0)
}

/// Groups `plans` for [`run_all`], by their numbers. A group has plans over the same jobs. Plans
/// with the same warm-up are next to each other. The largest group begins first: if it began last,
/// other host cores would wait for it.
fn groups(plans: &[Plan]) -> Vec<Vec<usize>> {
    let numbers = (0..plans.len()).filter(|n| first(plans, &plans[*n]) == *n).collect();
    let groups = together(numbers, |a, b| same_jobs(&plans[*a], &plans[*b]));
    let by_warm_up =
        |group| together(group, |a, b| Shared::same_warm_up(&plans[*a], &plans[*b])).concat();
    let mut groups: Vec<Vec<usize>> = groups.into_iter().map(by_warm_up).collect();
    groups.sort_by_key(|group| Reverse(group.len()));
    groups
}

/// Runs the plans of `group`, one after the other.
fn run_group(
    group: &[usize],
    plans: &[Plan],
    watch: Watch<'_>,
) -> Result<Vec<(usize, Outcome)>, RunError> {
    let mut shared = Shared::default();
    let share = |done: usize| done as f64 / group.len() as f64;
    let run = |(done, number): (usize, &usize)| {
        let plan = &plans[*number];
        let outcome = watch.within(share(done), share(done + 1), |watch| {
            shared.warmed(plan, watch).and_then(|mut run| run.measure(watch))
        });
        Ok::<_, RunError>((*number, outcome.map_err(|error| RunError::of(plan, error))?))
    };
    group.iter().enumerate().map(run).collect()
}

/// Divides the plans `numbers` of `plans` into chains, for one [`Shared`] each. A chain has plans
/// over the same jobs, those with the same warm-up next to each other. Long chains are cut so that
/// `threads` host threads have work. The longest begins first.
pub(crate) fn chains(plans: &[Plan], numbers: Vec<usize>, threads: usize) -> Vec<Vec<usize>> {
    let length_max = numbers.len().div_ceil(threads.max(1)).max(1);
    let groups = together(numbers, |a, b| same_jobs(&plans[*a], &plans[*b]));
    let mut chains = Vec::new();
    for group in groups {
        let group = together(group, |a, b| Shared::same_warm_up(&plans[*a], &plans[*b])).concat();
        chains.extend(group.chunks(length_max).map(<[usize]>::to_vec));
    }
    chains.sort_by_key(|chain| Reverse(chain.len()));
    chains
}

fn same_jobs(a: &Plan, b: &Plan) -> bool {
    let dataset = |plan: &Plan| (plan.config.dataset.clone(), plan.config.workload.theta);
    a.workload == b.workload && a.seed == b.seed && dataset(a) == dataset(b)
}

/// Groups `items` that are `alike`. Items and groups keep the given order.
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
    use ebbtide_sim::Offered;
    use ebbtide_sim::designs::resolve;
    use ebbtide_workloads::Kind;

    use super::*;

    #[test]
    fn chains_have_every_plan_once_with_equal_warm_ups_together_and_keep_threads_busy() {
        let plan = |seed: u64, size: &str, read_us: &str| {
            let set = [("dram_cache.size", size), ("flash.read_us", read_us)];
            let config = resolve("astriflash", &set).unwrap();
            let arrivals = Offered::Saturating;
            Plan { config, workload: Kind::HashTable, jobs: 1, seed, arrivals }
        };
        let mut plans = Vec::new();
        for read_us in ["20", "50", "80"] {
            for size in ["4GiB", "8GiB"] {
                plans.extend([1, 2].map(|seed| plan(seed, size, read_us)));
            }
        }
        for threads in [1, 2, 5, 100] {
            let chains = chains(&plans, (0..plans.len()).collect(), threads);
            let length_max = plans.len().div_ceil(threads);
            assert!(chains.iter().all(|chain| chain.len() <= length_max), "{chains:?}");
            let mut all = chains.concat();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..plans.len()));
            let same = |pair: &[usize]| Shared::same_warm_up(&plans[pair[0]], &plans[pair[1]]);
            for chain in &chains {
                assert!(chain.iter().all(|number| same_jobs(&plans[*number], &plans[chain[0]])));
                // There are two warm-ups, so a chain changes to the other one at most once.
                assert!(chain.windows(2).filter(|pair| !same(pair)).count() <= 1, "{chain:?}");
            }
        }
        assert!(chains(&plans, Vec::new(), 2).is_empty());
    }

    #[test]
    fn what_is_alike_comes_together_in_the_order_given() {
        let groups = together(vec![3, 10, 5, 12, 1], |a, b| a / 10 == b / 10);
        assert_eq!(groups, [vec![3, 5, 1], vec![10, 12]]);
    }
}
