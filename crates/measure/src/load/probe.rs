//! A probe: single reads of the disk during a load. They show the disk's own latency under the
//! server's reads, writes and flushes.

use std::path::Path;
use std::time::{Duration, Instant};

use ebbtide_core::Stop;
use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::options::LoadError;
use super::report::{ProbeReport, ResponseTimes, histogram};
use crate::doctor::probe::Target;

/// Time between the starts of two reads. Such a probe takes little of the disk and the CPU.
const EVERY: Duration = Duration::from_millis(1);

/// Runs `body` while a thread reads random pages of `file`. Returns the results of both.
///
/// # Errors
/// When the file cannot be read, or `body` fails.
pub(super) fn beside<T>(
    file: &Path,
    body: impl FnOnce() -> Result<T, LoadError>,
) -> Result<(T, ProbeReport), LoadError> {
    let failed = |reason: String| LoadError::Probe { path: file.to_path_buf(), reason };
    let target = Target::open(file).map_err(|error| failed(error.to_string()))?;
    let stop = Stop::new();
    let (done, read) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_until(&target, &stop));
        let done = body();
        stop.stop();
        (done, reader.join().expect("reading does not panic"))
    });
    let times = read.map_err(|error| failed(error.to_string()))?;
    let cached = target.direct().err().map(str::to_string);
    let report = ProbeReport { reads: times.len(), response: ResponseTimes::of(&times), cached };
    Ok((done?, report))
}

fn read_until(target: &Target, stop: &Stop) -> std::io::Result<Histogram<u64>> {
    let mut random = Pcg64::seed_from_u64(1);
    let mut times = histogram();
    while !stop.is_stopped() {
        let since = Instant::now();
        target.read_a_page(&mut random)?;
        let took = since.elapsed();
        record(&mut times, took);
        std::thread::sleep(EVERY.saturating_sub(took));
    }
    Ok(times)
}

/// Records a read, and the reads that were due during it. A due read counts with the time it would
/// have waited for the end of this one. Otherwise a disk that stops for 20 ms would count as one
/// slow read. The load counts every command that arrived in that time.
fn record(times: &mut Histogram<u64>, took: Duration) {
    let longest = times.high();
    let took = (took.as_nanos() as u64).min(longest);
    times.record_correct(took, EVERY.as_nanos() as u64).expect("it is within the bounds");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_were_due_while_a_probe_waited_count_as_well() {
        let mut times = histogram();
        (0..90).for_each(|_| record(&mut times, Duration::from_micros(100)));
        record(&mut times, Duration::from_millis(10));
        assert_eq!(times.len(), 100, "one read of 10 ms, and those due after 1 to 9 ms");
        let response = ResponseTimes::of(&times);
        assert!((4_950.0..5_050.0).contains(&(times.value_at_quantile(0.945) as f64 / 1e3)));
        assert!(response.p50_us < 101.0 && response.p99_us > 8_900.0, "{response:?}");
        record(&mut times, Duration::from_secs(1_000_000));
    }

    #[test]
    fn a_probe_reads_while_a_load_runs_and_says_what_cannot_be_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("data");
        std::fs::write(&file, vec![1; 1 << 20]).expect("written");
        let ((), report) = beside(&file, || Ok(())).expect("it reads");
        assert!(report.response.p50_us <= report.response.max_us, "{report:?}");
        let error = beside(&folder.path().join("none"), || Ok(())).expect_err("no file");
        assert!(error.to_string().contains("none"), "{error}");
    }
}
