//! Next-N-line: fetches a fixed run of pages some distance ahead (Smith, ACM Computing Surveys
//! 1982). The distance is as in CXL-flash (ATC'23, "NL").

use super::{Demand, Metrics, Prefetcher, Preset, ahead};
use crate::addr::PageId;

/// Fetches the pages *a + offset + 1* to *a + offset + degree* at a demand miss on page *a*. Also
/// at the first use of *a* after a prefetch.
#[derive(Clone, Copy, Debug)]
pub struct NextNLine {
    /// The number of pages to fetch.
    pub degree: u64,
    /// The number of pages to skip in front of them.
    pub offset: u64,
    /// Defines a first use.
    pub preset: Preset,
}

impl NextNLine {
    /// Four pages, sixteen away, as in the simulator of CXL-flash (ATC'23).
    pub fn new(preset: Preset) -> NextNLine {
        NextNLine { degree: 4, offset: 16, preset }
    }

    /// Adds the run ahead of `page` to `candidates`, if this access triggers it.
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
