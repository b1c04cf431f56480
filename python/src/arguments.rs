//! [`Arguments`]: the arguments of a call as text, in the form of a command line.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;

use ebbtide_study::energy::EnergyTable;

use crate::failure::Failure;

/// Arguments by name. The Python half omits `None`.
pub(crate) struct Arguments(pub(crate) HashMap<String, String>);

impl Arguments {
    /// Returns the text of `name`.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the value of `name`, parsed as on the command line.
    ///
    /// # Errors
    /// Returns the parser's error, with the name before it.
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

    /// Returns a whole number of at least `least`.
    ///
    /// # Errors
    /// Returns an error with the given and the expected value.
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

    /// Returns a finite number.
    ///
    /// # Errors
    /// Returns an error with the given and the expected value.
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

    /// Returns the path of `name`.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// True if `name` was given as true.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// Returns the energy table of the file that `energy` names, or the shipped table.
    ///
    /// # Errors
    /// Returns an error if the file is no energy table.
    pub(crate) fn energy(&self) -> Result<EnergyTable, Failure> {
        self.path("energy").map_or_else(
            || Ok(EnergyTable::shipped()),
            |file| EnergyTable::read(&file).map_err(Failure::input),
        )
    }
}
