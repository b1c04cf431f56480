//! [`Logging`]: the commits of a database's clients, with one log for all clients or one for each
//! transaction (FlatFlash, ASPLOS'19 §3.5, §5.6).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use ebbtide_core::{LINE_BYTES, PAGE_BYTES, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Destination of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logging {
    /// One write-ahead log. A transaction that commits during a write joins the next group.
    Central,
    /// A log for each transaction. Logs are written side by side.
    PerTransaction,
}

impl fmt::Display for Logging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Logging::Central => "central",
            Logging::PerTransaction => "per-transaction",
        })
    }
}

/// How a system makes a log record durable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Durable {
    /// Line by line: posted writes, then a read that waits for them.
    Lines {
        /// Time of a posted write of a line.
        post: Span,
        /// Time of the read that waits for the writes.
        verify: Span,
        /// Time of a line in the device's DRAM, which takes one line after the other.
        line: Span,
        /// Least time between two pages that the device takes. Its cache writes filled pages of log
        /// to flash.
        interval: Span,
    },
    /// Page by page. The device takes pages one after the other.
    Pages {
        /// Time of software before a write.
        software: Span,
        /// Time of a write, of any number of pages.
        write: Span,
        /// Least time between two pages that the device takes.
        interval: Span,
    },
}

/// The clients of a database.
#[derive(Debug, Clone, Copy)]
pub struct Clients {
    /// The number of clients.
    pub count: usize,
    /// Mean time of a transaction without its commit, exponentially distributed.
    pub execution: Span,
    /// Bytes of a transaction's log.
    pub log_bytes: u64,
    /// Share of transactions that write and so commit, from 0 to 1.
    pub write_share: f64,
}

impl Durable {
    fn time(self, bytes: u64) -> Span {
        match self {
            Durable::Lines { post, verify, .. } => {
                Span::from_ps(bytes.div_ceil(LINE_BYTES as u64) * post.as_ps()) + verify
            }
            Durable::Pages { software, write, .. } => software + write,
        }
    }

    /// How long the device is busy with a record of `bytes`. Lines and the read behind them go
    /// through its DRAM while earlier ones go to flash, so that the slower of the two counts.
    fn occupies(self, bytes: u64) -> Span {
        match self {
            Durable::Lines { line, interval, .. } => {
                let in_dram = (bytes.div_ceil(LINE_BYTES as u64) + 1) * line.as_ps();
                Span::from_ps(in_dram.max(bytes * interval.as_ps() / PAGE_BYTES as u64))
            }
            Durable::Pages { interval, .. } => {
                Span::from_ps(bytes.div_ceil(PAGE_BYTES as u64) * interval.as_ps())
            }
        }
    }
}

impl Durable {
    /// How long a log that is written by one at a time is busy with a record of `bytes`. Lines
    /// occupy the device while they are posted, pages afterwards.
    fn holds(self, bytes: u64) -> Span {
        match self {
            Durable::Lines { .. } => self.time(bytes).max(self.occupies(bytes)),
            Durable::Pages { .. } => self.time(bytes) + self.occupies(bytes),
        }
    }
}

/// Transactions simulated.
const TRANSACTIONS: u64 = 20_000;

