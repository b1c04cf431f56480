//! Exit status of the program: 0, 1 (the run failed), 2 (bad arguments or input) or 130 (stopped by
//! Ctrl-C).

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use ebbtide_trace::TraceError;

/// Exit status after Ctrl-C, as shells report it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a verb failed.
pub(crate) struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// An error in the user's arguments or input: status 2.
    pub(crate) fn input(error: impl ToString) -> Failure {
        Failure { message: error.to_string(), status: 2 }
    }

    /// A run that failed: status 1.
    pub(crate) fn run(error: impl ToString) -> Failure {
        Failure { message: error.to_string(), status: 1 }
    }

    /// An error of a trace: bad input, unless it cannot be read from the disk.
    pub(crate) fn trace(error: TraceError) -> Failure {
        Failure::of(error.is_input(), error)
    }

    /// An error caused by the user's input, if `is_input`, or by the run.
    pub(crate) fn of(is_input: bool, error: impl ToString) -> Failure {
        if is_input { Failure::input(error) } else { Failure::run(error) }
    }

    /// The failure, of `path`.
    pub(crate) fn about(mut self, path: &Path) -> Failure {
        if !self.message.is_empty() {
            self.message = format!("{}: {}", path.display(), self.message);
        }
        self
    }

    /// Returns the failure with `hint` after its message.
    pub(crate) fn with(mut self, hint: Option<String>) -> Failure {
        if let Some(hint) = hint.filter(|_| !self.message.is_empty()) {
            self.message += &format!("; {hint}");
        }
        self
    }

    /// Returns the failure with the status of Ctrl-C, if the run was stopped by it.
    pub(crate) fn interrupted_if(mut self, stopped: bool) -> Failure {
        if stopped && self.status == 1 {
            self.status = INTERRUPTED;
        }
        self
    }

    /// A failure that has been reported already.
    pub(crate) fn silent(status: u8) -> Failure {
        Failure { message: String::new(), status }
    }

    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Prints the message in one line and returns the exit status.
    pub(crate) fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            say(&self.message);
        }
        ExitCode::from(self.status)
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::run(error)
    }
}

/// Prints the requested help or version, or returns the error in the arguments as one line.
pub(crate) fn arguments(error: clap::Error) -> Failure {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // The output is closed: there is nothing else to do.
            let _ = error.print();
            Failure::silent(0)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Failure::silent(2)
        }
        _ => Failure::input(one_line(&error.to_string())),
    }
}

/// Returns a message of clap in one line. Removes the usage, the pointer to the help, and the tip
/// that every option can be a value: no value here looks like an option.
fn one_line(message: &str) -> String {
    let said = message
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty() && !line.starts_with("tip: to pass '"))
        .map(|line| line.trim_start_matches("error: ").trim_start_matches("tip: "));
    said.fold(String::new(), |line, part| match line.as_str() {
        "" => part.to_string(),
        before if before.ends_with(':') => format!("{before} {part}"),
        before => format!("{before}; {part}"),
    })
}

/// Prints a message in one line on standard error.
pub(crate) fn say(message: &str) {
    // A failure to write to standard error cannot be reported.
    let _ = writeln!(io::stderr(), "ebbtide: {}", message.replace('\n', " "));
}

/// Prints a result on standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(Failure::run),
    }
}
