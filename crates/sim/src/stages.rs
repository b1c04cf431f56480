//! The shares of a run, from 0 to 1, at which its stages end, for the display of progress.

/// The misses of a plain LRU cache are counted.
pub(crate) const COUNTED: f64 = 0.25;

/// Jobs have run in DRAM, by which computing is calibrated.
pub(crate) const CALIBRATED: f64 = 0.35;

/// The memory is filled.
pub(crate) const WARM: f64 = 0.8;

/// Jobs have run in time until they count.
pub(crate) const SETTLED: f64 = 0.85;
