//! `ebbtide man` and `ebbtide completions`.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::{Failure, print};

#[derive(Args)]
pub(crate) struct ManArguments {
    /// Write the page of every verb into this folder instead of printing the page of `ebbtide`
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct CompletionArguments {
    /// Shell: bash, elvish, fish, powershell or zsh
    shell: Shell,
}

/// Prints the manual page, or writes all of them.
pub(crate) fn man(arguments: &ManArguments, command: Command) -> Result<(), Failure> {
    match &arguments.folder {
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            print(&String::from_utf8_lossy(&page))
        }
        Some(folder) => std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(command, folder))
            .map_err(|error| Failure::run(format!("cannot write {}: {error}", folder.display()))),
    }
}

/// Prints the completions of verbs and options for a shell.
pub(crate) fn completions(
    arguments: &CompletionArguments,
    mut command: Command,
) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "ebbtide", &mut script);
    print(&String::from_utf8_lossy(&script))
}
