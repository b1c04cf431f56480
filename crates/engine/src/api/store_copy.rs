//! A copy of a persistent store that is in use.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ebbtide_core::durability::{CopyPoint, InUse, Journal, TransactionError, copy_log, copy_pages};
use ebbtide_core::{Stop, Stopped};
use thiserror::Error;

use crate::api::engine::Engine;
use crate::persist::{FileDisk, Persist};
use crate::store::{Store, StoreError};

/// Whether a superblock is written by now is looked at this often.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The longest pause between two parts of a copy. A part takes a few milliseconds, and a stop must
/// not wait long.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Why a store was not copied.
#[derive(Debug, Error)]
pub enum CopyError {
    /// It has no log.
    #[error("the store does not survive crashes, so there is nothing to copy")]
    NotPersistent,
    /// One copy at a time.
    #[error("a copy is under way")]
    UnderWay,
    /// It was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The log cannot be written any more.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// A file cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A copy that is under way. Dropping it releases the slots and the log.
struct Hold<'a>(&'a Persist);

impl<'a> Hold<'a> {
    fn begin(persist: &'a Persist) -> Result<Hold<'a>, CopyError> {
        let begun = persist.lock().journal.hold();
        if begun { Ok(Hold(persist)) } else { Err(CopyError::UnderWay) }
    }

    /// Waits until all that is committed now is on the device. Returns the end of the copy in the
    /// log.
    fn point(&self, stop: &Stop) -> Result<CopyPoint, CopyError> {
        let (tell, told) = channel();
        let committed = self.0.lock().journal.committed();
        // The receiver is gone if this is given up.
        self.0.when_flushed(committed, Box::new(move |result| drop(tell.send(result))));
        if let Ok(result) = told.recv() {
            result?;
        }
        loop {
            if let Some(point) = self.0.lock().journal.copy_point() {
                return Ok(point);
            }
            if stop.is_stopped() {
                return Err(Stopped.into());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn unpin(&self) {
        self.0.lock().journal.unpin();
        self.0.news.notify_one();
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.lock().journal.let_go();
        self.0.news.notify_one();
    }
}

/// The store that is copied, which an engine uses.
struct InUseBy<'a> {
    engine: &'a Engine,
    persist: &'a Persist,
    stop: &'a Stop,
    /// When the part that is copied now was begun.
    part_began: Instant,
}

impl InUse for InUseBy<'_> {
    fn journal(&mut self, body: &mut dyn FnMut(&mut Journal)) {
        body(&mut self.persist.lock().journal);
        // Writes may have waited for a free slot.
        self.engine.rouse_all();
    }

    fn goes_on(&mut self) -> bool {
        !self.stop.is_stopped()
    }

    /// Pauses as long as the part took, so that jobs have the device to themselves half of the
    /// time.
    fn after_part(&mut self, is_pressed: bool) {
        if !is_pressed {
            std::thread::sleep(self.part_began.elapsed().min(PAUSE_MAX));
        }
        self.part_began = Instant::now();
    }
}

impl Engine {
    /// Copies a persistent store to a new file while jobs go on. The copy has all that was
    /// committed before the call. It is a store of its own, as if this one had been killed at a
    /// moment soon after. It needs as much space as the store. `stop` ends it early.
    ///
    /// The copy leaves the device to jobs half of the time. It ends at any rate of writes: when
    /// free room becomes scarce, old copies of pages are copied first, and are free after that.
    ///
    /// # Errors
    /// When the file cannot be made or written, or the copy was stopped. There is no new file then.
    pub fn copy_to(&self, path: &Path, stop: &Stop) -> Result<(), CopyError> {
        let (Some(persist), Some(store)) = (self.persist(), self.store()) else {
            return Err(CopyError::NotPersistent);
        };
        let hold = Hold::begin(persist)?;
        let point = hold.point(stop)?;
        store.make_like::<CopyError>(path, &|copy| {
            let disk = |of: &Store| FileDisk::new(of.file(), of.persist_offset(), of.path());
            let (mut from, mut to, mut log) = (disk(store)?, disk(copy)?, disk(copy)?);
            let geometry = &persist.geometry;
            copy_log(geometry, &point, &mut from, &mut to).map_err(StoreError::from)?;
            hold.unpin();
            let mut in_use = InUseBy { engine: self, persist, stop, part_began: Instant::now() };
            let disks = (&mut log, &mut from, &mut to);
            match copy_pages(geometry, &point, disks, &mut in_use).map_err(StoreError::from)? {
                true => Ok(()),
                false => Err(Stopped.into()),
            }
        })?;
        Ok(())
    }
}
