//! What lies on the chip between a core and memory, caches apart: translation, the network.

mod noc;
mod page_table;
mod tlb;

pub use noc::Noc;
pub use page_table::PageTable;
pub use tlb::{Tlb, Translation};
