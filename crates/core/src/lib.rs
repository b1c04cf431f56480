//! The vocabulary of Ebbtide, the [`Memory`] trait, and every policy, as code without I/O.
//!
//! The same policies run in the engine, on a real SSD, and in the simulator, in virtual time. A
//! policy is a state machine: it receives events with their times and returns decisions. This crate
//! has no clock, no thread, no I/O and no printing.
//!
//! Vocabulary:
//!
//! * [`Addr`], [`PageId`], [`FrameId`]: a byte address, a 4 KiB page, a frame of DRAM.
//! * [`Time`], [`Span`], [`Bytes`]: quantities, with one parser each.
//! * [`choice!`]: an enum whose variants users choose by name.
//! * [`crc32c`]: the checksum of what is stored.
//! * [`brief`], [`counted`]: numbers in messages.
//! * [`Archive`]: the state of an object, on its way out of it or back into one.
//! * [`Watch`], [`Stop`]: progress of a long run, and a request to stop it.
//!
//! Programs and policies:
//!
//! * [`Memory`]: the trait that programs are written against.
//! * [`FullMemory`]: the rest of it, for data structures, workloads and simulated machines.
//! * [`replacement`]: which frame to evict.
//! * [`Footprints`]: which lines of a page to fetch.
//! * [`prefetch`]: which pages to fetch before a demand access.
//! * [`Placement`]: where on flash a dirty page goes.
//! * [`durability`]: memory that survives a crash.
//! * [`promotion`]: which pages of a byte-addressable SSD move to host DRAM.
//! * [`WriteLog`]: which written lines a device keeps apart from their pages.
//! * [`schedule`]: which job runs next.
//!
//! ```
//! use ebbtide_core::{Addr, Memory};
//!
//! /// Adds one to the word at `at`, in DRAM, on flash or on a simulated machine.
//! fn increment(memory: &mut impl Memory, at: Addr) {
//!     let value: u64 = memory.load(at);
//!     memory.store(at, value + 1);
//! }
//! ```

#![warn(clippy::too_many_lines)]
#![forbid(unsafe_code)]

mod addr;
mod archive;
mod bytes;
mod checksum;
mod choice;
pub mod durability;
mod footprint;
mod memory;
mod names;
mod numbers;
mod placement;
pub mod prefetch;
pub mod promotion;
pub mod replacement;
pub mod schedule;
mod time;
mod watch;
mod write_health;
mod write_log;

pub use addr::{Addr, FrameId, LINE_BYTES, PAGE_BYTES, PageId};
pub use archive::Archive;
pub use bytes::{Bytes, NotBytes};
pub use checksum::{crc32c, crc32c_append};
pub use footprint::{Footprints, Lines, Trigger};
pub use memory::{FullMemory, GaveUp, Hint, Memory, MemoryFault, Patience, Value, check_access};
pub use names::UnknownName;
pub use names::find_by_name;
pub use numbers::{brief, counted};
pub use placement::{Placement, Run};
#[doc(hidden)]
pub use serde;
pub use time::{NotSpan, Span, Time};
pub use watch::{Stop, Stopped, Watch};
pub use write_health::WriteHealth;
pub use write_log::WriteLog;
