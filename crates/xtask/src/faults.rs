//! `cargo xtask faults`: plants faults in a copy of the simulator. A test must find each.
//!
//! A patch plants one fault. The fault shows only while [`CHOICE`] names it, so one build has all.
//! The second line of a patch names the package, the test program and the test that must fail.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, bail, ensure};
use diffy::patch_set::{ParseOptions, PatchSet};
use walkdir::WalkDir;

use crate::steps::{cargo, run};
use crate::workspace;

/// The folder of the patches.
const PATCHES: &str = "crates/study/tests/physics/faults";

/// The environment variable that names the fault of a run.
const CHOICE: &str = "EBBTIDE_FAULT";

/// A patch, and what finds its fault.
struct Fault {
    name: String,
    package: String,
    program: String,
    test: String,
    patch: String,
}

/// Plants all faults in a copy of the workspace, and checks that the named test finds each.
pub(crate) fn run_all() -> anyhow::Result<()> {
    let faults = faults()?;
    let copy = workspace().join("target/faults");
    copy_workspace(&copy, &planted(&faults)?)?;
    for (package, program) in [("ebbtide-study", "physics"), ("ebbtide-sim", "no_write_lost")] {
        println!("== {package} {program} without a fault");
        run(&mut test(&copy, package, program, ""))?;
    }
    for Fault { name, package, program, test: wanted, .. } in &faults {
        let mut tested = test(&copy, package, program, name);
        let output = tested.args(["--exact", wanted]).output().context("cargo does not start")?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(said.contains("running 1 test"), "{name}: {program} has no test {wanted}");
        ensure!(!output.status.success(), "{name} goes unnoticed by {wanted}");
        println!("== {name}: found by {wanted}");
    }
    Ok(())
}

/// Cargo's test of the copy while it has the fault `name`. The copy shares the libraries that the
/// workspace has built.
fn test(copy: &Path, package: &str, program: &str, name: &str) -> Command {
    let mut command = cargo("test --locked --quiet -p");
    command.current_dir(copy).args([package, "--test", program, "--"]);
    command.env("CARGO_TARGET_DIR", workspace().join("target")).env(CHOICE, name);
    command
}

/// Reads all faults, by name.
fn faults() -> anyhow::Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for entry in fs::read_dir(workspace().join(PATCHES))? {
        let path = entry?.path();
        let patch = fs::read_to_string(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let found_by = patch.lines().nth(1).and_then(|line| line.strip_prefix("Found by: "));
        let words: Vec<&str> = found_by.unwrap_or_default().split(' ').collect();
        let [package, program, test] = words[..] else {
            bail!("{name}: its second line must say 'Found by: PACKAGE PROGRAM TEST'");
        };
        let [package, program, test] = [package, program, test].map(str::to_string);
        faults.push(Fault { name, package, program, test, patch });
    }
    faults.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(faults)
}

/// Returns the files that the faults change, with all faults.
fn planted(faults: &[Fault]) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let mut changed = BTreeMap::new();
    for Fault { name, patch, .. } in faults {
        let start = patch.find("--- ").with_context(|| format!("{name}: it has no hunk"))?;
        for file in PatchSet::parse(&patch[start..], ParseOptions::unidiff()) {
            let file = file.map_err(|error| anyhow!("{name}: {error}"))?;
            let hunks = file.patch().as_text().with_context(|| format!("{name}: binary"))?;
            let path = PathBuf::from(hunks.modified().unwrap_or_default().trim_start_matches("b/"));
            let before = match changed.remove(&path) {
                Some(text) => text,
                None => fs::read_to_string(workspace().join(&path))
                    .with_context(|| format!("{name}: {}", path.display()))?,
            };
            let after = diffy::apply(&before, hunks)
                .map_err(|error| anyhow!("{name} does not apply to {}: {error}", path.display()))?;
            changed.insert(path, after);
        }
    }
    Ok(changed)
}

/// Copies the workspace to `copy`, with the `changed` files. Leaves files alone that are the same,
/// so that cargo builds only what changed.
fn copy_workspace(copy: &Path, changed: &BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    let root = workspace();
    let kept = |name: &str| !matches!(name, "target" | ".git");
    let files = WalkDir::new(&root)
        .into_iter()
        .filter_entry(|entry| entry.depth() != 1 || kept(&entry.file_name().to_string_lossy()));
    for entry in files {
        let entry = entry?;
        if !entry.file_type().is_file() {
            continue;
        }
        let path = entry.path().strip_prefix(&root)?;
        let bytes = match changed.get(path) {
            Some(text) => text.clone().into_bytes(),
            None => fs::read(entry.path())?,
        };
        let to = copy.join(path);
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        fs::write(to, bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_applies_and_names_a_test_that_exists() {
        let faults = faults().unwrap();
        assert!(faults.len() > 10, "{} faults", faults.len());
        let changed = planted(&faults).unwrap();
        for Fault { name, test, .. } in &faults {
            let fault = format!("fault == \"{name}\"");
            assert!(
                changed.values().any(|text| text.contains(&fault)),
                "{name} is never asked for"
            );
            let function = format!("fn {}()", test.rsplit("::").next().unwrap());
            let tests = ["crates/study/tests/physics", "crates/sim/tests"];
            let mut files = tests.iter().flat_map(|tests| WalkDir::new(workspace().join(tests)));
            let found = files.any(|file| {
                fs::read_to_string(file.unwrap().path()).is_ok_and(|text| text.contains(&function))
            });
            assert!(found, "{name}: there is no test {test}");
        }
    }
}
