//! What makes a result doubtful.

use ebbtide_report::figure as number;

use super::figures::Figure;
use super::options::Mode;
use super::results::ModeOutcome;
use super::spread::Spread;
use crate::disturbance::Disturbance;

/// DRAM-only is the upper bound. If a memory is faster by more than this, the machine changed its
/// speed between the two.
const FASTER_THAN_DRAM: f64 = 1.05;

/// A memory whose best round is better than its worst by more than this factor is doubtful.
const SPREAD_FACTOR: f64 = 1.5;

/// The same for DRAM-only. Neither the disk nor the kernel slows it.
const DRAM_SPREAD_FACTOR: f64 = 1.25;

/// Returns the reasons to doubt `outcome`; empty if there are none. `disturbances` belong to its
/// measurements and to DRAM-only's.
pub(super) fn doubts<'a>(
    outcome: &ModeOutcome,
    disturbances: impl Iterator<Item = &'a Disturbance> + Clone,
) -> Vec<String> {
    let mut found: Vec<String> = Disturbance::reason(disturbances).into_iter().collect();
    let ratio = outcome.spread(Figure::RatioToDram);
    if let Some(ratio) = ratio
        && outcome.mode != Mode::Dram
        && ratio.median > FASTER_THAN_DRAM
    {
        found.push(format!(
            "it has {:.2} times the throughput of DRAM-only, which is the upper bound: the machine \
             ran DRAM-only's jobs at another speed",
            ratio.median
        ));
    }
    let (figure, factor, what) = match outcome.mode {
        Mode::Dram => (outcome.spread(Figure::JobsPerS), DRAM_SPREAD_FACTOR, "jobs/s"),
        _ => (ratio, SPREAD_FACTOR, "of DRAM"),
    };
    if let Some(Spread { min, max, .. }) = figure.filter(|figure| differ(*figure, factor)) {
        found.push(format!("its rounds differ: {} to {} {what}", number(min), number(max)));
    }
    if let (Some(all), Some(kernel)) =
        (outcome.number(Figure::CpuUsPerMiss), outcome.number(Figure::KernelCpuUsPerMiss))
        && all < kernel
    {
        found.push(format!(
            "its CPU a miss, {all:.2} us, is less than the kernel's part of it, {kernel:.2} us: \
             DRAM-only needed more CPU a job than it does undisturbed"
        ));
    }
    found
}

fn differ(figure: Spread, factor: f64) -> bool {
    figure.min <= 0.0 && figure.max > 0.0 || figure.max > factor * figure.min
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::{at, outcome, with};
    use super::*;

    fn found(outcome: &ModeOutcome) -> Vec<String> {
        doubts(outcome, [].into_iter())
    }

    #[test]
    fn an_undisturbed_result_within_bounds_is_not_doubtful() {
        assert_eq!(found(&outcome(Mode::Ebbtide)), Vec::<String>::new());
        assert_eq!(found(&outcome(Mode::Dram)), Vec::<String>::new());
    }

    #[test]
    fn more_than_the_upper_bound_is_doubtful() {
        let outcome = with(outcome(Mode::Paging), &[(Figure::RatioToDram, at(2.645))]);
        let found = found(&outcome);
        assert!(found[0].contains("2.65 times the throughput of DRAM-only"), "{found:?}");
    }

    #[test]
    fn less_cpu_a_miss_than_its_part_in_the_kernel_is_doubtful() {
        let costs = [(Figure::CpuUsPerMiss, at(12.67)), (Figure::KernelCpuUsPerMiss, at(23.61))];
        let outcome = with(outcome(Mode::Ebbtide), &costs);
        let found = found(&outcome);
        assert!(found[0].contains("12.67 us, is less than the kernel's part"), "{found:?}");
    }

    #[test]
    fn rounds_that_differ_are_doubtful() {
        let spread = Spread { median: 0.4, min: 0.2, max: 0.5 };
        let outcome = with(outcome(Mode::Sync), &[(Figure::RatioToDram, spread)]);
        assert_eq!(found(&outcome), ["its rounds differ: 0.200 to 0.500 of DRAM"]);
    }

    #[test]
    fn what_disturbed_it_is_said() {
        let disturbed = Disturbance { steal_share: 0.3, cpu_s: 1.0, ..Disturbance::default() };
        let found = doubts(&outcome(Mode::Dram), [&disturbed].into_iter());
        assert_eq!(found, ["the host took up to 30% of its CPU (steal)"]);
    }
}
