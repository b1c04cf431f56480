//! Stands for `crates/core/src/replacement/mod.rs`, the guide's place for its policy.

mod last_in_first_out;

pub use ebbtide_core::replacement::{Frames, Geometry, Replacement};

/// The guide's policy, and the memory that it reports to need, in bytes.
pub fn build(geometry: Geometry) -> (Box<dyn Replacement>, usize) {
    (
        Box::new(last_in_first_out::LastInFirstOut::new(geometry)),
        last_in_first_out::LastInFirstOut::memory_bytes(geometry),
    )
}
