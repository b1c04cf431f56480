//! [`Report`]: a result in its three forms.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::{Column, Columns, Page, ReportError};

/// A result in its three forms: text for people (`Display`), JSON for machines, and a page of
/// charts with its data as files.
pub trait Report: fmt::Display {
    /// The result as JSON, indented, without a line feed at its end.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    fn json(&self) -> serde_json::Result<String>;

    /// The result as rows and named columns, for programs that work on tables.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    fn columns(&self) -> serde_json::Result<Vec<Column>>;

    /// Returns the page, or all pages of a result that has several.
    fn pages(&self) -> Vec<Page>;

    /// Writes the page and its data files into `folder`, which is made if it is missing. Returns
    /// the paths written, the page first.
    ///
    /// # Errors
    /// When one of them cannot be written.
    fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError>;
}

/// A result whose JSON is its serialised form and whose files are those of one page. Such a result
/// is a [`Report`].
pub trait PageReport: fmt::Display + Serialize {
    /// Charts, tables and settings.
    fn page(&self) -> Page;

    /// The rows of the result as a table, a JSON object each. A column is a leaf of these objects,
    /// named by its path. Without a table of its own, the whole result is one row.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    fn records(&self) -> serde_json::Result<Vec<Value>> {
        Ok(vec![serde_json::to_value(self)?])
    }

    /// The columns of the table that the text prints, in its order. They come before all others.
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
