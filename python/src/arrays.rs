//! [`RowFile`]: gathers rows of a file into buffers of Python, and scatters them from buffers.

use std::path::PathBuf;

use ebbtide_core::Bytes;
use ebbtide_engine::{EngineError, Options, RowError, RowRun};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::failure::Failure;

fn failed(error: RowError) -> PyErr {
    match error {
        RowError::Index { .. } => Failure::Index(error.to_string()).into(),
        RowError::Read(_) | RowError::Unwritten { .. } | RowError::Ended(_) => {
            Failure::of(false, error).into()
        }
        error => Failure::input(error).into(),
    }
}

/// Rows of equal width in a file.
#[pyclass(frozen, module = "ebbtide._native")]
pub(crate) struct RowFile(ebbtide_engine::RowFile);

#[pymethods]
impl RowFile {
    /// Opens the rows of `runs`, pairs of an offset and a number of rows. `budget` is a size of
    /// DRAM, a number of cores, and one of threads for each. `writes` is whether rows are changed,
    /// and then whether they are atomic.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        runs: Vec<(u64, u64)>,
        row_bytes: usize,
        budget: (String, usize, Option<usize>),
        writes: Option<bool>,
    ) -> PyResult<RowFile> {
        let (dram, cores, threads) = budget;
        let dram =
            dram.parse::<Bytes>().map_err(|error| Failure::input(format!("dram: {error}")))?;
        let mut options = Options::new(usize::try_from(dram.0).unwrap_or(usize::MAX));
        options.cores = cores;
        options.tuning.threads = threads;
        let runs: Vec<RowRun> =
            runs.into_iter().map(|(offset, rows)| RowRun { offset, rows }).collect();
        let opened = py.detach(|| match writes {
            None => ebbtide_engine::RowFile::open(&path, &runs, row_bytes, &options),
            Some(atomic_rows) => ebbtide_engine::RowFile::open_to_write(
                &path,
                &runs,
                row_bytes,
                atomic_rows,
                &options,
            ),
        });
        opened.map(RowFile).map_err(|error| match error {
            // These errors name the file.
            RowError::Engine(error @ (EngineError::Store(_) | EngineError::Path { .. })) => {
                Failure::of(true, error).into()
            }
            RowError::Engine(error) => {
                Failure::input(format!("{}: {error}", path.display())).into()
            }
            error => failed(error),
        })
    }

    /// For the rows
    /// `indices`, copies the bytes in `columns`, from its start to its end, into the buffer `into`.
    fn gather(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        columns: (usize, usize),
        into: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        // A copy, because another thread may change the array during the call.
        let indices = PyBuffer::<u64>::get(indices)?.to_vec(py)?;
        let buffer = PyBuffer::<u8>::get(into)?;
        let into = bytes_of(&buffer)?;
        unless_stopped(py, |goes_on| {
            self.0.gather_columns_while(&indices, columns.0..columns.1, into, goes_on)
        })
    }

    /// For the rows `indices`, copies the buffer `from` to the bytes in `columns`, from its start
    /// to its end.
    fn scatter(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        columns: (usize, usize),
        from: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let indices = PyBuffer::<u64>::get(indices)?.to_vec(py)?;
        let buffer = PyBuffer::<u8>::get(from)?;
        let from = shared_bytes_of(&buffer)?;
        unless_stopped(py, |goes_on| {
            self.0.scatter_columns_while(&indices, columns.0..columns.1, from, goes_on)
        })
    }

    /// Writes all changed rows to the file, and returns when they survive a crash.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        unless_stopped(py, |goes_on| self.0.flush_while(goes_on))
    }

    /// Begins to fetch the rows `indices`.
    fn prefetch(&self, py: Python<'_>, indices: &Bound<'_, PyAny>) -> PyResult<()> {
        let indices = PyBuffer::<u64>::get(indices)?.to_vec(py)?;
        py.detach(|| self.0.prefetch(&indices)).map_err(failed)
    }

    /// Accesses to pages, and those that found their page on flash.
    fn counters(&self) -> PyResult<(u64, u64)> {
        self.0.check_process().map_err(failed)?;
        let counted = self.0.counters();
        Ok((counted.accesses, counted.misses))
    }

    /// Limits of this machine, one sentence each.
    fn notices(&self) -> Vec<String> {
        self.0.notices().to_vec()
    }
}

/// Runs `call` without the interpreter's lock. A signal ends it.
fn unless_stopped(
    py: Python<'_>,
    call: impl FnOnce(&mut (dyn FnMut() -> bool + Send)) -> Result<(), RowError> + Send,
) -> PyResult<()> {
    let mut raised = None;
    let mut goes_on = || {
        raised = Python::attach(|py| py.check_signals()).err();
        raised.is_none()
    };
    let ended = py.detach(|| call(&mut goes_on));
    ended.map_err(|error| raised.take().unwrap_or_else(|| failed(error)))
}

/// Returns the bytes that `buffer` exports. They are read while the interpreter's lock is released.
#[allow(unsafe_code)]
fn shared_bytes_of(buffer: &PyBuffer<u8>) -> PyResult<&[u8]> {
    if !buffer.is_c_contiguous() {
        return Err(Failure::input("rows: expected a contiguous array").into());
    }
    if buffer.len_bytes() == 0 {
        return Ok(&[]);
    }
    // SAFETY: as in `bytes_of`, without writes by this code.
    Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) })
}

/// Returns the bytes that `buffer` exports. They are written while the interpreter's lock is
/// released.
#[allow(unsafe_code, clippy::mut_from_ref)]
fn bytes_of(buffer: &PyBuffer<u8>) -> PyResult<&mut [u8]> {
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(Failure::input("out: expected a contiguous array that can be written").into());
    }
    if buffer.len_bytes() == 0 {
        return Ok(&mut []);
    }
    // SAFETY: the exporter keeps this memory in place and at its size while the buffer is held,
    // and the slice does not outlive it. It is contiguous and writable. Another thread of the
    // program that uses the array at the same time races, as with every function of NumPy that
    // releases the lock.
    Ok(unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast(), buffer.len_bytes()) })
}
