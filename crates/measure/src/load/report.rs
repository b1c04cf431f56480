//! [`LoadReport`]: what a load found.

use std::fmt;

use ebbtide_core::counted;
use ebbtide_report::{Page, PageReport, Table};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::options::LoadOptions;

/// The longest response that is measured. Longer ones count as ten minutes.
const RESPONSE_NS_MAX: u64 = 600_000_000_000;

/// An empty histogram of times in nanoseconds.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(RESPONSE_NS_MAX, 3).expect("the bounds are valid")
}

/// Response times in microseconds, from the intended time of sending to the reply. Longer ones than
/// ten minutes count as ten minutes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ResponseTimes {
    /// The median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl ResponseTimes {
    pub(super) fn of(histogram: &Histogram<u64>) -> ResponseTimes {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        ResponseTimes {
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max() as f64 / 1e3,
        }
    }
}

/// Returns the arrivals of commands in words: at random times at a `rate` a second, or as in
/// [`LoadOptions::rate`] for `None`.
pub(super) fn loop_kind(rate: Option<f64>) -> String {
    match rate {
        Some(rate) => format!("{rate} commands/s arriving at random"),
        None => "each sends when it was answered".to_string(),
    }
}

/// Measurements of a probe.
#[derive(Debug, Clone, Serialize)]
pub struct ProbeReport {
    /// Reads of 4 KiB, including those that were due during an earlier one.
    pub reads: u64,
    /// Response times, from the time at which a read was due to its end.
    pub response: ResponseTimes,
    /// The reason why reads used the page cache, if they did.
    pub cached: Option<String>,
}

/// Results of a load.
#[derive(Debug, Clone, Serialize)]
pub struct LoadReport {
    /// The options of the load.
    pub options: LoadOptions,
    /// Seconds for writing all keys; `None` without [`LoadOptions::fill`].
    pub fill_seconds: Option<f64>,
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Commands answered during the measurement.
    pub commands: u64,
    /// Commands answered per second of the measurement.
    pub throughput: f64,
    /// Response times of the measurement.
    pub response: ResponseTimes,
    /// The probe's reads of the disk during the load, if a probe was requested.
    pub probe: Option<ProbeReport>,
    /// Values read and checked in the whole load, checks of every key included.
    pub reads_checked: u64,
    /// Writes acknowledged in the whole load.
    pub writes_acknowledged: u64,
    /// Error replies in the whole load.
    pub errors: u64,
    /// The first error reply.
    pub first_error: Option<String>,
    /// Wrong replies in the whole load: values that the key cannot have.
    pub wrong: u64,
    /// A description of the first wrong reply.
    pub first_wrong: Option<String>,
    /// Times the server went away and came back.
    pub restarts: u64,
    /// Keys that were checked at the end or after a restart.
    pub keys_checked: u64,
}

impl LoadReport {
    /// Returns true if no reply was wrong or an error.
    pub fn is_right(&self) -> bool {
        self.wrong == 0 && self.errors == 0
    }

    fn table(&self) -> Table {
        let header = ["commands/s", "p50 us", "p99 us", "p99.9 us", "max us", "errors", "wrong"];
        let ResponseTimes { p50_us, p99_us, p999_us, max_us } = self.response;
        let whole = [self.throughput, p50_us, p99_us, p999_us, max_us];
        Table::new("Load", header).numbers(
            [] as [&str; 0],
            whole.into_iter().chain([self.errors as f64, self.wrong as f64]),
        )
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadOptions {
            server, kind, keys, value_bytes, clients, pipeline, writes, zipf, ..
        } = &self.options;
        let (least, most) = value_bytes;
        let loop_kind = loop_kind(self.options.rate);
        writeln!(
            f,
            "{server}: {keys} {} of {least} to {most} bytes, Zipf {zipf}, {:.0}% writes; {}, \
             pipeline {pipeline}, {loop_kind}; {:.1} s",
            kind.plural(),
            writes * 100.0,
            counted(clients, "client"),
            self.seconds
        )?;
        write!(f, "{}", self.table())?;
        writeln!(
            f,
            "{} read and checked, {} acknowledged",
            counted(self.reads_checked, "value"),
            counted(self.writes_acknowledged, "write")
        )?;
        if let Some(ProbeReport { reads, response, cached }) = &self.probe {
            let ratio = self.response.p99_us / response.p99_us;
            writeln!(
                f,
                "a probe beside it, {reads} reads of 4 KiB of the same disk: p50 {:.0} us, p99 {:.0} us, max {:.0} us; \
                 p99 of commands is {ratio:.2} times that, the longest took {:.0} us more",
                response.p50_us,
                response.p99_us,
                response.max_us,
                self.response.max_us - response.max_us,
            )?;
            if let Some(reason) = cached {
                writeln!(f, "the probe did not go past the page cache: {reason}")?;
            }
        }
        if self.keys_checked > 0 {
            let (keys, restarts) =
                (counted(self.keys_checked, "key"), counted(self.restarts, "restart"));
            writeln!(f, "{keys} checked one by one, {restarts}")?;
        }
        for (what, first) in [("error", &self.first_error), ("wrong reply", &self.first_wrong)] {
            if let Some(first) = first {
                writeln!(f, "first {what}: {first}")?;
            }
        }
        Ok(())
    }
}

impl PageReport for LoadReport {
    fn page(&self) -> Page {
        Page::new("Ebbtide load")
            .paragraph(&self.to_string())
            .section("Figures")
            .table(self.table())
    }
}
