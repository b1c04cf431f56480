//! Printing and writing the result of a verb.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use ebbtide_report::{Report, check_folder, write_figures};
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
    /// Also write each chart of that page as SVG and PDF, for a paper, into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) figures: Option<PathBuf>,
}

impl Output {
    /// Checks, before a long run, that the report and its figures can be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let mut folders = [&self.report, &self.figures].into_iter().flatten();
        folders.try_for_each(|folder| check_folder(folder).map_err(Failure::input))
    }

    /// Prints `report`, and writes its page and its figures if requested.
    pub(crate) fn finish(&self, report: &dyn Report) -> Result<(), Failure> {
        let text = if self.json { report.json()? + "\n" } else { report.to_string() };
        // The result is printed first, so that it is not lost if the page cannot be written.
        print(&text)?;
        if let Some(folder) = &self.report {
            let html = Some("html".as_ref());
            for page in report.write(folder)?.iter().filter(|path| path.extension() == html) {
                say(&format!("the report is in {}", page.display()));
            }
        }
        if let Some(folder) = &self.figures {
            let written = write_figures(&report.pages(), folder)?.len();
            say(&format!("{written} files of figures are in {}", folder.display()));
        }
        Ok(())
    }
}

/// Refuses to overwrite an Ebbtide data file with a result.
pub(crate) fn check_is_no_store(file: &Path) -> Result<(), Failure> {
    let mut start = [0; STORE_MARK.len()];
    // What cannot be opened is told when it is written.
    let is_store = file.is_file()
        && File::open(file).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == STORE_MARK;
    match is_store {
        true => {
            let name = file.display();
            Err(Failure::input(format!(
                "{name}: holds an Ebbtide data file, expected another name"
            )))
        }
        false => Ok(()),
    }
}

/// First bytes of an Ebbtide data file.
const STORE_MARK: [u8; 8] = *b"EBBTIDE\0";

/// Prints a result that has no page, as text or as JSON.
pub(crate) fn emit(result: &(impl Display + Serialize), json: bool) -> Result<(), Failure> {
    let text = if json { serde_json::to_string_pretty(result)? + "\n" } else { result.to_string() };
    print(&text)
}
