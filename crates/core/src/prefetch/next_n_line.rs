//! Next-N-line: a fixed run of pages some distance ahead (Smith, ACM Computing Surveys 1982; with
//! the distance as in CXL-flash, ATC'23, "NL").

use super::{Demand, Metrics, Prefetcher, Preset, ahead};
use crate::addr::PageId;

/// At a demand miss on page *a*, or the first use of it after a prefetch, the pages
/// *a + offset + 1* to *a + offset + degree*.
#[derive(Clone, Copy, Debug)]
pub struct NextNLine {
    /// How many pages.
    pub degree: u64,
    /// How many pages are left out before them.
    pub offset: u64,
    /// What counts as a first use.
    pub preset: Preset,
}

impl NextNLine {
    /// Four pages, sixteen away, as in the simulator of CXL-flash (ATC'23).
    pub fn new(preset: Preset) -> NextNLine {
        NextNLine { degree: 4, offset: 16, preset }
    }

    /// Adds the run ahead of `page` if the access is an occasion.
    pub(super) fn step(&self, page: PageId, demand: Demand, candidates: &mut Vec<PageId>) {
        if demand.is_step(self.preset) {
            let run = self.offset + 1..=self.offset + self.degree;
            candidates.extend(run.filter_map(|distance| ahead(page, distance as i64)));
        }
    }
}

impl Prefetcher for NextNLine {
    fn demand(
        &mut self,
        page: PageId,
        demand: Demand,
        _metrics: &Metrics,
        candidates: &mut Vec<PageId>,
    ) {
        self.step(page, demand, candidates);
    }
}
