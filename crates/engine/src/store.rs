//! The data file: a header and the pages of one address space, on a file or a block device.
//!
//! ```text
//! offset           offset + 4096
//! | header, 1 page | page 0 | page 1 | …
//! ```
//!
//! A store that was [made to persist](Store::create_persistent) has a log and a page map in between, which
//! `ebbtide_core::durability` describes. The rest of this page is about stores without.
//!
//! The header says *dirty* before the first page is written and *clean* only after everything is
//! known to be on the device, so a file that a crash, a full disk or Ctrl-C left half-written is
//! never trusted: an extend region that is dirty is rebuilt from its image.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ebbtide_core::durability::{Geometry, LOG_BLOCKS_MIN, SLOTS_MAX, format};
use ebbtide_core::{PAGE_BYTES, PageId, Stopped, Watch};
use parking_lot::Mutex;
use thiserror::Error;

use crate::extent::Extent;
use crate::mapping::Mapping;

/// Version of the layout described above.
const VERSION: u32 = 2;
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
    pub(super) const SPARE_PAGES: usize = 24;
    pub(super) const TAG_BYTES: usize = 32;
    pub(super) const BLANK: usize = 36;
    pub(super) const TAG: usize = 40;
    pub(super) const ID: usize = TAG + super::TAG_BYTES_MAX;
    pub(super) const LOG_BLOCKS: usize = ID + 8;
    pub(super) const CHECKSUM: usize = super::PAGE_BYTES - 4;
}

/// Bytes in each write of the image.
const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_PAGES: u64 = (CHUNK_BYTES / PAGE_BYTES) as u64;

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
    #[error("{}: in use by another engine of this process", .0.display())]
    HasEngine(PathBuf),
    #[error("{}: in use by the system: mounted, or part of a volume", .0.display())]
    Mounted(PathBuf),
    #[error("{found}; --force would overwrite {} MiB of it", bytes.div_ceil(1 << 20))]
    Foreign { found: Box<StoreError>, bytes: u64 },
    #[error("{}: holds something that is not an Ebbtide data file", .0.display())]
    NotAStore(PathBuf),
    #[error("{}: an Ebbtide data file whose header is damaged: its checksum does not match", .0.display())]
    Damaged(PathBuf),
    #[error("{}: an Ebbtide data file of version {found}, expected {VERSION}: create it again with this version", path.display())]
    Version { path: PathBuf, found: u32 },
    #[error("{}: its pages were changed, by an engine or by a write that was cut off, and are no longer its image; create it again", .0.display())]
    Dirty(PathBuf),
    #[error("{}: an Ebbtide data file cut short: {found_bytes} bytes, expected {expected_bytes}", path.display())]
    Short { path: PathBuf, found_bytes: u64, expected_bytes: u64 },
    #[error("{}: no space left: {} MiB are needed", path.display(), needed_bytes.div_ceil(1 << 20))]
    NoSpace { path: PathBuf, needed_bytes: u64 },
    #[error("{}: opened for reading only", .0.display())]
    ReadOnly(PathBuf),
    #[error("{}: has {found_bytes} bytes, expected {bytes} from byte {offset} on", path.display())]
    Beyond { path: PathBuf, offset: u64, bytes: u64, found_bytes: u64 },
    #[error(
        "a persistent store with a log of {log_bytes} bytes and {spare_pages} spare pages, expected at least {log_bytes_min} bytes and one page"
    )]
    TooSmall { log_bytes: u64, log_bytes_min: u64, spare_pages: u64 },
    #[error(transparent)]
    Recovery(#[from] ebbtide_core::durability::RecoveryError),
    #[error("a store's tag has {0} bytes, expected at most {TAG_BYTES_MAX}")]
    LongTag(usize),
    #[error("a store begins {0} bytes into its file, expected a multiple of {PAGE_BYTES}")]
    Unaligned(u64),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl StoreError {
    /// Whether what the user named, rather than the device, is at fault.
    pub fn is_input(&self) -> bool {
        !matches!(self, StoreError::Io { .. } | StoreError::Stopped(_) | StoreError::Recovery(_))
    }
}

/// What a header says of the pages behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Pages in the address space.
    pub pages: u64,
    /// Spare places for pages behind them.
    pub spare_pages: u64,
    /// What the image is, in the words of the program that wrote it.
    pub tag: String,
    /// Whether the pages are known to be what the tag says.
    pub clean: bool,
    /// Whether all pages were zeros when it was made, and none was written.
    pub blank: bool,
    /// Tells this store from all others.
    pub id: u64,
    /// Blocks of the log, or zero if the store does not persist.
    pub log_blocks: u64,
}

