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
    /// The reading: as in the text, or its difference.
    pub reading: &'static str,
    /// UnifiedMMap's time divided by FlatFlash's, without commits.
    pub gain: f64,
    /// Pages that UnifiedMMap moves divided by those that FlatFlash moves.
    pub fewer_moves: f64,
    /// Pages that UnifiedMMap writes to flash divided by those that FlatFlash writes.
    pub fewer_writes: f64,
}

/// The readings: as in the text, and three variants. They have a repaired reset, counts that must
/// equal the threshold as in the listing, and promotion at the first access.
const READINGS: [&str; 4] = [FLATFLASH, WINDOWED, EQUAL, AT_ONCE];

/// Every program with every reading.
pub(super) fn rows(flatflash: &FlatFlash) -> Vec<ReadingRow> {
    let graphs = GRAPHS.map(|graph| at(graph.name, GRAPH_RATIO));
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

/// Pages written on one system divided by those on another. One if neither writes.
pub(crate) fn ratio_of_writes(on: f64, over: f64) -> f64 {
    if on == over { 1.0 } else { on / over }
}
