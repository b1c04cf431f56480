//! How the program ends: status 0, 1 (the run failed) or 2 (bad arguments or input).

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use ebbtide_trace::TraceError;

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

    /// A trace is: it cannot be read whole, or is none.
    pub(crate) fn trace(error: TraceError) -> Failure {
        if error.is_cut_short() { Failure::run(error) } else { Failure::input(error) }
    }

    /// Of a run whose error says whether the user's input is at fault.
    pub(crate) fn of(is_input: bool, error: impl ToString) -> Failure {
        if is_input { Failure::input(error) } else { Failure::run(error) }
    }

    /// Everything was said already.
    pub(crate) fn silent(status: u8) -> Failure {
        Failure { message: String::new(), status }
    }

    /// Says so in one line.
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

/// Prints the help or version that was asked for, or says in one line what is wrong with the
/// arguments.
pub(crate) fn report_arguments(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Whoever asked does not listen: nothing is left to say.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => Failure::input(one_line(&error.to_string())).report(),
    }
}

/// What clap says in several lines, without usage and the advice to look at the help.
fn one_line(message: &str) -> String {
    let said = message
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .map(|line| line.trim_start_matches("error: ").trim_start_matches("tip: "));
    said.collect::<Vec<_>>().join("; ")
}

/// Says something in one line on standard error.
pub(crate) fn say(message: &str) {
    // There is nowhere left to complain if this fails.
    let _ = writeln!(io::stderr(), "ebbtide: {}", message.replace('\n', " "));
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
