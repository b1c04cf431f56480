//! The length that a run needs for its tail, and [`until_converged`], which runs longer what is too
//! short.

use std::iter;

use ebbtide_report::statistics::Estimate;
use ebbtide_sim::Outcome;

use crate::claims::CONVERGED;

/// A run shorter than this many times its p99 misses some of the longest jobs, as they do not end
/// in it.
pub const LONG_ENOUGH: f64 = 10.0;

/// The most jobs of a run, as a multiple of its first jobs. A power of two.
pub const LONGEST: u64 = 64;

/// Returns the length of a run as a multiple of its p99 of service.
pub fn lasts(outcome: &Outcome) -> f64 {
    outcome.simulated_ns as f64 / outcome.service_ns.p99.max(1) as f64
}

/// Returns the jobs of a run that would last [`LONG_ENOUGH`], as a multiple of its own. At most 1
/// if it does.
pub fn for_length(outcome: &Outcome) -> f64 {
    LONG_ENOUGH / lasts(outcome)
}

/// Returns the jobs of runs whose tail would have an interval within [`CONVERGED`], as a multiple
/// of their own. An interval is as wide as one over the root of the number of jobs. At most 1 if it
/// is within, or if there is no interval.
pub fn for_interval(tail: &Estimate) -> f64 {
    let half = tail.half_width().unwrap_or(0.0);
    (half / (CONVERGED * tail.mean.abs()).max(f64::MIN_POSITIVE)).powi(2)
}

/// Runs each number below `count` by `run`, and again with more jobs until `wanted` asks for no
/// more. Returns the last result of each.
///
/// `run` receives numbers, each with a multiple of its first jobs. It returns a result for each of
/// them. The multiples are powers of two up to [`LONGEST`]. `wanted` receives all results, and
/// returns for each the jobs that it needs as a multiple of those that it had.
///
/// # Errors
/// The error of `run`.
pub fn until_converged<T, E>(
    count: usize,
    mut run: impl FnMut(&[(usize, u64)]) -> Result<Vec<T>, E>,
    wanted: impl Fn(&[T]) -> Vec<f64>,
) -> Result<Vec<T>, E> {
    let mut lengths = vec![1; count];
    let mut results = run(&(0..count).zip(iter::repeat(1)).collect::<Vec<_>>())?;
    loop {
        let longer = lengths
            .iter()
            .zip(wanted(&results))
            .map(|(length, times)| if times > 1.0 { lengthened(*length, times) } else { *length });
        let again: Vec<(usize, u64)> =
            (0..).zip(longer).filter(|(number, longer)| *longer > lengths[*number]).collect();
        if again.is_empty() {
            return Ok(results);
        }
        for (&(number, length), result) in again.iter().zip(run(&again)?) {
            (lengths[number], results[number]) = (length, result);
        }
    }
}

/// `length` multiplied by `times` or a little more.
fn lengthened(length: u64, times: f64) -> u64 {
    let longer = (length as f64 * times.min(LONGEST as f64)).ceil() as u64;
    longer.next_power_of_two().min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths with which each of `needed` runs, if it asks for what it needs.
    fn lengths_of(needed: &[f64]) -> Vec<Vec<u64>> {
        let mut lengths = vec![Vec::new(); needed.len()];
        let run = |asked: &[(usize, u64)]| {
            asked.iter().for_each(|(number, length)| lengths[*number].push(*length));
            Ok::<_, ()>(asked.iter().map(|(_, length)| *length as f64).collect())
        };
        let wanted = |had: &[f64]| iter::zip(needed, had).map(|(need, had)| need / had).collect();
        let last = until_converged(needed.len(), run, wanted).expect("no run fails");
        let own: Vec<f64> = lengths.iter().map(|of| *of.last().unwrap() as f64).collect();
        assert_eq!(last, own, "the last result of each");
        lengths
    }

    #[test]
    fn a_run_that_is_too_short_runs_again_with_the_jobs_that_it_needs_and_others_do_not() {
        assert_eq!(
            lengths_of(&[0.5, 1.0, 1.01, 2.0, 3.6, f64::NAN]),
            [vec![1], vec![1], vec![1, 2], vec![1, 2], vec![1, 4], vec![1]]
        );
        assert_eq!(lengths_of(&[1e9, f64::INFINITY]), [vec![1, LONGEST], vec![1, LONGEST]]);
        assert!(lengths_of(&[]).is_empty());
    }

    #[test]
    fn a_run_that_needs_more_than_it_asked_for_runs_until_it_is_long_enough() {
        // The tail grows with the run, as that of jobs that wait for others does.
        let (mut rounds, needed) = (Vec::new(), |had: u64| 3.0 * (had as f64).sqrt() / had as f64);
        let run = |asked: &[(usize, u64)]| {
            rounds.push(asked.to_vec());
            Ok::<_, ()>(asked.iter().map(|(_, length)| *length).collect())
        };
        let last = until_converged(1, run, |had: &[u64]| vec![needed(had[0])]);
        assert_eq!(last, Ok(vec![16]));
        assert_eq!(rounds, [[(0, 1)], [(0, 4)], [(0, 8)], [(0, 16)]]);
    }

    #[test]
    fn an_interval_twice_as_wide_as_converged_wants_four_times_the_jobs() {
        let tail = |half: f64| Estimate { mean: 2.0, ci95: Some([2.0 - half, 2.0 + half]) };
        assert!((for_interval(&tail(0.4)) - 4.0).abs() < 1e-9);
        assert!(for_interval(&tail(0.19)) < 1.0 && tail(0.19).is_within(CONVERGED));
        assert_eq!(for_interval(&Estimate { mean: 2.0, ci95: None }), 0.0);
    }
}
