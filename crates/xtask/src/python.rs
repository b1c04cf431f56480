//! The Python package: its wheel, its lints and its tests.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};

use crate::steps::{Steps, cargo, command, output, run, with_path};
use crate::workspace;

/// The folder of the virtual environment.
const VENV: &str = "target/python";

/// The oldest systems that a released wheel runs on: those with glibc 2.28.
const PLATFORM: &str = "manylinux_2_28";

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

/// Installs packages in the virtual environment.
fn install(packages: &[&str]) -> anyhow::Result<()> {
    run(command("python3").args(["-m", "venv", VENV]))?;
    run(command(tool("pip")).args(["install", "--quiet", "--upgrade", "pip"]).args(packages))
}

/// Builds what `pip` installs, in `target/python-packages`: a wheel that needs no compiler, and a
/// source archive. Checks that the wheel needs no newer system, and that the archive builds.
/// Returns both.
///
/// # Errors
/// When one of them cannot be built, or the wheel needs a newer system.
pub(crate) fn packages() -> anyhow::Result<Vec<PathBuf>> {
    install(&["maturin", "ziglang", "auditwheel"])?;
    let folder = workspace().join("target/python-packages");
    let _ = std::fs::remove_dir_all(&folder);
    let bin = workspace().join(VENV).join("bin");
    // Zig links with the C library of the platform, and not with the newer one of this machine.
    let build = ["build", "--release", "--zig", "--compatibility", PLATFORM];
    for build in [&build[..], &["sdist"]] {
        let mut maturin = command(tool("maturin"));
        maturin.args(build).args(["--manifest-path", "python/Cargo.toml", "--out"]).arg(&folder);
        run(with_path(&mut maturin, &bin))?;
    }
    let mut made: Vec<PathBuf> = std::fs::read_dir(&folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<_>>()?;
    made.sort();
    let [wheel, archive] = &made[..] else {
        bail!("{}: {} files, expected a wheel and an archive", folder.display(), made.len());
    };
    let said = output(command(tool("auditwheel")).arg("show").arg(wheel))?;
    print!("{said}");
    // Its text is broken into lines.
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let fits = format!("is consistent with the following platform tag: \"{PLATFORM}_");
    ensure!(words.contains(&fits), "{}: expected a wheel for {PLATFORM}", wheel.display());
    let built = workspace().join("target/python-packages-built");
    let mut build = command(tool("pip"));
    run(build.args(["wheel", "--quiet", "--no-deps", "--wheel-dir"]).arg(&built).arg(archive))?;
    std::fs::remove_dir_all(built)?;
    Ok(made)
}

/// Builds a wheel for this machine and returns its path.
pub(crate) fn wheel() -> anyhow::Result<PathBuf> {
    install(&["maturin"])?;
    let wheels = workspace().join(VENV).join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    let build = ["build", "--release", "--manifest-path", "python/Cargo.toml", "--out"];
    run(command(tool("maturin")).args(build).arg(&wheels))?;
    let made = std::fs::read_dir(&wheels)?.filter_map(|entry| Some(entry.ok()?.path()));
    let made: Vec<PathBuf> = made.collect();
    ensure!(made.len() == 1, "{}: {} wheels, expected one", wheels.display(), made.len());
    made.into_iter().next().context("a wheel")
}
