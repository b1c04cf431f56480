//! The real memories: plain DRAM, OS paging, and Ebbtide's own DRAM cache over flash.
//!
//! A program makes or opens a [`store`], opens an [`Engine`] over it with a DRAM budget, and
//! [starts](Engine::start) it. Jobs from any thread then work on the address space. They use
//! [`Memory`](ebbtide_core::Memory), or typed structures of `ebbtide-structures`. Programs that
//! make their own jobs on every core implement [`Service`] instead and [run](Engine::run) it.
//!
//! ```no_run
#![doc = include_str!("../examples/visits.rs")]
//! ```
//!
//! Two types explain the rest. `PageTable` (`cache/page_table/`) owns the state of every page and
//! the table of its transitions. `Backside` (`miss/`) is the part of a core that executes their
//! effects: it reads, writes, frees frames and wakes fibers.

#![warn(clippy::too_many_lines)]

mod api;
mod cache;
mod core;
pub mod device;
pub mod embedded;
mod host;
pub mod mapped;
mod miss;
#[cfg(all(test, any(loom, shuttle)))]
mod model_checks;
mod net;
mod persist;
pub mod store;
mod sync;

pub use self::core::flash_memory::{FlashMemory, PageView};
pub use self::core::job::{Offer, Service, Timing};
pub use self::core::job_error::{Deadlock, JobError};
pub use api::budget::Budget;
pub use api::engine::Engine;
pub use api::engine_error::EngineError;
pub use api::job_queue::{Jobs, STUCK_AFTER};
pub use api::mapped_memory::MappedMemory;
pub use api::options::{Options, check_replacement};
pub use api::rows::{RowError, RowFile, RowRun};
pub use api::store_copy::CopyError;
pub use api::store_growth::Larger;
pub use api::ticket::Ticket;
pub use api::tuning::Tuning;
pub use host::affinity;
pub use net::{NetEvent, NetRequest, Network, SocketId};
pub use persist::{LogDisk, Progress, Stored};
pub use sync::counters::{Counters, Snapshot};
pub use sync::holds::{Hold, Holds};
pub use sync::job_table::{Does, LongJob};
