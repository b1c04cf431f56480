//! The data files of a bench.
//!
//! Every mode starts from the same image. If jobs write, each mode has a copy: the engine uses the
//! data file itself, and the others use files beside it (`FILE.sync`, `FILE.paging`, `FILE.plain`)
//! or quarters of a block device. If jobs only read, all modes share the data file.

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
    /// On a block device: size of each part. It does not depend on the workload. Otherwise the
    /// store of one workload could overwrite the middle of another store, whose header would still
    /// say clean.
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

    /// The stores that `modes` need and that do not exist yet as clean stores with the same tag.
    /// Writes nothing.
    ///
    /// # Errors
    /// When a store cannot be written, or would overwrite something else.
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
                // The store at the beginning of a device decides whether the device may be
                // overwritten.
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
            spare_pages: spare_pages(self.pages, !self.shared),
            tag: self.tag.clone(),
            force,
        }
    }
}

/// Number of parts of a block device, one per copy of the data.
const PARTS: u64 = 4;

/// Parts of a device begin at multiples of this.
const GRAIN_BYTES: u64 = 1 << 20;

/// The size of the block device at `path`; `None` if it is something else. Opening its store
/// reports a device that cannot be opened.
fn device_bytes(path: &Path) -> Option<u64> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.file_type().is_block_device() {
        return None;
    }
    let size = std::fs::File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    Some(size.unwrap_or(u64::MAX / 4))
}

/// Spare places behind the `pages` pages of a store, which it has if they are written back.
pub(super) fn spare_pages(pages: u64, writes: bool) -> u64 {
    if writes { pages / 2 } else { 0 }
}

/// Bytes that `stores` take up.
pub(super) fn bytes(stores: &[NewStore]) -> u64 {
    stores.iter().map(NewStore::bytes).sum()
}

/// Writes the image of `program` into each of `stores`.
///
/// # Errors
/// When a store cannot be written, or `watch` requests a stop.
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

/// Checks that `stores`, of all workloads and written one after the other to the same places, fit
/// onto the file system and under this process's limit on the size of a file.
///
/// # Errors
/// When they do not fit, with the space that is free.
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
        // A file system without blocks does not report free space.
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
