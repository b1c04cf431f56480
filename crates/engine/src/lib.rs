//! The real memories: plain DRAM, OS paging, and Ebbtide's own DRAM cache over flash.

pub mod affinity;
mod backside;
mod cache;
pub mod cgroup;
mod counters;
pub mod device;
mod engine;
mod epoch;
mod hub;
mod latches;
mod mapped;
mod mapping;
mod memory;
mod service;
mod shared;
pub mod store;
mod words;
mod worker;

pub use counters::{Counters, Snapshot};
pub use engine::{Budget, Engine, EngineError, Options};
pub use mapped::MappedMemory;
pub use memory::FlashMemory;
pub use service::{JobError, Offer, Service, Timing};
