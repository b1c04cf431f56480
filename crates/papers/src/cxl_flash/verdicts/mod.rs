//! What becomes of each claim of the CXL-flash study.

mod captured;
mod real;
mod synthetic;

use super::CxlFlash;
use super::experiments::{LONGER, SYNTHETIC};
use super::programs::Cut;
use super::runs::Row;
use crate::claims::{self, Finding, Findings};
use crate::cxl_flash::formulas;
use crate::of_every_claim;
use ebbtide_study::analytic::lifetime::Wear;

/// Every claim, in order.
pub(super) fn all(study: &CxlFlash) -> Findings {
    let prices = formulas::prices().map(|finding| finding.note(captured::worth(study))).into();
    let found = [
        synthetic::caches(study),
        synthetic::next_line(study),
        synthetic::flash(study),
        synthetic::addresses(study),
        real::replacement(study),
        real::prefetching(study),
        real::lifetimes(study),
        real::hints(study),
        real::traces(study),
        captured::all(study),
        prices,
    ]
    .concat();
    of_every_claim(crate::cxl_flash::claims::CLAIMS, found.into_iter())
}

fn found(id: &str, part: &str, ours: impl Into<claims::Ours>) -> Finding {
    claims::find(id).expect("it is in the table").finding(part, ours)
}

fn percent(row: &Row) -> f64 {
    100.0 * row.sub_us
}

/// How often longer traces of `program` read; nothing if none was tried.
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
         being write-backs. Of its trace {} (8 GiB, no prefetcher): the study's goes further, as \
         it does whose translation keeps one access a microsecond.",
        shown.join(", ")
    )
}

fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.into_iter().fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    sum / count
}

/// The wear of a device of 1 TiB by a run.
fn wear(row: &Row, cycles: f64) -> Wear {
    let device_bytes = (1_u64 << 40) as f64;
    Wear { cycles, device_bytes, pages_written: row.flash_writes as f64, seconds: row.seconds }
}
