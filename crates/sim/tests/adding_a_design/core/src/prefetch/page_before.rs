//! The page before: for programs that walk backwards.

use super::{Demand, Metrics, Prefetcher};
use crate::addr::PageId;

/// Fetches the page before each page that is missed or used for the first time.
pub(super) struct PageBefore;

impl Prefetcher for PageBefore {
    fn demand(
        &mut self,
        page: PageId,
        demand: Demand,
        _metrics: &Metrics,
        candidates: &mut Vec<PageId>,
    ) {
        if demand == Demand::Miss || demand.is_first_use() {
            candidates.extend(page.0.checked_sub(1).map(PageId));
        }
    }
}
