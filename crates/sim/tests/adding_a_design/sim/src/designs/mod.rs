//! Stands for `crates/sim/src/designs/mod.rs`, where the guide puts its design.

mod mine;

pub use ebbtide_sim::designs::Design;

/// The designs of the guide.
pub const ALL: [&Design; 1] = [&mine::MINE];
