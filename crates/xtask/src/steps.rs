//! [`Steps`]: commands one after the other, each part with a name and the time since the start.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

/// A sequence of named parts.
pub(crate) struct Steps {
    start: Instant,
    part: &'static str,
}

impl Steps {
    /// Begins a sequence now.
    pub(crate) fn new() -> Steps {
        Steps { start: Instant::now(), part: "start" }
    }

    /// Prints the name of the next part.
    pub(crate) fn begin(&mut self, part: &'static str) {
        self.part = part;
        println!("== {part} (at {} s)", self.start.elapsed().as_secs());
    }

    /// Prints how the sequence has ended, and returns its result.
    pub(crate) fn end(&self, result: anyhow::Result<()>) -> anyhow::Result<()> {
        let seconds = self.start.elapsed().as_secs();
        match result {
            Ok(()) => println!("== all passed after {seconds} s"),
            Err(error) => return Err(error.context(format!("{} (at {seconds} s)", self.part))),
        }
        Ok(())
    }
}

/// A command in the workspace's folder.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(super::workspace());
    command
}

/// Cargo in the workspace's folder, with `arguments` separated by spaces.
pub(crate) fn cargo(arguments: &str) -> Command {
    let mut command = command(env!("CARGO"));
    command.args(arguments.split_whitespace());
    command
}

/// Runs a command.
///
/// # Errors
/// When it cannot be started, or fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

/// Runs a command and returns its output as text.
///
/// # Errors
/// As [`run`].
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Installs a tool of cargo of this version into `target/tools`, unless it is there. Returns its
/// folder.
///
/// # Errors
/// When it cannot be installed.
pub(crate) fn tool(name: &str, version: &str) -> anyhow::Result<std::path::PathBuf> {
    let tools = super::workspace().join("target/tools");
    if !tools.join("bin").join(name).exists() {
        // Its own build takes longer than all that it does.
        let mut install = cargo("install --quiet --locked --debug --root target/tools");
        install.args(["--target-dir", "target/tools/build", &format!("{name}@{version}")]);
        run(&mut install)?;
    }
    Ok(tools.join("bin"))
}

/// Puts `folder` in front of the command's search path.
pub(crate) fn with_path<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&path));
    match std::env::join_paths(folders) {
        Ok(path) => command.env("PATH", path),
        Err(_) => command,
    }
}
