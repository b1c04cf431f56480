//! The data file: a header and the pages of one address space, on a file or a block device.
//!
//! ```text
//! offset           offset + 4096
//! | header, 1 page | page 0 | page 1 | …
//! ```
//!
//! The header says *dirty* before the first page is written and *clean* only after everything is
//! known to be on the device, so a file that a crash, a full disk or Ctrl-C left half-written is
//! never trusted: an extend region that is dirty is rebuilt from its image.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ebbtide_core::{PAGE_BYTES, PageId};
use parking_lot::Mutex;
use thiserror::Error;

use crate::mapping::Mapping;

/// Version of the layout described above.
const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"EBBTIDE\0";
const CLEAN: u32 = 1;
const DIRTY: u32 = 2;

/// The longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 1024;

/// Where the parts of the header lie, in bytes from its start.
mod layout {
    pub(super) const VERSION: usize = 8;
    pub(super) const STATE: usize = 12;
    pub(super) const PAGES: usize = 16;
    pub(super) const TAG_BYTES: usize = 24;
    pub(super) const TAG: usize = 32;
    pub(super) const CHECKSUM: usize = super::PAGE_BYTES - 4;
}

/// Bytes that the image is written in at once.
const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_PAGES: u64 = (CHUNK_BYTES / PAGE_BYTES) as u64;

/// Why a data file cannot be used.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum StoreError {
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
    #[error("{}: this file system does not support O_DIRECT; use one that does (ext4, xfs, btrfs) or a block device", .0.display())]
    NoDirectIo(PathBuf),
    #[error("{}: in use by another process", .0.display())]
    InUse(PathBuf),
    #[error("{}: holds something that is not Ebbtide's; --force would overwrite {} MiB of it", path.display(), bytes >> 20)]
    Foreign { path: PathBuf, bytes: u64 },
    #[error("{}: not an Ebbtide data file: its header is damaged", .0.display())]
    Damaged(PathBuf),
    #[error("{}: data file version {found}, expected {VERSION}", path.display())]
    Version { path: PathBuf, found: u32 },
    #[error("{}: was not closed cleanly and cannot be trusted", .0.display())]
    Dirty(PathBuf),
    #[error("{}: is {found_bytes} bytes long, expected {expected_bytes}", path.display())]
    Short { path: PathBuf, found_bytes: u64, expected_bytes: u64 },
    #[error("{}: no space left: {} MiB are needed", path.display(), needed_bytes >> 20)]
    NoSpace { path: PathBuf, needed_bytes: u64 },
    #[error("{}: opened for reading only", .0.display())]
    ReadOnly(PathBuf),
    #[error("cancelled")]
    Cancelled,
}

impl StoreError {
    /// Whether what the user named, rather than the device, is at fault.
    pub fn is_input(&self) -> bool {
        !matches!(self, StoreError::Io { .. } | StoreError::Cancelled)
    }
}

/// What a header says of the pages behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Pages in the address space.
    pub pages: u64,
    /// What the image is, in the words of whoever wrote it.
    pub tag: String,
    /// Whether the pages are known to be what the tag says.
    pub clean: bool,
}

impl Header {
    fn encode(&self, out: &mut [u8]) {
        assert!(self.tag.len() <= TAG_BYTES_MAX, "a tag has at most {TAG_BYTES_MAX} bytes");
        out.fill(0);
        let state = if self.clean { CLEAN } else { DIRTY };
        let tag_bytes = self.tag.len() as u32;
        out[..8].copy_from_slice(&MAGIC);
        out[layout::VERSION..][..4].copy_from_slice(&VERSION.to_le_bytes());
        out[layout::STATE..][..4].copy_from_slice(&state.to_le_bytes());
        out[layout::PAGES..][..8].copy_from_slice(&self.pages.to_le_bytes());
        out[layout::TAG_BYTES..][..4].copy_from_slice(&tag_bytes.to_le_bytes());
        out[layout::TAG..][..self.tag.len()].copy_from_slice(self.tag.as_bytes());
        let checksum = crc32c::crc32c(&out[..layout::CHECKSUM]);
        out[layout::CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    }

    fn decode(page: &[u8], path: &Path) -> Result<Header, StoreError> {
        let damaged = || StoreError::Damaged(path.to_path_buf());
        let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("4 bytes"));
        if page[..8] != MAGIC {
            return Err(damaged());
        }
        let found = word(layout::VERSION);
        if found != VERSION {
            return Err(StoreError::Version { path: path.to_path_buf(), found });
        }
        let tag_bytes = word(layout::TAG_BYTES) as usize;
        if word(layout::CHECKSUM) != crc32c::crc32c(&page[..layout::CHECKSUM])
            || tag_bytes > TAG_BYTES_MAX
        {
            return Err(damaged());
        }
        let pages = page[layout::PAGES..][..8].try_into().expect("8 bytes");
        let tag = page[layout::TAG..][..tag_bytes].to_vec();
        Ok(Header {
            pages: u64::from_le_bytes(pages),
            tag: String::from_utf8(tag).map_err(|_| damaged())?,
            clean: word(layout::STATE) == CLEAN,
        })
    }
}

