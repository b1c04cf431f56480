//! Runs of the simulator side by side, in an order that does not depend on who ran them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ebbtide_sim::{Outcome, Plan, simulate};

use super::{Cancel, Options, ReproduceError};

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
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outcomes: Mutex<Vec<_>> = Mutex::new(plans.iter().map(|_| None).collect());
    let work = || {
        while !cancel.is_cancelled() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(plan) = plans.get(number) else { return };
            let outcome = simulate(plan);
            outcomes.lock().expect("no thread panics with it held")[number] = Some(outcome);
            progress((done.fetch_add(1, Ordering::Relaxed) + 1) as f64 / plans.len() as f64);
        }
    };
    std::thread::scope(|scope| {
        (1..options.threads.max(1)).for_each(|_| {
            scope.spawn(work);
        });
        work();
    });
    let outcomes = outcomes.into_inner().expect("no thread panicked with it held");
    let outcomes = plans.iter().zip(outcomes).map(|(plan, outcome)| match outcome {
        Some(Ok(outcome)) => Ok(outcome),
        Some(Err(error)) => Err(ReproduceError::Run {
            design: plan.config.design.clone(),
            workload: plan.workload.name(),
            error: Box::new(error),
        }),
        None => Err(ReproduceError::Cancelled),
    });
    outcomes.collect()
}
