//! Stands for `crates/core/src/prefetch/mod.rs`, the guide's place for its prefetcher.

mod page_before;

pub use ebbtide_core::prefetch::{Demand, Metrics, Prefetcher};

/// The guide's prefetcher.
pub fn build() -> Box<dyn Prefetcher> {
    Box::new(page_before::PageBefore)
}
