//! The chip between a core and memory: caches, their coherence, the network, and address
//! translation.

mod caches;
mod directory;
mod noc;
mod page_table;
mod tlb;

pub use caches::{Caches, Coherence, Looked};
pub use page_table::PageTable;
pub use tlb::{Tlb, Translation};
