//! The vocabulary of Ebbtide and every decision it takes, as code without I/O.
//!
//! What is here runs unchanged in the engine, on a real SSD, and in the simulator, in virtual
//! time: a policy is a state machine that is told of events and the time at which they happen,
//! and answers with a decision. There is no clock, no thread, no I/O and no printing in this crate.
//!
//! * [`Addr`], [`PageId`], [`FrameId`], [`Time`], [`Span`]: the vocabulary.
//! * [`Memory`]: the one trait a program is written against.
//! * [`replacement`]: which frame to give up.
//! * [`Footprints`]: which lines of a page to fetch.
//! * [`prefetch`]: which pages to fetch before anybody asks.
//! * [`MissTable`]: which pages are in flight, and who waits for them.
//! * [`Placement`]: where on flash a dirty page goes.
//! * [`promotion`]: which pages of a byte-addressable SSD move to host DRAM.
//! * [`schedule`]: which job runs next.

#![forbid(unsafe_code)]

mod addr;
mod bytes;
mod choice;
mod footprint;
mod memory;
mod miss_table;
mod names;
mod placement;
pub mod prefetch;
pub mod promotion;
pub mod replacement;
pub mod schedule;
mod time;
mod watch;

pub use addr::{Addr, FrameId, LINE_BYTES, PAGE_BYTES, PageId};
pub use bytes::{Bytes, NotBytes};
pub use footprint::{Footprints, Lines, Trigger};
pub use memory::{Hint, Memory, MemoryFault, Value, check_access};
pub use miss_table::{Begin, MissTable};
pub use names::UnknownName;
pub use names::find_by_name;
pub use placement::{Placement, Run};
#[doc(hidden)]
pub use serde;
pub use time::{NotSpan, Span, Time};
pub use watch::{Stop, Stopped, Watch};
