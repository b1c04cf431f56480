//! What lies on the chip between a core and memory, caches apart: translation, the network.

mod noc;
mod tlb;

pub use noc::Noc;
pub use tlb::{Tlb, Translation};
