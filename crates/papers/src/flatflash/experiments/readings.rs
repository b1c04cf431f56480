//! [`ReadingRow`]: a program under each reading of Algorithm 1 (FlatFlash, ASPLOS'19 §3.4).

use serde::Serialize;

use super::trial::{FLATFLASH, UNIFIED_MMAP};
use super::{
    AT_ONCE, DATABASES, DEVICES_US, EQUAL, GRAPH_RATIO, GRAPHS, GUPS, WINDOWED, YCSB, YCSB_RATIO,
    at, on_device,
};
use crate::flatflash::FlatFlash;

/// A program under a reading of Algorithm 1.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ReadingRow {
    /// The program and its sizes.
    pub experiment: String,
    /// As the text has it, or how it differs.
    pub reading: &'static str,
    /// UnifiedMMap's time over FlatFlash's; commits are left out.
    pub gain: f64,
    /// Pages that UnifiedMMap moves over those that FlatFlash does.
    pub fewer_moves: f64,
    /// Pages that UnifiedMMap writes to flash over those that FlatFlash does.
    pub fewer_writes: f64,
}

/// As the text has it, with the reset repaired, with counts that must equal the threshold, as listed,
/// and with promotion at the first access.
const READINGS: [&str; 4] = [FLATFLASH, WINDOWED, EQUAL, AT_ONCE];

/// Every program under every reading.
pub(super) fn rows(flatflash: &FlatFlash) -> Vec<ReadingRow> {
    let graphs = GRAPHS.map(|(name, _)| at(name, GRAPH_RATIO));
    let ycsb = YCSB.map(|(name, _)| at(name, YCSB_RATIO));
    let databases = DATABASES.map(|(name, _)| on_device(name, DEVICES_US[0]));
    let experiments = std::iter::once(GUPS.to_string()).chain(graphs).chain(ycsb).chain(databases);
    let row = |experiment: String| {
        READINGS.map(|reading| {
            let own = flatflash.run(&experiment, reading);
            let paged = flatflash.run(&experiment, UNIFIED_MMAP);
            ReadingRow {
                experiment: experiment.clone(),
                reading,
                gain: paged.job_ns / own.job_ns,
                fewer_moves: paged.pages_moved / own.pages_moved,
                fewer_writes: ratio_of_writes(paged.pages_written, own.pages_written),
            }
        })
    };
    experiments.filter(|name| flatflash.ran(name)).flat_map(row).collect()
}

/// Pages written on one system over those on another; as many where neither writes.
pub(crate) fn ratio_of_writes(on: f64, over: f64) -> f64 {
    if on == over { 1.0 } else { on / over }
}
