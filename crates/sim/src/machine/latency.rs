//! [`Latencies`]: latencies of accesses and jobs.

use ebbtide_core::Span;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::spent::{ServiceParts, Spent, Waited};

/// Latencies of jobs, and of accesses that left the chip.
pub(crate) struct Latencies {
    /// Of accesses, from their issue until the line arrives, with stalls.
    access: Times,
    /// Of accesses, from their entry to memory until the line or page arrives.
    device: Times,
    /// Of jobs, from their start.
    service: Histogram<u64>,
    /// Of jobs, from their arrival.
    response: Histogram<u64>,
    spent: Spent,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let (access, device) = (Times::default(), Times::default());
        let (service, response) = (histogram(), histogram());
        Latencies { access, device, service, response, spent: Spent::default() }
    }
}

/// Buckets of nanoseconds with three digits, up to a minute. Picoseconds would not fit.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000_000, 3).expect("valid bounds")
}

/// A histogram with a cheap path for short times, as most accesses are short.
struct Times {
    /// Counts by nanosecond.
    short: Box<[u64; SHORT_NS]>,
    long: Histogram<u64>,
}

/// Times below this many nanoseconds are short.
const SHORT_NS: usize = 1_024;

impl Default for Times {
    fn default() -> Times {
        Times { short: Box::new([0; SHORT_NS]), long: histogram() }
    }
}

impl Times {
    #[inline]
    fn record(&mut self, time: Span) {
        let ns = time.as_ns();
        match self.short.get_mut(ns as usize) {
            Some(count) => *count += 1,
            None => self.long.saturating_record(ns),
        }
    }

    /// All times.
    fn all(&self) -> Histogram<u64> {
        let mut all = self.long.clone();
        for (ns, count) in (0..).zip(self.short.iter()).filter(|(_, count)| **count > 0) {
            all.saturating_record_n(ns, *count);
        }
        all
    }
}

/// A distribution of times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distribution {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// The maximum.
    pub max: u64,
    /// Share below a microsecond. Only of accesses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_us_share: Option<f64>,
}

impl Latencies {
    /// Counts an access that memory answered at once.
    #[inline]
    pub(crate) fn hit(&mut self, access: Span, device: Span) {
        self.access.record(access);
        self.device.record(device);
    }

    /// Counts an access that missed and is complete.
    pub(crate) fn missed(&mut self, access: Span) {
        self.access.record(access);
    }

    /// Counts the arrival of a page that an access waited for.
    pub(crate) fn arrived(&mut self, device: Span) {
        self.device.record(device);
    }

    /// Counts a complete job.
    pub(crate) fn job(&mut self, service: Span, response: Span, waited: Waited) {
        self.service.saturating_record(service.as_ns());
        let bucket = self.service.highest_equivalent(service.as_ns());
        self.spent.job(bucket, service, waited);
        self.response.saturating_record(response.as_ns());
    }

    pub(crate) fn access(&self) -> Distribution {
        distribution(&self.access.all(), true)
    }

    pub(crate) fn device(&self) -> Distribution {
        distribution(&self.device.all(), true)
    }

    pub(crate) fn service(&self) -> Distribution {
        distribution(&self.service, false)
    }

    pub(crate) fn service_parts(&self) -> ServiceParts {
        self.spent.parts(self.service.value_at_quantile(0.99))
    }

    pub(crate) fn response(&self) -> Distribution {
        distribution(&self.response, false)
    }
}

fn distribution(histogram: &Histogram<u64>, of_accesses: bool) -> Distribution {
    let share = || {
        let below = histogram.iter_recorded().take_while(|value| value.value_iterated_to() < 1_000);
        let below: u64 = below.map(|value| value.count_at_value()).sum();
        below as f64 / histogram.len().max(1) as f64
    };
    Distribution {
        mean: histogram.mean(),
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
        p999: histogram.value_at_quantile(0.999),
        max: histogram.max(),
        sub_us_share: of_accesses.then(share),
    }
}
