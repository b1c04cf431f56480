//! `ebbtide designs`.

use std::fmt::Write;

use clap::Args;
use ebbtide_sim::designs::{self, Description, Design};
use serde_json::json;

use crate::exit::{Failure, print};
use crate::names;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Design to describe, by name or as a TOML file: its parts, and the source of every parameter
    #[arg(
        value_name = "NAME|FILE.toml",
        value_parser = names::design(),
        hide_possible_values = true
    )]
    design: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let text = match (&arguments.design, arguments.json) {
        (None, false) => list(),
        (None, true) => {
            let entry =
                |design: &&Design| json!({ "design": design.name, "description": design.about });
            let entries: Vec<_> = designs::ALL.iter().map(entry).collect();
            serde_json::to_string_pretty(&entries)? + "\n"
        }
        (Some(given), json) => {
            let described = designs::describe(given).map_err(Failure::input)?;
            if json { serde_json::to_string_pretty(&described)? + "\n" } else { table(&described) }
        }
    };
    print(&text)
}

/// Whether there is a design of this name.
pub(crate) fn is_shipped(name: &str) -> bool {
    designs::find(name).is_ok()
}

fn list() -> String {
    let width = designs::ALL.iter().map(|design| design.name.len()).max().unwrap_or(0);
    let entry = |design: &&Design| format!("{:<width$}  {}\n", design.name, design.about);
    designs::ALL.iter().map(entry).collect()
}

fn table(described: &Description) -> String {
    let Description { design, description, core_side, memory_side, sources } = described;
    let mut text = format!(
        "{design}: {description}\n\ncore side    {core_side}\nmemory side  {memory_side}\n\n"
    );
    for note in &sources.notes {
        text.push_str(note);
        text.push('\n');
    }
    let key_width = sources.parameters.iter().map(|p| p.key.len()).max().unwrap_or(0);
    let value_width = sources.parameters.iter().map(|p| p.value.len()).max().unwrap_or(0);
    text.push('\n');
    for parameter in &sources.parameters {
        let line = format!(
            "{:<key_width$}  {:<value_width$}  {}",
            parameter.key, parameter.value, parameter.source
        );
        // Text into a string does not fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
