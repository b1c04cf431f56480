//! Table II: the tails of service.

use ebbtide_report::statistics::Estimate;
use ebbtide_study::claims::{CONVERGED, Claim, Finding, Verdict, mean};
use ebbtide_study::convergence::{self, LONG_ENOUGH};
use ebbtide_study::simulate::spent;

use super::{at_scales, interval, percent, with_causes_changed};
use crate::astriflash::AstriFlash;
use crate::astriflash::experiments::{
    DEEPER_WALK, Outcomes, Run, SHORTER, SHORTER_OF, WORKLOADS, WorkloadRow, of, over_seeds,
};

/// Judges AS32: p99 service over Flash-Sync's, AstriFlash.
pub(crate) fn astriflash(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    by_workload(claim, r, "astriflash", |row, finding| match finding.verdict {
        Verdict::Outside => finding.note(tail_cause(r, row)),
        _ => finding,
    })
}

/// Judges AS33: p99 service over Flash-Sync's, noPS.
pub(crate) fn no_ps(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    by_workload(claim, r, "astriflash-nops", |_, finding| finding)
}

/// The tail of `design` under each workload, with the explanation of `explain`, and over all
/// workloads.
fn by_workload(
    claim: &Claim,
    r: &AstriFlash,
    design: &'static str,
    explain: impl Fn(&WorkloadRow, Finding) -> Finding,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for row in &r.workloads {
        let estimate = of(&row.p99_over_flash_sync, design);
        let finding = claim.tail(row.workload, estimate).note(interval(estimate, ""));
        let finding = match cut_short(&r.outcomes, row.workload, design) {
            Some(why) => finding.not_converged(&why),
            None => finding,
        };
        findings.push(explain(row, finding));
    }
    let all = claim.tail("geometric mean", geometric(r, design));
    findings.push(of_all(&r.outcomes, design, all));
    findings
}

fn geometric(r: &AstriFlash, design: &'static str) -> Estimate {
    over_seeds(|seed| r.outcomes.geometric_mean_p99(design, |run| run.seed(seed)))
}

/// Judges AS34: p99 service over Flash-Sync's, noDP.
pub(crate) fn no_dp(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let no_dp = geometric(r, "astriflash-nodp");
    let deeper = r
        .outcomes
        .geometric_mean_p99("astriflash-nodp", |run| run.set(DEEPER_WALK.0, DEEPER_WALK.1));
    let tables = r.parameters.dataset.size.0 as f64 / 512.0 / r.parameters.dram_cache.size.0 as f64;
    let found = claim.tail("", no_dp).note(interval(no_dp, ""));
    vec![of_all(&r.outcomes, "astriflash-nodp", found).note(format!(
        "All leaf tables would take {:.0}% of DRAM and each maps 512 pages, so that they are asked for \
         far more often than the pages: they add {:.0}% to the misses. It is {deeper:.2} with {} = {}.",
        100.0 * tables,
        100.0 * (mean(r.workloads.iter().map(|row| row.misses_over_astriflash_nodp)) - 1.0),
        DEEPER_WALK.0,
        DEEPER_WALK.1,
    ))]
}

/// Judges AS35: p99 service lost by AstriFlash.
pub(crate) fn lost(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let lost = percent(geometric(r, "astriflash"));
    let found = claim.finding("", lost.mean - 100.0);
    let found = match lost.is_within(CONVERGED) {
        true => found.note(interval(lost, " pp")),
        false => found.not_converged(&interval(lost, " pp")),
    };
    vec![
        of_all(&r.outcomes, "astriflash", found)
            .note("The geometric mean of AS32, whose longest tails are explained there."),
    ]
}

/// The reason why the tail of a workload is longer than Flash-Sync's, by experiment.
fn tail_cause(r: &AstriFlash, row: &WorkloadRow) -> String {
    let slowest = |design| spent(&of(&row.service_parts, design).slowest);
    format!(
        "A job has {:.1} misses, so that {:.0}% of a core's turns are of jobs that come back. Of the \
         slowest 1% each has {}; on Flash-Sync {}. It is {}{}.",
        row.misses_per_job,
        100.0 * row.misses_per_job / (1.0 + row.misses_per_job),
        slowest("astriflash"),
        slowest("flash-sync"),
        with_causes_changed(r, row.workload, |cause| cause.p99_over_flash_sync),
        at_scales(r, row.workload, |scale| &scale.p99_over_flash_sync),
    )
}

/// The finding for all workloads together. It has not converged if one of them was cut short.
fn of_all(outcomes: &Outcomes, design: &'static str, finding: Finding) -> Finding {
    let short: Vec<&str> = WORKLOADS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| cut_short(outcomes, name, design).is_some())
        .collect();
    match short.is_empty() {
        true => finding,
        false => finding.not_converged(&format!(
            "The runs of {} are too short for their longest jobs.",
            short.join(", ")
        )),
    }
}

/// Returns a warning with the result of a shorter run, if the longest jobs of `design` last too
/// long for its run.
fn cut_short(outcomes: &Outcomes, workload: &str, design: &'static str) -> Option<String> {
    let (_, kind) = WORKLOADS.iter().find(|(name, _)| *name == workload)?;
    let run = Run::of(design, *kind);
    let lasts = |run: &Run| convergence::lasts(outcomes.of(run));
    if lasts(&run) >= LONG_ENOUGH {
        return None;
    }
    let missing = format!(
        "The run lasts {:.1} times that p99, so that some of the longest jobs do not end in it.",
        lasts(&run)
    );
    if *kind != SHORTER.0 || !SHORTER_OF.contains(&design) {
        return Some(missing);
    }
    let shorter = run.only(SHORTER.1);
    Some(format!(
        "{missing} With {} jobs, {:.1} times as long as their own, it is {:.2}.",
        SHORTER.1,
        lasts(&shorter),
        outcomes.p99_ratio(&shorter),
    ))
}
