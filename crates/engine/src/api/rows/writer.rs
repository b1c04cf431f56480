//! [`Writer`]: the right to change the rows of a file, with the log of changed rows.

use std::ops::Range;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};

use super::error::RowError;
use super::log::RowLog;
use crate::api::engine_error::EngineError;
use crate::store::{Exclusive, is_locked};

/// A flush empties the log when its records have more bytes.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// The right to change the rows of a file.
pub(super) struct Writer {
    path: PathBuf,
    file: Exclusive,
    /// Bytes of the file when it was opened. The last page may end behind them.
    file_bytes: u64,
    turn: Mutex<Turn>,
}

/// The turn of one change or flush. They run one after the other.
pub(super) struct Turn {
    pub(super) log: Option<RowLog>,
    /// True after a failure that the file may not show. Nothing is written after that.
    pub(super) ended: bool,
}

impl Writer {
    /// Takes the right to change the file at `path`.
    pub(super) fn of(path: &Path) -> Result<Writer, RowError> {
        let file = Exclusive::of(path).map_err(EngineError::from)?;
        let file_bytes = file.file().metadata().map(|about| about.len());
        let file_bytes = file_bytes.map_err(RowError::unwritten(path.to_path_buf()))?;
        let turn = Mutex::new(Turn { log: None, ended: false });
        Ok(Writer { path: path.to_path_buf(), file, file_bytes, turn })
    }

    /// True if some open file has the right to change the file at `path`.
    pub(super) fn exists(path: &Path) -> bool {
        std::fs::File::open(path).is_ok_and(|file| is_locked(&file))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the turn of a change or flush.
    ///
    /// # Errors
    /// When writing has ended.
    pub(super) fn turn(&self) -> Result<MutexGuard<'_, Turn>, RowError> {
        let turn = self.turn.lock();
        if turn.ended { Err(RowError::Ended(self.path.clone())) } else { Ok(turn) }
    }

    /// Makes durable what was written, and ends the file where it ended.
    pub(super) fn sync(&self, turn: &mut Turn) -> Result<(), RowError> {
        let file = self.file.file();
        let synced = file.metadata().and_then(|about| {
            if about.is_file() && about.len() > self.file_bytes {
                file.set_len(self.file_bytes)?;
            }
            file.sync_data()
        });
        let emptied = synced.and_then(|()| turn.log.as_mut().map_or(Ok(()), RowLog::empty));
        turn.ended |= emptied.is_err();
        emptied.map_err(RowError::unwritten(self.path.clone()))
    }
}

impl Turn {
    /// Notes in the log, if there is one, that the `bytes` of the rows `indices` become `data`.
    pub(super) fn note(
        &mut self,
        path: &Path,
        indices: &[u64],
        bytes: &Range<usize>,
        data: &[u8],
    ) -> Result<(), RowError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let noted = log.append(indices, bytes, data);
        self.ended |= noted.is_err();
        noted.map_err(RowError::unwritten(super::log::path_of(path)))
    }

    /// Whether the log should be emptied before more rows are changed.
    pub(super) fn is_log_full(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.bytes() > LOG_BYTES_MAX)
    }
}
