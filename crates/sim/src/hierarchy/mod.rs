//! The chip between a core and memory: caches, their coherence, the network, and address
//! translation.

mod caches;
mod directory;
mod noc;
mod page_table;
mod probing;
mod tlb;

pub use caches::Coherence;
pub(crate) use caches::{Caches, Looked};
pub(crate) use page_table::PageTable;
pub(crate) use probing::{after, follower};
pub(crate) use tlb::{Tlb, Translation};
