//! The simulated machine, and the published systems as compositions of its parts.
//!
//! [`designs`] has the systems, and [`config::Config`] their parameters. [`simulate`] runs one
//! [`Plan`] and returns its [`Outcome`]. [`Machine`] is the loop behind it, over a
//! [`memory_side::MemorySide`]. [`replay()`] drives a memory side by a trace, without cores.

#![forbid(unsafe_code)]

mod any_memory;
mod calibration;
mod cold;
pub mod config;
mod contents;
mod core_side;
pub mod designs;
mod experiment;
mod hierarchy;
mod kept;
mod machine;
pub mod memory_side;
mod offered;
mod outcome;
mod plan;
mod replay;
mod shared;
mod stages;
mod timeline;
mod warm;

pub use any_memory::run_traced;
pub use cold::{Stretch, run_cold};
pub use contents::Contents;
pub use core_side::{CoreSide, Switching};
pub use experiment::{Simulation, simulate};
pub use machine::{
    Breakdown, Coherence, Distribution, Load, Machine, Measured, MissedAccesses, ServiceParts,
    SimError, WORK_UNITS,
};
pub use offered::{NoLoad, Offered};
pub use outcome::{FlashOutcome, FlashUse, Half, Lifetime, Outcome, WarmUp};
pub use plan::Plan;
pub use replay::{PrefetchOutcome, Replay, ReplayError, replay, replay_by_thread};
pub use shared::Shared;
pub use timeline::{Step, Timeline};
pub use warm::{Steady, warm_up};
