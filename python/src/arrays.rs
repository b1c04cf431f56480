//! [`RowFile`]: gathers rows of a file into buffers of Python.

use std::path::PathBuf;

use ebbtide_core::Bytes;
use ebbtide_engine::{EngineError, Options, RowError, RowRun};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::failure::Failure;

fn failed(error: RowError) -> PyErr {
    match error {
        RowError::Index { .. } => PyIndexError::new_err(error.to_string()),
        RowError::Read(_) => Failure::of(false, error).into(),
        error => Failure::input(error).into(),
    }
}

/// Rows of equal width in a file that is read only.
#[pyclass(frozen, module = "ebbtide._native")]
pub(crate) struct RowFile(ebbtide_engine::RowFile);

#[pymethods]
impl RowFile {
    /// Opens the rows of `runs`, pairs of an offset and a number of rows, with a cache of `dram`.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        runs: Vec<(u64, u64)>,
        row_bytes: usize,
        dram: &str,
        cores: usize,
        threads: Option<usize>,
    ) -> PyResult<RowFile> {
        let dram =
            dram.parse::<Bytes>().map_err(|error| Failure::input(format!("dram: {error}")))?;
        let mut options = Options::new(usize::try_from(dram.0).unwrap_or(usize::MAX));
        options.cores = cores;
        options.tuning.threads = threads;
        let runs: Vec<RowRun> =
            runs.into_iter().map(|(offset, rows)| RowRun { offset, rows }).collect();
        let opened = py.detach(|| ebbtide_engine::RowFile::open(&path, &runs, row_bytes, &options));
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
        let mut raised = None;
        let mut goes_on = || {
            raised = Python::attach(|py| py.check_signals()).err();
            raised.is_none()
        };
        let gathered = py.detach(|| {
            self.0.gather_columns_while(&indices, columns.0..columns.1, into, &mut goes_on)
        });
        gathered.map_err(|error| raised.take().unwrap_or_else(|| failed(error)))
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
