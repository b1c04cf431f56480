//! Tests of the replacement policies: against slow models, and by their effect on a program's
//! misses.

mod admission;
mod behaviour;
mod cache;
mod mini_sim;
mod models;
