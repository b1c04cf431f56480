//! The share of requests that garbage collection blocks (AS39, AS40).

use ebbtide_core::Watch;
use ebbtide_sim::Outcome;
use serde::Serialize;

use crate::ReproduceError;
use ebbtide_study::gc_share::{AgedSsd, GcShare};

/// Aged to 66% of the raw capacity, half of it valid, as in Tiny-Tail's configuration.
const VALID_PERCENT: f64 = 33.0;

/// Requests a second of the sweep over the share of writes. An assumption, next to the request rate
/// of AstriFlash's own runs.
const REQUESTS_PER_S: u64 = 100_000;

/// Shares of writes of the sweep.
const WRITE_PERCENTS: [f64; 3] = [5.0, 10.0, 20.0];

const WRITES: u64 = 50_000;

/// The requests of a design to flash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requests {
    per_s: u64,
    write_percent: f64,
}

impl Requests {
    /// The mean over `outcomes`.
    pub(crate) fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Requests {
        let (mut runs, mut reads_per_s, mut writes_per_s) = (0.0, 0.0, 0.0);
        for Outcome { flash, simulated_ns, .. } in outcomes {
            let seconds = *simulated_ns as f64 / 1e9;
            runs += 1.0;
            reads_per_s += flash.reads as f64 / seconds;
            writes_per_s += flash.writes as f64 / seconds;
        }
        let per_s = reads_per_s + writes_per_s;
        let write_percent = 100.0 * writes_per_s / per_s;
        Requests { per_s: (per_s / runs) as u64, write_percent }
    }
}

/// A device of 256 GiB and one of 1 TiB under the same requests.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Collections {
    /// Under AstriFlash's own requests, which decide the claims: with 64 planes, and with 256
    /// planes and the same share of valid data.
    pub own: [GcShare; 2],
    /// The same with 256 planes and the data of 64.
    pub same_data: GcShare,
    /// The sweep over the share of writes, with 64 planes.
    pub small: Vec<GcShare>,
    /// The same with 256 planes and the same share of valid data.
    pub large: Vec<GcShare>,
}

/// The devices in the steady state of random overwrites.
pub(super) struct Devices {
    small: AgedSsd,
    large: AgedSsd,
    /// 256 planes with the data of 64.
    emptier: AgedSsd,
}

impl Devices {
    pub(super) fn new(watch: Watch<'_>) -> Result<Devices, ReproduceError> {
        let device = |preset, percent| {
            watch.go_on()?;
            Ok::<AgedSsd, ReproduceError>(AgedSsd::new(preset, percent)?)
        };
        Ok(Devices {
            small: device("astriflash-256g", VALID_PERCENT)?,
            large: device("astriflash-1t", VALID_PERCENT)?,
            emptier: device("astriflash-1t", VALID_PERCENT / 4.0)?,
        })
    }

    /// Measures collections under `own` requests, and under those of the sweep.
    pub(super) fn measure(
        &self,
        own: Requests,
        watch: Watch<'_>,
    ) -> Result<Collections, ReproduceError> {
        let run = |ssd: &AgedSsd, Requests { per_s, write_percent }| {
            watch.go_on()?;
            Ok::<GcShare, ReproduceError>(ssd.run(per_s, write_percent, WRITES))
        };
        let over_writes = |ssd| {
            let each = |write_percent| run(ssd, Requests { per_s: REQUESTS_PER_S, write_percent });
            WRITE_PERCENTS.into_iter().map(each).collect::<Result<Vec<_>, _>>()
        };
        Ok(Collections {
            own: [run(&self.small, own)?, run(&self.large, own)?],
            same_data: run(&self.emptier, own)?,
            small: over_writes(&self.small)?,
            large: over_writes(&self.large)?,
        })
    }
}

impl Collections {
    /// Percent of requests blocked on the devices of 256 GiB and 1 TiB. NaN for a device that
    /// cannot keep up.
    pub(crate) fn blocked(&self) -> [f64; 2] {
        self.own.each_ref().map(|share| share.blocked_percent.unwrap_or(f64::NAN))
    }

    /// The requests that decide the claims, in words.
    pub(crate) fn asked(&self) -> String {
        let [small, large] = &self.own;
        let keeps_up = |share: &GcShare| match share.blocked_percent {
            Some(percent) => format!("{percent:.1}% are blocked"),
            None => "it cannot keep up".to_string(),
        };
        format!(
            "AstriFlash makes {} requests a second here, {:.0}% of them writes, on the mean of its runs \
             over flash without limits. With 64 planes {}, with 256 {}.",
            small.requests_per_s,
            small.write_percent,
            keeps_up(small),
            keeps_up(large),
        )
    }

    /// The reason why the larger device blocks far fewer requests.
    pub(crate) fn with_same_data(&self) -> String {
        let with_same_data = match self.same_data.blocked_percent {
            Some(percent) => format!("{percent:.2}% are blocked"),
            None => "it cannot keep up either".to_string(),
        };
        format!(
            "Four times the planes, as full, under the same writes: each collects a fourth as often, \
             and as long. With only the smaller device's data on it, so that collections have less to \
             copy, {with_same_data}.",
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
