//! The modelled SSD in virtual time: geometry, channels, dies, planes, translation, garbage
//! collection and wear.
//!
//! [`Flash`] is a state machine without clock, threads or I/O: it is told of commands and of the
//! time, and answers with completions. Translation and the pre-aged state are functions of the page
//! until something is written, so a device costs what is touched of it and not what it could hold.
//!
//! * [`Config`]: what the device is made of, read from TOML; [`Config::preset`] has the published
//!   ones.
//! * [`Flash`]: [`submit`](Flash::submit), [`next_event`](Flash::next_event),
//!   [`advance`](Flash::advance).
//! * [`Counters`], [`Wear`], [`Lifetime`]: what it reports.
//!
//! What is not modelled: commands over several planes at once, reads of one physical page that are
//! merged into one, and errors.

#![forbid(unsafe_code)]

mod aged;
mod agenda;
mod config;
mod counters;
mod flash;
mod flat;
mod plane;
mod presets;
mod requests;
mod ssd;
mod timing;
mod translation;

pub use aged::victim_share;
pub use config::{
    Config, ConfigError, FlatConfig, GarbageCollection, Operations, SsdConfig, Suspend, WriteDone,
    WriteUnit,
};
pub use counters::{Counters, Lifetime, Wear};
pub use flash::{Command, Done, Flash, Kind};
