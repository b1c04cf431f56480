//! Traces of memory accesses: formats, capture, caches that filter them, and miss-ratio curves.
//!
//! A trace is a stream of [`Access`]es in the order of time. Programs read one from a [`Source`] in
//! batches and write one to a [`Sink`], so that memory stays bounded for traces of any length.
//!
//! | to | use |
//! |---|---|
//! | read a file of any format, compressed or not | [`open()`]; [`ReadAhead`] reads on another thread |
//! | write a file | [`copy_to`], or [`Format::write`] to an [`Output`] |
//! | trace a running program | [`capture`], through a [`CacheFilter`] |
//! | change addresses or add hints | [`Mapped`], [`Physical`], [`Hinted`] |
//! | divide accesses at page boundaries | [`Paged`] |
//! | fit a trace to a device | [`WithFrames`], [`Wrapped`], [`Folded`] |
//! | record a generated program | [`Recorder`] |
//! | describe a trace | [`Statistics`] |
//! | find the miss ratio of every size of DRAM | [`curve`] |
//!
//! The ending of a file's name selects its [`Format`]. Three formats have a module:
//!
//! * [`native`]: the compact binary form
//! * [`text`]: the published form, with one access a line
//! * [`lackey`]: the output of Valgrind's memory tracer
//!
//! The others are CSV, the lists of DRAM simulators, libCacheSim's oracleGeneral, ChampSim's
//! records and the view of drmemtrace.
//!
//! The filter and the simulator share [`LineCache`], a set-associative cache.
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
//! Truncated input is an error, never a shorter trace: when [`Source::fill`] has returned `false`,
//! the whole trace was read.

#![forbid(unsafe_code)]

mod access;
mod address_list;
pub mod capture;
mod champsim;
mod compression;
mod copy;
mod csv;
pub mod curve;
mod drmemtrace;
mod error;
mod filter;
mod footprint;
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
mod paged;
mod read_ahead;
mod recording;
mod sink;
mod source;
mod statistics;
mod stretched;
pub mod text;
mod threads;
mod wrapped;

pub use access::{Access, Op};
pub use compression::Compression;
pub use copy::copy_to;
pub use error::{MappingError, TraceError};
pub use filter::{CacheError, CacheFilter, CacheShape, Hierarchy, Traffic};
pub use footprint::{Compacted, Footprint};
pub use format::Format;
pub use frame_map::FrameMap;
pub use hints::{Hinted, Hints};
pub use input::Input;
pub use line_cache::{Evicted, LineCache, LineId};
pub use mapping::{Mapped, Mapping, Physical, Space};
pub use open::{open, open_as};
pub use output::Output;
pub use paged::Paged;
pub use read_ahead::ReadAhead;
pub use recording::{Enough, Recorder, Recording, Replayed, Translated, line_access};
pub use sink::Sink;
pub use source::{Accesses, Source};
pub use statistics::{Hottest, Statistics};
pub use stretched::Stretched;
pub use wrapped::{Beyond, Folded, WithFrames, Wrapped};
