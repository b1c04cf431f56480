//! [`Dictionary`]: keys and values in a store that survives crashes.

use std::path::PathBuf;

use ebbtide_core::Bytes;
use ebbtide_core::durability::Policy;
use ebbtide_engine::{Change, DictionaryError, Options};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::Failure;

/// Default capacity of a new dictionary.
const CAPACITY: Bytes = Bytes(1 << 30);

fn failed(error: DictionaryError) -> PyErr {
    Failure::of(error.is_input(), error).into()
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> PyResult<T> {
    Ok(text.parse().map_err(|error| Failure::input(format!("{name}: {error}")))?)
}

/// Keys and values of any bytes in a file.
#[pyclass(frozen, module = "ebbtide._native")]
pub(crate) struct Dictionary(ebbtide_engine::Dictionary);

#[pymethods]
impl Dictionary {
    /// Opens the dictionary in the file at `path`, or creates it.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        capacity: Option<&str>,
        dram: &str,
        durability: &str,
    ) -> PyResult<Dictionary> {
        let capacity = capacity.map(|text| parsed::<Bytes>("capacity", text)).transpose()?;
        let dram: Bytes = parsed("dram", dram)?;
        let mut options = Options::new(usize::try_from(dram.0).unwrap_or(usize::MAX));
        options.durability = Some(parsed::<Policy>("durability", durability)?);
        py.detach(|| ebbtide_engine::Dictionary::open(&path, capacity, CAPACITY, &options))
            .map(Dictionary)
            .map_err(failed)
    }

    /// Returns an error in a forked child.
    fn check_process(&self) -> PyResult<()> {
        self.0.check_process().map_err(failed)
    }

    /// Returns the value of a key.
    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = key.to_vec();
        let value = py.detach(|| self.0.get(&key)).map_err(failed)?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// True if the key exists.
    fn contains(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        let key = key.to_vec();
        py.detach(|| self.0.contains(&key)).map_err(failed)
    }

    /// Makes all changes in one step.
    fn change(&self, py: Python<'_>, changes: Vec<Change>) -> PyResult<()> {
        py.detach(|| self.0.change(changes)).map_err(failed)
    }

    /// Number of keys.
    fn len(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.0.len()).map_err(failed)
    }

    /// Returns some keys from position `from` on, and the position where the next call continues.
    fn keys<'py>(
        &self,
        py: Python<'py>,
        from: u64,
    ) -> PyResult<(Vec<Bound<'py, PyBytes>>, Option<u64>)> {
        let (keys, next) = py.detach(|| self.0.keys(from)).map_err(failed)?;
        Ok((keys.iter().map(|key| PyBytes::new(py, key)).collect(), next))
    }

    /// Accesses to pages, and those that found their page on flash.
    fn counters(&self) -> PyResult<(u64, u64)> {
        self.check_process()?;
        let counted = self.0.counters();
        Ok((counted.accesses, counted.misses))
    }
}
