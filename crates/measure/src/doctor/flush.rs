//! The time until a commit survives: page writes and a flush, as the engine does for a group of
//! commits.

use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde::Serialize;

use super::probe::Target;

/// Pages that are written before each flush.
const PAGES_A_FLUSH: usize = 16;

/// Flushes slower than this are counted as this slow.
const FLUSH_NS_MAX: u64 = 60_000_000_000;

/// Times of flushes of the data's device, each after writes of random pages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flushes {
    /// Pages of 4 KiB written before each flush.
    pub pages: usize,
    /// Mean time of the writes and the flush, in microseconds.
    pub mean_us: f64,
    /// Median of that time, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of that time, in microseconds.
    pub p99_us: f64,
}

/// Writes random pages of `target`, a test file, and flushes them. Repeats this for `duration`, at
/// least once.
pub(super) fn measure(target: &Target, duration: Duration) -> io::Result<Flushes> {
    let mut random = Pcg64::seed_from_u64(1);
    let mut took = Histogram::<u64>::new_with_max(FLUSH_NS_MAX, 3).map_err(io::Error::other)?;
    let start = Instant::now();
    while took.is_empty() || start.elapsed() < duration {
        let since = Instant::now();
        for _ in 0..PAGES_A_FLUSH {
            target.write_a_page(&mut random)?;
        }
        target.flush()?;
        took.saturating_record(since.elapsed().as_nanos() as u64);
    }
    let quantile_us = |q| took.value_at_quantile(q) as f64 / 1e3;
    Ok(Flushes {
        pages: PAGES_A_FLUSH,
        mean_us: took.mean() / 1e3,
        p50_us: quantile_us(0.5),
        p99_us: quantile_us(0.99),
    })
}

#[cfg(test)]
mod tests {
    use ebbtide_core::Watch;

    use super::*;

    #[test]
    fn flushes_are_measured_and_the_file_keeps_its_length() {
        let folder = tempfile::tempdir().expect("a folder");
        let target =
            Target::temporary(folder.path(), 1 << 20, Watch::unattended()).expect("a file");
        let flushes = measure(&target, Duration::from_millis(20)).expect("flushes");
        assert!(flushes.p50_us > 0.0 && flushes.p50_us <= flushes.p99_us, "{flushes:?}");
        assert_eq!(target.bytes(), 1 << 20);
    }
}
