//! Reads and writes traces as files and arrays.

use std::path::PathBuf;

use ebbtide_core::{Addr, Time};
use ebbtide_trace::{Access, Op, Source, Statistics, TraceError, copy_to};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::failure::Failure;
use crate::watched::watched;

fn failed(error: TraceError) -> Failure {
    match error {
        TraceError::Write { .. } => Failure::run(error),
        error => Failure::of(error.is_input(), error),
    }
}

/// Converts the trace at `from` to the format that the name `to` has.
#[pyfunction]
pub(crate) fn convert_trace(py: Python<'_>, from: PathBuf, to: PathBuf) -> PyResult<()> {
    watched(py, None, move |_| {
        let mut source = ebbtide_trace::open(&from).map_err(failed)?;
        let description = format!("converted from {}", from.display());
        copy_to(&mut source, &to, None, &description).map(drop).map_err(failed)
    })
}

/// Returns properties of the trace at `path`, as JSON.
#[pyfunction]
pub(crate) fn trace_info(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    watched(py, None, move |_| {
        let mut source = ebbtide_trace::open(&path).map_err(failed)?;
        let statistics = Statistics::gather(&mut source).map_err(failed)?;
        serde_json::to_string(&statistics).map_err(Failure::run)
    })
}

/// Returns the numbers of `array`, which must have one dimension and dtype uint64.
fn numbers(py: Python<'_>, name: &str, array: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let expected = format!("{name}: expected an array of one dimension and dtype uint64");
    let buffer = PyBuffer::<u64>::get(array).map_err(|_| Failure::input(&expected))?;
    if buffer.dimensions() != 1 {
        return Err(Failure::input(expected).into());
    }
    buffer.to_vec(py)
}

/// Accesses in memory as a source of a trace.
struct InMemory(std::vec::IntoIter<Access>);

impl Source for InMemory {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        batch.extend(self.0.by_ref().take(1 << 16));
        Ok(!batch.is_empty())
    }
}

/// Writes accesses to `path`, in the format that its name has.
#[pyfunction]
pub(crate) fn write_trace(
    py: Python<'_>,
    path: PathBuf,
    addresses: &Bound<'_, PyAny>,
    writes: &Bound<'_, PyAny>,
    times_ns: &Bound<'_, PyAny>,
    bytes: u32,
) -> PyResult<()> {
    let addresses = numbers(py, "addresses", addresses)?;
    let writes = numbers(py, "writes", writes)?;
    let times = numbers(py, "times_ns", times_ns)?;
    if writes.len() != addresses.len() || times.len() != addresses.len() {
        let (first, second, third) = (addresses.len(), writes.len(), times.len());
        let text = format!(
            "{first} addresses, {second} writes and {third} times: expected as many of each"
        );
        return Err(Failure::input(text).into());
    }
    if let Some(place) = times.windows(2).position(|pair| pair[1] < pair[0]) {
        let (before, after) = (times[place], times[place + 1]);
        let text = format!("times_ns[{}] = {after}: expected no less than {before}", place + 1);
        return Err(Failure::input(text).into());
    }
    if let Some(late) = times.iter().find(|time| **time > u64::MAX / 1000) {
        let text = format!("times_ns: {late}: expected at most {}", u64::MAX / 1000);
        return Err(Failure::input(text).into());
    }
    watched(py, None, move |_| {
        let access = |((address, write), time): ((&u64, &u64), &u64)| {
            Access::new(
                Time::from_ps(time * 1000),
                Addr(*address),
                bytes,
                if *write == 0 { Op::Read } else { Op::Write },
            )
        };
        let accesses: Vec<Access> = addresses.iter().zip(&writes).zip(&times).map(access).collect();
        let mut source = InMemory(accesses.into_iter());
        copy_to(&mut source, &path, None, "made from arrays").map(drop).map_err(failed)
    })
}

/// Returns the addresses, writes and times in nanoseconds of the trace at `path`. Each is the
/// bytes of 64-bit numbers. Hints are left out.
#[pyfunction]
pub(crate) fn read_trace(py: Python<'_>, path: PathBuf) -> PyResult<[Vec<u8>; 3]> {
    watched(py, None, move |_| {
        let mut source = ebbtide_trace::open(&path).map_err(failed)?;
        let (mut columns, mut batch) = ([Vec::new(), Vec::new(), Vec::new()], Vec::new());
        loop {
            let more = source.fill(&mut batch).map_err(failed)?;
            for access in batch.iter().filter(|access| access.op != Op::Hint) {
                let row = [access.address.0, u64::from(access.is_write()), access.at.as_ns()];
                for (column, value) in columns.iter_mut().zip(row) {
                    column.extend_from_slice(&value.to_ne_bytes());
                }
            }
            if !more {
                return Ok(columns);
            }
        }
    })
}
