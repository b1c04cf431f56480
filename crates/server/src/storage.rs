//! [`Storage`]: the storage under the memory, as commands see it.

use std::path::{Path, PathBuf};

use ebbtide_core::durability::Lsn;

/// Requests that commands make to the storage under the memory.
pub trait Storage: Send + Sync {
    /// Returns its section of `INFO`, given the commands since the last [`reset`](Storage::reset)
    /// and the bytes of connection buffers.
    fn section(&self, commands: u64, buffers_bytes: u64) -> String;

    /// Returns the last place in the log. If nothing more can be written, the last acknowledged
    /// place; zero without a log.
    fn committed(&self) -> Lsn;

    /// True if changes are refused because the device fails or is full.
    fn refuses(&self) -> bool;

    /// Begins a flush of all changes. Returns the place in the log at which they are durable;
    /// `None` without a log.
    fn save(&self) -> Option<Lsn>;

    /// Begins a copy of the store to a new file.
    ///
    /// # Errors
    /// Returns an error if a copy is under way, or the file exists.
    fn copy(&self, path: &Path) -> Result<(), String>;

    /// Returns the state of the last copy.
    fn copied(&self) -> Copied;

    /// Samples the costs of commands and misses, given the commands so far. Called about once a
    /// second.
    fn sample(&self, commands: u64);

    /// Notes that the counters of commands begin again at 0.
    fn reset(&self);

    /// Wakes a core if it sleeps.
    fn rouse(&self, core: usize);
}

/// State of a copy of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copied {
    /// No copy was made.
    Never,
    /// It is under way.
    UnderWay,
    /// It is complete, in this file.
    Done(PathBuf),
    /// It failed, for this reason.
    Failed(String),
}
