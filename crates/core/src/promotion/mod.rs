//! Promotion: which pages of a byte-addressable SSD move to host DRAM (FlatFlash, ASPLOS'19 §3.3,
//! §3.4).
//!
//! * [`Adaptive`]: counts accesses by page and decides which page to promote (Algorithm 1).
//! * [`LookAside`]: lets a page be read and written while it moves.
//! * [`Cleaning`]: when written pages of the device's cache go to flash, by blocks.
//! * [`Relocations`]: serves pages that moved in flash until page tables are mended.

mod adaptive;
mod cleaning;
mod look_aside;
mod relocations;

pub use adaptive::{Adaptive, Meets, Parameters, Reset};
pub use cleaning::Cleaning;
pub use look_aside::{LookAside, Place};
pub use relocations::Relocations;
