//! The modelled SSD in virtual time: geometry, channels, dies, planes, translation, garbage
//! collection and wear.
//!
//! [`Flash`] is a state machine without a clock, threads or I/O. Its caller passes commands and the
//! time, and gets completions. Translation and the pre-aged state are functions of the page until
//! it is first written. So host memory grows with the pages touched, not with the capacity.
//!
//! * [`Config`]: the parameters of a device, read from TOML. [`Config::preset`] gives the published
//!   devices.
//! * [`Flash`]: [`submit`](Flash::submit), [`next_event`](Flash::next_event),
//!   [`advance`](Flash::advance).
//! * [`Counters`], [`Wear`], [`Lifetime`]: the results of a device.
//!
//! The model has no multi-plane commands, does not merge reads of the same physical page, and has
//! no errors.

#![forbid(unsafe_code)]

mod aged;
mod agenda;
mod command;
mod config;
mod counters;
mod flash;
mod flat;
mod interleaving;
mod plane;
mod presets;
mod requests;
mod ssd;
mod timing;
mod translation;

pub use aged::victim_share;
pub use command::{Command, Done, Kind};
pub use config::{
    Config, ConfigError, FlatConfig, GarbageCollection, Operations, SsdConfig, Suspend, WriteDone,
    WriteUnit,
};
pub use counters::{Counters, DriveCounters, Lifetime, Wear};
pub use flash::Flash;
pub use interleaving::Interleaving;
