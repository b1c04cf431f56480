//! The real memories: plain DRAM, OS paging, and Ebbtide's own DRAM cache over flash.
//!
//! A program makes or opens a [`store`], opens an [`Engine`] over it with a DRAM budget, and
//! [starts](Engine::start) it; jobs from any thread then work on the address space through
//! [`Memory`](ebbtide_core::Memory), or through [typed structures](ebbtide_structures) in
//! it. Programs that make their own jobs on every core implement [`Service`] instead and
//! [run](Engine::run) it.
//!
//! ```no_run
#![doc = include_str!("../examples/quickstart.rs")]
//! ```

pub mod affinity;
mod backside;
mod cache;
mod counters;
pub mod device;
mod engine;
mod epoch;
mod hub;
mod jobs;
mod latches;
mod mapped;
mod mapping;
mod memory;
mod service;
mod shared;
pub mod store;
mod tuning;
mod words;
mod worker;

pub use counters::{Counters, Snapshot};
pub use engine::{Budget, Engine, EngineError, Options, check_replacement};
pub use jobs::{Jobs, Ticket};
pub use mapped::MappedMemory;
pub use memory::FlashMemory;
pub use service::{JobError, Offer, Service, Timing};
pub use tuning::Tuning;
