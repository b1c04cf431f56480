//! Experiments on models: simulations, comparisons, sweeps, sizing, energy, and predictions.

#![forbid(unsafe_code)]

pub mod analytic;
pub mod claims;
pub mod compare;
pub mod energy;
pub mod gc_share;
pub mod predict;
pub mod runs;
pub mod side_by_side;
pub mod simulate;
pub mod size;
pub mod sweep;
pub mod watched;
