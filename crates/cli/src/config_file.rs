//! `--config FILE.toml`: the options of a verb in a file. A key is the long name of an option. The
//! command line overrides the file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use ebbtide_core::find_by_name;
use toml::{Spanned, Value};

use crate::exit::Failure;

/// The option that names the file. The file cannot contain it.
pub(crate) const CONFIG: &str = "config";

/// The key for arguments that are not options: the workloads of a bench.
const WORKLOADS: &str = "workloads";

/// Returns the arguments from the file that `matches` names, if any. `verb` describes the verb of
/// `matches`.
///
/// # Errors
/// When the file cannot be read, or a key or the type of its value is wrong.
pub(crate) fn added(verb: &Command, matches: &ArgMatches) -> Result<Vec<OsString>, Failure> {
    let known = verb.get_arguments().any(|argument| argument.get_id() == CONFIG);
    let path = if known { matches.get_one::<std::path::PathBuf>(CONFIG) } else { None };
    let Some(path) = path else { return Ok(Vec::new()) };
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format!("{shown}: {error}")))?;
    added_by(verb, matches, path, &text)
}

/// As [`added`], for the contents `text` of the file `path`.
pub(crate) fn added_by(
    verb: &Command,
    matches: &ArgMatches,
    path: &Path,
    text: &str,
) -> Result<Vec<OsString>, Failure> {
    let at = |position: usize, problem: String| {
        let line = text[..position].matches('\n').count() + 1;
        Failure::input(format!("{}:{line}: {problem}", path.display()))
    };
    let keys: BTreeMap<Spanned<String>, Spanned<Value>> =
        toml::from_str(text).map_err(|error| {
            let position = error.span().map_or(0, |span| span.start.min(text.len()));
            at(position, error.message().lines().collect::<Vec<_>>().join(", "))
        })?;
    let options: Vec<(&str, &Arg)> = verb
        .get_arguments()
        .filter_map(|argument| match argument.get_long() {
            Some(CONFIG | "help" | "list") => None,
            Some(name) => Some((name, argument)),
            None if argument.is_positional() => Some((WORKLOADS, argument)),
            None => None,
        })
        .collect();
    let mut added = Vec::new();
    for (key, value) in keys {
        let (position, name) = (key.span().start, key.into_inner().replace('_', "-"));
        let argument = find_by_name("option", &name, &options)
            .map_err(|error| at(position, error.to_string()))?;
        if matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine) {
            continue;
        }
        let expected = |expected: &str| at(position, format!("{name}: expected {expected}"));
        added.extend(arguments(&name, argument, value.into_inner()).map_err(expected)?);
    }
    Ok(added.into_iter().map(OsString::from).collect())
}

/// Returns the arguments for one key, or what was expected of its value.
fn arguments(name: &str, argument: &Arg, value: Value) -> Result<Vec<String>, &'static str> {
    let is_flag = matches!(argument.get_action(), ArgAction::SetTrue);
    match (is_flag, value) {
        (true, Value::Boolean(true)) => Ok(vec![format!("--{name}")]),
        (true, Value::Boolean(false)) => Ok(Vec::new()),
        (true, _) => Err("true or false"),
        (false, Value::Array(values)) if matches!(argument.get_action(), ArgAction::Append) => {
            let values = values.into_iter().map(|value| word(name, argument, value));
            values.collect()
        }
        (false, value) => word(name, argument, value).map(|word| vec![word]),
    }
}

fn word(name: &str, argument: &Arg, value: Value) -> Result<String, &'static str> {
    let value = match value {
        Value::String(text) => text,
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(true) => "on".to_string(),
        Value::Boolean(false) => "off".to_string(),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            return Err("a text or a number, or a list where the option can be repeated");
        }
    };
    Ok(if argument.is_positional() { value } else { format!("--{name}={value}") })
}
