//! Ends of a run's stages as shares of the run, from 0 to 1, for the display of progress.

/// The misses of a plain LRU cache are counted.
pub(crate) const COUNTED: f64 = 0.25;

/// Jobs have run in DRAM, and computing is calibrated.
pub(crate) const CALIBRATED: f64 = 0.35;

/// The memory is filled.
pub(crate) const WARM: f64 = 0.8;

/// Jobs have run in virtual time until the measurement begins.
pub(crate) const SETTLED: f64 = 0.85;
