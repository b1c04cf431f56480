//! [`Storage`]: what lies under the memory, as commands see it.

use std::path::{Path, PathBuf};

use ebbtide_core::durability::Lsn;

/// What commands may ask of what lies under the memory.
pub trait Storage: Send + Sync {
    /// The section of `INFO` on it, after so many commands, with buffers of connections of so many bytes.
    fn section(&self, commands: u64, buffers_bytes: u64) -> String;

    /// How far the log is, or will be if nothing more can be written; zero without one.
    fn committed(&self) -> Lsn;

    /// Whether changes are refused, because the device fails or has no room.
    fn refuses(&self) -> bool;

    /// Asks for a flush of all changes. Gives the place in the log from which on they survive a crash;
    /// `None` if nothing does.
    fn save(&self) -> Option<Lsn>;

    /// Begins a copy of all that is there to a new file.
    ///
    /// # Errors
    /// When one is under way, or the file is there.
    fn copy(&self, path: &Path) -> Result<(), String>;

    /// How the last copy went.
    fn copied(&self) -> Copied;

    /// Looks at what commands and misses cost, about once a second, after so many commands.
    fn sample(&self, commands: u64);

    /// Wakes a core if it sleeps.
    fn rouse(&self, core: usize);
}

/// How a copy of the store went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copied {
    /// There was none.
    Never,
    /// It is under way.
    UnderWay,
    /// It is complete, and here.
    Done(PathBuf),
    /// There is none, for this reason.
    Failed(String),
}
