//! What makes a result doubtful.

use ebbtide_report::figure as number;

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
    let ratio = outcome.ratio_to_dram;
    if outcome.mode != Mode::Dram && ratio.median > FASTER_THAN_DRAM {
        found.push(format!(
            "it has {:.2} times the throughput of DRAM-only, which is the upper bound: the machine \
             ran DRAM-only's jobs at another speed",
            ratio.median
        ));
    }
    let (figure, factor, what) = match outcome.mode {
        Mode::Dram => (outcome.jobs_per_s, DRAM_SPREAD_FACTOR, "jobs/s"),
        _ => (ratio, SPREAD_FACTOR, "of DRAM"),
    };
    if differ(figure, factor) {
        found.push(format!(
            "its rounds differ: {} to {} {what}",
            number(figure.min),
            number(figure.max)
        ));
    }
    if let (Some(all), Some(kernel)) = (outcome.cpu_us_per_miss, outcome.kernel_cpu_us_per_miss)
        && all.median < kernel.median
    {
        found.push(format!(
            "its CPU a miss, {:.2} us, is less than the kernel's part of it, {:.2} us: DRAM-only \
             needed more CPU a job than it does undisturbed",
            all.median, kernel.median
        ));
    }
    found
}

fn differ(figure: Spread, factor: f64) -> bool {
    figure.min <= 0.0 && figure.max > 0.0 || figure.max > factor * figure.min
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::outcome;
    use super::*;

    fn at(value: f64) -> Spread {
        Spread { median: value, min: value, max: value }
    }

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
        let outcome = ModeOutcome { ratio_to_dram: at(2.645), ..outcome(Mode::Paging) };
        let found = found(&outcome);
        assert!(found[0].contains("2.65 times the throughput of DRAM-only"), "{found:?}");
    }

    #[test]
    fn less_cpu_a_miss_than_its_part_in_the_kernel_is_doubtful() {
        let outcome = ModeOutcome {
            cpu_us_per_miss: Some(at(12.67)),
            kernel_cpu_us_per_miss: Some(at(23.61)),
            ..outcome(Mode::Ebbtide)
        };
        let found = found(&outcome);
        assert!(found[0].contains("12.67 us, is less than the kernel's part"), "{found:?}");
    }

    #[test]
    fn rounds_that_differ_are_doubtful() {
        let spread = Spread { median: 0.4, min: 0.2, max: 0.5 };
        let outcome = ModeOutcome { ratio_to_dram: spread, ..outcome(Mode::Sync) };
        assert_eq!(found(&outcome), ["its rounds differ: 0.200 to 0.500 of DRAM"]);
    }

    #[test]
    fn what_disturbed_it_is_said() {
        let disturbed = Disturbance { steal_share: 0.3, cpu_s: 1.0, ..Disturbance::default() };
        let found = doubts(&outcome(Mode::Dram), [&disturbed].into_iter());
        assert_eq!(found, ["the host took up to 30% of its CPU (steal)"]);
    }
}
