//! Simulated machines and their parts, against models and limits.

mod buses;
mod calibration;
mod common;
mod device_cache;
mod device_model;
mod dram_cache;
mod drives;
mod footprint_fill;
mod impossible_numbers;
mod long_waits;
mod machine;
mod mapped_files;
mod mos;
mod mos_recovery;
mod no_write_lost;
mod overlap;
mod page_walks;
mod promotion;
mod random_configurations;
mod reclaim;
mod shared;
mod threads;
mod write_log;
