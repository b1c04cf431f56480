//! Closed formulas that evaluate the papers' claims without a simulated machine. Two small event
//! models check the formulas.
//!
//! * [`bandwidth`]: flash bandwidth by miss ratio (AstriFlash, Eq. 1).
//! * [`cost`]: the cost of memory, and performance per dollar.
//! * [`queueing`]: response times of M/M/k queues.
//! * [`systems`]: the four systems of AstriFlash §III as such queues.
//! * [`figure3`]: AstriFlash's Fig. 3 as series of points.
//! * [`throughput`]: throughput by execution between misses and time lost to each.
//! * [`lifetime`]: the lifetime of flash, in working years and in years of continuous use.
//! * [`no_priority`]: service times when a job whose page has arrived waits for its turn.
//! * [`event_model`]: the queues as seeded simulations, and a core with flash behind it.

pub mod bandwidth;
pub mod cost;
pub mod event_model;
pub mod figure3;
pub mod lifetime;
pub mod no_priority;
pub mod queueing;
pub mod systems;
pub mod throughput;
