//! Experiments that join the crates below: what the verbs of `ebbtide` do, as a library.

pub mod analytic;
pub mod bench;
pub mod claims;
pub mod compare;
pub mod doctor;
pub mod energy;
pub mod gc_share;
mod leaves;
pub mod report;
pub mod reproduce;
pub mod side_by_side;
pub mod simulate;
pub mod size;
pub mod statistics;
pub mod sweep;
mod watched;
