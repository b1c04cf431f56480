//! Experiments on models. Each verb of the `ebbtide` command that simulates or computes has a
//! module.
//!
//! * [`simulate`]: one design on one program or trace (`ebbtide sim`).
//! * [`compare`]: every design on the same work and the same machine (`ebbtide compare`).
//! * [`sweep`]: the cross product of designs, programs and parameters (`ebbtide sweep`).
//! * [`size`]: the DRAM that a program needs, its cost, and the lifetime of the SSD (`ebbtide
//!   size`).
//! * [`predict`]: the simulator's prediction of a bench (`ebbtide bench --predict`).
//!
//! Other modules serve several of these and the reproduction of papers:
//!
//! * [`analytic`]: closed formulas for queues, bandwidth, cost and lifetime.
//! * [`energy`]: the energy of a run, from its counters and a table of energies per operation.
//! * [`claims`]: a paper's claim, its tolerance, and the verdict on a result.
//! * [`convergence`]: the length that a run needs for its tail.
//! * [`market`]: the prices of memory, and the drives that hold the data.
//! * [`gc_share`]: the share of requests that garbage collection blocks.
//! * [`side_by_side`]: runs on host threads. Their number does not change the results.
//!
//! Every experiment takes options, reports its progress to a [`Watch`](ebbtide_core::Watch), and
//! returns a result that implements [`Report`](ebbtide_report::Report): text, JSON and a page.
//!
//! ```no_run
//! use ebbtide_core::Watch;
//! use ebbtide_sim::designs::resolve;
//! use ebbtide_sim::{Offered, Plan};
//! use ebbtide_workloads::Kind;
//!
//! let config = "1/64".parse::<ebbtide_sim::config::Scale>()?.of(resolve("astriflash", &[])?);
//! let arrivals = Offered::Saturating;
//! let plan = Plan { config, workload: Kind::HashTable, jobs: 20_000, seed: 1, arrivals };
//! let run = ebbtide_study::simulate::run(&plan, false, None, Watch::unattended())?;
//! println!("{} of DRAM-only's throughput", run.outcome.ratio_to_dram);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod analytic;
pub mod claims;
pub mod compare;
pub mod convergence;
pub mod energy;
pub mod gc_share;
pub mod market;
pub mod predict;
pub mod runs;
pub mod side_by_side;
pub mod simulate;
pub mod size;
pub mod sweep;
pub mod watched;
