//! [`Statistics`]: the figures of Tables 2 and 5, measured on a trace.
//!
//! The two localities are the shares that stand-ins are made with ([`ebbtide_workloads::StandIn`]),
//! as a check of the stand-ins. `ebbtide_trace::Statistics` measures localities by distances
//! instead, so the two cannot be compared.

use ebbtide_core::{PageId, Watch};
use ebbtide_study::watched::Watched;
use ebbtide_trace::{Op, Source, TraceError};
use ebbtide_workloads::{Open, REUSED};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::given::Given;
use super::programs::PROGRAMS;
use super::runs::{Recordings, Scale};
use super::stand_ins::STAND_INS;
use super::{OPEN, REAL};
use crate::ReproduceError;

/// Measured accesses of a stand-in: with the fixed generator, and with other choices.
const LOOKED_AT: u64 = 2_000_000;
const OPEN_LOOKED_AT: u64 = 200_000;

/// The statistics of a trace.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Statistics {
    /// The program.
    pub program: &'static str,
    /// The difference of the trace from the study's or from the fixed generator. Empty if there is
    /// none.
    pub cut: String,
    /// Mean time between accesses.
    pub interval_ns: f64,
    /// Share of accesses that read.
    pub reads: f64,
    /// Share of accesses to the line after the previous one.
    pub spatial: f64,
    /// Share of the other accesses that go to one of the last pages.
    pub temporal: f64,
    /// Accesses, and pages that they touch. Only of the study's own traces, which are read to their
    /// ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole: Option<Whole>,
}

/// The size of a whole trace.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Whole {
    /// Accesses.
    pub accesses: u64,
    /// Pages that they touch.
    pub pages: u64,
}

/// Replaces in `traces` the stand-ins whose programs have a `given` trace, by physical addresses.
///
/// # Errors
/// When a trace cannot be read, or when the user stops.
pub(super) fn add_given(
    traces: &mut Vec<Statistics>,
    given: &Given,
    watch: Watch<'_>,
) -> Result<(), ReproduceError> {
    for (number, program) in REAL.into_iter().enumerate() {
        let Some(path) = given.of(number, true) else { continue };
        watch.go_on()?;
        traces.retain(|trace| trace.program != program);
        let mut trace = Watched::new(ebbtide_trace::open(path)?, watch);
        let (statistics, whole) = measured(program, &mut trace)?;
        watch.go_on()?;
        traces.push(Statistics { whole: Some(whole), ..statistics });
    }
    Ok(())
}

/// The statistics of all traces.
pub(super) fn all(recordings: &Recordings, scale: Scale, seed: u64) -> Vec<Statistics> {
    let synthetic = recordings.made().map(|(program, cut, recording)| Statistics {
        cut: cut.name(),
        ..of(PROGRAMS[program].name, &mut *PROGRAMS[program].replay(cut, recording))
    });
    let real = STAND_INS.iter().flat_map(|program| {
        let open = OPEN.into_iter().chain([Open::Fixed]);
        open.map(|open| {
            let looked_at = if open == Open::Fixed { LOOKED_AT } else { OPEN_LOOKED_AT };
            let looked_at = looked_at.min(scale.accesses_max);
            let found = of(program.name, &mut program.trace(looked_at, open, seed));
            Statistics { cut: open.name(), ..found }
        })
    });
    synthetic.chain(real).collect()
}

/// The statistics of one trace that is made up.
fn of(program: &'static str, trace: &mut dyn Source) -> Statistics {
    measured(program, trace).expect("a trace that is made up has no faults").0
}

/// The statistics of one trace, and its size.
fn measured(
    program: &'static str,
    trace: &mut dyn Source,
) -> Result<(Statistics, Whole), TraceError> {
    let (mut batch, mut count, mut reads, mut follows, mut returns) = (Vec::new(), 0, 0, 0, 0);
    let (mut last_line, mut last_at) = (u64::MAX - 1, 0);
    // The number of the last visit to each page.
    let (mut went, mut gone) = (FxHashMap::<PageId, usize>::default(), 0);
    while trace.fill(&mut batch)? {
        for access in &batch {
            let line = access.address.0 / u64::from(access.bytes);
            count += 1;
            reads += u64::from(access.op == Op::Read);
            last_at = access.at.as_ps();
            if line == last_line + 1 {
                follows += 1;
            } else {
                gone += 1;
                let before = went.insert(access.address.page(), gone);
                returns += u64::from(before.is_some_and(|before| gone - before <= REUSED));
            }
            last_line = line;
        }
    }
    let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
    let whole = Whole { accesses: count, pages: went.len() as u64 };
    let statistics = Statistics {
        program,
        cut: String::new(),
        interval_ns: last_at as f64 / 1e3 / (count as f64),
        reads: share(reads, count),
        spatial: share(follows, count),
        temporal: share(returns, count - follows),
        whole: None,
    };
    Ok((statistics, whole))
}

#[cfg(test)]
mod tests {
    use super::super::programs::Cut;
    use super::*;

    #[test]
    fn stand_ins_are_as_table_5_has_them() {
        for program in STAND_INS {
            let found = of(program.name, &mut program.trace(400_000, Open::Fixed, 1));
            for (ours, theirs) in [
                (found.interval_ns, program.interval_ns),
                (found.reads, program.reads),
                (found.spatial, program.spatial),
                (found.temporal, program.temporal),
            ] {
                assert!((ours / theirs - 1.0).abs() < 0.05, "{program:?}: {found:?}");
            }
        }
    }

    #[test]
    fn what_table_5_leaves_open_leaves_its_figures_alone() {
        let kept = OPEN.into_iter().filter(|open| !matches!(open, Open::Returns(_)));
        for (program, open) in kept.flat_map(|open| STAND_INS.map(|program| (program, open))) {
            let found = of(program.name, &mut program.trace(400_000, open, 1));
            for (ours, theirs) in
                [(found.interval_ns, program.interval_ns), (found.reads, program.reads)]
            {
                assert!((ours / theirs - 1.0).abs() < 0.05, "{program:?}, {open:?}: {found:?}");
            }
            for (ours, theirs) in
                [(found.spatial, program.spatial), (found.temporal, program.temporal)]
            {
                assert!((ours - theirs).abs() < 0.05, "{program:?}, {open:?}: {found:?}");
            }
        }
    }

    #[test]
    fn programs_come_at_the_intervals_of_table_2_and_read_as_often_as_they_write() {
        for program in PROGRAMS {
            let recording = program.record(Cut::First, 64);
            let found = of(program.name, &mut *program.replay(Cut::First, &recording));
            assert!((found.interval_ns / program.interval_ns - 1.0).abs() < 0.02, "{found:?}");
            assert!((0.4..0.75).contains(&found.reads), "{found:?}");
        }
    }
}
