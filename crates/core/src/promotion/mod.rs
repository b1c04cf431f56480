//! Promotion: which pages of a byte-addressable SSD move to host DRAM (FlatFlash, ASPLOS'19 §3.3,
//! §3.4).
//!
//! * [`Adaptive`]: counts accesses by page and says which page to promote (Algorithm 1).
//! * [`LookAside`]: lets a page be read and written while it moves.

mod adaptive;
mod look_aside;

pub use adaptive::{Adaptive, Parameters, Reset};
pub use look_aside::{LookAside, Place};
