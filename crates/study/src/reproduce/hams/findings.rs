//! What becomes of each claim of HAMS.

use super::{Hams, LHAMS_E, MMAP, OPTANE_P, Point, THAMS_E, WorkloadRow};
use crate::claims::{self, Finding, Findings, Ours};
use crate::reproduce::of_every_claim;

/// A curve is flat if no point is further from its last one.
const FLAT: f64 = 0.10;

/// A run has recovered when it is as fast, from its start on, as this share of its last stretch.
const RECOVERED: f64 = 0.8;

pub(super) fn findings(hams: &Hams) -> Findings {
    let simulated = [gains(hams), software(hams), figure4(hams)].concat();
    of_every_claim(
        claims::hams::CLAIMS,
        simulated.into_iter().chain(claims::analytic::hams::findings()),
    )
}

fn found(id: &str, part: &str, ours: impl Into<Ours>) -> Finding {
    claims::find(id).expect("it is in the table").finding(part, ours)
}

fn gain(speedup: f64) -> f64 {
    100.0 * (speedup - 1.0)
}

fn gains(hams: &Hams) -> Vec<Finding> {
    let claim = |id, design: &str| {
        let listed = |rows: &[WorkloadRow]| {
            let gains = rows.iter().map(|row| (row.workload, gain(row.speedup(design))));
            gains.map(|(name, gain)| format!("{name} {gain:+.0}%")).collect::<Vec<_>>().join(", ")
        };
        let varied =
            hams.variations.iter().map(|row| format!("{}: {}", row.what, listed(&row.workloads)));
        found(id, "", gain(hams.mean_speedup(design)))
            .note(format!("{}.", listed(&hams.workloads)))
            .note(format!("With {}.", varied.collect::<Vec<_>>().join("; ")))
            .note("Rodinia's programs are not among ours.")
    };
    let ceiling = hams.workloads.iter().map(|row| row.nvdimm).sum::<f64>();
    vec![
        claim("HM1", LHAMS_E)
            .note(
                "A MoS page crosses PCIe whole, so a random miss waits for 128 KiB where mmap waits for \
                 4; HM4's share of software and H21n's 48% (HM12) cannot both hold for the same runs.",
            )
            .note(format!(
                "An NVDIMM that holds everything gains {:+.0}% here.",
                gain(ceiling / hams.workloads.len() as f64)
            )),
        claim("HM2", THAMS_E),
    ]
}

fn software(hams: &Hams) -> Vec<Finding> {
    let percent = |of| 100.0 * hams.mean_share(of);
    let share = percent(|row| row.mmap) + percent(|row| row.io_stack);
    vec![found("HM4", "", share).note(format!(
        "Flash and its link have {:.0}% and computing {:.0}%. The computing between misses was \
         derived from these shares, so this only says that the parts add up.",
        percent(|row| row.flash),
        percent(|row| row.compute),
    ))
    .note("Where cores read one after the other, one waits for the fault of another: that is under flash.")]
}

fn figure4(hams: &Hams) -> Vec<Finding> {
    let [mmap, lhams, thams, optane] =
        [MMAP, LHAMS_E, THAMS_E, OPTANE_P].map(|design| hams.curve(design));
    let last = |curve: &[Point]| curve.last().map_or(0.0, |point| point.pages_per_s);
    let starts = |curve: &[Point]| curve[0].pages_per_s / last(curve);
    let flat = |curve: &[Point]| {
        curve.iter().all(|point| (point.pages_per_s / last(curve) - 1.0).abs() <= FLAT)
    };
    let recovered = |curve: &[Point]| {
        let target = RECOVERED * last(curve);
        let point = curve.iter().find(|point| point.pages_per_s_so_far >= target);
        point.map_or(u64::MAX, |point| point.pages)
    };
    let pages = |pages: u64| match pages {
        u64::MAX => "not at all".to_string(),
        pages => format!("after {pages} pages"),
    };
    vec![
        found("HM9", "", gain(hams.best(THAMS_E, LHAMS_E))),
        found("HM10", "", hams.best(THAMS_E, MMAP)),
        found("HM11", "mmap", starts(mmap) < 0.5)
            .note(format!("At first {:.0}% of what it comes to.", 100.0 * starts(mmap))),
        found("HM11", "lhams-E", recovered(lhams) < recovered(mmap)).note(format!(
            "From its start on it is at {:.0}% of what it comes to {}, mmap {}.",
            100.0 * RECOVERED,
            pages(recovered(lhams)),
            pages(recovered(mmap)),
        )),
        found("HM11", "thams-E", flat(thams))
            .note(format!("At first {:.0}% of what it comes to.", 100.0 * starts(thams))),
        found("HM11", "optane-P", (starts(optane) - 1.0).abs() < 0.02)
            .note(format!("At first {:.0}% of what it comes to.", 100.0 * starts(optane))),
    ]
}
