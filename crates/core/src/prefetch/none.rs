//! No prefetching: the baseline.

use super::{Demand, Metrics, Prefetcher};
use crate::addr::PageId;

/// Fetches nothing ahead of demand.
pub(super) struct NoPrefetch;

impl Prefetcher for NoPrefetch {
    fn demand(&mut self, _: PageId, _: Demand, _: &Metrics, _: &mut Vec<PageId>) {}
}
