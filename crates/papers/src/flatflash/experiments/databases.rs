//! [`DatabaseRow`]: transactions a second, with their commits (FlatFlash, ASPLOS'19 Fig. 14).

use ebbtide_core::Span;
use ebbtide_workloads::logging::{Clients, Durable, Logging, throughput};
use serde::{Serialize, Serializer};

use super::trial::{DRAM_ONLY, FLATFLASH, TRADITIONAL_STACK, UNIFIED_MMAP};
use super::{DATABASES, DEVICES_US, on_device};
use crate::flatflash::FlatFlash;

/// A database, clients, a device and a kind of log.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DatabaseRow {
    /// The database.
    pub database: &'static str,
    /// Clients, each with one transaction at a time.
    pub clients: usize,
    /// Latency of a flash read, in microseconds. A write takes four fifths of it.
    pub device_us: u64,
    /// The place of commits, on every system.
    #[serde(serialize_with = "by_name")]
    pub logging: Logging,
    /// FlatFlash's transactions a second divided by UnifiedMMap's.
    pub over_unified_mmap: f64,
    /// FlatFlash's transactions a second divided by TraditionalStack's.
    pub over_traditional_stack: f64,
    /// DRAM-only's transactions a second divided by FlatFlash's. DRAM-only has its log in DRAM too.
    pub slow_down: f64,
    /// The same if DRAM-only committed to the same SSD by pages.
    pub slow_down_with_commits: f64,
}

fn by_name<S: Serializer>(logging: &Logging, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(logging)
}

/// Bytes of a transaction's log, and the share of transactions with a log. The paper prints 64 to
/// 1,424 bytes (§3.5). The size for each database is an assumption. The shares are the benchmarks'.
fn log(database: &str) -> (u64, f64) {
    match database {
        "TPCC" => (1424, 0.92),
        "TPCB" => (320, 1.0),
        _ => (64, 0.2),
    }
}

/// Clients of Fig. 14.
const CLIENTS: [usize; 3] = [4, 8, 16];

/// Time between two page writes that the device accepts. It is that of a P3700 (150,000 writes a
/// second), an assumption.
pub(crate) const PAGE_INTERVAL: Span = Span::from_ns(6_700);

/// Time of a line in the device's DRAM: `device.dram_ns` of the design.
const LINE: Span = Span::from_ns(46);

/// TraditionalStack's software time before a page is written: that of a fault (HAMS, ISCA'21 §II).
const SOFTWARE: Span = Span::from_us(17);

/// Pages of log that a transaction writes to flash if a cache merges log records.
pub(crate) fn log_pages(database: &str) -> f64 {
    let (bytes, share) = log(database);
    bytes as f64 * share / 4096.0
}

fn durable(system: &str, device_us: u64, interval: Span) -> Durable {
    let write = Span::from_us(device_us * 4 / 5);
    match system {
        FLATFLASH => {
            let (post, verify) = (super::files::PRICES.line, super::files::PRICES.verify);
            Durable::Lines { post, verify, line: LINE, interval }
        }
        TRADITIONAL_STACK => Durable::Pages { software: SOFTWARE, write, interval },
        _ => Durable::Pages { software: Span::ZERO, write, interval },
    }
}

/// A point of Fig. 14.
#[derive(Clone, Copy)]
struct Point {
    database: &'static str,
    clients: usize,
    device_us: u64,
    logging: Logging,
    interval: Span,
    /// Whether transactions commit to the SSD.
    commits: bool,
}

impl Point {
    /// Transactions a second on `system`.
    fn per_s(self, flatflash: &FlatFlash, system: &str) -> f64 {
        let Point { database, clients, device_us, logging, interval, .. } = self;
        let run = flatflash.run(&on_device(database, device_us), system);
        let (log_bytes, write_share) = log(database);
        let write_share = if self.commits { write_share } else { 0.0 };
        let execution = Span::from_ps((run.job_ns * 1e3) as u64);
        let clients = Clients { count: clients, execution, log_bytes, write_share };
        throughput(clients, logging, durable(system, device_us, interval), flatflash.seed)
    }
}

/// TPCB's gain over UnifiedMMap with 16 clients, each transaction with its own log. The device has
/// the latency `device_us` and accepts a page every `interval`. This shows the effect of the
/// assumption [`PAGE_INTERVAL`].
pub(crate) fn gain_of_tpcb(flatflash: &FlatFlash, device_us: u64, interval: Span) -> f64 {
    let point = Point {
        database: "TPCB",
        clients: CLIENTS[CLIENTS.len() - 1],
        device_us,
        logging: Logging::PerTransaction,
        interval,
        commits: true,
    };
    point.per_s(flatflash, FLATFLASH) / point.per_s(flatflash, UNIFIED_MMAP)
}

/// Fig. 14, computed from the transactions that the simulator ran.
pub(super) fn rows(flatflash: &FlatFlash) -> Vec<DatabaseRow> {
    let mut rows = Vec::new();
    for (database, _) in DATABASES {
        for device_us in DEVICES_US {
            for clients in CLIENTS {
                for logging in [Logging::Central, Logging::PerTransaction] {
                    let (interval, commits) = (PAGE_INTERVAL, true);
                    let point = Point { database, clients, device_us, logging, interval, commits };
                    let in_dram = Point { commits: false, ..point };
                    let own = point.per_s(flatflash, FLATFLASH);
                    rows.push(DatabaseRow {
                        database,
                        clients,
                        device_us,
                        logging,
                        over_unified_mmap: own / point.per_s(flatflash, UNIFIED_MMAP),
                        over_traditional_stack: own / point.per_s(flatflash, TRADITIONAL_STACK),
                        slow_down: in_dram.per_s(flatflash, DRAM_ONLY) / own,
                        slow_down_with_commits: point.per_s(flatflash, DRAM_ONLY) / own,
                    });
                }
            }
        }
    }
    rows
}
