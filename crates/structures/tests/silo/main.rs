//! Silo: transactions step by step, and the history of interleaved and raced ones.

mod history;
mod ledger;
mod steps;