/// Returns the transactions per second of `clients`, from a simulation of 20,000 transactions. A
/// client starts the next transaction once its last one is durable. `seed` selects the execution
/// times.
pub fn throughput(clients: Clients, logging: Logging, durable: Durable, seed: u64) -> f64 {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut execution = |from: Time| {
        let uniform: f64 = rng.random();
        let ps = -(1.0 - uniform).ln() * clients.execution.as_ps() as f64;
        (from + Span::from_ps(ps as u64), rng.random::<f64>() < clients.write_share)
    };
    // When each client has run its transaction, and whether it must commit.
    let mut executed: BinaryHeap<_> =
        (0..clients.count).map(|_| Reverse(execution(Time::ZERO))).collect();
    let (mut device_free, mut log_free) = (Time::ZERO, Time::ZERO);
    let mut group: Vec<Time> = Vec::new();
    let (mut done, mut end) = (0, Time::ZERO);
    while done < TRANSACTIONS {
        let next = executed.peek().map(|Reverse((at, _))| *at);
        // A waiting group is written once the log is free, with every commit until then.
        let begins = group.first().map(|first| log_free.max(*first));
        if let Some(start) = begins.filter(|begins| next.is_none_or(|at| at > *begins)) {
            let bytes = clients.log_bytes * group.len() as u64;
            log_free = start + durable.holds(bytes);
            done += group.len() as u64;
            end = end.max(log_free);
            group.drain(..).for_each(|_| executed.push(Reverse(execution(log_free))));
            continue;
        }
        let Some(Reverse((at, writes))) = executed.pop() else { break };
        if writes && logging == Logging::Central {
            group.push(at);
            continue;
        }
        let mut durable_at = at;
        if writes {
            let start = device_free.max(at);
            device_free = start + durable.occupies(clients.log_bytes);
            durable_at = start + durable.time(clients.log_bytes);
        }
        done += 1;
        end = end.max(durable_at);
        executed.push(Reverse(execution(durable_at)));
    }
    done as f64 * 1e12 / end.as_ps() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: Durable = Durable::Lines {
        post: Span::from_ns(600),
        verify: Span::from_ns(4_800),
        line: Span::from_ns(50),
        interval: Span::from_us(2),
    };
    const PAGES: Durable = Durable::Pages {
        software: Span::ZERO,
        write: Span::from_us(16),
        interval: Span::from_us(2),
    };

    fn clients(count: usize, execution_us: u64) -> Clients {
        let execution = Span::from_us(execution_us);
        Clients { count, execution, log_bytes: 128, write_share: 1.0 }
    }

    #[test]
    fn a_lone_client_waits_for_its_own_commit_whatever_the_log() {
        for logging in [Logging::Central, Logging::PerTransaction] {
            let per_s = throughput(clients(1, 0), logging, LINES, 1);
            // Two lines and the read that verifies them: 6 us.
            assert!((per_s - 1e6 / 6.0).abs() < 1.0, "{per_s}");
        }
    }

    #[test]
    fn a_central_log_of_pages_groups_commits_and_pays_for_a_page_once() {
        let central = throughput(clients(16, 10), Logging::Central, PAGES, 1);
        // 18 us a group, which sixteen clients could not pass one by one.
        assert!(central > 3.0 * 1e6 / 18.0, "{central}");
    }

    #[test]
    fn the_device_takes_pages_of_all_transactions_one_after_the_other() {
        let own = throughput(clients(64, 1), Logging::PerTransaction, PAGES, 1);
        assert!((own - 0.5e6).abs() < 0.01e6, "a page every 2 us: {own}");
    }

    #[test]
    fn lines_of_all_transactions_pass_the_devices_dram_one_after_the_other() {
        // Two lines and the read behind them, 50 ns each.
        let per_s = throughput(clients(64, 0), Logging::PerTransaction, LINES, 1);
        assert!((per_s - 1e9 / 150.0).abs() < 0.01e9 / 150.0, "{per_s}");
        // 32 times as many bytes, a page's, go to flash in 2 us and through DRAM in 3.25.
        let long = Clients { log_bytes: 4096, ..clients(256, 0) };
        let per_s = throughput(long, Logging::PerTransaction, LINES, 1);
        assert!((per_s - 1e6 / 3.25).abs() < 0.01e6 / 3.25, "{per_s}");
    }

    #[test]
    fn filled_pages_of_log_must_reach_flash() {
        let slow = Durable::Lines {
            post: Span::from_ns(600),
            verify: Span::from_ns(4_800),
            line: Span::from_ns(50),
            interval: Span::from_us(16),
        };
        // 128 bytes are a 32nd of a page.
        let per_s = throughput(clients(64, 0), Logging::PerTransaction, slow, 1);
        assert!((per_s - 2e6).abs() < 0.02e6, "{per_s}");
    }

    #[test]
    fn byte_granular_commits_beside_each_other_beat_all_others() {
        let best = throughput(clients(16, 10), Logging::PerTransaction, LINES, 1);
        for (logging, durable) in
            [(Logging::Central, LINES), (Logging::Central, PAGES), (Logging::PerTransaction, PAGES)]
        {
            assert!(best > throughput(clients(16, 10), logging, durable, 1));
        }
    }

    #[test]
    fn transactions_that_only_read_do_not_commit() {
        let readers = Clients { write_share: 0.0, ..clients(4, 10) };
        let per_s = throughput(readers, Logging::Central, PAGES, 1);
        assert!((per_s - 0.4e6).abs() < 0.02e6, "{per_s}");
    }
}
