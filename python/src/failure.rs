//! [`Failure`]: an error on its way to Python.

use pyo3::PyErr;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::import_exception;

import_exception!(ebbtide._errors, InputError);
import_exception!(ebbtide._errors, RunError);

/// Why a call failed. The text is the line that the `ebbtide` command prints.
pub(crate) enum Failure {
    /// The caller's arguments or input.
    Input(String),
    /// A run that failed.
    Run(String),
    /// The caller stopped the run.
    Stopped,
}

impl Failure {
    /// An error in arguments or input.
    pub(crate) fn input(error: impl ToString) -> Failure {
        Failure::Input(one_line(error))
    }

    /// A run that failed.
    pub(crate) fn run(error: impl ToString) -> Failure {
        Failure::Run(one_line(error))
    }

    /// An error that knows whether the input is at fault.
    pub(crate) fn of(is_input: bool, error: impl ToString) -> Failure {
        if is_input { Failure::input(error) } else { Failure::run(error) }
    }
}

fn one_line(error: impl ToString) -> String {
    error.to_string().replace('\n', " ")
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Input(text) => InputError::new_err(text),
            Failure::Run(text) => RunError::new_err(text),
            Failure::Stopped => PyKeyboardInterrupt::new_err("cancelled"),
        }
    }
}
