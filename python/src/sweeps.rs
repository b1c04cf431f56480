//! [`Sweep`]: the points of a sweep, which any engine can run, and their table.

use std::path::PathBuf;

use ebbtide_sim::SimError;
use ebbtide_study::side_by_side::host_threads;
use ebbtide_study::sweep::{self, SweepError, SweepOptions, Swept};
use pyo3::prelude::*;
use serde_json::Value;

use crate::failure::Failure;
use crate::report::Report;
use crate::watched::watched;

fn failed(error: SweepError) -> Failure {
    match error {
        SweepError::Run { error, .. } if matches!(*error, SimError::Stopped(_)) => Failure::Stopped,
        SweepError::Cancelled { .. } => Failure::Stopped,
        error => Failure::of(error.is_input(), error),
    }
}

/// All combinations of the values of some axes.
#[pyclass(frozen, module = "ebbtide._native")]
pub(crate) struct Sweep(sweep::Sweep);

#[pymethods]
impl Sweep {
    /// Parses the sweep in `text`, the contents of the file `name`.
    #[new]
    fn new(name: &str, text: &str) -> PyResult<Sweep> {
        Ok(Sweep(sweep::Sweep::parse(name, text).map_err(Failure::input)?))
    }

    /// Number of points.
    fn __len__(&self) -> usize {
        self.0.points()
    }

    /// The axes with their values.
    fn axes(&self) -> Vec<(String, Vec<String>)> {
        let axes = self.0.axes().iter();
        axes.map(|axis| (axis.key.clone(), axis.values.clone())).collect()
    }

    /// Returns a point as the key and value of each axis.
    fn point(&self, number: usize) -> Vec<(String, String)> {
        self.0.point(number)
    }

    /// Checks that every machine can be built.
    fn check(&self) -> PyResult<()> {
        Ok(self.0.check().map_err(failed)?)
    }

    /// Runs the points whose outcomes `folder` does not hold yet.
    fn run(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        threads: Option<usize>,
        force: bool,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Report> {
        let program = format!("ebbtide {} (Python)", env!("CARGO_PKG_VERSION"));
        let threads = threads.unwrap_or_else(host_threads);
        let options = SweepOptions { folder, program, threads, force };
        let sweep = self.0.clone();
        watched(py, progress.as_ref(), move |watch| {
            sweep::run(&sweep, &options, watch).map(Report::new).map_err(failed)
        })
    }

    /// Returns the result of points with these outcomes, in order and as JSON.
    fn collect(&self, outcomes: Vec<String>) -> PyResult<Report> {
        let parse = |text: &String| serde_json::from_str(text);
        let outcomes: Result<Vec<Value>, _> = outcomes.iter().map(parse).collect();
        let outcomes = outcomes.map_err(Failure::input)?;
        let (given, expected) = (outcomes.len(), self.0.points());
        if given != expected {
            let text = format!("{given} outcomes: expected {expected}, one a point");
            return Err(Failure::input(text).into());
        }
        Ok(Report::new(Swept::new(&self.0, outcomes)))
    }
}

/// Runs a point, given as a key and a value for each axis. Returns its outcome as JSON.
#[pyfunction]
pub(crate) fn run_point(
    py: Python<'_>,
    values: Vec<(String, String)>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    watched(py, progress.as_ref(), move |watch| {
        sweep::run_point(&values, watch).map(|outcome| outcome.to_string()).map_err(failed)
    })
}
