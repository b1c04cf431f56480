//! [`Promotion`]: parameters of the promotion of pages from a byte-addressable SSD to host DRAM.

use ebbtide_core::promotion::{Meets, Parameters, Reset};
use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::{Bytes, PAGE_BYTES, brief, choice};
use serde::{Deserialize, Serialize};

use super::{ConfigError, require};

/// Promotion of pages from a byte-addressable device to host DRAM (FlatFlash §3.3, §3.4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promotion {
    /// Size of host DRAM for promoted pages.
    pub size: Bytes,
    /// The replacement policy, which chooses the page to demote.
    pub policy: PolicyKind,
    /// Which demoted pages are written to flash.
    pub write_back: WriteBack,
    /// When the counts of an epoch are reset.
    pub reset: Reset,
    /// Which counts promote a page.
    pub meets: Meets,
    /// For Algorithm 1: if at most this share of an epoch's accesses went to pages that it
    /// promoted, the threshold rises.
    pub lower_ratio: f64,
    /// For Algorithm 1: at this share or more, a promotion lowers the threshold.
    pub higher_ratio: f64,
    /// For Algorithm 1: the highest threshold, with which an epoch begins. The threshold is the
    /// number of accesses that promote a page.
    pub threshold_max: u64,
    /// For Algorithm 1: accesses in an epoch. At its end threshold and shares begin anew.
    pub epoch: u64,
    /// Entries of the promotion look-aside buffer.
    pub look_aside: usize,
    /// Time to move a page to DRAM.
    pub move_ns: u64,
    /// Time to update the page-table entry and the TLB.
    pub map_ns: u64,
    /// Whether a store to the device is posted over the link. Otherwise the link is coherent: the
    /// chip fetches the line and keeps it.
    pub posts_stores: bool,
    /// Core time of a posted write over the link.
    pub posted_write_ns: u64,
    /// Size of the persist region at the end of the data. Its pages stay in the SSD, and its stores
    /// are verified.
    pub persist: Bytes,
    /// Whether the device's cache survives a power cut.
    pub battery_backed: bool,
    /// Time from a block's first write in the device's cache until the block is cleaned. Cleaning
    /// reads the block, merges its dirty pages, and writes it. With 0, dirty pages are written one
    /// by one on eviction.
    pub clean_after_us: u64,
    /// Pages of 4 KiB in a block.
    pub block_pages: u64,
    /// Page-table entries that one interrupt updates after their pages moved in flash.
    pub mend_batch: usize,
}

choice! {
    /// Which demoted pages are written to flash.
    pub enum WriteBack as "write-back" {
        /// Dirty pages.
        Dirty = "dirty",
        /// All pages.
        All = "all",
    }
}

impl Promotion {
    /// The constants of Algorithm 1.
    pub fn parameters(&self) -> Parameters {
        let Promotion { lower_ratio, higher_ratio, threshold_max, epoch, meets, .. } = *self;
        Parameters { lower_ratio, higher_ratio, threshold_max, epoch, meets }
    }

    pub(super) fn check(&self, dataset: Bytes) -> Result<(), ConfigError> {
        const ENTRIES: u64 = 1 << 24;
        const NS: u64 = 1_000_000_000;
        for (key, value, least, most) in [
            ("promotion.threshold_max", self.threshold_max, 1, ENTRIES),
            ("promotion.epoch", self.epoch, 1, NS),
            ("promotion.look_aside", self.look_aside as u64, 1, ENTRIES),
            ("promotion.move_ns", self.move_ns, 1, NS),
            ("promotion.map_ns", self.map_ns, 0, NS),
            ("promotion.posted_write_ns", self.posted_write_ns, 0, NS),
            ("promotion.clean_after_us", self.clean_after_us, 0, NS),
            ("promotion.block_pages", self.block_pages, 1, ENTRIES),
            ("promotion.mend_batch", self.mend_batch as u64, 1, ENTRIES),
        ] {
            let expected = format!("{least} to {most}");
            require((least..=most).contains(&value), key, value, expected)?;
        }
        for (key, ratio) in [
            ("promotion.lower_ratio", self.lower_ratio),
            ("promotion.higher_ratio", self.higher_ratio),
        ] {
            require((0.0..=1.0).contains(&ratio), key, brief(ratio), "0 to 1")?;
        }
        let holds = self.size.0 >= PAGE_BYTES as u64 && self.size < dataset;
        let expected = format!("a page or more, and less than dataset.size, {dataset}");
        require(holds, "promotion.size", self.size, expected)?;
        let expected = format!("at most dataset.size, {dataset}");
        require(self.persist <= dataset, "promotion.persist", self.persist, expected)?;
        require(
            self.persist.0 == 0 || self.battery_backed,
            "promotion.persist",
            self.persist,
            "0B, where promotion.battery_backed = false: what a device's cache loses in a power cut \
             was not durable",
        )
    }
}
