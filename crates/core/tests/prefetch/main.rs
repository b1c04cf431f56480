//! The prefetchers: against plain models of them, and by what they do to a program's misses.

mod behaviour;
mod device;
mod models;
