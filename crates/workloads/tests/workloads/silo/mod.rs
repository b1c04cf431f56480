//! Silo: transactions step by step, and the history of interleaved and raced ones.

mod history;
#[path = "../../../../structures/tests/collections/keys.rs"]
mod keys;
mod ledger;
mod steps;
mod window;
