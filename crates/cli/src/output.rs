//! Printing and writing the result of a verb.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::Args;
use ebbtide_report::{Report, check_folder};
use serde::Serialize;

use crate::exit::{Failure, print, say};

/// The form of a result: text or JSON, and a page.
#[derive(Args)]
pub(crate) struct Output {
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write a page of charts (report.html) and CSV files into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

impl Output {
    /// Checks, before a long run, that the report can be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.report.as_deref().map_or(Ok(()), |folder| check_folder(folder).map_err(Failure::input))
    }

    /// Prints `report`, and writes its page if requested.
    pub(crate) fn finish(&self, report: &dyn Report) -> Result<(), Failure> {
        finish(report, self.json, self.report.as_deref())
    }
}

/// Prints a result that has no page, as text or as JSON.
pub(crate) fn emit(result: &(impl Display + Serialize), json: bool) -> Result<(), Failure> {
    let text = if json { serde_json::to_string_pretty(result)? + "\n" } else { result.to_string() };
    print(&text)
}

/// Prints `report` as text, or as JSON if `json` is set, and writes its page into `folder`.
pub(crate) fn finish(
    report: &dyn Report,
    json: bool,
    folder: Option<&Path>,
) -> Result<(), Failure> {
    let text = if json { report.json()? + "\n" } else { report.to_string() };
    // The result is printed first, so that it is not lost if the page cannot be written.
    print(&text)?;
    if let Some(folder) = folder {
        let html = Some("html".as_ref());
        for page in report.write(folder)?.iter().filter(|path| path.extension() == html) {
            say(&format!("the report is in {}", page.display()));
        }
    }
    Ok(())
}
