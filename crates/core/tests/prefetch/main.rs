//! Tests of the prefetchers: against plain models, and by their effect on a program's misses.

mod behaviour;
mod device;
mod models;
