//! The verdict on each claim of the CXL-flash study.

pub(super) mod captured;
pub(super) mod counterparts;
pub(super) mod real;
pub(super) mod synthetic;

use super::CxlFlash;
use super::experiments::{Cut, LONGER, PREFETCHERS, Row, SYNTHETIC};
use super::formulas;
use ebbtide_study::analytic::lifetime::Wear;
use ebbtide_study::claims::{Claim, Finding};

const NO_PREFETCHER: &str = PREFETCHERS[0].1;
const BEST_OFFSET: &str = PREFETCHERS[3].1;
const LEAP: &str = PREFETCHERS[4].1;

/// Judges CX5: price of DRAM over NAND, and performance for the money.
pub(super) fn prices(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let [dear, cheap, least, most] = formulas::prices(claim, real::least_and_most(study));
    let worth = captured::worth(study);
    let by_shares = [least, most].map(|finding| real::by_shares(study, finding).note(&worth));
    [dear, cheap].into_iter().chain(by_shares).collect()
}

/// The findings of `judge` on captured programs, each with the result at the times of the capture.
pub(super) fn aside(
    claim: &Claim,
    study: &CxlFlash,
    judge: fn(&Claim, &CxlFlash) -> Vec<Finding>,
) -> Vec<Finding> {
    let own_times = judge(claim, &study.at_own_times());
    let findings = judge(claim, study).into_iter().zip(own_times);
    let noted = findings.map(|(finding, own)| {
        let ours = own.ours.as_deref().unwrap_or("has no value");
        finding.note(format!("At the times of the capture, which pass faster, it {ours}."))
    });
    noted.collect()
}

fn percent(row: &Row) -> f64 {
    100.0 * row.sub_us
}

/// The share of reads in longer traces of `program`. Empty if there are none.
fn longer(study: &CxlFlash, program: &str) -> String {
    let tried = LONGER.iter().filter(|(number, _)| SYNTHETIC[*number] == program);
    let shown: Vec<String> = tried
        .filter_map(|(_, times)| {
            let cut = Cut::Longer(*times).name();
            let reads = study.trace(program, &cut)?.reads;
            let below = percent(study.at("Cuts", program, &cut));
            Some(format!("{cut} {:.1}% read and {below:.1}% are below 1 us", 100.0 * reads))
        })
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    format!(
        "The first 20 million accesses end while the program still fills its data, half of them \
         being write-backs. Of its trace {} (8 GiB, no prefetcher). The study's trace goes further: \
         its translation keeps one access a microsecond.",
        shown.join(", ")
    )
}

/// The wear of a device of 1 TiB by a run.
fn wear(row: &Row, cycles: f64) -> Wear {
    let device_bytes = (1_u64 << 40) as f64;
    Wear { cycles, device_bytes, pages_written: row.flash_writes as f64, seconds: row.seconds }
}
