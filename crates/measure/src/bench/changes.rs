//! [`Against`]: the changes of a bench since an earlier one.

use ebbtide_report::Table;
use ebbtide_report::statistics::Estimate;
use serde::Serialize;

use super::options::Mode;

/// The changes of a bench since an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Against {
    /// The name of the earlier bench.
    pub name: String,
    /// The machine of the earlier bench.
    pub machine: String,
    /// The changes, one for each outcome that both benches have.
    pub changes: Vec<Change>,
    /// Reasons against a comparison: different settings and machines, doubts.
    pub caveats: Vec<String>,
}

/// The change of one outcome. A change is a factor: 1.05 is 5% more than before.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Workload.
    pub workload: String,
    /// Memory.
    pub mode: Mode,
    /// Offered load as a share of DRAM-only's throughput; `None` in a closed loop.
    pub load: Option<f64>,
    /// The factor of throughput. It compares jobs per second for DRAM-only, and the ratio to
    /// DRAM-only for others.
    pub throughput: Estimate,
    /// The factor of the 99th percentile of the response time, if both benches have it.
    pub p99: Option<Estimate>,
    /// Verdict from the interval of the throughput.
    pub verdict: Verdict,
}

/// Verdict of a confidence interval on a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval is above 1.
    Faster,
    /// The whole interval is below 1.
    Slower,
    /// The interval includes 1.
    Same,
    /// There is no interval: one of the two benches had a single round.
    Unknown,
}

impl Verdict {
    pub(super) fn of(change: &Estimate) -> Verdict {
        match change.ci95 {
            Some([low, _]) if low > 1.0 => Verdict::Faster,
            Some([_, high]) if high < 1.0 => Verdict::Slower,
            Some(_) => Verdict::Same,
            None => Verdict::Unknown,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "no clear change",
            Verdict::Unknown => "one round: no interval",
        }
    }
}

impl Against {
    /// The changes, a row each, in percent.
    pub(super) fn table(&self) -> Table {
        let header =
            ["workload", "mode", "load", "verdict", "throughput %", "from %", "to %", "p99 %"];
        let table = Table::new(&format!("Against {}", self.name), header);
        self.changes.iter().fold(table, |table, change| {
            let percent = |factor: f64| Some(100.0 * (factor - 1.0));
            let load = change.load.map_or("max".to_string(), |load| format!("{load:.2}"));
            let interval = change.throughput.ci95;
            table.cells(
                [change.workload.as_str(), change.mode.name(), &load, change.verdict.words()],
                [
                    percent(change.throughput.mean),
                    interval.and_then(|[low, _]| percent(low)),
                    interval.and_then(|[_, high]| percent(high)),
                    change.p99.and_then(|p99| percent(p99.mean)),
                ],
            )
        })
    }
}
