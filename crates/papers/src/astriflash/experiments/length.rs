//! The jobs that the runs of a full run need for the tails of claims.

use ebbtide_sim::Outcome;
use ebbtide_study::convergence::{LONGEST, for_interval, for_length};
use ebbtide_workloads::Kind;

use super::{
    DESIGNS, LOADED, LoadRow, Outcomes, QUEUEING_LOAD, QUIET_LOAD, Run, Runs, SEEDS, SHARED_LESS,
    WORKLOADS, loaded, over_seeds, rows,
};

/// The load of DRAM-only for the comparison of its tail with AstriFlash's.
pub(crate) const DRAM_ONLY_LOAD: f64 = 0.96;

/// The designs of Table II that claims are about.
const JUDGED: [&str; 3] = ["astriflash", "astriflash-nops", "astriflash-nodp"];

/// Returns the jobs that each run of `outcomes` needs, as a multiple of those that it had. At most
/// 1 for a run that has enough.
pub(super) fn wanted(sets: &[Runs], outcomes: &Outcomes) -> Vec<f64> {
    let mut wanted = vec![1.0; outcomes.0.len()];
    if sets.contains(&Runs::Table) {
        for (_, workload) in WORKLOADS {
            for (number, times) in for_table(workload, outcomes) {
                wanted[number] = times;
            }
        }
    }
    if sets.contains(&Runs::Loads) {
        for LoadRow { design, load, response_p99_us, .. } in judged(&rows::loads(outcomes)) {
            for (wanted, (run, _)) in wanted.iter_mut().zip(&outcomes.0) {
                if (0..SEEDS).any(|seed| run == &loaded(design, *load, seed)) {
                    *wanted = for_interval(response_p99_us);
                }
            }
        }
    }
    wanted
}

/// The same for the runs of `workload` in Table II, by their numbers.
///
/// First the runs that do not last long enough for their p99 get more jobs. Then all others get as
/// many, because tails are compared on the same jobs. Then all get as many as seeds need to agree
/// on each tail.
fn for_table(workload: Kind, outcomes: &Outcomes) -> Vec<(usize, f64)> {
    let own = Run::of(DESIGNS[0], workload);
    let compared = |run: &Run| {
        let Run { design, seed, set, .. } = run.clone();
        run == &Run { design, seed, set, ..own.clone() } && set != Some(SHARED_LESS)
    };
    let runs: Vec<(usize, &Run, &Outcome)> = (0..)
        .zip(&outcomes.0)
        .filter(|(_, (run, _))| compared(run))
        .map(|(number, (run, outcome))| (number, run, outcome))
        .collect();
    let short: Vec<(usize, f64)> = runs
        .iter()
        .filter(|(_, run, outcome)| {
            JUDGED.contains(&run.design)
                && run.set.is_none()
                && outcome.jobs < LONGEST * run.first_jobs()
        })
        .map(|(number, _, outcome)| (*number, for_length(outcome)))
        .filter(|(_, times)| *times > 1.0)
        .collect();
    if !short.is_empty() {
        return short;
    }
    let most = runs.iter().map(|(.., outcome)| outcome.jobs).max().unwrap_or(0);
    if runs.iter().any(|(.., outcome)| outcome.jobs < most) {
        let behind = |outcome: &Outcome| most as f64 / outcome.jobs as f64;
        return runs.iter().map(|(number, _, outcome)| (*number, behind(outcome))).collect();
    }
    let intervals = JUDGED.map(|design| {
        let run = |seed| Run::of(design, workload).seed(seed);
        for_interval(&over_seeds(|seed| outcomes.p99_ratio(&run(seed))))
    });
    let times = intervals.into_iter().fold(1.0, f64::max);
    runs.iter().map(|(number, ..)| (*number, times)).collect()
}

/// The points of Fig. 10 that decide claims.
fn judged(loads: &[LoadRow]) -> Vec<&LoadRow> {
    let pairs = [QUIET_LOAD, QUEUEING_LOAD]
        .into_iter()
        .flat_map(|load| LOADED.map(|design| at_load(loads, design, load)));
    GivenUp::of(loads).around.into_iter().chain(pairs).collect()
}

/// A point of Fig. 10.
pub(crate) fn at_load<'a>(loads: &'a [LoadRow], design: &str, load: f64) -> &'a LoadRow {
    let row = loads.iter().find(|row| row.design == design && row.load == load);
    row.expect("this load was run")
}

/// The load with which AstriFlash has DRAM-only's tail at [`DRAM_ONLY_LOAD`].
pub(crate) struct GivenUp<'a> {
    /// DRAM-only's point.
    pub(crate) limit: &'a LoadRow,
    /// That load.
    pub(crate) equal: f64,
    /// AstriFlash's points below and above that load, and the limit. They decide the load.
    pub(crate) around: Vec<&'a LoadRow>,
}

impl GivenUp<'_> {
    /// By the points of `loads`.
    pub(crate) fn of(loads: &[LoadRow]) -> GivenUp<'_> {
        let astriflash = || loads.iter().filter(|row| row.design == "astriflash");
        let limit = at_load(loads, "dram-only", DRAM_ONLY_LOAD);
        let points = astriflash().map(|row| (row.load, row.response_p99_us.mean));
        let equal = crossing(points, limit.response_p99_us.mean).unwrap_or(DRAM_ONLY_LOAD);
        let below = astriflash().rfind(|row| row.load <= equal);
        let above = astriflash().find(|row| row.load > equal);
        let around = below.into_iter().chain(above).chain([limit]).collect();
        GivenUp { limit, equal, around }
    }
}

/// The point where the rising line through `points` reaches `level`.
pub(crate) fn crossing(points: impl Iterator<Item = (f64, f64)>, level: f64) -> Option<f64> {
    let points: Vec<(f64, f64)> = points.collect();
    let pair = points.windows(2).find(|pair| pair[0].1 <= level && level < pair[1].1)?;
    let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
    Some(x0 + (level - y0) / (y1 - y0) * (x1 - x0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_crossed_between_points() {
        let points = [(1.0, 10.0), (2.0, 20.0), (4.0, 40.0)];
        assert_eq!(crossing(points.into_iter(), 30.0), Some(3.0));
        assert_eq!(crossing(points.into_iter(), 50.0), None);
    }
}