/// Who else may use a store meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nobody.
    Exclusive,
    /// Everybody who also only reads.
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
}

/// Where a new store goes and what it will hold.
#[derive(Debug, Clone)]
pub struct NewStore {
    /// The file, made if it does not exist, or the block device.
    pub path: PathBuf,
    /// Where the store begins in it, in bytes; a multiple of the page size. Several stores may share
    /// a file, each locked for itself.
    pub offset: u64,
    /// Size of the address space in pages.
    pub pages: u64,
    /// What the image is; [`Header::tag`] later says so.
    pub tag: String,
    /// Overwrite whatever is there.
    pub force: bool,
}

impl NewStore {
    /// Bytes that a store of `pages` pages takes up.
    pub const fn bytes(pages: u64) -> u64 {
        (1 + pages) * PAGE_BYTES as u64
    }
}

impl Store {
    /// Makes a store and fills it: `image` writes the contents of each page into a buffer of unknown
    /// contents, on several threads at once. `progress` is told the pages written so far and may
    /// break off.
    ///
    /// # Errors
    /// Whatever keeps the file from being written in full, in which case it stays marked as dirty;
    /// a file that was made here and found no space is removed again.
    pub fn create(
        new: &NewStore,
        image: &(dyn Fn(PageId, &mut [u8; PAGE_BYTES]) + Sync),
        progress: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
    ) -> Result<Store, StoreError> {
        let existed = new.path.exists();
        let file = open(&new.path, true)?;
        let (access, bytes) = (Access::Exclusive, NewStore::bytes(new.pages));
        lock(&file, &new.path, access, new.offset, bytes)?;
        if !new.force {
            refuse_foreign(&file, new)?;
        }
        let reserved = reserve(&file, new);
        if reserved.is_err() && !existed {
            // The error at hand says more than one about the removal would.
            let _ = std::fs::remove_file(&new.path);
        }
        reserved?;
        let header = Header { pages: new.pages, tag: new.tag.clone(), clean: false };
        let store = Store {
            file: Arc::new(file),
            path: new.path.clone(),
            offset: new.offset,
            access,
            header: Mutex::new(header),
        };
        store.write_header(false)?;
        store.write_image(image, progress)?;
        store.write_header(true)?;
        Ok(store)
    }

    /// Opens the store that begins `offset` bytes into `path`. Whether it is clean is for the caller
    /// to look at ([`Store::header`]).
    ///
    /// # Errors
    /// When there is no whole store of this version there, or somebody else uses it.
    pub fn open(path: &Path, offset: u64, access: Access) -> Result<Store, StoreError> {
        let file = open(path, false)?;
        let header = read_header(&file, path, offset)?;
        let expected_bytes = offset + NewStore::bytes(header.pages);
        let found_bytes = size_bytes(&file, path)?;
        if found_bytes < expected_bytes {
            return Err(StoreError::Short {
                path: path.to_path_buf(),
                found_bytes,
                expected_bytes,
            });
        }
        lock(&file, path, access, offset, NewStore::bytes(header.pages))?;
        // What was read before the lock was had may have changed since.
        let header = Mutex::new(read_header(&file, path, offset)?);
        Ok(Store { file: Arc::new(file), path: path.to_path_buf(), offset, access, header })
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

    /// What the header says.
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

    /// Where page 0 lies in the file, in bytes.
    pub fn pages_offset(&self) -> u64 {
        self.offset + PAGE_BYTES as u64
    }

    /// Marks the pages as no longer what the tag says. Must be on the device before any page is.
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
        self.sync()?;
        self.file
            .write_all_at(page.as_slice(), self.offset)
            .map_err(|error| fault(&self.path, "write the header", error))?;
        self.sync()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|error| fault(&self.path, "flush", error))
    }

    fn write_image(
        &self,
        image: &(dyn Fn(PageId, &mut [u8; PAGE_BYTES]) + Sync),
        progress: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
    ) -> Result<(), StoreError> {
        let pages = self.header.lock().pages;
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let stop = AtomicBool::new(false);
        let write_chunks = || -> Result<(), StoreError> {
            let mut chunk = buffer(CHUNK_BYTES, &self.path)?;
            while !stop.load(Ordering::Relaxed) {
                let first = next.fetch_add(CHUNK_PAGES, Ordering::Relaxed);
                if first >= pages {
                    break;
                }
                let count = CHUNK_PAGES.min(pages - first);
                let bytes = &mut chunk.as_mut_slice()[..count as usize * PAGE_BYTES];
                for (number, page) in bytes.chunks_exact_mut(PAGE_BYTES).enumerate() {
                    image(PageId(first + number as u64), page.try_into().expect("a whole page"));
                }
                let offset = self.pages_offset() + first * PAGE_BYTES as u64;
                self.file
                    .write_all_at(bytes, offset)
                    .map_err(|error| fault(&self.path, "write", error))?;
                let done = done.fetch_add(count, Ordering::Relaxed) + count;
                if progress(done).is_break() {
                    stop.store(true, Ordering::Relaxed);
                    return Err(StoreError::Cancelled);
                }
            }
            Ok(())
        };
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get()).min(8);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        let result = write_chunks();
                        if result.is_err() {
                            stop.store(true, Ordering::Relaxed);
                        }
                        result
                    })
                })
                .collect();
            writers.into_iter().try_for_each(|writer| {
                writer.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
            })
        })
    }
}

