//! The Python package: its wheel, its lints and its tests.

use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::steps::{Steps, cargo, command, run};
use crate::workspace;

/// The folder of the virtual environment.
const VENV: &str = "target/python";

fn tool(name: &str) -> PathBuf {
    workspace().join(VENV).join("bin").join(name)
}

/// Checks the format and lints, builds and installs the wheel, and runs the tests.
pub(crate) fn check(steps: &mut Steps) -> anyhow::Result<()> {
    steps.begin("Python: format and lints");
    // Its lock file follows the workspace's crates, which may have new dependencies by now.
    let folder = workspace().join("python");
    run(cargo("fmt --check").current_dir(&folder))?;
    run(cargo("clippy --all-targets -- -D warnings").current_dir(&folder))?;
    steps.begin("Python: wheel");
    let wheel = wheel()?;
    let mut package = wheel.into_os_string();
    package.push("[test]");
    run(command(tool("pip")).args(["install", "--quiet", "--force-reinstall"]).arg(package))?;
    steps.begin("Python: types and tests");
    let mypy = ["--strict", "--config-file", "python/pyproject.toml", "-p", "ebbtide"];
    run(command(tool("mypy")).args(mypy))?;
    run(command(tool("pytest")).args(["-q", "python/tests"]))
}

/// Builds the wheel and returns its path.
pub(crate) fn wheel() -> anyhow::Result<PathBuf> {
    run(command("python3").args(["-m", "venv", VENV]))?;
    run(command(tool("pip")).args(["install", "--quiet", "--upgrade", "pip", "maturin"]))?;
    let wheels = workspace().join(VENV).join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    let build = ["build", "--release", "--manifest-path", "python/Cargo.toml", "--out"];
    run(command(tool("maturin")).args(build).arg(&wheels))?;
    let made = std::fs::read_dir(&wheels)?.filter_map(|entry| Some(entry.ok()?.path()));
    let made: Vec<PathBuf> = made.collect();
    ensure!(made.len() == 1, "{}: {} wheels, expected one", wheels.display(), made.len());
    made.into_iter().next().context("a wheel")
}
