//! Why a data file cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use ebbtide_core::durability::RecoveryError;
use ebbtide_core::{PAGE_BYTES, Stopped};
use thiserror::Error;

use super::{TAG_BYTES_MAX, VERSION};

/// Why a data file cannot be used.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum StoreError {
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
    #[error("{}: cannot open it: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{}: the folder it should be made in does not exist", .0.display())]
    NoFolder(PathBuf),
    #[error("{}: the folder it should be made in cannot be written to: {source}", path.display())]
    FolderReadOnly { path: PathBuf, source: io::Error },
    #[error("{}: neither a file nor a block device", .0.display())]
    NotAFile(PathBuf),
    #[error("{}: this file system does not support O_DIRECT; use one that does (ext4, xfs, btrfs) or a block device", .0.display())]
    NoDirectIo(PathBuf),
    #[error("{}: in use by another process", .0.display())]
    InUse(PathBuf),
    #[error("{}: in use by this process already", .0.display())]
    HasEngine(PathBuf),
    #[error("{}: in use by the system: mounted, or part of a volume; --force does not change that", .0.display())]
    Mounted(PathBuf),
    #[error("{}: you may not read and write this drive; expected root, or a user in the group of the device (ls -l)", .0.display())]
    Forbidden(PathBuf),
    #[error("{}: the drive behind it is gone", .0.display())]
    Gone(PathBuf),
    #[error("{}: its blocks have {block_bytes} bytes, expected {PAGE_BYTES} or fewer", path.display())]
    LargeBlocks { path: PathBuf, block_bytes: i32 },
    #[error("{}: holds {what}", path.display())]
    Holds { path: PathBuf, what: &'static str },
    #[error("{found}; --force would overwrite {} MiB of it", bytes.div_ceil(1 << 20))]
    Foreign { found: Box<StoreError>, bytes: u64 },
    #[error("{}: holds a store that survives crashes, '{tag}'", path.display())]
    HasLog { path: PathBuf, tag: String },
    #[error("{}: an Ebbtide data file whose making was cut off, so it holds nothing; create it again", .0.display())]
    Unfinished(PathBuf),
    #[error("{}: holds something that is not an Ebbtide data file", .0.display())]
    NotAStore(PathBuf),
    #[error("{}: an Ebbtide data file whose header is damaged: its checksum does not match", .0.display())]
    Damaged(PathBuf),
    #[error("{}: an Ebbtide data file of version {found}, expected {VERSION}: create it again with this version", path.display())]
    Version { path: PathBuf, found: u32 },
    #[error("{}: its pages were changed, by an engine or by a write that was cut off, and are no longer its image; create it again", .0.display())]
    Dirty(PathBuf),
    #[error("{}: an Ebbtide data file that is truncated: has {found_bytes} bytes, needs {expected_bytes}", path.display())]
    Short { path: PathBuf, found_bytes: u64, expected_bytes: u64 },
    #[error(
        "{}: no space left: {} MiB are needed, reserved at once for the pages, the spare pages and the log",
        path.display(),
        needed_bytes.div_ceil(1 << 20)
    )]
    NoSpace { path: PathBuf, needed_bytes: u64 },
    #[error("{}: has {found_pages} pages, expected more than that and not {pages}", path.display())]
    NotLarger { path: PathBuf, pages: u64, found_pages: u64 },
    #[error("{}: a drive, and a store grows in a file only", .0.display())]
    GrowsInFile(PathBuf),
    #[error("{}: no longer the file of the open store, expected it to stay where it was opened", .0.display())]
    Moved(PathBuf),
    #[error("{}: is there already, expected a name that is free", .0.display())]
    Exists(PathBuf),
    #[error("{}: opened for reading only", .0.display())]
    ReadOnly(PathBuf),
    #[error("{}: opened for reading only, but a store that survives crashes is written when an engine opens it", .0.display())]
    SharedLog(PathBuf),
    #[error("{}: has {found_bytes} bytes, expected {bytes} from byte {offset} on", path.display())]
    Beyond { path: PathBuf, offset: u64, bytes: u64, found_bytes: u64 },
    #[error(
        "a persistent store with a log of {log_bytes} bytes and {spare_pages} spare pages, expected at least {log_bytes_min} bytes and one page"
    )]
    TooSmall { log_bytes: u64, log_bytes_min: u64, spare_pages: u64 },
    #[error(
        "a persistent store of {places} pages with the spare ones, expected at most {places_max}"
    )]
    TooLarge { places: u64, places_max: u64 },
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    #[error("a store's tag has {0} bytes, expected at most {TAG_BYTES_MAX}")]
    LongTag(usize),
    #[error("a store begins {0} bytes into its file, expected a multiple of {PAGE_BYTES}")]
    Unaligned(u64),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl StoreError {
    /// True if the user's input is at fault, rather than the device.
    pub fn is_input(&self) -> bool {
        !matches!(self, StoreError::Io { .. } | StoreError::Stopped(_) | StoreError::Recovery(_))
    }

    /// True if the caller's stop request ended the work, and nothing failed.
    pub fn is_stop(&self) -> bool {
        matches!(self, StoreError::Stopped(_) | StoreError::Recovery(RecoveryError::Stopped(_)))
    }
}

pub(super) fn fault(path: &Path, doing: &'static str, source: io::Error) -> StoreError {
    StoreError::Io { path: path.to_path_buf(), doing, source }
}
