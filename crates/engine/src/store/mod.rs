//! The data file: a header and the pages of one address space, on a file or a block device.
//!
//! ```text
//! offset           offset + 4096
//! | header, 1 page | page 0 | page 1 | …
//! ```
//!
//! A store that was [made to persist](Store::create_persistent) has a log and a page map in
//! between, which `ebbtide_core::durability` describes. The rest of this page is about stores
//! without.
//!
//! The header says *dirty* before the first page is written. It says *clean* only after everything
//! is known to be on the device. So a file that was left half-written is never trusted, after a
//! crash, a full disk or Ctrl-C. An extend region that is dirty is rebuilt from its image.

mod creation;
mod error;
mod exclusive;
mod file;
mod header;
mod signature;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebbtide_core::PAGE_BYTES;
use parking_lot::Mutex;

use crate::host::extent::Extent;
pub use creation::NewStore;
pub(crate) use creation::flush_name;
pub use error::StoreError;
use error::fault;
pub(crate) use exclusive::Exclusive;
pub(crate) use file::{Buffer, buffer, is_locked, open_to_change, open_to_read};
use file::{Purpose, check_aligned, is_named, lock, open, unlock};
pub use header::Header;
use header::{replace_header, whole_header};

/// Version of the layout described above.
const VERSION: u32 = 2;

/// The longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 1024;

/// How a store is shared with other users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No other user may have it open.
    Exclusive,
    /// Other users may have it open, if they only read as well.
    SharedReadOnly,
}

/// An address space on a file or block device, locked against other processes.
#[derive(Debug)]
pub struct Store {
    file: Arc<File>,
    path: PathBuf,
    offset: u64,
    access: Access,
    header: Mutex<Header>,
    /// Whether an engine uses it.
    claimed: AtomicBool,
    /// The process that has locked it.
    process: u32,
    /// Whether its file was made for it.
    is_new: bool,
}

/// Unlocks the file at once: the kernel may keep it open for a while yet, with a ring that used it.
impl Drop for Store {
    fn drop(&mut self) {
        // A forked child shares the lock, and only its parent may give it up.
        if std::process::id() == self.process {
            unlock(&self.file, self.offset, self.header.lock().bytes());
        }
    }
}

/// The right to use a store, which one engine at a time has. Returned when dropped.
#[derive(Debug)]
pub(crate) struct Claim(Arc<Store>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.claimed.store(false, Ordering::Release);
    }
}

impl Store {
    /// Opens the store that begins `offset` bytes into `path`. Whether it is clean is for the
    /// caller to look at ([`Store::header`]). Waits up to 5 s for a store that another process has
    /// open: the kernel takes its time to end one that was killed.
    ///
    /// # Errors
    /// When there is no whole store of this version there, or another user has it open.
    pub fn open(path: &Path, offset: u64, access: Access) -> Result<Store, StoreError> {
        check_aligned(offset)?;
        let file = open(path, Purpose::Use(access))?;
        // Every lock of a store covers its header: with that locked, what it says stays true.
        lock(&file, path, access, offset, PAGE_BYTES as u64)?;
        if !is_named(&file, path) {
            return Err(StoreError::Unfinished(path.to_path_buf()));
        }
        let header = whole_header(&file, path, offset)?;
        if header.is_unfinished() {
            return Err(StoreError::Unfinished(path.to_path_buf()));
        }
        lock(&file, path, access, offset, header.bytes())?;
        Ok(Store {
            file: Arc::new(file),
            path: path.to_path_buf(),
            offset,
            access,
            header: Mutex::new(header),
            claimed: AtomicBool::new(false),
            process: std::process::id(),
            is_new: false,
        })
    }

    /// Opens like [`Store::open`], but only a store that was closed cleanly.
    ///
    /// # Errors
    /// In addition, when it was not.
    pub fn open_clean(path: &Path, offset: u64, access: Access) -> Result<Store, StoreError> {
        let store = Store::open(path, offset, access)?;
        if !store.header().clean {
            return Err(StoreError::Dirty(path.to_path_buf()));
        }
        Ok(store)
    }

    /// Takes the store for one engine. The lock on the file keeps other processes out. A store
    /// opened by [`Access::SharedReadOnly`] is never written, so it may have several engines,
    /// unless it has a log.
    ///
    /// # Errors
    /// When an engine has it already. When its pages are not those of its image: only the engine
    /// that wrote to it knew the place of each page. When it has a log and is open for reading
    /// only: recovery and every checkpoint write the log.
    pub(crate) fn claim(self: &Arc<Store>) -> Result<Option<Claim>, StoreError> {
        let claim = match self.access {
            Access::SharedReadOnly if self.header.lock().log_blocks > 0 => {
                return Err(StoreError::SharedLog(self.path.clone()));
            }
            Access::SharedReadOnly => None,
            Access::Exclusive if self.claimed.swap(true, Ordering::Acquire) => {
                return Err(StoreError::HasEngine(self.path.clone()));
            }
            Access::Exclusive => Some(Claim(self.clone())),
        };
        if !self.header.lock().clean {
            return Err(StoreError::Dirty(self.path.clone()));
        }
        Ok(claim)
    }

    /// Removes the file if it was made for this store. For programs that cannot use a store that
    /// they have just made, and that have stored nothing in it.
    pub fn discard_new(&self) {
        if self.is_new {
            // The program has an error to tell already.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// True if its path still names its file.
    pub(crate) fn is_named(&self) -> bool {
        is_named(&self.file, &self.path)
    }

    /// Whether it is never written.
    pub(crate) fn is_read_only(&self) -> bool {
        self.access == Access::SharedReadOnly
    }

    /// Returns the contents of the header.
    pub fn header(&self) -> Header {
        self.header.lock().clone()
    }

    /// The open file, for devices.
    pub fn file(&self) -> Arc<File> {
        self.file.clone()
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the persist part begins in the file, in bytes.
    pub fn persist_offset(&self) -> u64 {
        self.offset + PAGE_BYTES as u64
    }

    /// Returns the place of page 0 in the file, in bytes.
    pub fn pages_offset(&self) -> u64 {
        let before = self.header.lock().persist().map_or(0, |geometry| geometry.slots_start());
        self.offset + (1 + before) * PAGE_BYTES as u64
    }

    /// Places for pages, the spare ones included.
    pub fn slots(&self) -> u64 {
        self.header.lock().places()
    }

    /// Returns the extent, which detects that the file is cut short.
    pub(crate) fn extent(&self) -> Result<Extent, StoreError> {
        let header = self.header.lock();
        let end = self.offset + header.bytes();
        Extent::of(self.file.clone(), self.offset, end, header.blank)
            .map_err(|error| fault(&self.path, "look at", error))
    }

    /// Notes that the pages may no longer match the tag. Must be on the device before any page is.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn mark_dirty(&self) -> Result<(), StoreError> {
        match self.access {
            Access::Exclusive => self.write_header(false),
            Access::SharedReadOnly => Err(StoreError::ReadOnly(self.path.clone())),
        }
    }

    fn write_header(&self, clean: bool) -> Result<(), StoreError> {
        let mut header = self.header.lock();
        header.clean = clean;
        let mut page = buffer(PAGE_BYTES, &self.path)?;
        header.encode(page.as_mut_slice());
        replace_header(&*self.file, page.as_slice(), self.offset)
            .map_err(|error| fault(&self.path, "write the header", error))
    }
}
