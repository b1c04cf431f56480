//! [`Store::grow`]: adds pages to a store that is not in use.

use std::path::{Path, PathBuf};

use ebbtide_core::durability::{Gap, Limits, RecoveryOptions, copy_larger, recover};
use ebbtide_core::{PageId, Watch};

use crate::persist::FileDisk;
use crate::store::{Access, Header, Store, StoreError, flush_name};

/// Options for the recovery of the old store. Nothing is committed to it.
const RECOVERY: RecoveryOptions = RecoveryOptions {
    pages_at_once: 4096,
    limits: Limits {
        transaction_bytes_max: 0,
        transaction_bound: "none",
        buffer_blocks_max: 0,
        unmapped_pages_max: 0,
        dirty_pages_max: 0,
    },
};

/// The size of a store after it has grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Larger {
    /// Pages of the address space.
    pub pages: u64,
    /// Spare places. A store keeps those that it has.
    pub spare_pages: u64,
    /// Where new pages come between old ones. The others come at the end.
    pub gap: Option<Gap>,
}

impl Store {
    /// Adds pages of zeros and spare places to the persistent store in a file. The new store is
    /// made in the same folder, under the old name and `.larger`, and then replaces the old one. It
    /// has the permissions of the old one. If the growth is cut off, the old store is still there.
    /// The folder needs room for both.
    ///
    /// # Errors
    /// When the file holds no store with a log, or has as many pages or more, or a file cannot be
    /// read or written.
    pub fn grow(path: &Path, larger: Larger, watch: Watch<'_>) -> Result<(), StoreError> {
        if path.metadata().is_ok_and(|about| !about.is_file()) {
            return Err(StoreError::GrowsInFile(path.to_path_buf()));
        }
        // The file itself, also if a symbolic link names it.
        let file = std::fs::canonicalize(path)
            .map_err(|source| StoreError::Open { path: path.to_path_buf(), source })?;
        let old = Store::open(path, 0, Access::Exclusive)?;
        let header = old.header();
        let Larger { pages, spare_pages, gap } = larger;
        if pages <= header.pages {
            let path = path.to_path_buf();
            return Err(StoreError::NotLarger { path, pages, found_pages: header.pages });
        }
        let gap = gap.unwrap_or(Gap { at: PageId(header.pages), pages: 0 });
        let larger_header =
            Header { pages, spare_pages: spare_pages.max(header.spare_pages), ..old.header() };
        let (Some(geometry), Some(larger)) = (header.persist(), larger_header.persist()) else {
            return Err(StoreError::NotAStore(path.to_path_buf()));
        };
        let beside = beside(&file);
        let made = old.make_larger(&beside, larger_header, &|new| {
            let disk = |of: &Store| FileDisk::new(of.file(), of.persist_offset(), of.path());
            let (mut from, mut to) = (disk(&old)?, disk(new)?);
            let (journal, _) = recover(geometry, &mut from, &RECOVERY, watch)?;
            Ok(copy_larger(&journal, &mut from, (&larger, &mut to), gap, watch)?)
        })?;
        std::fs::rename(&beside, &file).map_err(|source| StoreError::Io {
            path: path.to_path_buf(),
            doing: "put the larger store in its place",
            source,
        })?;
        flush_name(&file)?;
        drop(made);
        Ok(())
    }
}

/// The path of the larger store while it is made.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".larger");
    PathBuf::from(name)
}
