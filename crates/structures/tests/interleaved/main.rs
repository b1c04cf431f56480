//! Collections and latches against plain models: alone, interleaved, and when pages fail.

mod latch;
mod map;
mod memory;
mod vector;
