//! [`Store::grow`]: a larger store in the place of one that is open.

use ebbtide_core::{Bytes, PAGE_BYTES, Watch};

use super::builder::{frames_of, size_of, spare_pages};
use super::error::Error;
use super::layout::Layout;
use super::limits::PAGES_MAX;
use super::shared::{Open, Shared};
use super::store::Store;
use crate::api::store_growth::Larger;
use crate::core::worker::check_not_in_a_job;
use crate::store::{Access, Header, Store as File, StoreError};

impl Store {
    /// Raises the room for keys and values to `size`. The order of ordered maps keeps its share.
    /// Handles and typed structures stay valid.
    ///
    /// The jobs that were submitted end first. Later calls of all threads wait until the store has
    /// grown. It is copied to a larger file in the same folder, which then takes its place. So the
    /// folder needs room for both, and a store on a drive cannot grow. If the growth fails, the
    /// store is as before.
    ///
    /// ```
    /// # use ebbtide_engine::embedded as ebbtide;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data.ebb");
    /// use ebbtide::Store;
    ///
    /// let store = Store::builder(path).size("1MiB").dram("8MiB").open()?;
    /// let pages = store.map("pages")?;
    /// pages.insert("first", [1; 30_000])?;
    /// store.grow("4MiB")?;
    /// for number in 0..100u64 {
    ///     pages.insert(number.to_le_bytes(), [2; 30_000])?;
    /// }
    /// assert_eq!(pages.len()?, 101);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error`] of `size` when it is no larger size; of `dram` when the budget is too small for
    /// it. Also when the new file cannot be written.
    ///
    /// # Panics
    /// Inside a job, which would wait for itself.
    pub fn grow(&self, size: impl ToString) -> Result<(), Error> {
        self.grow_watched(size, Watch::unattended())
    }

    /// As [`grow`](Store::grow). Reports its progress to `watch`, which may stop it.
    ///
    /// # Errors
    /// As [`grow`](Store::grow), and when it was stopped.
    ///
    /// # Panics
    /// As [`grow`](Store::grow).
    pub fn grow_watched(&self, size: impl ToString, watch: Watch<'_>) -> Result<(), Error> {
        let size = size_of("size", Some(&size.to_string()), Bytes(0))?;
        self.shared.grow(size, watch)
    }
}

impl Shared {
    fn grow(&self, size: Bytes, watch: Watch<'_>) -> Result<(), Error> {
        check_not_in_a_job("growing a store");
        self.open.check().map_err(Error::Forked)?;
        let mut open = self.open.write();
        let Open { jobs, layout, .. } = open.as_ref().ok_or(Error::Closed)?;
        let (layout, larger) = (*layout, larger(*layout, size)?);
        let file = jobs.engine().store().ok_or(Error::Closed)?;
        if !file.is_named() {
            // It could not be opened again.
            return Err(StoreError::Moved(self.path.clone()).into());
        }
        let pages = larger.pages();
        let header = Header { pages, spare_pages: pages / 4, ..file.header() };
        let frames = frames_of(&self.options, &header)?;
        let Some(Open { jobs, .. }) = open.take() else { return Err(Error::Closed) };
        jobs.stop()?;
        let spare_pages = spare_pages(pages, frames);
        let gap = Some(layout.gap(&larger));
        let grown = File::grow(&self.path, Larger { pages, spare_pages, gap }, watch);
        let file = File::open(&self.path, 0, Access::Exclusive)?;
        *open = Some(Open::start(file, &self.options, layout)?);
        Ok(grown?)
    }
}

/// The layout of a store that has grown to `size`.
fn larger(layout: Layout, size: Bytes) -> Result<Layout, Error> {
    let bytes = |pages: u64| Bytes(pages * PAGE_BYTES as u64);
    let (found, pages) = (layout.key_pages, size.0.div_ceil(PAGE_BYTES as u64));
    if !(found + 1..=PAGES_MAX).contains(&pages) {
        let (found, most) = (bytes(found), bytes(PAGES_MAX));
        return Err(Error::option(
            "size",
            format!("{size}, expected more than {found}, which the store has, and at most {most}"),
        ));
    }
    layout.with_keys(pages).checked()
}
