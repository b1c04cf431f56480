//! Database files of Redis (RDB): their values, and how they are read and written.
//!
//! `DUMP` and `RESTORE` use the same forms of values. [`Reader`] and [`import()`] read files, and
//! [`export()`] writes them.

pub(crate) mod checksum;
mod export;
pub(crate) mod forms;
mod import;
mod link;
pub(crate) mod packs;
mod reader;
pub(crate) mod text;

pub use export::{ExportError, Exported, Exporting, export};
pub use import::{ImportError, Imported, Importing, import};
pub use link::{Answer, Link, Socket};
pub use reader::{Beside, Corrupt, Fault, Found, Piece, Reader};

/// Version of the format that is written: that of Redis 7.0.
pub(crate) const VERSION: u16 = 10;

/// The latest version that is read. Since 12, Redis has hashes with fields that expire.
pub(crate) const VERSION_READ_MAX: u16 = 12;
