//! Closed formulas, and two small event models to check them: what the papers' claims come to
//! without any simulated machine.
//!
//! * [`bandwidth`]: flash bandwidth by miss ratio (AstriFlash, Eq. 1).
//! * [`cost`]: what memory costs, and performance for the money.
//! * [`queueing`]: response times of M/M/k queues.
//! * [`systems`]: the four systems of AstriFlash §III as such queues.
//! * [`figure3`]: AstriFlash's Fig. 3 as series of points.
//! * [`throughput`]: throughput by execution between misses and time lost to each.
//! * [`lifetime`]: how long flash lasts, in years by two reckonings.
//! * [`no_priority`]: service times when halted jobs wait for their turn.
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
