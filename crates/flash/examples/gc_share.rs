//! The share of requests that garbage collection blocks on AstriFlash's SSD, at the simulated size and
//! at four times the planes (claims AS39 and AS40), over fill, request rate and write share.
//!
//!     cargo run --release -p ebbtide-flash --example gc_share
//!
//! Requests are uniformly random over the data and arrive at random (Poisson). Before anything is
//! counted, so much is overwritten that planes collect independently of each other.

use std::error::Error;

use ebbtide_core::{PageId, Span, Time};
use ebbtide_flash::{Command, Config, Counters, Flash, Kind, SsdConfig};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Shares of the raw capacity that hold valid data: what Tiny-Tail's configuration ages a device to,
/// and more.
const VALID_PERCENTS: [f64; 3] = [33.0, 50.0, 66.0];
const RATES: [u64; 4] = [50_000, 100_000, 200_000, 400_000];
const WRITE_PERCENTS: [f64; 4] = [1.0, 5.0, 10.0, 20.0];

/// Several dozen collections of each plane.
const WARM_UP_WRITES_A_PLANE: u64 = 10_000;
const COUNTED_WRITES: u64 = 50_000;

/// With this many commands waiting for each plane on average, the device falls behind.
const BACKLOG_A_PLANE: u64 = 256;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    for valid_percent in VALID_PERCENTS {
        let small = Aged::new("astriflash-256g", valid_percent)?;
        let large = Aged::new("astriflash-1t", valid_percent)?;
        println!(
            "{valid_percent}% of the raw capacity holds data, write amplification {:.2}",
            small.amplification
        );
        println!(
            "{:>10} {:>7} {:>7} | {:>20} | {:>20} | {:>5}",
            "requests/s", "writes", "MB/s", "256 GiB: all (reads)", "1 TiB: all (reads)", "ratio"
        );
        for rate in RATES {
            for write_percent in WRITE_PERCENTS {
                let [small, large] = [&small, &large].map(|aged| aged.run(rate, write_percent));
                println!(
                    "{rate:>10} {write_percent:>6}% {:>7.1} | {:>20} | {:>20} | {:>5}",
                    rate as f64 * write_percent / 100.0 * 4096.0 / 1e6,
                    cell(small),
                    cell(large),
                    ratio(small, large),
                );
            }
        }
        println!();
    }
    Ok(())
}

fn cell(counters: Option<Counters>) -> String {
    let Some(counters) = counters else { return "overloaded".to_string() };
    let [all, reads] = [counters.share_blocked_by_gc(), counters.read_share_blocked_by_gc()];
    format!("{:.2}% ({:.2}%)", 100.0 * all, 100.0 * reads)
}

fn ratio(small: Option<Counters>, large: Option<Counters>) -> String {
    match (small, large) {
        (Some(small), Some(large)) if large.share_blocked_by_gc() > 0.0 => {
            format!("{:.1}", small.share_blocked_by_gc() / large.share_blocked_by_gc())
        }
        _ => "-".to_string(),
    }
}

/// A device in the steady state of random overwrites.
struct Aged {
    flash: Flash,
    start: Time,
    /// Pages that hold data.
    pages: u64,
    planes: u64,
    amplification: f64,
}

impl Aged {
    fn new(preset: &str, valid_percent: f64) -> Result<Aged> {
        let Config::Ssd(config) = Config::preset(preset)? else {
            return Err(format!("{preset} has no planes").into());
        };
        // Collections keep free what the threshold says, or half of what holds no data.
        let free_percent = config.gc_start_free_percent.min((100.0 - valid_percent) / 2.0);
        let invalid_percent = 100.0 - valid_percent - free_percent;
        let config = SsdConfig { valid_percent, invalid_percent, ..*config };
        let pages = (config.raw_bytes() as f64 * valid_percent / 100.0 / 4096.0) as u64;
        let planes = u64::from(config.planes());
        let flash = Flash::new(&Config::Ssd(Box::new(config)))?;
        let mut aged = Aged { flash, start: Time::ZERO, pages, planes, amplification: 1.0 };
        aged.overwrite(WARM_UP_WRITES_A_PLANE * planes);
        Ok(aged)
    }

    /// Overwrites `count` random pages as fast as the device takes them, and lets it come to rest.
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

    /// What the device counts at `rate` requests per second; `None` if it falls behind.
    fn run(&self, rate: u64, write_percent: f64) -> Option<Counters> {
        let mut flash = self.flash.clone();
        let mut random = Pcg64::seed_from_u64(1);
        let mut done = Vec::new();
        let mut now = self.start;
        let (mut tag, mut writes) = (0, 0);
        while writes < COUNTED_WRITES {
            let gap = -(1.0 - random.random::<f64>()).ln() / rate as f64;
            now += Span::from_ps((gap * 1e12) as u64);
            let is_write = random.random::<f64>() * 100.0 < write_percent;
            let kind = if is_write { Kind::Write } else { Kind::Read };
            let page = PageId(random.random_range(0..self.pages));
            done.clear();
            flash.advance(now, &mut done);
            flash.submit(now, Command { tag, kind, page });
            tag += 1;
            writes += u64::from(is_write);
            if flash.outstanding() > BACKLOG_A_PLANE * self.planes {
                return None;
            }
        }
        Some(since(flash.counters(), self.flash.counters()))
    }
}

/// What was counted after `before`, as far as shares need it.
fn since(counters: &Counters, before: &Counters) -> Counters {
    Counters {
        reads: counters.reads - before.reads,
        writes: counters.writes - before.writes,
        reads_blocked_by_gc: counters.reads_blocked_by_gc - before.reads_blocked_by_gc,
        writes_blocked_by_gc: counters.writes_blocked_by_gc - before.writes_blocked_by_gc,
        ..*counters
    }
}
