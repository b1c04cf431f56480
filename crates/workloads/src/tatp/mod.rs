//! TATP, the telecom benchmark, over [`Memory`](ebbtide_core::Memory): [`Tatp`] runs the one
//! transaction that AstriFlash runs; [`TatpMix`] runs all seven.
//!
//! Both have subscribers and special facilities; the mix adds access information, call forwarding
//! and an index of subscriber numbers.

mod index;
mod mix;
mod queries;
mod rows;
mod snapshot;
mod tables;
mod transaction;
mod update;

pub use mix::TatpMix;
pub use rows::{AccessData, Before, Digits, SubscriberRow};
pub use snapshot::{FacilityData, Snapshot};
pub use transaction::{Outcome, Transaction, UpdateSubscriberData};
pub use update::{SubscriberData, Tatp, Updated};
