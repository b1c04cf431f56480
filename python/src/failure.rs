//! [`Failure`]: an error on its way to Python.

use std::error::Error;
use std::io;

use pyo3::PyErr;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::import_exception;

import_exception!(ebbtide._errors, IndexingError);
import_exception!(ebbtide._errors, InputError);
import_exception!(ebbtide._errors, MissingFileError);
import_exception!(ebbtide._errors, RunError);

/// Reason why a call failed. The text is the line that the `ebbtide` command prints, with the
/// names of Python's arguments.
pub(crate) enum Failure {
    /// Wrong arguments or input.
    Input(String),
    /// An index out of range.
    Index(String),
    /// A file of the caller that does not exist.
    Missing(String),
    /// A run that failed.
    Run(String),
    /// The caller stopped the run.
    Stopped,
}

impl Failure {
    /// Returns an error in arguments or input.
    pub(crate) fn input(error: impl ToString) -> Failure {
        Failure::Input(one_line(error))
    }

    /// Returns the error of a run.
    pub(crate) fn run(error: impl ToString) -> Failure {
        Failure::Run(one_line(error))
    }

    /// Returns an input error if `is_input`, or the error of a run.
    pub(crate) fn of(is_input: bool, error: impl Error + 'static) -> Failure {
        match is_input {
            true if is_missing(&error) => Failure::Missing(one_line(error)),
            true => Failure::input(error),
            false => Failure::run(error),
        }
    }
}

/// True if the error is caused by a missing file.
fn is_missing(error: &(dyn Error + 'static)) -> bool {
    let mut error = Some(error);
    while let Some(found) = error {
        let kind = found.downcast_ref::<io::Error>().map(io::Error::kind);
        if kind == Some(io::ErrorKind::NotFound) {
            return true;
        }
        error = found.source();
    }
    false
}

/// Options of the command that its errors name.
const OPTIONS: [&str; 13] = [
    "set",
    "slo",
    "load",
    "cores",
    "min-lifetime",
    "job",
    "miss-interval",
    "dram-price",
    "flash-price",
    "ssd",
    "scale",
    "jobs",
    "dram",
];

fn one_line(error: impl ToString) -> String {
    let line = error.to_string().replace('\n', " ");
    let line = line.replace("or --force to run", "or force=True to run");
    let line = line.replace("; --force does not change that", "");
    let line = line.replace(", or a format named with --format", "");
    OPTIONS.iter().fold(line, |line, option| {
        let ends = [" ", ":", ";", ","];
        ends.iter().fold(line, |line, end| {
            let named = format!("--{option}{end}");
            line.replace(&named, &format!("{}{end}", option.replace('-', "_")))
        })
    })
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Input(text) => InputError::new_err(text),
            Failure::Index(text) => IndexingError::new_err(text),
            Failure::Missing(text) => MissingFileError::new_err(text),
            Failure::Run(text) => RunError::new_err(text),
            Failure::Stopped => PyKeyboardInterrupt::new_err("cancelled"),
        }
    }
}
