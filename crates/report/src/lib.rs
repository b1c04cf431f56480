//! Results as text, JSON, HTML pages with charts, CSV and Parquet.
//!
//! A result implements [`PageReport`]: its `Display` is the text for a terminal, its serialised
//! form is the JSON, and [`PageReport::page`] describes the page. This crate does not depend on the
//! results that it reports.
//!
//! * [`Page`]: text, [`Table`]s and charts. [`Page::write`] writes one self-contained HTML file,
//!   and the data of each table and chart as CSV.
//! * [`BarChart`], [`LineChart`] and [`RatioChart`]: the kinds of chart.
//! * [`figure`], [`bytes`], [`microseconds`], [`percent`], [`years`]: formats of quantities.
//! * [`statistics`]: means with confidence intervals.
//! * `write_figures`, with the feature `pdf`: the charts as SVG and PDF files for a paper.
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
pub use scale::suits_log_axis;
pub use table::Table;

/// An error of drawing or writing a report.
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
    /// A value on a logarithmic axis, or in a [`RatioChart`], that is not above zero.
    #[error("chart '{chart}', {item}: {value} has no place on a logarithmic axis")]
    NotPositive {
        /// The title of the chart.
        chart: String,
        /// The series and point.
        item: String,
        /// The value.
        value: f64,
    },
    /// A [`Range`] whose median does not lie between its least and greatest value.
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
        /// The number of columns of the table.
        expected: usize,
    },
    /// A drawing that cannot be converted to PDF.
    #[cfg(feature = "pdf")]
    #[error("chart '{chart}' cannot be written as PDF: {reason}")]
    NoPdf {
        /// The name of the chart's file, without an ending.
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
