//! The data files of a bench.
//!
//! Every mode starts from the same image. If jobs write, each mode has a copy. The engine uses the
//! data file itself. The others use files next to it (`FILE.sync`, `FILE.paging`, `FILE.plain`) or
//! fifths of a block device. The store that survives crashes is `FILE.durable`. If jobs only
//! read, all modes share the data file. A store with a log that was not made by a bench is
//! overwritten only by force.

use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ebbtide_core::{PAGE_BYTES, PageId, Watch};
use ebbtide_engine::store::{Access, NewStore, Store, StoreError};
use ebbtide_workloads::{Program, Workload};
use rustix::process::{Resource, getrlimit};

use super::error::BenchError;
use super::options::Mode;

/// Divisor of the pages of a durable store. The quotient is the length of its log, at most
/// `LOG_BYTES_MAX`.
const LOG_SHARE: u64 = 8;
const LOG_BYTES_MAX: u64 = 256 << 20;

/// A copy of the data to write.
pub(super) struct NewCopy {
    store: NewStore,
    /// The size of its log, if it is to survive crashes.
    log_bytes: Option<u64>,
}

impl NewCopy {
    fn bytes(&self) -> u64 {
        match self.log_bytes {
            Some(log_bytes) => self.store.persistent_bytes(log_bytes),
            None => self.store.bytes(),
        }
    }
}

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
    /// Returns the places in `data` for the image of `program`, named by `tag`. With `force`,
    /// existing contents may be overwritten.
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
            // Never beside the one before.
            Mode::Durable => (3, ".durable"),
            Mode::Mapped if !self.shared => (4, ".mapped"),
            _ => (0, ""),
        };
        if let Some(bytes) = self.part_bytes {
            return (self.data.clone(), number * bytes);
        }
        let mut path = self.data.clone().into_os_string();
        path.push(suffix);
        (path.into(), 0)
    }

    /// Returns the copies for `modes` that do not exist yet as clean stores with the same tag. A
    /// store that survives crashes has the stores of earlier runs, so it is always made anew.
    /// Writes nothing.
    ///
    /// # Errors
    /// When a store cannot be written, or would overwrite something else.
    pub(super) fn missing(&self, modes: &[Mode]) -> Result<Vec<NewCopy>, StoreError> {
        let place = |mode: &Mode| (self.place(*mode), *mode == Mode::Durable);
        let mut places: Vec<((PathBuf, u64), bool)> = modes.iter().map(place).collect();
        places.sort();
        places.dedup();
        let copy = |store: NewStore, durable: bool| {
            let pages_bytes = store.pages * PAGE_BYTES as u64;
            let log_bytes = durable.then(|| (pages_bytes / LOG_SHARE).min(LOG_BYTES_MAX));
            NewCopy { store, log_bytes }
        };
        let durable = modes.contains(&Mode::Durable);
        let bytes = copy(self.store(self.data.clone(), 0, false), durable).bytes();
        if self.part_bytes.is_some_and(|part| bytes > part) {
            return Err(StoreError::NoSpace {
                path: self.data.clone(),
                needed_bytes: PARTS * bytes,
            });
        }
        let mut missing = Vec::new();
        for ((path, offset), durable) in places {
            let mut new = self.store(path, offset, self.force);
            if durable {
                new.tag = format!("{DURABLE_TAG}{}", self.tag);
                new.force |= is_copy_of_bench(&new.path, offset);
            }
            if offset > 0 {
                // The store at the beginning of a device decides whether the device may be
                // overwritten, if no other program's store with a log lies in this part of it.
                self.store(new.path.clone(), 0, self.force).is_there()?;
                new.force |= !has_log(&new.path, offset);
            }
            if !new.is_there()? || durable {
                missing.push(copy(new, durable));
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

/// Start of the tag of a bench's own store with a log.
const DURABLE_TAG: &str = "bench, durable: ";

/// The tag of the store with a log in this place, if there is one.
fn tag_with_log(path: &Path, offset: u64) -> Option<String> {
    let header = Store::open(path, offset, Access::SharedReadOnly).ok()?.header();
    (header.log_blocks > 0).then_some(header.tag)
}

fn has_log(path: &Path, offset: u64) -> bool {
    tag_with_log(path, offset).is_some()
}

/// Returns whether a bench made the store with a log at this place. Such a store may be
/// overwritten.
fn is_copy_of_bench(path: &Path, offset: u64) -> bool {
    tag_with_log(path, offset).is_some_and(|tag| tag.starts_with(DURABLE_TAG))
}

/// Number of parts of a block device, one per copy of the data.
const PARTS: u64 = 5;

/// Parts of a device begin at multiples of this.
const GRAIN_BYTES: u64 = 1 << 20;

/// Returns the size of the block device at `path`; `None` for other files. If the device cannot be
/// opened, opening its store reports that.
pub(super) fn device_bytes(path: &Path) -> Option<u64> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.file_type().is_block_device() {
        return None;
    }
    let size = std::fs::File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    Some(size.unwrap_or(u64::MAX / 4))
}

/// Returns the spare places behind the `pages` pages of a store; 0 if its pages are never written
/// back.
pub(super) fn spare_pages(pages: u64, writes: bool) -> u64 {
    if writes { pages / 2 } else { 0 }
}

/// Bytes that `copies` take up.
pub(super) fn bytes(copies: &[NewCopy]) -> u64 {
    copies.iter().map(NewCopy::bytes).sum()
}

/// Writes the image of `program` into each of `copies`.
///
/// # Errors
/// When a store cannot be written, or `watch` requests a stop.
pub(super) fn write(
    copies: &[NewCopy],
    program: &Program,
    watch: Watch<'_>,
) -> Result<(), StoreError> {
    let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| program.image(page, out);
    for (number, NewCopy { store, log_bytes }) in copies.iter().enumerate() {
        let written = |stage: &str, share: f64| {
            watch.show(stage, (number as f64 + share) / copies.len() as f64)
        };
        let watch = watch.telling(&written);
        match log_bytes {
            Some(bytes) => Store::create_persistent_image(store, *bytes, &image, watch)?,
            None => Store::create(store, &image, watch)?,
        };
    }
    Ok(())
}

/// Checks that `copies` of all workloads fit on the file system and under the process's limit on
/// file sizes. The workloads are written one after the other to the same places.
///
/// # Errors
/// When they do not fit, with the space that is free.
pub(super) fn check_room(copies: &[NewCopy]) -> Result<(), BenchError> {
    let mut files: BTreeMap<&Path, u64> = BTreeMap::new();
    for copy in copies.iter().filter(|copy| device_bytes(&copy.store.path).is_none()) {
        let needed = files.entry(&copy.store.path).or_default();
        *needed = (*needed).max(copy.store.offset + copy.bytes());
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
