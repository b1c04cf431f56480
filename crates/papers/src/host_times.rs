//! A check of expected host times against recorded ones.

use std::time::Duration;

use ebbtide_core::time_left;
use ebbtide_sim::Plan;
use ebbtide_study::runs;
use ebbtide_workloads::Kind;

use crate::{ReproduceOptions, Selection};

/// A quick run of everything, as the recorded ones were.
pub(crate) fn recorded_options() -> ReproduceOptions {
    let selection = Selection::All;
    ReproduceOptions { selection, quick: true, real: false, seed: 1, threads: 1 }
}

/// The seconds that are expected of those of `plans` that run `workload`.
pub(crate) fn expected_s(plans: &[Plan], workload: Kind) -> f64 {
    let groups = runs::groups(plans).into_iter();
    let of_it = groups.filter(|group| plans[group.numbers()[0]].workload == workload);
    of_it.map(|group| group.cost()).sum()
}

/// Checks that the time left is right by half after every part of a run but the last, whichever runs
/// first, from a twentieth of the run on. Of each part it is given the host time that is expected and the one that was recorded, in
/// any unit.
pub(crate) fn assert_right_by_half(parts: &[(f64, f64)]) {
    let sum = |of: fn(&(f64, f64)) -> f64| parts.iter().map(of).sum::<f64>();
    let (whole, took) = (sum(|part| part.0), sum(|part| part.1));
    for first in 0..parts.len() {
        let (mut share, mut elapsed) = (0.0, 0.0);
        for number in (first..parts.len()).chain(0..first).take(parts.len() - 1) {
            share += parts[number].0 / whole;
            elapsed += parts[number].1;
            let left = time_left(Duration::from_secs_f64(elapsed), share, None);
            let ratio = left.expect("it is under way").as_secs_f64() / (took - elapsed);
            if elapsed < 0.05 * took {
                continue;
            }
            assert!((0.66..1.5).contains(&ratio), "{ratio} from {first} to {number} of {parts:?}");
        }
    }
}
