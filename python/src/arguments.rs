//! [`Arguments`]: the arguments of a call as text, as a command line has them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;

use ebbtide_study::energy::EnergyTable;

use crate::failure::Failure;

/// Arguments by name. The Python half leaves out those that are `None`.
pub(crate) struct Arguments(pub(crate) HashMap<String, String>);

impl Arguments {
    /// The text of `name`.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of `name`, by the parser that the command line uses.
    ///
    /// # Errors
    /// The parser's message, with the name before it.
    pub(crate) fn value<T: FromStr<Err: ToString>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, Failure> {
        let parse = |text: &str| {
            text.parse()
                .map_err(|error: T::Err| Failure::input(format!("{name}: {}", error.to_string())))
        };
        self.text(name).map(parse).transpose()
    }

    /// A whole number from `least` on.
    ///
    /// # Errors
    /// What was given, and what was expected.
    pub(crate) fn count(&self, name: &str, least: u64) -> Result<Option<u64>, Failure> {
        let parse = |text: &str| {
            let number = text.parse().ok().filter(|number| *number >= least);
            let expected = || {
                Failure::input(format!("{name}: '{text}': expected a whole number from {least} on"))
            };
            number.ok_or_else(expected)
        };
        self.text(name).map(parse).transpose()
    }

    /// A number.
    ///
    /// # Errors
    /// What was given, and what was expected.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Failure> {
        let parse = |text: &str| {
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| {
                let expected = "expected something like 0.5";
                Failure::input(format!("{name}: '{text}' is not a number; {expected}"))
            })
        };
        self.text(name).map(parse).transpose()
    }

    /// The path of `name`.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// Whether `name` was given as true.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// The energy table of the file that `energy` names, or the shipped table.
    ///
    /// # Errors
    /// When the file is no energy table.
    pub(crate) fn energy(&self) -> Result<EnergyTable, Failure> {
        self.path("energy").map_or_else(
            || Ok(EnergyTable::shipped()),
            |file| EnergyTable::read(&file).map_err(Failure::input),
        )
    }
}
