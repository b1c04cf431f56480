//! [`Report`]: a result as text, JSON, pages and an Arrow table.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchOptions,
    StringArray,
};
use arrow_schema::{ArrowError, Field, Schema};
use ebbtide_report::{Column, Page, Values};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failure::Failure;

/// A result of the models.
#[pyclass(frozen, module = "ebbtide._native")]
pub(crate) struct Report(Box<dyn ebbtide_report::Report + Send + Sync>);

impl Report {
    pub(crate) fn new(report: impl ebbtide_report::Report + Send + Sync + 'static) -> Report {
        Report(Box::new(report))
    }
}

#[pymethods]
impl Report {
    /// Returns the text that the command prints.
    fn text(&self) -> String {
        self.0.to_string()
    }

    /// Returns the JSON that the command prints with `--json`.
    fn json(&self) -> PyResult<String> {
        Ok(self.0.json().map_err(Failure::run)?)
    }

    /// Returns the result's pages as HTML documents; with `charts`, only their charts.
    fn pages(&self, charts: bool) -> PyResult<Vec<String>> {
        let pages = self.0.pages();
        let html = |page: &Page| if charts { page.charts().html() } else { page.html() };
        let pages: Result<Vec<String>, _> = pages.iter().map(html).collect();
        Ok(pages.map_err(Failure::run)?)
    }

    /// Writes the page and its data files into `folder`. Returns their paths.
    fn write(&self, folder: PathBuf) -> PyResult<Vec<PathBuf>> {
        Ok(self.0.write(&folder).map_err(Failure::run)?)
    }

    /// Returns the table as an Arrow C stream.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer ignore a schema that it cannot cast to.
        drop(requested_schema);
        let columns = self.0.columns().map_err(Failure::run)?;
        let batch = batch(&columns).map_err(Failure::run)?;
        let schema = batch.schema();
        let stream =
            FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

fn batch(columns: &[Column]) -> Result<RecordBatch, ArrowError> {
    let rows = columns.first().map_or(0, |column| column.values.len());
    let arrays: Vec<ArrayRef> = columns.iter().map(array).collect();
    let field = |(column, array): (&Column, &ArrayRef)| {
        Field::new(&column.name, array.data_type().clone(), true)
    };
    let fields: Vec<Field> = columns.iter().zip(&arrays).map(field).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
}

fn array(column: &Column) -> ArrayRef {
    match column.typed() {
        Values::Whole(values) => Arc::new(Int64Array::from(values)),
        Values::Real(values) => Arc::new(Float64Array::from(values)),
        Values::Text(values) => Arc::new(StringArray::from(values)),
    }
}
