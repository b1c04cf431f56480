//! Service times without priority for jobs whose page has arrived: AstriFlash-noPS (AstriFlash
//! §VI-B, Table II).
//!
//! The core looks at a halted job only when the running job misses. The halted job then waits
//! behind every other thread. So a miss takes one round of all threads, or the flash read if that
//! is longer.

/// Returns the time from one miss of a job to the next, in µs, without priority.
///
/// It is the job's own execution plus the longer of two times: the flash read, and one round of the
/// other `threads - 1` threads.
pub fn miss_us(execution_us: f64, flash_us: f64, threads: u32) -> f64 {
    execution_us + flash_us.max(f64::from(threads.saturating_sub(1)) * execution_us)
}

/// Returns the service time relative to Flash-Sync's. There the core waits for each flash read and
/// runs no other job.
pub fn slowdown(execution_us: f64, flash_us: f64, threads: u32) -> f64 {
    miss_us(execution_us, flash_us, threads) / (execution_us + flash_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_halted_job_waits_a_round_of_the_others() {
        assert_eq!(miss_us(15.0, 50.0, 32) - 15.0, 465.0);
        assert_eq!(format!("{:.1}", slowdown(15.0, 50.0, 32)), "7.4");
    }

    #[test]
    fn the_slowdowns_span_what_the_paper_measured() {
        let all = [32, 64].map(|threads| [10.0, 15.0, 20.0].map(|e| slowdown(e, 50.0, threads)));
        let all = all.as_flattened();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = all.iter().copied().fold(0.0, f64::max);
        assert_eq!((format!("{least:.1}"), format!("{most:.0}")), ("5.3".into(), "18".into()));
    }

    #[test]
    fn with_few_threads_flash_is_what_a_job_waits_for() {
        assert_eq!(slowdown(10.0, 50.0, 1), 1.0);
        assert_eq!(slowdown(10.0, 50.0, 6), 1.0);
    }
}
