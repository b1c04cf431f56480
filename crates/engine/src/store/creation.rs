//! How a store is made: where it may go, and how it is filled.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use ebbtide_core::durability::{Block, LOG_BLOCKS_MIN, Page, format, format_filled};
use ebbtide_core::{PAGE_BYTES, PageId, Watch};
use parking_lot::Mutex;

use super::error::fault;
use super::file::{
    Contents, Purpose, buffer, check_aligned, contents, folder_of, lock, may_make, open, reserve,
};
use super::header::{bytes_of, whole_header};
use super::{Access, Header, Store, StoreError, TAG_BYTES_MAX};

/// Bytes in each write of the image.
const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_PAGES: u64 = (CHUNK_BYTES / PAGE_BYTES) as u64;

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

    /// Bytes that it takes up if it is to survive crashes, with a log of `log_bytes`.
    pub fn persistent_bytes(&self, log_bytes: u64) -> u64 {
        self.header(log_bytes / PAGE_BYTES as u64, 0).bytes()
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
            Err(_) if self.force => Ok(None),
            Err(found) => match contents(file, &self.path, self.offset)? {
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
        Store::make(new, false, 0, &written)
    }

    /// Makes a store whose pages are zeros. Nothing but its header is written, now or before the first
    /// change of a page leaves DRAM.
    ///
    /// # Errors
    /// As [`Store::create`].
    pub fn create_blank(new: &NewStore) -> Result<Store, StoreError> {
        Store::make(new, true, 0, &|_| Ok(()))
    }

    /// Makes a store that survives crashes: [transactions](ebbtide_core::Memory::transaction) on its
    /// pages, which are zeros, go to a log of `log_bytes` bytes first. All pages belong to the persist
    /// part; the spare ones are where changed pages go before their last copies are free, so there
    /// should be at least as many as the DRAM cache has frames.
    ///
    /// # Errors
    /// As [`Store::create`], and when the log or the spare places are too few.
    pub fn create_persistent(new: &NewStore, log_bytes: u64) -> Result<Store, StoreError> {
        Store::make_persistent(new, true, log_bytes, &|store| {
            let Some(geometry) = store.header().persist() else { return Ok(()) };
            store.write_blocks(&format(&geometry))
        })
    }

    /// Makes a store that survives crashes, as [`Store::create_persistent`], whose pages begin with what
    /// `image` writes, as [`Store::create`].
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
        Store::make_file(&new, header, fill, |_| false)
    }

    /// Makes a store with this header, in a file that is new or was not finished, which `fill` fills.
    pub(crate) fn make_with(
        path: &Path,
        header: Header,
        fill: &dyn Fn(&Store) -> Result<(), StoreError>,
    ) -> Result<Store, StoreError> {
        let (path, tag) = (path.to_path_buf(), header.tag.clone());
        let Header { pages, spare_pages, .. } = header;
        let new = NewStore { path, offset: 0, pages, spare_pages, tag, force: false };
        Store::make_file(&new, header, fill, |_| false)
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

    /// Makes the store, and flushes the name of a file that is new. After a failure that file is removed
    /// again, unless it `stays` after such an error.
    fn make_file<E: From<StoreError>>(
        new: &NewStore,
        header: Header,
        fill: &dyn Fn(&Store) -> Result<(), E>,
        stays: fn(&E) -> bool,
    ) -> Result<Store, E> {
        let is_new = !new.path.exists();
        let made = Store::write_new(new, header, fill).and_then(|store| {
            if is_new {
                flush_name(&new.path)?;
            }
            Ok(store)
        });
        if made.as_ref().is_err_and(|error| is_new && !stays(error)) {
            // The error at hand says more than one about the removal would.
            let _ = std::fs::remove_file(&new.path);
        }
        made
    }

    fn write_new<E: From<StoreError>>(
        new: &NewStore,
        header: Header,
        fill: &dyn Fn(&Store) -> Result<(), E>,
    ) -> Result<Store, E> {
        new.check()?;
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

/// Flushes the folder of a new file. Flushes of the file itself keep its bytes, but need not keep its name
/// (fsync(2)): after a power failure a store with acknowledged transactions could be gone.
pub(crate) fn flush_name(path: &Path) -> Result<(), StoreError> {
    File::open(folder_of(path))
        .and_then(|folder| folder.sync_all())
        .map_err(|error| fault(path, "flush the folder", error))
}

/// A number that no other store has, as far as chance goes.
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
