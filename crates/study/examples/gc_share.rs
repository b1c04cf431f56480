//! Prints the share of requests that garbage collection blocks on AstriFlash's SSD (AstriFlash
//! §VI-D). The SSD has the simulated size, and four times the planes. Fill, request rate and write
//! share vary.
//!
//!     cargo run --release -p ebbtide-study --example gc_share

use ebbtide_flash::ConfigError;
use ebbtide_study::gc_share::{AgedSsd, GcShare};

/// Shares of the raw capacity that hold valid data: the share in Tiny-Tail's configuration, and
/// more.
const VALID_PERCENTS: [f64; 3] = [33.0, 50.0, 66.0];
const RATES: [u64; 4] = [50_000, 100_000, 200_000, 400_000];
const WRITE_PERCENTS: [f64; 4] = [1.0, 5.0, 10.0, 20.0];
const WRITES: u64 = 50_000;

fn main() -> Result<(), ConfigError> {
    for valid_percent in VALID_PERCENTS {
        let small = AgedSsd::new("astriflash-256g", valid_percent)?;
        let large = AgedSsd::new("astriflash-1t", valid_percent)?;
        println!(
            "{valid_percent}% of the raw capacity holds data, write amplification {:.2}",
            small.amplification()
        );
        println!(
            "{:>10} {:>7} {:>7} | {:>20} | {:>20} | {:>5}",
            "requests/s", "writes", "MB/s", "256 GiB: all (reads)", "1 TiB: all (reads)", "ratio"
        );
        for rate in RATES {
            for write_percent in WRITE_PERCENTS {
                let [small, large] =
                    [&small, &large].map(|ssd| ssd.run(rate, write_percent, WRITES));
                println!(
                    "{rate:>10} {write_percent:>6}% {:>7.1} | {:>20} | {:>20} | {:>5}",
                    rate as f64 * write_percent / 100.0 * 4096.0 / 1e6,
                    cell(&small),
                    cell(&large),
                    ratio(&small, &large),
                );
            }
        }
        println!();
    }
    Ok(())
}

fn cell(share: &GcShare) -> String {
    match (share.blocked_percent, share.reads_blocked_percent) {
        (Some(all), Some(reads)) => format!("{all:.2}% ({reads:.2}%)"),
        _ => "overloaded".to_string(),
    }
}

fn ratio(small: &GcShare, large: &GcShare) -> String {
    match (small.blocked_percent, large.blocked_percent) {
        (Some(small), Some(large)) if large > 0.0 => format!("{:.1}", small / large),
        _ => "-".to_string(),
    }
}
