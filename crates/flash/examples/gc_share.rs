//! The share of requests that garbage collection blocks on AstriFlash's SSD, at the simulated size and
//! at four times the planes (claims AS39 and AS40), over request rates and write shares.
//!
//!     cargo run --release -p ebbtide-flash --example gc_share
//!
//! Requests are uniformly random and arrive at random (Poisson). Collections start from the first
//! write on: the device is aged to the threshold, and nothing is counted before every plane has
//! collected for a while.

use std::error::Error;

use ebbtide_core::{PageId, Span, Time};
use ebbtide_flash::{Command, Config, Counters, Flash, Kind, SsdConfig};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const RATES: [u64; 4] = [50_000, 100_000, 200_000, 400_000];
const WRITE_PERCENTS: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];

/// Writes a plane of the small device until counting starts, and while counting. Both devices are
/// given the same requests.
const WARM_UP_WRITES: u64 = 500;
const COUNTED_WRITES: u64 = 2_000;

/// Beyond this many commands waiting for each plane a rate is more than the device can do.
const BACKLOG_A_PLANE: u64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    for (valid_percent, invalid_percent) in [(33.0, 37.0), (55.0, 15.0)] {
        println!(
            "{valid_percent}% of all places hold valid data, {invalid_percent}% overwritten data"
        );
        println!(
            "{:>10} {:>7} {:>10} | {:>22} | {:>22} | {:>6}",
            "requests/s", "writes", "MB/s", "256 GiB: all (reads)", "1 TiB: all (reads)", "ratio"
        );
        for rate in RATES {
            for write_percent in WRITE_PERCENTS {
                let blocked = |preset| -> Result<Option<Counters>, Box<dyn Error>> {
                    let aged = aged(preset, valid_percent, invalid_percent)?;
                    run(&Config::Ssd(Box::new(aged)), rate, write_percent)
                };
                let (small, large) = (blocked("astriflash-256g")?, blocked("astriflash-1t")?);
                let ratio = match (small, large) {
                    (Some(small), Some(large)) => {
                        let ratio = small.share_blocked_by_gc() / large.share_blocked_by_gc();
                        format!("{ratio:.1}")
                    }
                    _ => "-".to_string(),
                };
                println!(
                    "{rate:>10} {write_percent:>6}% {:>10.1} | {:>22} | {:>22} | {ratio:>6}",
                    rate as f64 * write_percent / 100.0 * 4096.0 / 1e6,
                    cell(small),
                    cell(large),
                );
            }
        }
        println!();
    }
    Ok(())
}

fn cell(counters: Option<Counters>) -> String {
    match counters {
        None => "overloaded".to_string(),
        Some(counters) => format!(
            "{:.2}% ({:.2}%)",
            100.0 * counters.share_blocked_by_gc(),
            100.0 * counters.read_share_blocked_by_gc()
        ),
    }
}

/// A preset with other contents at the start.
fn aged(
    preset: &str,
    valid_percent: f64,
    invalid_percent: f64,
) -> Result<SsdConfig, Box<dyn Error>> {
    match Config::preset(preset)? {
        Config::Ssd(config) => Ok(SsdConfig { valid_percent, invalid_percent, ..*config }),
        Config::Flat(_) => Err(format!("{preset} has no planes").into()),
    }
}

/// What the device counts after the warm-up; `None` if it falls behind.
fn run(config: &Config, rate: u64, write_percent: f64) -> Result<Option<Counters>, Box<dyn Error>> {
    let mut flash = Flash::new(config)?;
    let pages = flash.logical_pages().ok_or("a flat device has no collections")?;
    let planes = flash.plane_busy().count() as u64;
    let mut random = Pcg64::seed_from_u64(1);
    let mut done = Vec::new();
    let mut now = Time::ZERO;
    let mut warm = Counters::default();
    let (mut tag, mut writes) = (0, 0);
    while writes < (WARM_UP_WRITES + COUNTED_WRITES) * 64 {
        let gap = -(1.0 - random.random::<f64>()).ln() / rate as f64;
        now += Span::from_ps((gap * 1e12) as u64);
        let is_write = random.random::<f64>() * 100.0 < write_percent;
        let kind = if is_write { Kind::Write } else { Kind::Read };
        let page = PageId(random.random_range(0..pages));
        done.clear();
        flash.advance(now, &mut done);
        flash.submit(now, Command { tag, kind, page });
        tag += 1;
        if is_write {
            writes += 1;
            if writes == WARM_UP_WRITES * 64 {
                warm = *flash.counters();
            }
        }
        if flash.outstanding() > BACKLOG_A_PLANE * planes {
            return Ok(None);
        }
    }
    Ok(Some(since(flash.counters(), &warm)))
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
