//! `cargo xtask ci`: all that must hold before a change lands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::steps::{Steps, cargo, command, output, run, tool, with_path};
use crate::{python, soak, workspace};

/// Runs all checks in order and stops at the first that fails.
pub(crate) fn ci() -> anyhow::Result<()> {
    let mut steps = Steps::new();
    let result = all(&mut steps);
    steps.end(result)
}

fn all(steps: &mut Steps) -> anyhow::Result<()> {
    source(steps)?;
    steps.begin("tests");
    run(&mut cargo("test --workspace --locked"))?;
    steps.begin("slow tests");
    soak::tests()?;
    examples(steps)?;
    steps.begin("release build");
    run(&mut cargo("build --release --locked --bin ebbtide"))?;
    steps.begin("the library for C and C++");
    run(command("crates/capi/check.sh").arg("dev"))?;
    main_job(steps)?;
    steps.begin("packages of all crates");
    run(&mut cargo(
        "package --workspace --exclude ebbtide-testbed --exclude ebbtide-planted --exclude xtask \
         --no-verify --locked --allow-dirty",
    ))?;
    steps.begin("the orders in which cores meet, tried by loom and shuttle");
    models()?;
    python::check(steps)
}

/// What holds of the source alone.
fn source(steps: &mut Steps) -> anyhow::Result<()> {
    steps.begin("format");
    run(&mut cargo("fmt --all --check"))?;
    steps.begin("lints");
    run(&mut cargo("clippy --workspace --all-targets --locked -- -D warnings"))?;
    // All targets are without the benches that run only if they are named.
    run(&mut cargo("clippy --workspace --bench * --locked -- -D warnings"))?;
    steps.begin("the comparison with other stores builds");
    // A workspace of its own, with their sources.
    run(&mut cargo("check --locked --manifest-path peers/Cargo.toml"))?;
    steps.begin("licences and sources of what is depended on");
    let tools = tool("cargo-deny", "0.20.2")?;
    run(with_path(&mut cargo("deny --locked check bans licenses sources"), &tools))?;
    steps.begin("documentation");
    run(cargo("doc --workspace --no-deps --locked").env("RUSTDOCFLAGS", "-D warnings"))
}

/// The bench and a simulation, briefly.
fn main_job(steps: &mut Steps) -> anyhow::Result<()> {
    steps.begin("the main job, briefly");
    let parent = std::env::var_os("CI_DATA_DIR").map_or_else(workspace, PathBuf::from);
    let data = tempfile::tempdir_in(parent)?;
    let report = data.path().join("report");
    run(cargo("run --release --locked -- bench --dataset 256MiB --rounds 1")
        .args(["--seconds", "0.3", "--data"])
        .arg(data.path().join("ebbtide.data"))
        .arg("--report")
        .arg(&report))?;
    let page = report.join("report.html");
    let bytes = fs::metadata(&page).with_context(|| page.display().to_string())?.len();
    ensure!(bytes > 0, "{}: empty", page.display());
    run(&mut cargo("run --release --locked -- sim --scale 1/256 --jobs 2000 --seeds 1"))
}

/// Programs over the libraries. The tests have built them.
fn examples(steps: &mut Steps) -> anyhow::Result<()> {
    let folder = workspace().join("target");
    steps.begin("a program over the engine");
    run(&mut example("visits")?)?;
    steps.begin("a server's store, filled fast");
    let filled = folder.join("filled");
    let _ = fs::remove_file(&filled);
    run(bench("fill")?.arg(&filled).args(["100000", "64", "64MiB", "32MiB"]))?;
    fs::remove_file(filled)?;
    steps.begin("transactions on more cores than there are");
    run(example("transfers")?.arg(&folder).args(["30", "4"]))?;
    fs::remove_file(folder.join("transfers"))?;
    steps.begin("power that goes at every moment");
    run(bench("power_loss")?.args(["--seeds", "1000000", "--seconds", "60"]))
}

/// The example of this name, as the tests have built it.
fn example(name: &str) -> anyhow::Result<Command> {
    target("example", name)
}

/// The bench of this name with the libraries of the tests, which are quick to build.
fn bench(name: &str) -> anyhow::Result<Command> {
    target("bench", name)
}

/// A program of the workspace. For a package alone, cargo would build its dependencies anew.
fn target(kind: &str, name: &str) -> anyhow::Result<Command> {
    built(&mut cargo(&format!("build --workspace --locked --{kind} {name} --message-format json")))
}

/// Runs the model checks. Only the engine is built anew for them.
fn models() -> anyhow::Result<()> {
    let mut build =
        cargo("rustc --locked -p ebbtide-engine --lib --profile test --features models");
    build.args(["--message-format", "json", "--", "--cfg", "loom", "--cfg", "shuttle"]);
    run(built(&mut build)?.arg("model_checks"))
}

/// The program that a command of cargo builds. It prints its messages as JSON.
fn built(build: &mut Command) -> anyhow::Result<Command> {
    let messages = output(build)?;
    let program = messages.lines().filter_map(executable).next_back();
    Ok(command(program.context("cargo built no program")?))
}

/// The program that a message of cargo names.
fn executable(message: &str) -> Option<&Path> {
    let (_, after) = message.split_once("\"executable\":\"")?;
    after.split_once('"').map(|(path, _)| Path::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_message_is_found() {
        let message = r#"{"reason":"compiler-artifact","executable":"/target/a","fresh":true}"#;
        assert_eq!(executable(message), Some(Path::new("/target/a")));
        assert_eq!(executable(r#"{"executable":null}"#), None);
    }
}
