//! Where each memory under test has its copy of the data.
//!
//! Every mode starts from the same image. Modes whose jobs write have a copy each: the engine the
//! data file itself, the others one beside it (`FILE.sync`, `FILE.paging`, `FILE.plain`), or in a
//! quarter of a block device of its own. Jobs that only read share the data file.

use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ebbtide_core::{PAGE_BYTES, PageId, Watch};
use ebbtide_engine::store::{NewStore, Store, StoreError};
use ebbtide_workloads::{Program, Workload};
use rustix::process::{Resource, getrlimit};

use super::error::BenchError;
use super::options::Mode;

/// The places of one workload's data.
pub(super) struct DataPlaces {
    data: PathBuf,
    pages: u64,
    shared: bool,
    tag: String,
    force: bool,
    /// On a block device: room of each store. It must not depend on the workload, or the store of
    /// one would be written into the middle of another's, whose header would know nothing of it.
    part_bytes: Option<u64>,
}

impl DataPlaces {
    /// The places for the image of `program`, which `tag` names, in `data`. With `force`, whatever
    /// is there may be overwritten.
    pub(super) fn new(data: &Path, program: &Program, tag: String, force: bool) -> DataPlaces {
        DataPlaces {
            data: data.to_path_buf(),
            pages: program.size_bytes() / PAGE_BYTES as u64,
            shared: !program.writes(),
            tag,
            force,
            part_bytes: device_bytes(data).map(|bytes| bytes / PARTS / GRAIN_BYTES * GRAIN_BYTES),
        }
    }

    /// Spare places behind the pages of a store whose pages are written back.
    fn spare_pages(&self) -> u64 {
        if self.shared { 0 } else { self.pages / 2 }
    }

    /// The file and the byte offset of the store that `mode` uses.
    pub(super) fn place(&self, mode: Mode) -> (PathBuf, u64) {
        let (number, suffix) = match mode {
            Mode::Paging if !self.shared => (2, ".paging"),
            Mode::Sync if !self.shared => (1, ".sync"),
            Mode::Plain if !self.shared => (3, ".plain"),
            _ => (0, ""),
        };
        if let Some(bytes) = self.part_bytes {
            return (self.data.clone(), number * bytes);
        }
        let mut path = self.data.clone().into_os_string();
        path.push(suffix);
        (path.into(), 0)
    }

    /// The stores that `modes` need and that are not there yet, whole, clean and of the same tag.
    /// Nothing is written.
    ///
    /// # Errors
    /// When a place cannot be written to, or holds something that must not be overwritten.
    pub(super) fn missing(&self, modes: &[Mode]) -> Result<Vec<NewStore>, StoreError> {
        let mut places: Vec<(PathBuf, u64)> = modes.iter().map(|mode| self.place(*mode)).collect();
        places.sort();
        places.dedup();
        let bytes = self.store(self.data.clone(), 0, false).bytes();
        if self.part_bytes.is_some_and(|part| bytes > part) {
            return Err(StoreError::NoSpace {
                path: self.data.clone(),
                needed_bytes: PARTS * bytes,
            });
        }
        let mut missing = Vec::new();
        for (path, offset) in places {
            let mut new = self.store(path, offset, self.force);
            if offset > 0 {
                // What the beginning of a device holds vouches for all of it.
                self.store(new.path.clone(), 0, self.force).is_there()?;
                new.force = true;
            }
            if !new.is_there()? {
                missing.push(new);
            }
        }
        Ok(missing)
    }

    fn store(&self, path: PathBuf, offset: u64, force: bool) -> NewStore {
        NewStore {
            path,
            offset,
            pages: self.pages,
            spare_pages: self.spare_pages(),
            tag: self.tag.clone(),
            force,
        }
    }
}

/// Copies of the data that a block device has room for.
const PARTS: u64 = 4;

/// Parts of a device begin at multiples of this.
const GRAIN_BYTES: u64 = 1 << 20;

/// The size of the block device at `path`; nothing if it is something else. One that cannot be
/// opened is reported where its store is.
fn device_bytes(path: &Path) -> Option<u64> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.file_type().is_block_device() {
        return None;
    }
    let size = std::fs::File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    Some(size.unwrap_or(u64::MAX / 4))
}

/// Bytes that `stores` take up.
pub(super) fn bytes(stores: &[NewStore]) -> u64 {
    stores.iter().map(NewStore::bytes).sum()
}

/// Writes the image of `program` into each of `stores`.
///
/// # Errors
/// What keeps one from being written, or that `watch` stopped it.
pub(super) fn write(
    stores: &[NewStore],
    program: &Program,
    watch: Watch<'_>,
) -> Result<(), StoreError> {
    let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| program.image(page, out);
    for (number, new) in stores.iter().enumerate() {
        let written = |stage: &str, share: f64| {
            watch.show(stage, (number as f64 + share) / stores.len() as f64)
        };
        Store::create(new, &image, watch.telling(&written))?;
    }
    Ok(())
}

/// Makes sure that `stores`, of all workloads, one after the other in the same places, will fit:
/// onto the file system, and under this process's limit on the size of a file.
///
/// # Errors
/// When they will not, saying how much room there is.
pub(super) fn check_room(stores: &[NewStore]) -> Result<(), BenchError> {
    let mut files: BTreeMap<&Path, u64> = BTreeMap::new();
    for new in stores.iter().filter(|new| device_bytes(&new.path).is_none()) {
        let needed = files.entry(&new.path).or_default();
        *needed = (*needed).max(new.offset + new.bytes());
    }
    let (mut more_bytes, mut free_bytes) = (0, u64::MAX);
    for (path, &needed) in &files {
        if let Some(limit) = getrlimit(Resource::Fsize).current.filter(|&limit| limit < needed) {
            return Err(BenchError::BadInput(format!(
                "{}: {} are needed, but no file may grow beyond {} (ulimit -f)",
                path.display(),
                mib(needed),
                mib(limit),
            )));
        }
        let has = std::fs::metadata(path).map_or(0, |metadata| metadata.blocks() * 512);
        more_bytes += needed.saturating_sub(has);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let system = rustix::fs::statvfs(folder.unwrap_or(Path::new(".")));
        // A file system without blocks does not know.
        if let Some(system) = system.ok().filter(|system| system.f_blocks > 0) {
            free_bytes = free_bytes.min(system.f_bfree * system.f_frsize);
        }
    }
    match files.keys().next() {
        Some(path) if more_bytes > free_bytes => Err(BenchError::BadInput(format!(
            "{}: no space left: {} are needed, {} are free",
            path.display(),
            mib(more_bytes),
            mib(free_bytes),
        ))),
        _ => Ok(()),
    }
}

/// Bytes as whole MiB, rounded up.
pub(super) fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