/// A buffer that O_DIRECT accepts.
struct Buffer(Mapping, usize);

fn buffer(bytes: usize, path: &Path) -> Result<Buffer, StoreError> {
    let mapping = Mapping::zeroed(bytes).map_err(|error| fault(path, "map a buffer", error))?;
    Ok(Buffer(mapping, bytes))
}

impl Buffer {
    fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is at least this long, initialised, and only borrowed through here.
        unsafe { std::slice::from_raw_parts(self.0.base(), self.1) }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.base(), self.1) }
    }
}

fn fault(path: &Path, doing: &'static str, source: io::Error) -> StoreError {
    let path = path.to_path_buf();
    match source.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => StoreError::NoSpace { path, needed_bytes: 0 },
        _ => StoreError::Io { path, doing, source },
    }
}

fn open(path: &Path, create: bool) -> Result<File, StoreError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .custom_flags(libc::O_DIRECT | libc::O_CLOEXEC)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => StoreError::NoDirectIo(path.to_path_buf()),
            _ => fault(path, "open", error),
        })
}

/// Locks a range of the file against other openers (an open-file-description lock).
fn lock(
    file: &File,
    path: &Path,
    access: Access,
    offset: u64,
    bytes: u64,
) -> Result<(), StoreError> {
    let kind = match access {
        Access::Exclusive => libc::F_WRLCK,
        Access::SharedReadOnly => libc::F_RDLCK,
    };
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset as libc::off_t,
        l_len: bytes as libc::off_t,
        l_pid: 0,
    };
    let since = Instant::now();
    loop {
        // SAFETY: the descriptor is open and `range` outlives the call.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // The kernel closes a dead process's rings, and the files in them, a little later.
            Some(libc::EAGAIN | libc::EACCES) if since.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_PATIENCE / 100);
            }
            Some(libc::EAGAIN | libc::EACCES) => {
                return Err(StoreError::InUse(path.to_path_buf()));
            }
            _ => return Err(fault(path, "lock", error)),
        }
    }
}

/// How long a locked file is tried again before it counts as in use.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

fn size_bytes(file: &File, path: &Path) -> Result<u64, StoreError> {
    use std::io::{Seek, SeekFrom};
    // Seeking to the end works for files and block devices alike.
    (&mut &*file).seek(SeekFrom::End(0)).map_err(|error| fault(path, "find the size", error))
}

fn is_block_device(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Makes sure that there is room on the device.
fn reserve(file: &File, new: &NewStore) -> Result<(), StoreError> {
    let end = new.offset + NewStore::bytes(new.pages);
    let no_space = || StoreError::NoSpace { path: new.path.clone(), needed_bytes: end };
    if is_block_device(file) {
        return if size_bytes(file, &new.path)? < end { Err(no_space()) } else { Ok(()) };
    }
    // SAFETY: the descriptor is open; the range is not negative.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, end as libc::off_t) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => Err(no_space()),
        // A file system that cannot reserve will say when it is full.
        Some(libc::EOPNOTSUPP) => {
            file.set_len(end).map_err(|error| fault(&new.path, "grow", error))
        }
        _ => Err(fault(&new.path, "reserve space", error)),
    }
}

/// An existing file or device is only written over when it is ours, or empty.
fn refuse_foreign(file: &File, new: &NewStore) -> Result<(), StoreError> {
    if size_bytes(file, &new.path)? <= new.offset {
        return Ok(());
    }
    let mut page = buffer(PAGE_BYTES, &new.path)?;
    let read = file
        .read_at(page.as_mut_slice(), new.offset)
        .map_err(|error| fault(&new.path, "read", error))?;
    let found = &page.as_slice()[..read];
    if found.starts_with(&MAGIC) || (found.len() == PAGE_BYTES && found.iter().all(|&b| b == 0)) {
        return Ok(());
    }
    Err(StoreError::Foreign { path: new.path.clone(), bytes: NewStore::bytes(new.pages) })
}

fn read_header(file: &File, path: &Path, offset: u64) -> Result<Header, StoreError> {
    let mut page = buffer(PAGE_BYTES, path)?;
    let read = file
        .read_at(page.as_mut_slice(), offset)
        .map_err(|error| fault(path, "read the header", error))?;
    if read < PAGE_BYTES {
        let found_bytes = offset + read as u64;
        let expected_bytes = offset + PAGE_BYTES as u64;
        return Err(StoreError::Short { path: path.to_path_buf(), found_bytes, expected_bytes });
    }
    Header::decode(page.as_slice(), path)
}
