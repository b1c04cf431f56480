//! Parsers of names. They offer the names to the completions of shells.

use std::ffi::OsStr;
use std::str::FromStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};
use ebbtide_sim::designs;
use ebbtide_trace::Format;
use ebbtide_workloads::Kind;

/// A parser that offers names to completions. It decides alone what is accepted, so a file can
/// stand for a name.
#[derive(Clone)]
pub(crate) struct Named<T> {
    parse: fn(&str) -> Result<T, String>,
    names: Vec<PossibleValue>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Named<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, Error> {
        TypedValueParser::parse_ref(&self.parse, command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().cloned()))
    }
}

fn parsed<T: FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// A parser of `T` that offers `names`.
pub(crate) fn of<T: FromStr<Err: ToString>>(
    names: impl IntoIterator<Item = &'static str>,
) -> Named<T> {
    with(parsed, names)
}

/// The parser `parse`, offering `names`.
pub(crate) fn with<T>(
    parse: fn(&str) -> Result<T, String>,
    names: impl IntoIterator<Item = &'static str>,
) -> Named<T> {
    Named { parse, names: names.into_iter().map(PossibleValue::new).collect() }
}

/// A parser of a design's name or file. It offers the shipped designs with their descriptions.
pub(crate) fn design() -> Named<String> {
    let offered = |design: &&designs::Design| PossibleValue::new(design.name).help(design.about);
    Named { parse: parsed, names: designs::ALL.iter().map(offered).collect() }
}

/// A parser of a program's name.
pub(crate) fn workload() -> Named<Kind> {
    of(Kind::ALL.map(Kind::name))
}

/// A parser of the name of a trace format.
pub(crate) fn format() -> Named<Format> {
    of(Format::ALL.map(Format::name))
}
