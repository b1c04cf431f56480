//! A check of expected host times against recorded ones.

use std::time::Duration;

use ebbtide_core::time_left;

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
