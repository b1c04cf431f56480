//! Mapped regions: plain pointers to data on flash.
//!
//! A [`MappedStore`] has [`Region`]s of addresses. A load or store of a page that is not in DRAM
//! raises SIGBUS (userfaultfd). The handler runs on the stack of the job's fiber. It reads the page
//! through the engine and maps it, and other jobs run during the read. A hit is a plain load.
//!
//! `states` has the states of a page and all transitions, and `protocol` puts the system calls
//! between them. `heap` allocates blocks in a region. `space` resolves faults, and `eviction` gives
//! pages up. `signal` and `uffd` talk to the kernel. `turns` has
//! the lock of jobs.

mod error;
mod eviction;
mod exceptions;
mod fatal;
mod heap;
mod lock;
mod memory;
#[cfg(all(test, shuttle))]
mod model_checks;
mod no_switch;
mod page_table;
mod protocol;
mod recent;
mod region;
mod registry;
mod signal;
mod space;
mod states;
mod store;
mod system_calls;
mod tokens;
mod turns;
mod uffd;

pub use error::MappedError;
pub use heap::{ALIGNMENT, Heap};
pub use memory::PointerMemory;
pub use no_switch::{NoSwitch, no_switch};
pub use region::{Pinned, Region};
pub use space::MappedCounts;
pub use store::{MappedBuilder, MappedStore, STACK_BYTES, STACK_BYTES_MIN, Shares};
pub use turns::{RawLock, RwLock, let_others_run};
pub use uffd::KernelSupport;
