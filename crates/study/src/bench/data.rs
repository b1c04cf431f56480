//! Where each memory under test has its copy of the data.
//!
//! Every mode starts from the same image. Modes whose jobs write have a copy each: the engine the
//! data file itself, the others one beside it (`FILE.sync`, `FILE.paging`), or behind it on a block
//! device. Jobs that only read share the data file.

use std::ops::ControlFlow;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use ebbtide_core::{PAGE_BYTES, PageId};
use ebbtide_engine::store::{Access, NewStore, Store, StoreError};
use ebbtide_workloads::{Program, Workload};

use super::Mode;
use super::children::Cancel;

/// The places of one workload's data.
pub(super) struct DataPlaces {
    data: PathBuf,
    pages: u64,
    shared: bool,
}

impl DataPlaces {
    pub(super) fn new(data: &Path, program: &Program) -> DataPlaces {
        DataPlaces {
            data: data.to_path_buf(),
            pages: program.size_bytes() / PAGE_BYTES as u64,
            shared: !program.writes(),
        }
    }

    /// The file and the byte offset of the store that `mode` uses.
    pub(super) fn place(&self, mode: Mode) -> (PathBuf, u64) {
        let (number, suffix) = match mode {
            Mode::Paging if !self.shared => (2, ".paging"),
            Mode::Sync if !self.shared => (1, ".sync"),
            _ => (0, ""),
        };
        let is_device =
            std::fs::metadata(&self.data).is_ok_and(|data| data.file_type().is_block_device());
        if is_device {
            return (self.data.clone(), number * NewStore::bytes(self.pages));
        }
        let mut path = self.data.clone().into_os_string();
        path.push(suffix);
        (path.into(), 0)
    }

    /// Makes sure that every mode finds the image of `program` in its place. What is there, clean
    /// and of the same tag, is kept.
    pub(super) fn make(
        &self,
        program: &Program,
        tag: &str,
        modes: &[Mode],
        force: bool,
        cancel: &Cancel,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<(), StoreError> {
        let mut places: Vec<(PathBuf, u64)> = modes.iter().map(|mode| self.place(*mode)).collect();
        places.sort();
        places.dedup();
        let count = places.len() as f64;
        for (number, (path, offset)) in places.into_iter().enumerate() {
            let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| program.image(page, out);
            let written = |pages: u64| {
                progress((number as f64 + pages as f64 / self.pages as f64) / count);
                if cancel.is_cancelled() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            if self.is_there(&path, offset, tag) {
                continue;
            }
            // Behind the first store of a device lies what the first one's header vouches for.
            let force = force || offset > 0;
            let new = NewStore { path, offset, pages: self.pages, tag: tag.into(), force };
            Store::create(&new, &image, &written)?;
        }
        Ok(())
    }

    fn is_there(&self, path: &Path, offset: u64, tag: &str) -> bool {
        Store::open_clean(path, offset, Access::SharedReadOnly).is_ok_and(|store| {
            let header = store.header();
            header.pages == self.pages && header.tag == tag
        })
    }
}
