//! How a store is made: where it may go, and how it is filled.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use ebbtide_core::durability::{Block, LOG_BLOCKS_MIN, Page, SLOTS_MAX, format, format_filled};
use ebbtide_core::{PAGE_BYTES, PageId, Watch};
use parking_lot::Mutex;

use super::error::fault;
use super::file::{
    Contents, Purpose, buffer, check_aligned, contents, folder_of, is_block_device, is_named, lock,
    may_make, open, open_to_make, reserve, take_permissions,
};
use super::header::{bytes_of, whole_header};
use super::{Access, Header, Store, StoreError, TAG_BYTES_MAX};

/// Bytes in each write of the image.
const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_PAGES: u64 = (CHUNK_BYTES / PAGE_BYTES) as u64;

/// The place of a new store, and its contents.
#[derive(Debug, Clone)]
pub struct NewStore {
    /// The file, made if it does not exist, or the block device.
    pub path: PathBuf,
    /// Where the store begins in it, in bytes; a multiple of the page size. Several stores may
    /// share a file, each locked for itself.
    pub offset: u64,
    /// Size of the address space in pages.
    pub pages: u64,
    /// Spare places for pages behind them. With half as many as pages, pages that leave DRAM
    /// together are written together ([`ebbtide_core::Placement`]); with none, nearly one by one.
    pub spare_pages: u64,
    /// A name for the image, which [`Header::tag`] returns later.
    pub tag: String,
    /// True to overwrite any contents. Without it, only three kinds are overwritten: an empty
    /// place, a store whose making was cut off, and a whole store without a log.
    pub force: bool,
}

impl NewStore {
    /// Bytes that the store takes up.
    pub fn bytes(&self) -> u64 {
        bytes_of(self.pages, self.spare_pages)
    }

    /// Bytes of a store that survives crashes, with a log of `log_bytes`.
    pub fn persistent_bytes(&self, log_bytes: u64) -> u64 {
        self.persistent_header(log_bytes).bytes()
    }

    /// The header of a store that survives crashes, with a log of `log_bytes`, before it has a
    /// number.
    pub(crate) fn persistent_header(&self, log_bytes: u64) -> Header {
        self.header(log_bytes / PAGE_BYTES as u64, 0)
    }

    fn header(&self, log_blocks: u64, id: u64) -> Header {
        let NewStore { pages, spare_pages, .. } = *self;
        let tag = self.tag.clone();
        Header { pages, spare_pages, tag, clean: false, blank: false, id, log_blocks }
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.tag.len() > TAG_BYTES_MAX {
            return Err(StoreError::LongTag(self.tag.len()));
        }
        check_aligned(self.offset)
    }

    /// True if this same store is already in its place, whole and clean. Nothing is written.
    ///
    /// # Errors
    /// The reason why [`Store::create`] could not write there, as far as that can be seen.
    pub fn is_there(&self) -> Result<bool, StoreError> {
        self.check()?;
        if !self.path.exists() {
            return may_make(&self.path).map(|()| false);
        }
        let file = open(&self.path, Purpose::Look)?;
        let bytes = self.bytes();
        lock(&file, &self.path, Access::SharedReadOnly, self.offset, bytes)?;
        let header = self.found(&file, bytes)?;
        Ok(header.is_some_and(|found| {
            found.clean
                && found.log_blocks == 0
                && !found.blank
                && found.pages == self.pages
                && found.spare_pages == self.spare_pages
                && found.tag == self.tag
        }))
    }

    /// True if this place holds nothing that must be kept. It has no file, is empty, or holds a
    /// store whose making was cut off. Nothing is written.
    ///
    /// # Errors
    /// When the place cannot be looked at, or another process uses the store in it.
    pub fn is_free(&self) -> Result<bool, StoreError> {
        self.check()?;
        if !self.path.exists() {
            return Ok(true);
        }
        let file = open(&self.path, Purpose::Use(Access::SharedReadOnly))?;
        lock(&file, &self.path, Access::SharedReadOnly, self.offset, PAGE_BYTES as u64)?;
        match whole_header(&file, &self.path, self.offset) {
            Ok(header) => Ok(header.is_unfinished()),
            Err(error @ StoreError::Io { .. }) => Err(error),
            Err(found) => Ok(matches!(self.contents(&file, &found)?, Contents::Blank)),
        }
    }

