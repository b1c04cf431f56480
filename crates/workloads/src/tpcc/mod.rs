//! TPC-C: wholesale orders (TPC-C standard, rev. 5.11), over latches in memory.

pub mod input;
mod nurand;
pub mod rows;
mod scale;

pub use nurand::NuRand;
pub use scale::{CUSTOMERS_PER_NAME, DISTRICTS, Scale};