impl Header {
    /// Places for pages, the spare ones included.
    pub fn places(&self) -> u64 {
        self.pages.saturating_add(self.spare_pages)
    }

    /// The sizes of the persist part, if there is one: then all pages belong to it.
    pub fn persist(&self) -> Option<Geometry> {
        let Header { id, pages, log_blocks, .. } = *self;
        (log_blocks > 0).then(|| Geometry { id, pages, slots: self.places(), log_blocks })
    }

    /// Bytes of the store, this header included; what a damaged header claims may not fit in a word.
    fn bytes(&self) -> u64 {
        let places = self.persist().map_or(self.places(), |geometry| geometry.blocks());
        places.saturating_add(1).saturating_mul(PAGE_BYTES as u64)
    }

    /// Whether the numbers make sense.
    fn is_possible(&self) -> bool {
        const MANY: u64 = 1 << 40;
        let log = self.log_blocks == 0 || (LOG_BLOCKS_MIN..MANY).contains(&self.log_blocks);
        let fit = self.pages < MANY && self.spare_pages < MANY;
        fit && log && (self.log_blocks == 0 || self.places() <= SLOTS_MAX && self.spare_pages > 0)
    }

    fn encode(&self, out: &mut [u8]) {
        assert!(self.tag.len() <= TAG_BYTES_MAX, "a tag has at most {TAG_BYTES_MAX} bytes");
        out.fill(0);
        let state = if self.clean { CLEAN } else { DIRTY };
        let tag_bytes = self.tag.len() as u32;
        out[..8].copy_from_slice(&MAGIC);
        out[layout::VERSION..][..4].copy_from_slice(&VERSION.to_le_bytes());
        out[layout::STATE..][..4].copy_from_slice(&state.to_le_bytes());
        out[layout::PAGES..][..8].copy_from_slice(&self.pages.to_le_bytes());
        out[layout::SPARE_PAGES..][..8].copy_from_slice(&self.spare_pages.to_le_bytes());
        out[layout::TAG_BYTES..][..4].copy_from_slice(&tag_bytes.to_le_bytes());
        out[layout::BLANK..][..4].copy_from_slice(&u32::from(self.blank).to_le_bytes());
        out[layout::ID..][..8].copy_from_slice(&self.id.to_le_bytes());
        out[layout::LOG_BLOCKS..][..8].copy_from_slice(&self.log_blocks.to_le_bytes());
        out[layout::TAG..][..self.tag.len()].copy_from_slice(self.tag.as_bytes());
        let checksum = crc32c::crc32c(&out[..layout::CHECKSUM]);
        out[layout::CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    }

    fn decode(page: &[u8], path: &Path) -> Result<Header, StoreError> {
        let damaged = || StoreError::Damaged(path.to_path_buf());
        let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("4 bytes"));
        if page[..8] != MAGIC {
            return Err(StoreError::NotAStore(path.to_path_buf()));
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
        let number = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
        let tag = page[layout::TAG..][..tag_bytes].to_vec();
        let header = Header {
            pages: number(layout::PAGES),
            spare_pages: number(layout::SPARE_PAGES),
            tag: String::from_utf8(tag).map_err(|_| damaged())?,
            clean: word(layout::STATE) == CLEAN,
            blank: word(layout::BLANK) != 0,
            id: number(layout::ID),
            log_blocks: number(layout::LOG_BLOCKS),
        };
        if header.log_blocks == 0 || header.is_possible() { Ok(header) } else { Err(damaged()) }
    }
}

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
}

