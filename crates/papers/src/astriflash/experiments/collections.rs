//! The share of requests that garbage collection blocks (AS39, AS40).

use ebbtide_core::Watch;
use ebbtide_sim::Outcome;
use serde::Serialize;

use crate::ReproduceError;
use ebbtide_study::gc_share::{AgedSsd, GcShare};

/// Aged to 66% of the raw capacity, half of it valid, as in Tiny-Tail's configuration.
const VALID_PERCENT: f64 = 33.0;

/// Requests a second of the sweep over the share of writes, and reads beside limited writes. An
/// assumption: the device reads up to 800,000 pages a second.
const REQUESTS_PER_S: u64 = 100_000;

/// Other numbers of reads a second beside limited writes.
const OTHER_READS_PER_S: [u64; 2] = [REQUESTS_PER_S / 4, REQUESTS_PER_S * 4];

/// The share of requests that collections block on 256 GiB. The paper takes it from Tiny-Tail Flash
/// (§VI-D).
const PRINTED_PERCENT: f64 = 4.0;

/// The search for the rate of writes ends when its bounds are this close to each other.
const RATE_STEP: u64 = 50;

/// Shares of writes of the sweep.
const WRITE_PERCENTS: [f64; 3] = [5.0, 10.0, 20.0];

const WRITES: u64 = 50_000;

/// Writes of a run in the search for their rate.
const SEARCH_WRITES: u64 = 20_000;

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

    /// Reads and writes with these rates.
    fn at(reads_per_s: u64, writes_per_s: u64) -> Requests {
        let per_s = reads_per_s + writes_per_s;
        Requests { per_s, write_percent: 100.0 * writes_per_s as f64 / per_s as f64 }
    }
}

/// A device of 256 GiB and one of 1 TiB under the same requests.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Collections {
    /// Under the writes that make the printed share on 64 planes. They decide the claims. The
    /// second device has 256 planes and the same share of valid data.
    pub limited: [GcShare; 2],
    /// The same with 256 planes and the data of 64.
    pub same_data: GcShare,
    /// The first two again, each with another number of reads and its own limited writes.
    pub other_reads: Vec<[GcShare; 2]>,
    /// Under AstriFlash's own requests, on the mean of its runs over flash without limits.
    pub own: [GcShare; 2],
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

    /// Measures collections under limited writes, under `own` requests, and under those of the
    /// sweep.
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
        let both = |requests| {
            let shares = [run(&self.small, requests)?, run(&self.large, requests)?];
            Ok::<_, ReproduceError>(shares)
        };
        let limited = |reads| both(self.limited(reads, watch)?);
        let requests = self.limited(REQUESTS_PER_S, watch)?;
        Ok(Collections {
            limited: both(requests)?,
            same_data: run(&self.emptier, requests)?,
            other_reads: OTHER_READS_PER_S.into_iter().map(limited).collect::<Result<_, _>>()?,
            own: both(own)?,
            small: over_writes(&self.small)?,
            large: over_writes(&self.large)?,
        })
    }

    /// `reads_per_s` reads with as many writes as make the printed share on the small device. The
    /// share rises with the writes, so bisection finds them.
    fn limited(&self, reads_per_s: u64, watch: Watch<'_>) -> Result<Requests, ReproduceError> {
        let (mut few, mut many) = (0, reads_per_s);
        while many - few > RATE_STEP {
            watch.go_on()?;
            let middle = few.midpoint(many);
            let Requests { per_s, write_percent } = Requests::at(reads_per_s, middle);
            let share = self.small.run(per_s, write_percent, SEARCH_WRITES).blocked_percent;
            // A device that cannot keep up blocks too many.
            match share.is_some_and(|percent| percent < PRINTED_PERCENT) {
                true => few = middle,
                false => many = middle,
            }
        }
        Ok(Requests::at(reads_per_s, few.midpoint(many)))
    }
}

/// Percent of requests blocked on two devices. NaN for a device that cannot keep up.
fn blocked(shares: &[GcShare; 2]) -> [f64; 2] {
    shares.each_ref().map(|share| share.blocked_percent.unwrap_or(f64::NAN))
}

/// Requests in words.
fn requests(share: &GcShare) -> String {
    format!(
        "{} requests a second, {:.1}% of them writes",
        share.requests_per_s, share.write_percent
    )
}

impl Collections {
    /// Percent of requests blocked on the devices of 256 GiB and 1 TiB. NaN for a device that
    /// cannot keep up.
    pub(crate) fn blocked(&self) -> [f64; 2] {
        blocked(&self.limited)
    }

    /// The requests that decide the claims, in words.
    pub(crate) fn asked(&self) -> String {
        let [small, _] = &self.limited;
        let others = self.other_reads.iter().map(|both| {
            let [small, large] = blocked(both);
            format!("{:.1} with {}", small / large, requests(&both[0]))
        });
        format!(
            "The paper says that writes are limited, and has the 4% from Tiny-Tail Flash. The rate of \
             writes that makes 4% of the requests wait on 256 GiB was searched: {}. With other numbers of \
             reads 1 TiB divides the share by {}.",
            requests(small),
            others.collect::<Vec<_>>().join(", "),
        )
    }

    /// The same under AstriFlash's own requests, in words.
    pub(crate) fn own(&self) -> String {
        let [small, large] = &self.own;
        let keeps_up = |share: &GcShare| match share.blocked_percent {
            Some(percent) => format!("{percent:.1}% are blocked"),
            None => "it cannot keep up".to_string(),
        };
        format!(
            "AstriFlash's own runs over flash without limits have {}. With 64 planes {}, with 256 {}.",
            requests(small),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_rates_of_their_reads_and_writes() {
        let Requests { per_s, write_percent } = Requests::at(75_000, 25_000);
        assert_eq!((per_s, write_percent), (100_000, 25.0));
    }
}