    /// The contents of this place, where `found` is the result of reading a header. A torn header
    /// with nothing behind it is left by a power loss, of a store that was never used.
    fn contents(&self, file: &File, found: &StoreError) -> Result<Contents, StoreError> {
        let header_bytes = match found {
            StoreError::Damaged(_) => PAGE_BYTES as u64,
            _ => 0,
        };
        contents(file, &self.path, self.offset + header_bytes)
    }

    /// Returns a store with a log that would be overwritten, in part or as a whole. It may be in
    /// this place, around it, or behind it where stores lie one after the other.
    fn store_with_log(&self, file: &File, bytes: u64) -> Option<StoreError> {
        let (mut at, end) = (0, self.offset.saturating_add(bytes));
        while at < end {
            let header = whole_header(file, &self.path, at).ok();
            let next = header.as_ref().map(|header| at.saturating_add(header.bytes()));
            match header.filter(|header| header.log_blocks > 0 && !header.is_unfinished()) {
                Some(Header { tag, .. }) if next.is_some_and(|next| next > self.offset) => {
                    return Some(StoreError::HasLog { path: self.path.clone(), tag });
                }
                _ if at < self.offset => at = next.unwrap_or(self.offset).min(self.offset),
                _ => at = next?,
            }
        }
        None
    }

    /// Returns the header of the whole store in this place, or `None` if nothing must be kept. The
    /// new store will have `bytes` bytes.
    fn found(&self, file: &File, bytes: u64) -> Result<Option<Header>, StoreError> {
        let foreign = |found| StoreError::Foreign { found: Box::new(found), bytes };
        if let Some(kept) = self.store_with_log(file, bytes).filter(|_| !self.force) {
            return Err(foreign(kept));
        }
        match whole_header(file, &self.path, self.offset) {
            Ok(header) if header.is_unfinished() => Ok(None),
            Ok(header) => Ok(Some(header)),
            Err(StoreError::Io { path, doing, source }) => {
                Err(StoreError::Io { path, doing, source })
            }
            Err(_) if self.force => Ok(None),
            Err(error @ StoreError::Short { .. }) => Err(error),
            Err(found) => match self.contents(file, &found)? {
                Contents::Blank => Ok(None),
                Contents::Something(Some(what)) if matches!(found, StoreError::NotAStore(_)) => {
                    Err(foreign(StoreError::Holds { path: self.path.clone(), what }))
                }
                Contents::Something(_) => Err(foreign(found)),
            },
        }
    }
}

impl Store {
    /// Makes a store and fills it. `image` writes the contents of each page into a buffer of
    /// unknown contents, on several threads at once.
    ///
    /// # Errors
    /// When the file cannot be written in full. A file that was made here is then removed again,
    /// unless the creation was stopped: that leaves the file marked as dirty.
    pub fn create(
        new: &NewStore,
        image: &(dyn Fn(PageId, &mut [u8; PAGE_BYTES]) + Sync),
        watch: Watch<'_>,
    ) -> Result<Store, StoreError> {
        let written = |store: &Store| store.write_image(image, watch);
        Store::make(new, false, 0, &written)
    }

    /// Makes a store whose pages are zeros. Only its header is written until the first changed page
    /// leaves DRAM.
    ///
    /// # Errors
    /// As [`Store::create`].
    pub fn create_blank(new: &NewStore) -> Result<Store, StoreError> {
        Store::make(new, true, 0, &|_| Ok(()))
    }

    /// Makes a store that survives crashes. All its pages are zeros and belong to the persist part.
    /// Their [transactions](ebbtide_core::Memory::transaction) go first to a log of `log_bytes`
    /// bytes. Changed pages go to the spare pages before their last copies are free. So there
    /// should be at least as many spare pages as the DRAM cache has frames.
    ///
    /// # Errors
    /// As [`Store::create`], and when the log or the spare places are too few.
    pub fn create_persistent(new: &NewStore, log_bytes: u64) -> Result<Store, StoreError> {
        Store::make_persistent(new, true, log_bytes, &|store| {
            let Some(geometry) = store.header().persist() else { return Ok(()) };
            store.write_blocks(&format(&geometry))
        })
    }

