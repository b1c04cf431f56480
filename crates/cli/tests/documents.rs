//! Every command of README and the documents works as it stands: it is run here, or is listed with
//! the reason why not.

mod common;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::folder;

/// Commands that are not run, by how they begin, and why.
const LISTED: [(&str, &str); 41] = [
    ("cargo run --release -- bench ", "runs for minutes; other tests run small benches"),
    ("cargo run --release -- serve ", "a server, which does not end; tests/serve.rs runs it"),
    ("cargo run --release -- load ", "needs a server; tests/serve.rs runs it"),
    ("cargo run --release -- sim ", "runs for two minutes; tests/sim.rs runs small machines"),
    ("cargo run --release -- compare ", "runs for minutes; tests/compare.rs runs small machines"),
    ("cargo run --release -- reproduce ", "runs for minutes; tests/results.rs runs parts"),
    ("ebbtide serve ", "a server, which does not end; tests/serve.rs runs it"),
    ("ebbtide load ", "needs a server; tests/serve.rs runs it"),
    ("ebbtide import ", "needs a server and a file; tests/serve.rs runs it"),
    ("ebbtide export ", "needs a server; tests/serve.rs runs it"),
    ("ebbtide sim #", "runs for two minutes; tests/sim.rs runs small machines"),
    ("ebbtide sim --design os-swap ", "runs for a minute; tests/sim.rs runs small machines"),
    ("ebbtide compare ", "runs for minutes; tests/compare.rs runs small machines"),
    ("ebbtide sweep ", "runs for minutes; tests/sweep.rs runs small machines"),
    ("ebbtide reproduce ", "runs for minutes; tests/results.rs runs parts"),
    ("ebbtide doctor --write ", "measures for a minute, with 2 GiB of files"),
    ("ebbtide bench --trace ", "measures for minutes; tests/replay.rs runs small benches"),
    ("ebbtide size --machine published ", "runs for a minute; tests/size.rs runs small programs"),
    ("ebbtide trace -o ", "needs Valgrind; tests/trace.rs runs it"),
    ("ebbtide size #", "runs for a minute without optimisation"),
    ("cargo run --release -- size ", "runs for a minute without optimisation"),
    ("cargo test ", "it runs this test"),
    ("cargo build ", "a build"),
    ("cargo bench --no-run ", "a build"),
    ("cargo install ", "a build, and writes to the user's folder"),
    ("cargo doc ", "a build"),
    ("cargo rustc ", "a build; crates/capi/check.sh runs it"),
    ("cargo cinstall ", "needs cargo-c; crates/capi/check.sh --cargo-c runs it"),
    ("PROPTEST_RNG_SEED=7 cargo test ", "it runs tests"),
    ("EBBTIDE_DEVICE_PATH=aio cargo test ", "it runs tests"),
    ("EBBTIDE_FUZZ_SECONDS=1800 cargo test ", "runs for half an hour"),
    (".ci/run", "runs for half an hour, and runs this test"),
    ("crates/capi/install.sh ", "writes to /usr/local; crates/capi/check.sh runs it"),
    ("ldconfig", "needs root"),
    ("cc ", "needs an installed library; crates/capi/check.sh runs it"),
    ("c++ ", "needs a built library; crates/capi/check.sh runs it"),
    ("./words ", "needs an installed library; crates/capi/check.sh runs it"),
    ("GUEST_SUITE=", "needs a virtual machine"),
    ("pip install ", "builds the wheel; .ci/run does so"),
    ("python3 -m venv ", "builds the wheel; .ci/run does so"),
    ("target/python/bin/pytest ", "needs the wheel; .ci/run runs it"),
];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace")
}

/// The documents that tell of commands.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    for folder in ["docs", "docs/internals", "python"] {
        let files = fs::read_dir(root().join(folder)).expect("a folder").flatten();
        found.extend(files.map(|file| file.path()));
    }
    found.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    found.sort();
    found
}

/// The commands of a document's shell blocks, with their comments.
fn commands(document: &Path) -> Vec<String> {
    let text = fs::read_to_string(document).expect("a document");
    let (mut inside, mut found) = (false, Vec::<String>::new());
    let mut goes_on = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside && matches!(line, "```sh" | "```bash" | "```console");
            continue;
        }
        if !inside || line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let part = line.trim_end().trim_end_matches('\\').trim();
        match found.last_mut() {
            Some(command) if goes_on => *command = format!("{command} {part}"),
            _ => found.push(part.to_string()),
        }
        goes_on = line.trim_end().ends_with('\\');
    }
    found
}

/// A command with one space between its words, as [`LISTED`] has it.
fn single_spaced(command: &str) -> String {
    format!("{} ", command.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn is_listed(command: &str) -> bool {
    LISTED.iter().any(|(start, _)| single_spaced(command).starts_with(start))
}

/// Runs the commands of a document that are not listed one after the other, in a folder where
/// `ebbtide` is this program. Returns those that failed.
fn failures(document: &Path) -> Vec<String> {
    let folder = folder();
    symlink(root().join("traces"), folder.path().join("traces")).expect("a link");
    let program = Path::new(env!("CARGO_BIN_EXE_ebbtide"));
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().expect("a folder").display());
    let mut failures = Vec::new();
    for command in commands(document).iter().filter(|command| !is_listed(command)) {
        let plain = command.replace("cargo run --release --", "ebbtide");
        let mut shell = Command::new("sh");
        shell.args(["-c", &plain]).current_dir(folder.path()).env("PATH", &path);
        let output = shell.env("XDG_CACHE_HOME", "/dev/null").output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || said.contains("still warming: 0%") {
            failures.push(format!("{command}: {said}"));
        }
    }
    failures
}

#[test]
fn every_command_of_the_documents_works_or_is_listed() {
    let failed: Vec<String> = documents().iter().flat_map(|document| failures(document)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_listed_command_is_in_a_document() {
    let commands: Vec<String> =
        documents().iter().flat_map(|document| commands(document)).collect();
    let commands: BTreeSet<String> =
        commands.iter().map(|command| single_spaced(command)).collect();
    for (start, _) in LISTED {
        let is_there = commands.iter().any(|command| command.starts_with(start));
        assert!(is_there, "no document has '{start}'");
    }
}
