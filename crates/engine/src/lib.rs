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

pub mod affinity;
mod atomic_words;
mod backside;
mod budget;
mod buffer_pool;
mod cache;
mod counters;
mod departures;
pub mod device;
mod dictionary;
pub mod embedded;
mod engine;
mod engine_error;
mod engine_state;
mod epoch;
mod extent;
mod flash_memory;
mod job;
mod job_error;
mod job_queue;
mod job_table;
mod key_changes;
mod log_writer;
mod mailbox;
mod mapped_memory;
mod mapping;
#[cfg(all(test, any(loom, shuttle)))]
mod model_checks;
mod net;
mod nodes;
mod of_process;
mod options;
mod panics;
mod persist;
mod prefetched;
mod row_file;
pub mod store;
mod store_copy;
mod store_growth;
mod ticket;
mod tuning;
mod wait_queues;
mod worker;

pub use budget::Budget;
pub use counters::{Counters, Snapshot};
pub use dictionary::{Change, Dictionary, DictionaryError};
pub use engine::Engine;
pub use engine_error::EngineError;
pub use flash_memory::{FlashMemory, PageView};
pub use job::{Offer, Service, Timing};
pub use job_error::{Deadlock, JobError};
pub use job_queue::{Jobs, STUCK_AFTER};
pub use job_table::{Does, LongJob};
pub use mapped_memory::MappedMemory;
pub use net::{NetEvent, NetRequest, Network, SocketId};
pub use options::{Options, check_replacement};
pub use persist::{LogDisk, Progress, Stored};
pub use row_file::{RowError, RowFile, RowRun};
pub use store_copy::CopyError;
pub use ticket::Ticket;
pub use tuning::Tuning;
