//! What lies on the chip between a core and memory: caches of lines, translation, the network.

mod cache;
mod noc;
mod tlb;

pub use cache::{LineCache, Writeback};
pub use noc::Noc;
pub use tlb::{Tlb, Translation};
