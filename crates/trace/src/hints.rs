//! [`Hinted`]: a trace with hints of a host that knows the future.
//!
//! The host announces to the device that a page will be needed. It does so for the most accessed
//! pages, with some probability (CXL-flash, ATC'23, observation 7). The paper does not state how
//! long ahead, so the lead is a parameter.

use std::collections::VecDeque;

use ebbtide_core::{PageId, Span, Time};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{Access, Op, Source, TraceError};

/// The choice of accesses that get a hint, and the time from a hint to its access.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hints {
    /// The share of pages, those accessed most, whose accesses may have a hint: 0 to 1.
    pub top: f64,
    /// The probability that one of these accesses has a hint: 0 to 1.
    pub chance: f64,
    /// The time from a hint to its access.
    pub lead: Span,
    /// The seed of the random choice.
    pub seed: u64,
}

/// A physical page if the trace has it, or else a virtual one.
fn page(access: &Access) -> PageId {
    access.frame.unwrap_or(access.address.page())
}

impl Hints {
    /// Reads `source` to its end and returns the share [`top`](Hints::top) of its pages with the
    /// most accesses.
    ///
    /// # Errors
    /// [`TraceError`] if the source cannot be read.
    pub fn hottest(&self, source: &mut dyn Source) -> Result<FxHashSet<PageId>, TraceError> {
        let (mut counts, mut batch) = (FxHashMap::<PageId, u64>::default(), Vec::new());
        while source.fill(&mut batch)? {
            let accesses = batch.iter().filter(|access| access.op != Op::Hint);
            accesses.for_each(|access| *counts.entry(page(access)).or_default() += 1);
        }
        let mut pages: Vec<_> = counts.into_iter().collect();
        // Sorted by count, then by number, so that the result depends on the trace alone.
        pages.sort_unstable_by_key(|&(page, count)| (std::cmp::Reverse(count), page));
        let top = (pages.len() as f64 * self.top).round() as usize;
        Ok(pages.into_iter().take(top).map(|(page, _)| page).collect())
    }
}

/// A trace with added hints.
pub struct Hinted<S> {
    source: S,
    hints: Hints,
    hottest: FxHashSet<PageId>,
    /// Accesses and hints that were read and not returned yet, each in the order of time: those
    /// within one lead.
    accesses: VecDeque<Access>,
    announced: VecDeque<Access>,
    number: u64,
    batch: Vec<Access>,
}

impl<S: Source> Hinted<S> {
    /// Adds hints, as `hints` says, for accesses of `source` to the pages `hottest`.
    pub fn new(source: S, hints: Hints, hottest: FxHashSet<PageId>) -> Hinted<S> {
        let (accesses, announced, batch) = (VecDeque::new(), VecDeque::new(), Vec::new());
        Hinted { source, hints, hottest, accesses, announced, number: 0, batch }
    }

    /// Takes in `access`. Returns the entries that precede the hints of all later accesses.
    fn take(&mut self, access: Access, out: &mut Vec<Access>) {
        let lead = Time::from_ps(self.hints.lead.as_ps());
        let told = Time::ZERO + access.at.since(lead);
        self.number += 1;
        if access.op != Op::Hint && self.hottest.contains(&page(&access)) && self.is_drawn() {
            self.announced.push_back(Access { at: told, op: Op::Hint, ..access });
        }
        self.accesses.push_back(access);
        self.give(told, out);
    }

    /// Returns the entries before `until`.
    fn give(&mut self, until: Time, out: &mut Vec<Access>) {
        loop {
            let hint = self.announced.front().map(|hint| hint.at);
            let access = self.accesses.front().map(|access| access.at);
            let next = match (hint, access) {
                (Some(hint), Some(access)) if hint <= access => &mut self.announced,
                (_, Some(_)) => &mut self.accesses,
                // A hint comes before its access.
                _ => return,
            };
            match next.pop_front_if(|entry| entry.at < until) {
                Some(entry) => out.push(entry),
                None => return,
            }
        }
    }

    /// Whether this access has a hint, by chance.
    fn is_drawn(&self) -> bool {
        let mixed = (self.number ^ self.hints.seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed >> 11) as f64) < self.hints.chance * (1_u64 << 53) as f64
    }
}

impl<S: Source> Source for Hinted<S> {
    fn fill(&mut self, out: &mut Vec<Access>) -> Result<bool, TraceError> {
        out.clear();
        let mut batch = std::mem::take(&mut self.batch);
        let mut more = Ok(true);
        while out.is_empty() && matches!(more, Ok(true)) {
            more = self.source.fill(&mut batch);
            batch.drain(..).for_each(|access| self.take(access, out));
            if !matches!(more, Ok(true)) {
                self.give(Time::from_ps(u64::MAX), out);
            }
        }
        self.batch = batch;
        more.map(|_| !out.is_empty())
    }

    fn origin(&self) -> Option<&str> {
        self.source.origin()
    }

    fn remark(&self) -> Option<String> {
        self.source.remark()
    }
}
