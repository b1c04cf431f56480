//! Runs of the simulator side by side, under a paper's options.

use std::ops::ControlFlow;

use ebbtide_sim::{Outcome, Plan, SimError, Simulation};

use super::{Cancel, Options, ReproduceError};
use crate::side_by_side::side_by_side;

/// The outcome of each of `plans`, in their order. `progress` is told the share that is done.
///
/// # Errors
/// The first plan's, in their order, that failed; or that `cancel` broke off.
pub(super) fn run_all(
    plans: &[Plan],
    options: &Options,
    cancel: &Cancel,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<Outcome>, ReproduceError> {
    let watch = |_: &str, share| {
        progress(share);
        if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    side_by_side(plans.len(), options.threads, &watch, |number, watch| {
        let plan = &plans[number];
        let outcome = Simulation::warmed(plan, watch).and_then(|mut run| run.measure(watch));
        outcome.map_err(|error| match error {
            SimError::Cancelled => ReproduceError::Cancelled,
            error => ReproduceError::Run {
                design: plan.config.design.clone(),
                workload: plan.workload.name(),
                error: Box::new(error),
            },
        })
    })
}
