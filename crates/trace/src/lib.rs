//! Traces of memory accesses: formats, read and written as streams.
//!
//! ```no_run
//! use ebbtide_trace::{Source, open};
//!
//! let mut trace = open("accesses.txt.zst".as_ref())?;
//! let mut writes = 0;
//! let mut batch = Vec::new();
//! while trace.fill(&mut batch)? {
//!     writes += batch.iter().filter(|access| access.is_write()).count();
//! }
//! # Ok::<(), ebbtide_trace::TraceError>(())
//! ```
//!
//! * [`Access`]: one access, or a hint of one.
//! * [`Source`]: whatever accesses come from, in batches; [`open`] finds out the format.
//! * [`native`]: the compact form, in compressed blocks.
//! * [`text`]: the form a line an access, as published traces have it.
//! * [`capture`]: a program's accesses as it runs, through [`CacheFilter`].
//! * [`lackey`]: the text of Valgrind's memory tracer.
//! * [`Format`]: these forms and others, told apart by content.
//! * [`ReadAhead`]: a source read on a thread of its own.
//! * [`Mapped`], [`Physical`], [`Hinted`]: a trace with other addresses, or with hints.
//! * [`Statistics`]: what a trace is like.
//! * [`Input`] and [`Output`]: files and standard streams, compressed or not.
//! * [`curve`]: miss-ratio curves.
//!
//! Input that was cut short is an error, never a shorter trace: whoever prints a result after the
//! last [`Source::fill`] has seen all of it.

#![forbid(unsafe_code)]

mod access;
mod address_list;
pub mod capture;
mod csv;
pub mod curve;
mod error;
mod filter;
mod format;
mod frame_map;
mod hints;
mod input;
pub mod lackey;
mod line_cache;
mod line_reader;
mod mapping;
pub mod native;
mod open;
mod oracle_general;
mod output;
mod read_ahead;
mod sink;
mod source;
mod statistics;
pub mod text;

pub use access::{Access, Op};
pub use error::{MappingError, TraceError};
pub use filter::{CacheError, CacheFilter, CacheShape, Hierarchy, Traffic};
pub use format::Format;
pub use frame_map::FrameMap;
pub use hints::{Hinted, Hints};
pub use input::Input;
pub use line_cache::{Evicted, LineCache, LineId};
pub use mapping::{Mapped, Mapping, Physical, Space};
pub use open::open;
pub use output::{Compression, Output};
pub use read_ahead::ReadAhead;
pub use sink::Sink;
pub use source::{Accesses, Source};
pub use statistics::{Hottest, Statistics};
