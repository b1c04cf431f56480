//! [`Durable`]: the cost of surviving crashes, compared with the same program in extend memory.

use std::fmt;

use ebbtide_core::PAGE_BYTES;
use ebbtide_core::durability::Policy;
use serde::Serialize;

use super::protocol::Committed;
use super::round::Turn;
use super::spread::Spread;

/// Ebbtide over a store that survives crashes, compared with Ebbtide over one that does not. All
/// but the ratio and the rate are medians per transaction that stored anything.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Durable {
    /// When a transaction was acknowledged.
    pub policy: Policy,
    /// Throughput divided by the throughput of extend memory in the same round.
    pub ratio_to_extend: Spread,
    /// Transactions that stored anything, per second.
    pub transactions_per_s: Spread,
    /// Bytes of the words that a transaction stored.
    pub stored_bytes: f64,
    /// Pages that a transaction stored to.
    pub stored_pages: f64,
    /// Bytes written to the log, its maps and superblocks per transaction.
    pub log_bytes: f64,
    /// Pages written back per transaction.
    pub pages_written: f64,
    /// Pages that extend memory wrote back for the same jobs, per transaction.
    pub pages_written_extend: f64,
    /// Transactions that one flush made durable, on average.
    pub transactions_per_flush: f64,
    /// Mean time of a flush, in milliseconds.
    pub flush_ms: f64,
}

impl Durable {
    /// From turns of the two in the same rounds.
    pub(super) fn of(policy: Policy, turns: &[&Turn], extend: &[&Turn]) -> Durable {
        let median = |figure: &dyn Fn(&Turn, &Turn) -> f64| {
            Spread::of(turns.iter().zip(extend).map(|(own, other)| figure(own, other))).median
        };
        let committed = |turn: &Turn| turn.window.committed;
        let share = |part: f64, whole: u64| part / whole.max(1) as f64;
        let of = |count: fn(&Committed) -> u64| {
            median(&|own, _| share(count(&committed(own)) as f64, committed(own).transactions))
        };
        let ratios = turns.iter().zip(extend);
        Durable {
            policy,
            ratio_to_extend: Spread::of(
                ratios.map(|(own, other)| own.jobs_per_s() / other.jobs_per_s()),
            ),
            transactions_per_s: Spread::of(
                turns.iter().map(|own| committed(own).transactions as f64 / own.window.seconds),
            ),
            stored_bytes: of(|committed| committed.stored_bytes),
            stored_pages: of(|committed| committed.stored_pages),
            log_bytes: of(|committed| committed.log_bytes),
            pages_written: median(&|own, _| {
                share(own.window.flash_writes as f64, committed(own).transactions)
            }),
            pages_written_extend: median(&|own, other| {
                let a_job = share(other.window.flash_writes as f64, other.window.jobs);
                a_job * share(own.window.jobs as f64, committed(own).transactions)
            }),
            transactions_per_flush: median(&|own, _| {
                share(committed(own).transactions as f64, committed(own).flushes)
            }),
            flush_ms: median(&|own, _| share(committed(own).flush_s * 1e3, committed(own).flushes)),
        }
    }

    /// Returns the share of written bytes saved against a page-granular system. Such a system
    /// writes each page that a transaction stored to at its commit.
    pub fn saved_share(&self) -> f64 {
        let page = PAGE_BYTES as f64;
        1.0 - (self.log_bytes + self.pages_written * page) / (self.stored_pages * page)
    }
}

impl fmt::Display for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { median, min, max } = self.ratio_to_extend;
        writeln!(
            f,
            "  durable, {}: {median:.3} ({min:.3} to {max:.3}) of extend memory; {:.0} transactions/s, \
             {:.1} a flush of {:.2} ms",
            self.policy, self.transactions_per_s.median, self.transactions_per_flush, self.flush_ms,
        )?;
        writeln!(
            f,
            "  a transaction stores {:.0} B in {:.2} pages and writes {:.0} B of log and {:.2} pages \
             (extend memory: {:.2}); writing its pages at each commit would be {:.0} B, of which {:.0}% \
             are saved",
            self.stored_bytes,
            self.stored_pages,
            self.log_bytes,
            self.pages_written,
            self.pages_written_extend,
            self.stored_pages * PAGE_BYTES as f64,
            self.saved_share() * 100.0,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::protocol::Window;

    #[test]
    fn figures_are_a_transaction_and_saved_is_against_whole_pages() {
        let turn = |jobs, flash_writes, committed| {
            let window =
                Window { jobs, seconds: 1.0, flash_writes, committed, ..Window::default() };
            Turn { window, ..Turn::default() }
        };
        let committed = Committed {
            transactions: 100,
            stored_pages: 400,
            stored_bytes: 10_400,
            log_bytes: 40_960,
            flushes: 4,
            flush_s: 0.008,
        };
        // Every second job only reads.
        let (own, other) = (turn(200, 90, committed), turn(400, 200, Committed::default()));
        let durable = Durable::of(Policy::Always, &[&own], &[&other]);
        assert_eq!(durable.ratio_to_extend.median, 0.5);
        assert_eq!((durable.stored_bytes, durable.stored_pages), (104.0, 4.0));
        assert_eq!((durable.log_bytes, durable.pages_written), (409.6, 0.9));
        assert_eq!(durable.pages_written_extend, 1.0);
        assert_eq!((durable.transactions_per_flush, durable.flush_ms), (25.0, 2.0));
        // A tenth of a page of log and 0.9 pages, of 4.
        assert!((durable.saved_share() - 0.75).abs() < 1e-9);
    }
}
