//! Results as text, JSON, HTML pages with charts, CSV and Parquet.
//!
//! A result implements [`PageReport`]: its `Display` is the text for a terminal, its serialised
//! form is the JSON, and [`PageReport::page`] describes the page. A [`Page`] consists of text,
//! [`Table`]s, [`BarChart`]s, [`LineChart`]s and [`RatioChart`]s. [`Page::write`] writes one
//! self-contained HTML file, and a CSV file for each table and chart. A [`Table`] is described once
//! and is also printed as text. With the feature `pdf`, `write_figures` writes the charts as SVG
//! and PDF files for a paper. [`figure`] and its neighbours format numbers and quantities.
//! [`statistics`] has confidence intervals. This crate does not depend on the results that it
//! reports.
//!
//! ```no_run
//! use ebbtide_report::{BarChart, Page, Range};
//!
//! let chart = BarChart::new("Throughput", "relative to DRAM-only")
//!     .reference(1.0, "DRAM-only")
//!     .group("hash table", [("Ebbtide", Range { min: 0.88, median: 0.91, max: 0.93 })]);
//! Page::new("Bench").section("Throughput").bars(chart).write("report".as_ref())?;
//! # Ok::<(), ebbtide_report::ReportError>(())
//! ```

#![forbid(unsafe_code)]

mod atomic_file;
mod bars;
mod chart;
mod columns;
#[cfg(feature = "pdf")]
mod figures;
mod json_leaves;
mod lines;
mod number;
mod page;
mod parquet_file;
mod ratios;
mod result;
mod scale;
pub mod statistics;
mod svg;
mod table;

use std::io;
use std::path::PathBuf;

use thiserror::Error;

pub use atomic_file::write_whole;
pub use bars::{BarChart, Range};
pub use columns::{Column, Columns, Values};
#[cfg(feature = "pdf")]
pub use figures::write_figures;
pub use json_leaves::each_leaf;
pub use lines::LineChart;
pub use number::{bytes, figure, microseconds, percent, years};
pub use page::{Page, check_folder};
pub use parquet_file::parquet_bytes;
pub use ratios::{Compared, RatioChart};
pub use result::{PageReport, Report};
pub use table::Table;

/// Why a report could not be drawn or written.
#[derive(Debug, Error)]
pub enum ReportError {
    /// A value that cannot be drawn: not a number, or infinite.
    #[error("chart '{chart}', {item}: {value} cannot be drawn, expected a finite number")]
    NotFinite {
        /// The title of the chart.
        chart: String,
        /// The series, group or point.
        item: String,
        /// The value.
        value: f64,
    },
    /// A value that has no place on a logarithmic axis.
    #[error("chart '{chart}', {item}: {value} has no place on a logarithmic axis")]
    NotPositive {
        /// The title of the chart.
        chart: String,
        /// The series and point.
        item: String,
        /// The value.
        value: f64,
    },
    /// A median outside of its own range.
    #[error("chart '{chart}', {item}: expected min ≤ median ≤ max, got {min}, {median}, {max}")]
    Disordered {
        /// The title of the chart.
        chart: String,
        /// The group and series.
        item: String,
        /// The least value.
        min: f64,
        /// The median.
        median: f64,
        /// The greatest value.
        max: f64,
    },
    /// A row with more or fewer cells than the table has columns.
    #[error("table '{table}', row {row}: {found} cells, expected {expected}")]
    Ragged {
        /// The caption of the table.
        table: String,
        /// The row, counted from 1.
        row: usize,
        /// The number of its cells.
        found: usize,
        /// How many columns the table has.
        expected: usize,
    },
    /// A drawing that cannot become a PDF.
    #[cfg(feature = "pdf")]
    #[error("chart '{chart}' cannot be written as PDF: {reason}")]
    NoPdf {
        /// The name of its file.
        chart: String,
        /// The reason.
        reason: String,
    },
    /// A file or folder that cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
