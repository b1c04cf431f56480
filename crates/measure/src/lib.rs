//! Experiments on this machine.
//!
//! * [`doctor`] examines what the machine permits (io_uring, memory cgroups, direct I/O, huge
//!   pages) and measures its flash. [`doctor::examine`] returns a [`doctor::DoctorReport`].
//! * [`bench`](mod@bench) runs the same jobs in DRAM, under OS paging, with blocking reads and in
//!   Ebbtide's engine. [`bench::run`] takes [`bench::BenchOptions`] and returns a
//!   [`bench::BenchReport`] with the conditions of each outcome. [`bench::measure_profile`]
//!   measures the costs of a miss as a [`bench::Profile`] for sizing and prediction.
//! * [`load`] drives any server that speaks the protocol of Redis and checks what it answers.
//!   [`load::against`] compares Ebbtide's server with a stock Redis.
//!
//! [`cgroup`] makes memory cgroups, which limit the memory of OS paging.
//!
//! Every memory of a bench is a child process: the same executable, started with
//! [`bench::CHILD_VERB`], which must call [`bench::serve`]. Each reply is a line of JSON.
//!
//! ```no_run
//! use ebbtide_core::Watch;
//! use ebbtide_measure::doctor::{DoctorOptions, examine};
//!
//! let report = examine(&DoctorOptions::default(), Watch::unattended())?;
//! println!("{report}");
//! # Ok::<(), ebbtide_measure::doctor::DoctorError>(())
//! ```

#![forbid(unsafe_code)]

pub mod bench;
pub mod cgroup;
mod disturbance;
pub mod doctor;
#[cfg(feature = "load")]
pub mod load;
mod usage;
