//! [`Statistics`]: what Tables 2 and 5 say of a trace, measured.

use ebbtide_core::PageId;
use ebbtide_trace::{Op, Source};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::programs::PROGRAMS;
use super::recording::Recording;
use super::runs::Scale;
use super::stand_ins::{REUSED, STAND_INS};

/// How many accesses of a stand-in are looked at.
const LOOKED_AT: u64 = 2_000_000;

/// What a trace is like.
#[derive(Debug, Clone, Serialize)]
pub struct Statistics {
    /// Of which program.
    pub program: &'static str,
    /// Mean time between accesses.
    pub interval_ns: f64,
    /// Share of accesses that read.
    pub reads: f64,
    /// Of accesses: the share that goes on with the line after the one before.
    pub spatial: f64,
    /// Of the others: the share to one of the pages where accesses last went.
    pub temporal: f64,
}

/// Of all traces.
pub(super) fn all<'a>(
    recordings: impl Iterator<Item = &'a Recording>,
    scale: Scale,
    seed: u64,
) -> Vec<Statistics> {
    let synthetic = PROGRAMS.iter().zip(recordings);
    let synthetic = synthetic.map(|(program, recording)| of(program.name, &mut recording.replay()));
    let looked_at = LOOKED_AT.min(scale.accesses_max);
    let real = STAND_INS
        .iter()
        .map(|program| of(program.name, &mut program.trace(looked_at, REUSED, seed)));
    synthetic.chain(real).collect()
}

/// Of one.
fn of(program: &'static str, trace: &mut dyn Source) -> Statistics {
    let (mut batch, mut count, mut reads, mut follows, mut returns) = (Vec::new(), 0, 0, 0, 0);
    let (mut last_line, mut last_at) = (u64::MAX - 1, 0);
    // The latest time that accesses went to each page, in times gone.
    let (mut went, mut gone) = (FxHashMap::<PageId, usize>::default(), 0);
    while trace.fill(&mut batch).expect("a trace that is made up has no faults") {
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
    Statistics {
        program,
        interval_ns: last_at as f64 / 1e3 / (count as f64),
        reads: share(reads, count),
        spatial: share(follows, count),
        temporal: share(returns, count - follows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_are_as_table_5_has_them() {
        for program in STAND_INS {
            let found = of(program.name, &mut program.trace(400_000, REUSED, 1));
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
    fn programs_come_at_the_intervals_of_table_2_and_read_as_often_as_they_write() {
        for program in PROGRAMS {
            let recording = program.record(64);
            let found = of(program.name, &mut recording.replay());
            assert!((found.interval_ns / program.interval_ns - 1.0).abs() < 0.02, "{found:?}");
            assert!((0.4..0.75).contains(&found.reads), "{found:?}");
        }
    }
}
