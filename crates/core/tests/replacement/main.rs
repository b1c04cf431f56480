//! The replacement policies: against slow models of them, and by what they do to a program's misses.

mod admission;
mod behaviour;
mod cache;
mod mini_sim;
mod models;
