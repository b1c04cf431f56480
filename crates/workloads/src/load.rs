//! Arrivals of jobs: endless iterators over the intended arrival times of job 0, 1, 2, ….
//!
//! There is no clock here. A driver starts a job at or after its arrival. It measures the response
//! time from the *intended* arrival, so that it includes the time in the queue.

use ebbtide_core::Time;
use rand::RngExt;

use crate::keys::job_rng;

/// Closed loop: a job is always waiting. All jobs arrive at the start of the run.
///
/// Throughput is measured this way ("the job queue is never empty", AstriFlash, HPCA'23, §V-A).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Closed;

impl Iterator for Closed {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        Some(Time::ZERO)
    }
}

/// Open loop: jobs arrive as a Poisson process, independent of their completion.
///
/// Response times are measured this way (AstriFlash, HPCA'23, §V-A, Fig. 10). Times are rounded to
/// picoseconds. All arrivals after 213 days are at the end of [`Time`].
#[derive(Debug, Clone)]
pub struct Poisson {
    mean_gap_ps: f64,
    seed: u64,
    job: u64,
    now: Time,
}

impl Poisson {
    /// Returns arrivals at `jobs_per_second` on average. The same seed gives the same times.
    ///
    /// # Panics
    /// If the rate is not positive and finite.
    pub fn new(jobs_per_second: f64, seed: u64) -> Poisson {
        assert!(
            jobs_per_second.is_finite() && jobs_per_second > 0.0,
            "{jobs_per_second} jobs per second"
        );
        Poisson { mean_gap_ps: 1e12 / jobs_per_second, seed, job: 0, now: Time::ZERO }
    }
}

impl Iterator for Poisson {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let uniform: f64 = job_rng(!self.seed, self.job).random();
        self.job += 1;
        let gap = (self.mean_gap_ps * -(1.0 - uniform).ln()).round() as u64;
        self.now = Time::from_ps(self.now.as_ps().saturating_add(gap));
        Some(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_exponential_with_the_given_rate() {
        let arrivals: Vec<Time> = Poisson::new(100_000.0, 4).take(100_001).collect();
        let mut gaps: Vec<u64> = arrivals.windows(2).map(|w| (w[1] - w[0]).as_ps()).collect();
        gaps.sort_unstable();
        let mean = gaps.iter().sum::<u64>() as f64 / 1e5;
        assert!((mean / 1e7 - 1.0).abs() < 0.01, "mean gap {mean} ps");
        // Quantile q of an exponential is -ln(1 - q) means.
        for (q, tolerance) in [(0.1f64, 0.03), (0.5, 0.02), (0.9, 0.02), (0.99, 0.04)] {
            let exact = -(1.0 - q).ln() * 1e7;
            let found = gaps[(q * 1e5) as usize] as f64;
            assert!((found / exact - 1.0).abs() < tolerance, "p{q}: {found} against {exact}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_times_and_another_gives_others() {
        let times = |seed| Poisson::new(5e4, seed).take(100).collect::<Vec<_>>();
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
        assert!(times(1).is_sorted());
    }

    #[test]
    fn a_closed_loop_always_has_a_job() {
        assert!(Closed.take(1000).all(|arrival| arrival == Time::ZERO));
    }
}