    /// Makes a store that survives crashes, as [`Store::create_persistent`]. `image` writes the
    /// first contents of its pages, as for [`Store::create`].
    ///
    /// # Errors
    /// As both.
    pub fn create_persistent_image(
        new: &NewStore,
        log_bytes: u64,
        image: &(dyn Fn(PageId, &mut [u8; PAGE_BYTES]) + Sync),
        watch: Watch<'_>,
    ) -> Result<Store, StoreError> {
        Store::make_persistent(new, false, log_bytes, &|store| {
            let Some(geometry) = store.header().persist() else { return Ok(()) };
            let checksums: Vec<AtomicU32> = (0..new.pages).map(|_| AtomicU32::new(0)).collect();
            let summed = |page: PageId, out: &mut [u8; PAGE_BYTES]| {
                image(page, out);
                checksums[page.index()].store(geometry.checksum(out), Ordering::Relaxed);
            };
            store.write_image(&summed, watch)?;
            let checksums: Vec<u32> = checksums.into_iter().map(AtomicU32::into_inner).collect();
            store.write_blocks(&format_filled(&geometry, &checksums))
        })
    }

    /// Makes a store with a log that `fill` fills. Its file is removed again if that fails.
    fn make_persistent(
        new: &NewStore,
        blank: bool,
        log_bytes: u64,
        fill: &dyn Fn(&Store) -> Result<(), StoreError>,
    ) -> Result<Store, StoreError> {
        let log_blocks = log_bytes / PAGE_BYTES as u64;
        if log_blocks < LOG_BLOCKS_MIN || new.spare_pages == 0 {
            return Err(StoreError::TooSmall {
                log_bytes,
                log_bytes_min: LOG_BLOCKS_MIN * PAGE_BYTES as u64,
                spare_pages: new.spare_pages,
            });
        }
        Store::make(new, blank, log_blocks, fill)
    }

    /// Writes blocks of the persist part.
    fn write_blocks(&self, blocks: &[(Block, Box<Page>)]) -> Result<(), StoreError> {
        let mut page = buffer(PAGE_BYTES, &self.path)?;
        for (block, contents) in blocks {
            page.as_mut_slice().copy_from_slice(&contents[..]);
            self.file
                .write_all_at(page.as_slice(), self.persist_offset() + block.0 * PAGE_BYTES as u64)
                .map_err(|error| fault(&self.path, "write the superblocks and the map", error))?;
        }
        Ok(())
    }

    /// Makes a store like this one, in a new file, that `fill` fills.
    ///
    /// # Errors
    /// When the file is there already, cannot be made, or `fill` fails; it is removed again then.
    pub(crate) fn make_like<E: From<StoreError>>(
        &self,
        path: &Path,
        fill: &dyn Fn(&Store) -> Result<(), E>,
    ) -> Result<Store, E> {
        if path.exists() {
            return Err(StoreError::Exists(path.to_path_buf()).into());
        }
        let header = self.header();
        let (path, tag) = (path.to_path_buf(), header.tag.clone());
        let Header { pages, spare_pages, .. } = header;
        let new = NewStore { path, offset: 0, pages, spare_pages, tag, force: false };
        Store::make_file(&new, header, &self.filled_by(fill), |_| false)
    }

    /// `fill`, for a store that has the permissions of this one.
    fn filled_by<E: From<StoreError>>(
        &self,
        fill: &dyn Fn(&Store) -> Result<(), E>,
    ) -> impl Fn(&Store) -> Result<(), E> {
        move |made| {
            take_permissions(&made.file, &self.file, &made.path)?;
            fill(made)
        }
    }

