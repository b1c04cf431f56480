//! How many requests garbage collection blocks (AS39, AS40).

use ebbtide_core::Watch;
use serde::Serialize;

use crate::ReproduceError;
use ebbtide_study::gc_share::{AgedSsd, GcShare};

/// Aged to 66% of the raw capacity, half of it valid, as Tiny-Tail's configuration has it.
const VALID_PERCENT: f64 = 33.0;

/// An assumption: §V-A only says that writes are limited. The sweep goes to half and twice.
const REQUESTS_PER_S: u64 = 100_000;

/// Shares of writes; see [`REQUESTS_PER_S`].
const WRITE_PERCENTS: [f64; 3] = [5.0, 10.0, 20.0];

/// The share of writes at which the claims are judged.
const MIDDLE: usize = 1;

const WRITES: u64 = 50_000;

/// A device of 256 GiB and one of 1 TiB under the same requests, over the share of writes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Collections {
    /// With 64 planes.
    pub small: Vec<GcShare>,
    /// With 256 planes, as full.
    pub large: Vec<GcShare>,
    /// With 256 planes and the data of 64, where the claims are judged.
    pub same_data: GcShare,
}

impl Collections {
    pub(crate) fn measure(watch: Watch<'_>) -> Result<Collections, ReproduceError> {
        let over_writes = |preset| {
            watch.go_on()?;
            let ssd = AgedSsd::new(preset, VALID_PERCENT)?;
            let run = |percent| {
                watch.go_on()?;
                Ok(ssd.run(REQUESTS_PER_S, percent, WRITES))
            };
            WRITE_PERCENTS.into_iter().map(run).collect::<Result<Vec<GcShare>, ReproduceError>>()
        };
        let [small, large] = ["astriflash-256g", "astriflash-1t"].map(over_writes);
        watch.go_on()?;
        let emptier = AgedSsd::new("astriflash-1t", VALID_PERCENT / 4.0)?;
        let same_data = emptier.run(REQUESTS_PER_S, WRITE_PERCENTS[MIDDLE], WRITES);
        Ok(Collections { small: small?, large: large?, same_data })
    }

    /// Percent of requests blocked on the devices of 256 GiB and 1 TiB, where the claims are judged.
    pub(crate) fn middle(&self) -> [f64; 2] {
        [&self.small, &self.large].map(|shares| shares[MIDDLE].blocked_percent.unwrap_or(100.0))
    }

    /// Why the larger device blocks far fewer requests.
    pub(crate) fn with_same_data(&self) -> String {
        let percent = self.same_data.blocked_percent.unwrap_or(100.0);
        format!(
            "Four times the planes, as full, under the same writes: each collects a fourth as often, \
             and as long. With only the smaller device's data on it, so that collections have less to \
             copy, {percent:.2}% are blocked: {:.0} times fewer.",
            self.middle()[0] / percent,
        )
    }

    /// The sweep in words.
    pub(crate) fn sweep(&self) -> String {
        let step = |(small, large): (&GcShare, &GcShare)| {
            let percent = |share: &GcShare| {
                share.blocked_percent.map_or("overloaded".to_string(), |p| format!("{p:.1}%"))
            };
            format!("{}% writes: {} and {}", small.write_percent, percent(small), percent(large))
        };
        let steps: Vec<String> = self.small.iter().zip(&self.large).map(step).collect();
        format!(
            "At {REQUESTS_PER_S} requests a second, with 256 GiB and with 1 TiB: {}.",
            steps.join("; ")
        )
    }
}
