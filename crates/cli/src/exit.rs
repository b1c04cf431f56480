//! How the program ends: status 0, 1 (the run failed) or 2 (bad arguments or input).

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why a verb did not do what was asked.
pub(crate) struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// The user's arguments or input are at fault.
    pub(crate) fn input(error: impl ToString) -> Failure {
        Failure { message: error.to_string(), status: 2 }
    }

    /// The run is.
    pub(crate) fn run(error: impl ToString) -> Failure {
        Failure { message: error.to_string(), status: 1 }
    }

    /// Says so in one line.
    pub(crate) fn report(self) -> ExitCode {
        eprintln!("ebbtide: {}", self.message.replace('\n', " "));
        ExitCode::from(self.status)
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::run(error)
    }
}

/// Prints a result on standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever read it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(Failure::run),
    }
}
