//! The developers' commands: `cargo xtask COMMAND`.

mod lines;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

/// The developers' commands of Ebbtide.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Counts the lines of production code of each crate: without tests, benches, examples, comments and
    /// blank lines.
    Lines(lines::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Lines(arguments) => lines::run(&arguments),
    }
}

/// Returns the folder of the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
