//! What becomes of a trace before it reaches the device: physical addresses, and hints.

use std::collections::VecDeque;

use ebbtide_core::{PageId, Span, Time};
use ebbtide_trace::{Access, FrameMap, Op, Source, TraceError};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::recording::BATCH;
use crate::reproduce::Cancel;

/// A trace by physical addresses.
pub(super) struct Mapped<S> {
    pub(super) virtually: S,
    pub(super) frames: FrameMap,
}

impl<S: Source> Source for Mapped<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let more = self.virtually.fill(batch)?;
        for access in batch {
            let frame = self.frames.frame(access.address.page());
            let frame = frame.expect("memory is larger than any program of the study");
            access.address = frame.start() + access.address.page_offset() as u64;
        }
        Ok(more)
    }
}

/// A trace that ends early, and so gives no result, when the user breaks off.
pub(super) struct Cancellable<'a, S> {
    pub(super) source: S,
    pub(super) cancel: &'a Cancel,
}

impl<S: Source> Source for Cancellable<'_, S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        if self.cancel.is_cancelled() {
            batch.clear();
            return Ok(false);
        }
        self.source.fill(batch)
    }
}

/// Hints of a kernel that knows what is to come (ATC'23 observation 7): pages are ranked by how often
/// they are accessed, and before an access to one of the first of them there is a hint, perhaps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hints {
    /// The share of the pages that come first.
    pub(super) top: f64,
    /// How likely a hint is.
    pub(super) chance: f64,
    /// How long before the access it comes: an assumption, which is varied.
    pub(super) lead_us: u64,
}

/// A trace with hints in it.
pub(super) struct Hinted<S> {
    trace: S,
    hints: Hints,
    random: Pcg64Mcg,
    /// By page, whether it is hinted at.
    hot: Vec<bool>,
    /// Accesses to come, read far enough ahead for their hints, and the hints of those.
    accesses: VecDeque<Access>,
    hinted: VecDeque<Access>,
    batch: Vec<Access>,
    ended: bool,
}

impl<S: Source> Hinted<S> {
    /// `trace` with `hints` in it; `again` is the same trace, to rank its pages.
    pub(super) fn new(trace: S, mut again: S, hints: Hints, seed: u64) -> Result<Self, TraceError> {
        let (mut counts, mut batch) = (Vec::<u32>::new(), Vec::new());
        while again.fill(&mut batch)? {
            for access in &batch {
                let page = access.address.page().index();
                if page >= counts.len() {
                    counts.resize(page + 1, 0);
                }
                counts[page] += 1;
            }
        }
        let mut ranked: Vec<usize> = (0..counts.len()).filter(|page| counts[*page] > 0).collect();
        ranked.sort_by_key(|page| (std::cmp::Reverse(counts[*page]), *page));
        let mut hot = vec![false; counts.len()];
        let first = (ranked.len() as f64 * hints.top) as usize;
        ranked[..first].iter().for_each(|page| hot[*page] = true);
        let random = Pcg64Mcg::seed_from_u64(seed);
        let (accesses, hinted) = (VecDeque::new(), VecDeque::new());
        Ok(Hinted { trace, hints, random, hot, accesses, hinted, batch, ended: false })
    }

    /// Reads on until every hint that is due before the next access is known.
    fn read_ahead(&mut self) -> Result<(), TraceError> {
        let lead = Span::from_us(self.hints.lead_us);
        let known = |accesses: &VecDeque<Access>| match (accesses.front(), accesses.back()) {
            (Some(first), Some(last)) => last.at.since(first.at) > lead,
            _ => false,
        };
        while !self.ended && !known(&self.accesses) {
            self.ended = !self.trace.fill(&mut self.batch)?;
            for access in self.batch.drain(..) {
                let PageId(page) = access.address.page();
                if self.hot[page as usize] && self.random.random::<f64>() < self.hints.chance {
                    let at = Time::from_ps(access.at.as_ps().saturating_sub(lead.as_ps()));
                    self.hinted.push_back(Access { at, op: Op::Hint, ..access });
                }
                self.accesses.push_back(access);
            }
        }
        Ok(())
    }
}

impl<S: Source> Source for Hinted<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        while batch.len() < BATCH {
            self.read_ahead()?;
            let Some(access) = self.accesses.pop_front() else { break };
            while let Some(hint) = self.hinted.pop_front_if(|hint| hint.at <= access.at) {
                batch.push(hint);
            }
            batch.push(access);
        }
        Ok(!batch.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_ins::{REUSED, STAND_INS};
    use super::*;

    #[test]
    fn hints_come_before_accesses_to_hot_pages_and_in_the_order_of_time() {
        let trace = || STAND_INS[0].trace(20_000, REUSED, 1);
        let hints = Hints { top: 0.05, chance: 0.5, lead_us: 10 };
        let mut hinted = Hinted::new(trace(), trace(), hints, 1).unwrap();
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while hinted.fill(&mut batch).unwrap() {
            all.append(&mut batch);
        }
        assert!(all.is_sorted_by_key(|access| access.at));
        let given = all.iter().filter(|access| access.op == Op::Hint).count();
        assert_eq!(all.len() - given, 20_000);
        assert!(given > 200, "{given}");
        // Those of the first accesses come at the start.
        let ahead = |access: &Access| access.at.as_ps().saturating_sub(10_000_000);
        for hint in all.iter().filter(|access| access.op == Op::Hint) {
            let meant = |access: &&Access| access.op != Op::Hint && access.address == hint.address;
            let told = all.iter().filter(meant).any(|access| ahead(access) == hint.at.as_ps());
            assert!(told, "{hint:?}");
        }
    }
}