/// Unlocks the file at once: the kernel may keep it open for a while yet, with a ring that used it.
impl Drop for Store {
    fn drop(&mut self) {
        // A forked child shares the lock, and only its parent may give it up.
        if std::process::id() == self.process {
            let range = range_of(libc::F_UNLCK, self.offset, self.header.lock().bytes());
            // SAFETY: the descriptor is open and `range` outlives the call. If it fails, the file stays
            // locked until the kernel closes it.
            unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
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

/// Bytes of a header and all places behind it; what a damaged header claims may not fit in a word.
fn bytes_of(pages: u64, spare_pages: u64) -> u64 {
    let places = pages.saturating_add(spare_pages);
    places.saturating_add(1).saturating_mul(PAGE_BYTES as u64)
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
    /// Spare places for pages behind them. With half as many as pages, pages that leave DRAM together
    /// are written together ([`ebbtide_core::Placement`]); with none, nearly one by one.
    pub spare_pages: u64,
    /// What the image is; [`Header::tag`] later says so.
    pub tag: String,
    /// Overwrite whatever is there. Without it only a whole store, of whatever image, or an empty
    /// place is written over.
    pub force: bool,
}

impl NewStore {
    /// Bytes that the store takes up.
    pub fn bytes(&self) -> u64 {
        bytes_of(self.pages, self.spare_pages)
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.tag.len() > TAG_BYTES_MAX {
            return Err(StoreError::LongTag(self.tag.len()));
        }
        check_aligned(self.offset)
    }

    /// Whether this very store is in its place already, whole and clean. Nothing is written.
    ///
    /// # Errors
    /// What would keep [`Store::create`] from writing there, as far as looking can tell.
    pub fn is_there(&self) -> Result<bool, StoreError> {
        self.check()?;
        if !self.path.exists() {
            return may_make(&self.path).map(|()| false);
        }
        let file = open(&self.path, Purpose::Look)?;
        let bytes = self.bytes();
        lock(&file, &self.path, Access::SharedReadOnly, self.offset, bytes)?;
        let header = self.found(&file)?;
        Ok(header.is_some_and(|found| {
            found.clean
                && found.log_blocks == 0
                && !found.blank
                && found.pages == self.pages
                && found.spare_pages == self.spare_pages
                && found.tag == self.tag
        }))
    }

    /// The header of the whole store in this place, or none where nothing is that must be kept.
    fn found(&self, file: &File) -> Result<Option<Header>, StoreError> {
        let foreign = |found| StoreError::Foreign { found: Box::new(found), bytes: self.bytes() };
        match whole_header(file, &self.path, self.offset) {
            Ok(header) => Ok(Some(header)),
            Err(StoreError::Io { path, doing, source }) => {
                Err(StoreError::Io { path, doing, source })
            }
            Err(_) if self.force || is_blank(file, &self.path, self.offset)? => Ok(None),
            Err(found) => Err(foreign(found)),
        }
    }
}

impl Store {
    /// Makes a store and fills it: `image` writes the contents of each page into a buffer of unknown
    /// contents, on several threads at once.
    ///
    /// # Errors
    /// Whatever keeps the file from being written in full. A file that was made here is removed
    /// again then, unless it was stopped: that leaves it marked as dirty.
    pub fn create(
        new: &NewStore,
        image: &(dyn Fn(PageId, &mut [u8; PAGE_BYTES]) + Sync),
        watch: Watch<'_>,
    ) -> Result<Store, StoreError> {
        let written = |store: &Store| store.write_image(image, watch);
        Store::make(new, false, &written)
    }

    /// Makes a store whose pages are zeros. Nothing but its header is written, now or before the first
    /// change of a page leaves DRAM.
    ///
    /// # Errors
    /// As [`Store::create`].
    pub fn create_blank(new: &NewStore) -> Result<Store, StoreError> {
        Store::make(new, true, &|_| Ok(()))
    }

    /// Makes a store that survives crashes: [transactions](ebbtide_core::Memory::transaction) on its
    /// pages, which are zeros, go to a log of `log_bytes` bytes first. All pages belong to the persist
    /// part; the spare ones are where changed pages go before their last copies are free, so there
    /// should be at least as many as the DRAM cache has frames.
    ///
    /// # Errors
    /// As [`Store::create`], and when the log or the spare places are too few.
    pub fn create_persistent(new: &NewStore, log_bytes: u64) -> Result<Store, StoreError> {
        let log_blocks = log_bytes / PAGE_BYTES as u64;
        if log_blocks < LOG_BLOCKS_MIN || new.spare_pages == 0 {
            return Err(StoreError::TooSmall {
                log_bytes,
                log_bytes_min: LOG_BLOCKS_MIN * PAGE_BYTES as u64,
                spare_pages: new.spare_pages,
            });
        }
        let existed = new.path.exists();
        let created = Store::write_new(new, true, log_blocks, &|store| store.write_superblocks());
        if created.is_err() && !existed {
            let _ = std::fs::remove_file(&new.path);
        }
        created
    }

    fn write_superblocks(&self) -> Result<(), StoreError> {
        let Some(geometry) = self.header().persist() else { return Ok(()) };
        let mut page = buffer(PAGE_BYTES, &self.path)?;
        for (block, contents) in format(&geometry) {
            page.as_mut_slice().copy_from_slice(&contents[..]);
            self.file
                .write_all_at(page.as_slice(), self.persist_offset() + block.0 * PAGE_BYTES as u64)
                .map_err(|error| fault(&self.path, "write the superblocks", error))?;
        }
        Ok(())
    }

    /// Where the persist part begins in the file, in bytes.
    pub fn persist_offset(&self) -> u64 {
        self.offset + PAGE_BYTES as u64
    }

    /// Makes a store that `fill` fills, and removes its file again if that fails.
    fn make(
        new: &NewStore,
        blank: bool,
        fill: &dyn Fn(&Store) -> Result<(), StoreError>,
    ) -> Result<Store, StoreError> {
        let existed = new.path.exists();
        let created = Store::write_new(new, blank, 0, fill);
        if let Err(error) = &created
            && !existed
            && !matches!(error, StoreError::Stopped(_))
        {
            // The error at hand says more than one about the removal would.
            let _ = std::fs::remove_file(&new.path);
        }
        created
    }

    fn write_new(
        new: &NewStore,
        blank: bool,
        log_blocks: u64,
        fill: &dyn Fn(&Store) -> Result<(), StoreError>,
    ) -> Result<Store, StoreError> {
        new.check()?;
        let header = Header {
            pages: new.pages,
            spare_pages: new.spare_pages,
            tag: new.tag.clone(),
            clean: false,
            blank,
            id: if log_blocks > 0 { new_id() } else { 0 },
            log_blocks,
        };
        let file = open(&new.path, Purpose::Make)?;
        let (access, bytes) = (Access::Exclusive, header.bytes());
        lock(&file, &new.path, access, new.offset, bytes)?;
        new.found(&file)?;
        reserve(&file, &new.path, new.offset + bytes)?;
        let store = Store {
            file: Arc::new(file),
            path: new.path.clone(),
            offset: new.offset,
            access,
            header: Mutex::new(header),
            claimed: AtomicBool::new(false),
            process: std::process::id(),
        };
        store.write_header(false)?;
        fill(&store)?;
        store.write_header(true)?;
        Ok(store)
    }

    /// Opens the store that begins `offset` bytes into `path`. Whether it is clean is for the caller
    /// to look at ([`Store::header`]).
    ///
    /// # Errors
    /// When there is no whole store of this version there, or another user has it open.
    pub fn open(path: &Path, offset: u64, access: Access) -> Result<Store, StoreError> {
        check_aligned(offset)?;
        let file = open(path, Purpose::Use)?;
        // Every lock of a store covers its header: with that locked, what it says stays true.
        lock(&file, path, access, offset, PAGE_BYTES as u64)?;
        let header = whole_header(&file, path, offset)?;
        lock(&file, path, access, offset, header.bytes())?;
        Ok(Store {
            file: Arc::new(file),
            path: path.to_path_buf(),
            offset,
            access,
            header: Mutex::new(header),
            claimed: AtomicBool::new(false),
            process: std::process::id(),
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

    /// Takes the store for one engine. The lock on the file keeps other processes out. A store opened
    /// by [`Access::SharedReadOnly`] is never written, so it may have several engines.
    ///
    /// # Errors
    /// When an engine has it already, or its pages are not those of its image: an engine that wrote
    /// to it knew alone where it had put each page.
    pub(crate) fn claim(self: &Arc<Store>) -> Result<Option<Claim>, StoreError> {
        let claim = match self.access {
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
        let before = self.header.lock().persist().map_or(0, |geometry| geometry.slots_start());
        self.offset + (1 + before) * PAGE_BYTES as u64
    }

    /// Places for pages, the spare ones included.
    pub fn slots(&self) -> u64 {
        self.header.lock().places()
    }

    /// Watches that nothing is cut off the file.
    pub(crate) fn extent(&self) -> Result<Extent, StoreError> {
        let header = self.header.lock();
        let end = self.offset + header.bytes();
        Extent::of(self.file.clone(), self.offset, end, header.blank)
            .map_err(|error| fault(&self.path, "look at", error))
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
        replace_header(&*self.file, page.as_slice(), self.offset)
            .map_err(|error| fault(&self.path, "write the header", error))
    }

    fn write_image(
        &self,
        image: &(dyn Fn(PageId, &mut [u8; PAGE_BYTES]) + Sync),
        watch: Watch<'_>,
    ) -> Result<(), StoreError> {
        let Header { pages, spare_pages, .. } = *self.header.lock();
        let places = pages + spare_pages;
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let stop = AtomicBool::new(false);
        let write_chunks = || -> Result<(), StoreError> {
            let mut chunk = buffer(CHUNK_BYTES, &self.path)?;
            while !stop.load(Ordering::Relaxed) {
                let first = next.fetch_add(CHUNK_PAGES, Ordering::Relaxed);
                if first >= places {
                    break;
                }
                let count = CHUNK_PAGES.min(places - first);
                let bytes = &mut chunk.as_mut_slice()[..count as usize * PAGE_BYTES];
                for (number, page) in bytes.chunks_exact_mut(PAGE_BYTES).enumerate() {
                    let number = first + number as u64;
                    if number < pages {
                        image(PageId(number), page.try_into().expect("a whole page"));
                    } else {
                        // Written once, so that the file system need not do it in passing later.
                        page.fill(0);
                    }
                }
                let offset = self.pages_offset() + first * PAGE_BYTES as u64;
                self.file
                    .write_all_at(bytes, offset)
                    .map_err(|error| fault(&self.path, "write", error))?;
                let done = done.fetch_add(count, Ordering::Relaxed) + count;
                if let Err(stopped) = watch.tell("writing data", done as f64 / places as f64) {
                    stop.store(true, Ordering::Relaxed);
                    return Err(stopped.into());
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

/// What replacing a header needs of a file.
trait HeaderFile {
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn flush(&self) -> io::Result<()>;
}

impl HeaderFile for File {
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Writes a header between two flushes: pages written before it are on the device when it says clean,
/// and it says dirty on the device before any page written after it.
fn replace_header(file: &impl HeaderFile, header: &[u8], offset: u64) -> io::Result<()> {
    file.flush()?;
    file.write(header, offset)?;
    file.flush()
}

/// A buffer that O_DIRECT accepts.
pub(crate) struct Buffer(Mapping, usize);

/// A number that no other store has, as far as chance goes.
fn new_id() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::SystemTime::now())
}

pub(crate) fn buffer(bytes: usize, path: &Path) -> Result<Buffer, StoreError> {
    let mapping = Mapping::zeroed(bytes).map_err(|error| fault(path, "map a buffer", error))?;
    Ok(Buffer(mapping, bytes))
}

impl Buffer {
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is at least this long, initialised, and only borrowed through here.
        unsafe { std::slice::from_raw_parts(self.0.base(), self.1) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.base(), self.1) }
    }
}

fn fault(path: &Path, doing: &'static str, source: io::Error) -> StoreError {
    StoreError::Io { path: path.to_path_buf(), doing, source }
}

/// Opens a file of any kind to read `bytes` bytes from `offset` on, past the page cache where its file
/// system can.
pub(crate) fn open_to_read(path: &Path, offset: u64, bytes: u64) -> Result<File, StoreError> {
    let unopened = |source| StoreError::Open { path: path.to_path_buf(), source };
    let kind = std::fs::metadata(path).map_err(unopened)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(StoreError::NotAFile(path.to_path_buf()));
    }
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECT | libc::O_CLOEXEC);
    let direct = options.open(path);
    let file = match direct {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            options.custom_flags(libc::O_CLOEXEC).open(path)
        }
        other => other,
    };
    let file = file.map_err(unopened)?;
    let found_bytes = size_bytes(&file, path)?;
    if offset.checked_add(bytes).is_none_or(|end| end > found_bytes) {
        let path = path.to_path_buf();
        return Err(StoreError::Beyond { path, offset, bytes, found_bytes });
    }
    Ok(file)
}

fn check_aligned(offset: u64) -> Result<(), StoreError> {
    let aligned = offset.is_multiple_of(PAGE_BYTES as u64);
    if aligned { Ok(()) } else { Err(StoreError::Unaligned(offset)) }
}

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To see what it holds.
    Look,
    /// To write a new store into it; it is made if it does not exist.
    Make,
    /// To use the store in it.
    Use,
}

fn open(path: &Path, purpose: Purpose) -> Result<File, StoreError> {
    let kind = std::fs::metadata(path).map(|metadata| metadata.file_type()).ok();
    let is_device = kind.is_some_and(|kind| kind.is_block_device());
    if kind.is_some_and(|kind| !kind.is_file() && !kind.is_block_device()) {
        return Err(StoreError::NotAFile(path.to_path_buf()));
    }
    // A device that the system has mounted cannot be had exclusively. Users of one store share it.
    let exclusive = if is_device && purpose != Purpose::Use { libc::O_EXCL } else { 0 };
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(purpose == Purpose::Make && !is_device)
        .truncate(false)
        .custom_flags(libc::O_DIRECT | libc::O_CLOEXEC | exclusive)
        .open(path)
        .map_err(|source| match source.raw_os_error() {
            Some(libc::EINVAL) => StoreError::NoDirectIo(path.to_path_buf()),
            Some(libc::EBUSY) if is_device => StoreError::Mounted(path.to_path_buf()),
            _ => StoreError::Open { path: path.to_path_buf(), source },
        })
}

/// Whether a file can be made at `path`, as far as its folder tells.
fn may_make(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() || path.file_name().is_none() {
        return Err(StoreError::NoFolder(path.to_path_buf()));
    }
    let name = CString::new(folder.as_os_str().as_bytes())
        .map_err(|_| StoreError::NoFolder(path.to_path_buf()))?;
    // SAFETY: `name` is a string that ends in a zero byte and outlives the call.
    let result = unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) };
    if result == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    Err(StoreError::FolderReadOnly { path: path.to_path_buf(), source })
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
    let range = range_of(kind, offset, bytes);
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

/// A lock of this kind on a range of a file.
fn range_of(kind: libc::c_int, offset: u64, bytes: u64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset as libc::off_t,
        l_len: bytes as libc::off_t,
        l_pid: 0,
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

/// Makes sure that there is room on the device. A file that cannot grow keeps its length.
fn reserve(file: &File, path: &Path, end: u64) -> Result<(), StoreError> {
    let no_space = || StoreError::NoSpace { path: path.to_path_buf(), needed_bytes: end };
    let bytes_before = size_bytes(file, path)?;
    if is_block_device(file) {
        return if bytes_before < end { Err(no_space()) } else { Ok(()) };
    }
    // SAFETY: the descriptor is open; the range is not negative.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, end as libc::off_t) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
            // What was had in vain goes back; that there is too little room is what matters.
            let _ = file.set_len(bytes_before);
            Err(no_space())
        }
        // A file system that cannot reserve will say when it is full.
        Some(libc::EOPNOTSUPP) if bytes_before >= end => Ok(()),
        Some(libc::EOPNOTSUPP) => file.set_len(end).map_err(|error| fault(path, "grow", error)),
        _ => Err(fault(path, "reserve space", error)),
    }
}

/// How much of each end is looked at to tell that a place holds nothing: the headers of file
/// systems and volumes lie in the first or the last MiB.
const ENDS_BYTES: u64 = 1 << 20;

/// Whether nothing is there: the file ends before, or has only zeros at both ends.
fn is_blank(file: &File, path: &Path, offset: u64) -> Result<bool, StoreError> {
    let size = size_bytes(file, path)?;
    let page_bytes = PAGE_BYTES as u64;
    let last = size.saturating_sub(ENDS_BYTES) / page_bytes * page_bytes;
    let mut bytes = buffer(ENDS_BYTES as usize + PAGE_BYTES, path)?;
    for start in [offset, last.max(offset)] {
        let read = file
            .read_at(bytes.as_mut_slice(), start)
            .map_err(|error| fault(path, "read", error))?;
        if bytes.as_slice()[..read].iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The header of a store that is as long as it says.
fn whole_header(file: &File, path: &Path, offset: u64) -> Result<Header, StoreError> {
    let header = read_header(file, path, offset)?;
    let expected_bytes = offset.saturating_add(header.bytes());
    let found_bytes = size_bytes(file, path)?;
    if found_bytes < expected_bytes {
        return Err(StoreError::Short { path: path.to_path_buf(), found_bytes, expected_bytes });
    }
    Ok(header)
}

fn read_header(file: &File, path: &Path, offset: u64) -> Result<Header, StoreError> {
    let mut page = buffer(PAGE_BYTES, path)?;
    let read = file
        .read_at(page.as_mut_slice(), offset)
        .map_err(|error| fault(path, "read the header", error))?;
    if read < PAGE_BYTES && page.as_slice().starts_with(&MAGIC) {
        let found_bytes = offset + read as u64;
        let expected_bytes = offset + PAGE_BYTES as u64;
        return Err(StoreError::Short { path: path.to_path_buf(), found_bytes, expected_bytes });
    }
    Header::decode(page.as_slice(), path)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Call {
        Write(u64),
        Flush,
    }

    /// Fails at the call of this number.
    struct Recorded {
        calls: RefCell<Vec<Call>>,
        fails_at: usize,
    }

    impl Recorded {
        fn call(&self, call: Call) -> io::Result<()> {
            let mut calls = self.calls.borrow_mut();
            calls.push(call);
            if calls.len() > self.fails_at { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
        }
    }

    impl HeaderFile for Recorded {
        fn write(&self, _bytes: &[u8], offset: u64) -> io::Result<()> {
            self.call(Call::Write(offset))
        }

        fn flush(&self) -> io::Result<()> {
            self.call(Call::Flush)
        }
    }

    #[test]
    fn a_header_is_written_between_two_flushes_and_no_failure_is_passed_over() {
        let order = [Call::Flush, Call::Write(77), Call::Flush];
        for fails_at in 0..=3 {
            let file = Recorded { calls: RefCell::default(), fails_at };
            assert_eq!(replace_header(&file, &[], 77).is_ok(), fails_at == 3);
            assert_eq!(file.calls.into_inner(), order[..(fails_at + 1).min(3)]);
        }
    }
}
