//! [`Report`]: a result in its three forms.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::{Column, Columns, Page, ReportError};

/// A result in its forms: text for a terminal (`Display`), JSON, columns, and pages of charts with
/// data files. Every [`PageReport`] implements it.
pub trait Report: fmt::Display {
    /// Returns the result as indented JSON, without a line feed at its end.
    ///
    /// # Errors
    /// If a value of the result cannot be serialised as JSON.
    fn json(&self) -> serde_json::Result<String>;

    /// Returns the result as a table of named columns. All columns have the same number of rows.
    ///
    /// # Errors
    /// If a value of the result cannot be serialised as JSON.
    fn columns(&self) -> serde_json::Result<Vec<Column>>;

    /// Returns the page, or all pages of a result that has several.
    fn pages(&self) -> Vec<Page>;

    /// Writes the page and its data files into `folder`, which is made if it is missing. Returns
    /// the paths written, the page first.
    ///
    /// # Errors
    /// A [`ReportError`] if something cannot be drawn or a file cannot be written.
    fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError>;
}

/// A result whose JSON is its serialised form and whose files are those of one page. Implementing
/// it also implements [`Report`].
pub trait PageReport: fmt::Display + Serialize {
    /// Returns the page: charts, tables and settings.
    fn page(&self) -> Page;

    /// Returns the rows of the result's table, each a JSON object. [`Report::columns`] makes a
    /// column of each leaf, named by its path such as `config.rounds`. By default the whole result
    /// is one row.
    ///
    /// # Errors
    /// If a value of the result cannot be serialised as JSON.
    fn records(&self) -> serde_json::Result<Vec<Value>> {
        Ok(vec![serde_json::to_value(self)?])
    }

    /// Returns the names of the columns that the text prints, in its order. [`Report::columns`]
    /// puts them before all others. None by default.
    fn printed_columns(&self) -> &'static [&'static str] {
        &[]
    }
}

impl<R: PageReport> Report for R {
    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    fn columns(&self) -> serde_json::Result<Vec<Column>> {
        let mut columns = Columns::of_records(&self.records()?);
        let printed = self.printed_columns();
        let place = |column: &Column| printed.iter().position(|name| *name == column.name);
        columns.sort_by_key(|column| place(column).unwrap_or(printed.len()));
        Ok(columns)
    }

    fn pages(&self) -> Vec<Page> {
        vec![self.page()]
    }

    fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        self.page().write(folder)
    }
}