    /// Makes a store with this header and the permissions of this one, in a file that is new or was
    /// not finished, which `fill` fills.
    pub(crate) fn make_larger(
        &self,
        path: &Path,
        header: Header,
        fill: &dyn Fn(&Store) -> Result<(), StoreError>,
    ) -> Result<Store, StoreError> {
        let (path, tag) = (path.to_path_buf(), header.tag.clone());
        let Header { pages, spare_pages, id, .. } = header;
        // A store with this number is left from an earlier attempt.
        let left = Store::open(&path, 0, Access::SharedReadOnly);
        let force = left.is_ok_and(|left| left.header().id == id);
        let new = NewStore { path, offset: 0, pages, spare_pages, tag, force };
        let made = Store::make_file(&new, header, &self.filled_by(fill), |_| false);
        // No option overwrites what is in the way.
        made.map_err(|error| match error {
            StoreError::Foreign { found, .. } => *found,
            error => error,
        })
    }

    fn make(
        new: &NewStore,
        blank: bool,
        log_blocks: u64,
        fill: &dyn Fn(&Store) -> Result<(), StoreError>,
    ) -> Result<Store, StoreError> {
        let id = if log_blocks > 0 { new_id() } else { 0 };
        let header = Header { blank, ..new.header(log_blocks, id) };
        Store::make_file(new, header, fill, |error| matches!(error, StoreError::Stopped(_)))
    }

    /// Makes the store. After a failure, removes a file that was made for it, unless it `stays`
    /// after such an error.
    fn make_file<E: From<StoreError>>(
        new: &NewStore,
        header: Header,
        fill: &dyn Fn(&Store) -> Result<(), E>,
        stays: fn(&E) -> bool,
    ) -> Result<Store, E> {
        new.check()?;
        if !header.is_possible() {
            let (places, places_max) = (header.places(), SLOTS_MAX);
            return Err(StoreError::TooLarge { places, places_max }.into());
        }
        let (file, is_new) = open_to_make(&new.path)?;
        let (access, bytes) = (Access::Exclusive, header.bytes());
        lock(&file, &new.path, access, new.offset, bytes)?;
        if !is_named(&file, &new.path) {
            // Another process has failed to make a store in it, and has removed it.
            return Store::make_file(new, header, fill, stays);
        }
        let store = Store {
            file: Arc::new(file),
            path: new.path.clone(),
            offset: new.offset,
            access,
            header: Mutex::new(header),
            claimed: AtomicBool::new(false),
            process: std::process::id(),
            is_new,
        };
        let made = store.write_new(new, bytes, fill);
        if made.as_ref().is_err_and(|error| !stays(error)) {
            // The store is still locked, so the file is no other process's.
            store.discard_new();
        }
        made.map(|()| store)
    }

    /// Writes the new store. It is marked as unfinished until all of it, and the name of its file,
    /// are on the device.
    fn write_new<E: From<StoreError>>(
        &self,
        new: &NewStore,
        bytes: u64,
        fill: &dyn Fn(&Store) -> Result<(), E>,
    ) -> Result<(), E> {
        new.found(&self.file, bytes)?;
        reserve(&self.file, &self.path, self.offset + bytes)?;
        self.write_header(false)?;
        fill(self)?;
        if !is_block_device(&self.file) {
            flush_name(&self.path)?;
        }
        Ok(self.write_header(true)?)
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

/// Flushes the folder of a new file. Flushes of the file itself keep its bytes, but need not keep
/// its name (fsync(2)). Without this, a power failure could remove a store with acknowledged
/// transactions.
pub(crate) fn flush_name(path: &Path) -> Result<(), StoreError> {
    File::open(folder_of(path))
        .and_then(|folder| folder.sync_all())
        .map_err(|error| fault(path, "flush the folder", error))
}

/// Returns a random number that no other store is likely to have.
fn new_id() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_new_file_is_flushed_and_a_refusal_is_an_error() {
        // A folder of the kernel's own opens as any does, and cannot be flushed.
        let error = flush_name(Path::new("/proc/data")).expect_err("nothing to flush to");
        let StoreError::Io { path, doing, source } = error else { panic!("{error}") };
        assert_eq!((path.as_path(), doing), (Path::new("/proc/data"), "flush the folder"));
        assert_eq!(source.raw_os_error(), Some(libc::EINVAL));
    }
}
