//! [`Latencies`]: latencies of accesses and jobs.

use ebbtide_core::Span;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::spent::{ServiceParts, Spent, Waited};

/// Latencies of accesses that left the chip, and of jobs.
pub(crate) struct Latencies {
    /// Of accesses, from their issue until the line arrives, with stalls.
    access: Histogram<u64>,
    /// Of accesses, from their entry to memory until the line or page arrives.
    device: Histogram<u64>,
    /// Of jobs, from their start.
    service: Histogram<u64>,
    /// Of jobs, from their arrival.
    response: Histogram<u64>,
    spent: Spent,
}

impl Default for Latencies {
    fn default() -> Latencies {
        // Nanoseconds to three digits, up to a minute. Picoseconds would not fit the buckets.
        let new = || Histogram::new_with_max(60_000_000_000, 3).expect("valid bounds");
        let (service, response, spent) = (new(), new(), Spent::default());
        Latencies { access: new(), device: new(), service, response, spent }
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
    /// An access that memory answered at once.
    #[inline]
    pub(crate) fn hit(&mut self, access: Span, device: Span) {
        self.access.saturating_record(access.as_ns());
        self.device.saturating_record(device.as_ns());
    }

    /// An access that missed and is complete.
    pub(crate) fn missed(&mut self, access: Span) {
        self.access.saturating_record(access.as_ns());
    }

    /// A page arrived that an access waited for.
    pub(crate) fn arrived(&mut self, device: Span) {
        self.device.saturating_record(device.as_ns());
    }

    /// A job is complete.
    pub(crate) fn job(&mut self, service: Span, response: Span, waited: Waited) {
        self.service.saturating_record(service.as_ns());
        let bucket = self.service.highest_equivalent(service.as_ns());
        self.spent.job(bucket, service, waited);
        self.response.saturating_record(response.as_ns());
    }

    pub(crate) fn access(&self) -> Distribution {
        distribution(&self.access, true)
    }

    pub(crate) fn device(&self) -> Distribution {
        distribution(&self.device, true)
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
