//! [`Store`] and [`Map`]: keys and values in a file that survives crashes.

use std::path::PathBuf;
use std::sync::Mutex;

use ebbtide_engine::embedded::{self, Error, Keys, OrderedMap, Range};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::Failure;

fn failed(error: Error) -> PyErr {
    Failure::of(error.is_input(), error).into()
}

fn bytes<'py>(py: Python<'py>, value: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, value)
}

/// An open store: maps by name in a file.
#[pyclass(frozen, module = "ebbtide._native")]
pub(crate) struct Store(embedded::Store);

#[pymethods]
impl Store {
    /// Opens the store in the file at `path`, or creates it.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        size: Option<&str>,
        dram: &str,
        durability: &str,
    ) -> PyResult<Store> {
        let builder = embedded::Store::builder(path).dram(dram).durability(durability);
        let builder = size.into_iter().fold(builder, |builder, size| builder.size(size));
        py.detach(|| builder.open()).map(Store).map_err(failed)
    }

    /// Returns an error in a forked child, and for a closed store.
    fn check(&self) -> PyResult<()> {
        self.0.counters().map(drop).map_err(failed)
    }

    /// The map of that name, which is made if there is none.
    fn map(&self, py: Python<'_>, name: &str) -> PyResult<Map> {
        let map = py.detach(|| self.0.map(name)).map_err(failed)?;
        Ok(Map(Kind::Unordered(map)))
    }

    /// The ordered map of that name, which is made if there is none.
    fn ordered_map(&self, py: Python<'_>, name: &str) -> PyResult<Map> {
        let map = py.detach(|| self.0.ordered_map(name)).map_err(failed)?;
        Ok(Map(Kind::Ordered(map)))
    }

    /// The names of all maps.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| self.0.names()).map_err(failed)
    }

    /// Raises the room for keys and values.
    fn grow(&self, py: Python<'_>, size: &str) -> PyResult<()> {
        py.detach(|| self.0.grow(size)).map_err(failed)
    }

    /// Closes the store for all its maps.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.stop()).map_err(failed)
    }

    /// Accesses to pages, and those that found their page on flash.
    fn counters(&self) -> PyResult<(u64, u64)> {
        let counted = self.0.counters().map_err(failed)?;
        Ok((counted.accesses, counted.misses))
    }
}

enum Kind {
    Unordered(embedded::Map),
    Ordered(OrderedMap),
}

/// Evaluates `$work` with the map of either kind.
macro_rules! of_kind {
    ($map:expr, $any:ident => $work:expr) => {
        match &$map.0 {
            Kind::Unordered($any) => $work,
            Kind::Ordered($any) => $work,
        }
    };
}

/// Keys and values of one map.
#[pyclass(frozen, module = "ebbtide._native")]
pub(crate) struct Map(Kind);

#[pymethods]
impl Map {
    /// Returns the value of a key.
    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = key.to_vec();
        let value = py.detach(|| of_kind!(self, map => map.get(&key))).map_err(failed)?;
        Ok(value.map(|value| bytes(py, &value)))
    }

    /// True if the key exists.
    fn contains(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        let key = key.to_vec();
        py.detach(|| of_kind!(self, map => map.contains_key(&key))).map_err(failed)
    }

    /// Makes all changes in one step. `None` removes a key.
    fn apply(&self, py: Python<'_>, changes: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> PyResult<()> {
        py.detach(|| of_kind!(self, map => map.apply(changes))).map_err(failed)
    }

    /// Number of keys.
    fn len(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| of_kind!(self, map => map.len())).map_err(failed)
    }

    /// All keys.
    fn keys(&self) -> MapKeys {
        match &self.0 {
            Kind::Unordered(map) => MapKeys(Mutex::new(map.keys())),
            Kind::Ordered(map) => MapKeys(Mutex::new(map.keys())),
        }
    }

    /// The pairs of an ordered map from `start` on, to before `end`.
    fn range(&self, start: Option<Vec<u8>>, end: Option<Vec<u8>>) -> PyResult<Pairs> {
        let Kind::Ordered(map) = &self.0 else {
            return Err(Failure::input("a map without order has no ranges").into());
        };
        let range = match (start, end) {
            (Some(start), Some(end)) => map.range(start..end),
            (Some(start), None) => map.range(start..),
            (None, Some(end)) => map.range(..end),
            (None, None) => map.iter(),
        };
        Ok(Pairs(Mutex::new(range)))
    }
}

/// The next item of an iterator that threads share.
fn next<T: Send>(
    py: Python<'_>,
    iterator: &Mutex<impl Iterator<Item = Result<T, Error>> + Send>,
) -> PyResult<Option<T>> {
    let next = || {
        let mut iterator = iterator.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        iterator.next().transpose()
    };
    py.detach(next).map_err(failed)
}

/// The keys of a map.
#[pyclass(frozen, module = "ebbtide._native")]
pub(crate) struct MapKeys(Mutex<Keys>);

#[pymethods]
impl MapKeys {
    fn __iter__(this: Py<MapKeys>) -> Py<MapKeys> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(next(py, &self.0)?.map(|key| bytes(py, &key)))
    }
}

/// A pair as Python has it.
type Pair<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The pairs of a range.
#[pyclass(frozen, module = "ebbtide._native")]
pub(crate) struct Pairs(Mutex<Range>);

#[pymethods]
impl Pairs {
    fn __iter__(this: Py<Pairs>) -> Py<Pairs> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Pair<'py>>> {
        let pair = next(py, &self.0)?;
        Ok(pair.map(|(key, value)| (bytes(py, &key), bytes(py, &value))))
    }
}
