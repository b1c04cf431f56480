//! [`MissRatios`]: the miss ratios of a program by size of DRAM, without a service objective.

use std::fmt::{self, Display, Formatter};

use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::{PAGE_BYTES, Watch};
use ebbtide_report::{Page, PageReport, Table};
use serde::Serialize;
use serde_json::{Value, json};

use super::demand::{self, Demand};
use super::{Input, SizeError, check_input};

/// The miss ratio of a program or a trace by size of DRAM.
#[derive(Debug, Clone, Serialize)]
pub struct MissRatios {
    /// The program's accesses, with the curves.
    #[serde(flatten)]
    pub demand: Demand,
    /// Notes for the user.
    pub notices: Vec<String>,
}

/// Computes the miss-ratio curves of LRU and `policies` for `input`. Standard input is read once,
/// so only LRU gets a curve there.
///
/// # Errors
/// [`SizeError`] when an option is impossible, the program cannot be built, or the trace cannot be
/// read to its end. Also when `watch` requests a stop.
pub fn miss_ratios(
    input: &Input,
    policies: &[PolicyKind],
    watch: Watch<'_>,
) -> Result<MissRatios, SizeError> {
    check_input(input)?;
    let mut others: Vec<PolicyKind> = Vec::new();
    for policy in policies {
        if *policy != PolicyKind::Lru && !others.contains(policy) {
            others.push(*policy);
        }
    }
    let mut notices = Vec::new();
    let demand = demand::measure(input, &others, watch, &mut notices)?;
    Ok(MissRatios { demand, notices })
}

impl MissRatios {
    /// A row for each policy and size: name, bytes, share of the data, miss ratio, write-backs an
    /// access.
    fn rows(&self) -> impl Iterator<Item = (&'static str, u64, [f64; 3])> + '_ {
        let pages = self.demand.dataset_pages as f64;
        self.demand.curves.iter().flat_map(move |curve| {
            curve.points.iter().map(move |(share, misses, write_backs)| {
                let bytes = (share * pages).round() as u64 * PAGE_BYTES as u64;
                (curve.policy.name(), bytes, [*share, *misses, *write_backs])
            })
        })
    }
}

impl Display for MissRatios {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let header = ["policy", "DRAM", "% of the data", "% miss", "% written back"];
        let table = self.rows().fold(Table::new("Miss ratios", header), |table, row| {
            let (policy, bytes, shares) = row;
            let cells = [policy.to_string(), ebbtide_report::bytes(bytes as f64)];
            table.numbers(cells, shares.map(|share| share * 100.0))
        });
        write!(f, "{}\n\n{table}", self.demand.source)?;
        self.notices.iter().try_for_each(|notice| writeln!(f, "note: {notice}"))
    }
}

impl PageReport for MissRatios {
    /// Misses and write-backs as charts.
    fn page(&self) -> Page {
        let page = Page::new(&format!("Misses of {} by size of DRAM", self.demand.source))
            .lines(self.demand.misses_chart())
            .lines(self.demand.write_backs_chart());
        self.notices.iter().fold(page, |page, note| page.paragraph(&format!("Note: {note}.")))
    }

    /// One row for each policy and size.
    fn records(&self) -> serde_json::Result<Vec<Value>> {
        let record = |(policy, bytes, [share, misses, write_backs]): (&str, u64, [f64; 3])| {
            json!({
                "policy": policy,
                "dram_bytes": bytes,
                "dram_share": share,
                "miss_ratio": misses,
                "write_backs_per_access": write_backs,
            })
        };
        Ok(self.rows().map(record).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_fall_with_dram_and_every_policy_has_a_row_a_size() {
        let input = Input::Workload {
            name: ebbtide_workloads::Kind::ArraySwap,
            dataset_bytes: 4 << 20,
            theta: 0.99,
            miss_interval_us: 10.0,
            seed: 1,
        };
        let policies = [PolicyKind::Fifo, PolicyKind::Lru, PolicyKind::Fifo];
        let curves = miss_ratios(&input, &policies, Watch::unattended()).unwrap();
        assert_eq!(curves.demand.curves.len(), 2);
        let records = curves.records().unwrap();
        assert_eq!(records.len(), 2 * curves.demand.sizes().len());
        let lru = records.iter().filter(|record| record["policy"] == "lru");
        let ratios: Vec<f64> = lru.map(|row| row["miss_ratio"].as_f64().unwrap()).collect();
        assert!(ratios.windows(2).all(|pair| pair[1] <= pair[0]), "{ratios:?}");
        assert!(curves.to_string().contains("lru") && curves.page().html().is_ok());
    }
}
