//! The share of requests that garbage collection blocks on AstriFlash's SSD, at the simulated size
//! and with four times the planes (AstriFlash §VI-D).
//!
//! Requests are uniformly random over the data and arrive at random (Poisson). Overwriting before
//! the measurement makes the planes collect independently of each other.

use ebbtide_core::{PageId, Span, Time};
use ebbtide_flash::{Command, Config, ConfigError, Counters, Flash, Kind, SsdConfig};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Serialize;

/// Pages overwritten per plane before the measurement: several dozen collections.
const WARM_UP_WRITES_A_PLANE: u64 = 10_000;

/// A mean queue of this many commands per plane means that the device cannot keep up.
const BACKLOG_A_PLANE: u64 = 256;

/// The load of a device, and the percentage of requests that garbage collection blocked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GcShare {
    /// Requests a second.
    pub requests_per_s: u64,
    /// Percent of them that are writes.
    pub write_percent: f64,
    /// Percent of them that collections blocked; `None` if the device could not keep up.
    pub blocked_percent: Option<f64>,
    /// Percent of the reads that collections blocked; `None` if the device could not keep up.
    pub reads_blocked_percent: Option<f64>,
}

/// A device in the steady state of random overwrites.
pub struct AgedSsd {
    flash: Flash,
    start: Time,
    /// Pages that hold data.
    pages: u64,
    planes: u64,
    amplification: f64,
}

impl AgedSsd {
    /// Returns the device of the flash preset `preset` after random overwrites. Valid data takes
    /// `valid_percent` of its raw capacity.
    ///
    /// # Errors
    /// [`ConfigError`] when the preset does not exist or the device cannot hold that much.
    ///
    /// # Panics
    /// When the preset is a device without modelled planes.
    pub fn new(preset: &str, valid_percent: f64) -> Result<AgedSsd, ConfigError> {
        let Config::Ssd(config) = Config::preset(preset)? else {
            panic!("{preset} has no planes");
        };
        // Collections keep the threshold's share free, or half of the space without data.
        let free_percent = config.gc_start_free_percent.min((100.0 - valid_percent) / 2.0);
        let invalid_percent = 100.0 - valid_percent - free_percent;
        let config = SsdConfig { valid_percent, invalid_percent, ..*config };
        let pages = (config.raw_bytes() as f64 * valid_percent / 100.0 / 4096.0) as u64;
        let planes = u64::from(config.planes());
        let flash = Flash::new(&Config::Ssd(Box::new(config)))?;
        let mut aged = AgedSsd { flash, start: Time::ZERO, pages, planes, amplification: 1.0 };
        aged.overwrite(WARM_UP_WRITES_A_PLANE * planes);
        Ok(aged)
    }

    /// Overwrites `count` random pages as fast as the device accepts them, and waits until it is
    /// idle.
    fn overwrite(&mut self, count: u64) {
        let mut random = Pcg64::seed_from_u64(2);
        let mut done = Vec::new();
        for tag in 0..count {
            while self.flash.outstanding() >= 4 * self.planes {
                self.start = self.flash.next_event().unwrap_or(self.start);
                self.flash.advance(self.start, &mut done);
                done.clear();
            }
            let page = PageId(random.random_range(0..self.pages));
            self.flash.submit(self.start, Command { tag, kind: Kind::Write, page });
        }
        while let Some(at) = self.flash.next_event() {
            self.start = at;
            self.flash.advance(at, &mut done);
        }
        self.amplification = self.flash.counters().write_amplification();
    }

    /// Returns the pages programmed per page written by the host during the overwrites.
    pub fn amplification(&self) -> f64 {
        self.amplification
    }

    /// Measures a copy of the device at `requests_per_s`. Writes are `write_percent` of the
    /// requests. The measurement ends after `writes` writes. If `write_percent` is not above 0, it
    /// ends after as many reads.
    pub fn run(&self, requests_per_s: u64, write_percent: f64, writes: u64) -> GcShare {
        let counters = self.counted(requests_per_s, write_percent, writes);
        let percent = |share: fn(&Counters) -> f64| counters.as_ref().map(|c| 100.0 * share(c));
        GcShare {
            requests_per_s,
            write_percent,
            blocked_percent: percent(Counters::share_blocked_by_gc),
            reads_blocked_percent: percent(Counters::read_share_blocked_by_gc),
        }
    }

    fn counted(&self, rate: u64, write_percent: f64, writes_counted: u64) -> Option<Counters> {
        let mut flash = self.flash.clone();
        let mut random = Pcg64::seed_from_u64(1);
        let mut done = Vec::new();
        let mut now = self.start;
        let reads_alone = write_percent.max(0.0) == 0.0;
        let (mut tag, mut counted) = (0, 0);
        while counted < writes_counted {
            let gap = -(1.0 - random.random::<f64>()).ln() / rate as f64;
            now += Span::from_ps((gap * 1e12) as u64);
            let is_write = random.random::<f64>() * 100.0 < write_percent;
            let kind = if is_write { Kind::Write } else { Kind::Read };
            let page = PageId(random.random_range(0..self.pages));
            done.clear();
            flash.advance(now, &mut done);
            flash.submit(now, Command { tag, kind, page });
            tag += 1;
            counted += u64::from(is_write || reads_alone);
            if flash.outstanding() > BACKLOG_A_PLANE * self.planes {
                return None;
            }
        }
        Some(since(flash.counters(), self.flash.counters()))
    }
}

/// The counts since `before` that shares need.
fn since(counters: &Counters, before: &Counters) -> Counters {
    Counters {
        reads: counters.reads - before.reads,
        writes: counters.writes - before.writes,
        reads_blocked_by_gc: counters.reads_blocked_by_gc - before.reads_blocked_by_gc,
        writes_blocked_by_gc: counters.writes_blocked_by_gc - before.writes_blocked_by_gc,
        ..*counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_without_writes_ends_after_as_many_reads() {
        let config = Config::preset("flat").expect("a preset");
        let flash = Flash::new(&config).expect("a device");
        let ssd = AgedSsd { flash, start: Time::ZERO, pages: 10, planes: 1, amplification: 1.0 };
        for write_percent in [0.0, -1.0, f64::NAN] {
            let counted = ssd.counted(1_000, write_percent, 50).expect("it keeps up");
            // Reads that have not completed are not counted.
            assert!((49..=50).contains(&counted.reads) && counted.writes == 0, "{counted:?}");
            assert_eq!(ssd.run(1_000, write_percent, 50).blocked_percent, Some(0.0));
        }
    }
}
