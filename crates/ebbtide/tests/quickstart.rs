//! The quickstart works as README shows it, and has at most 15 lines of a user's code.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_quickstart_makes_a_store_and_finds_it_again() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    // `cargo test -p ebbtide` builds the examples before it runs tests.
    let own = env::current_exe().expect("this program");
    let example =
        own.parent().and_then(Path::parent).expect("a folder").join("examples/quickstart");
    for count in 1..3 {
        let output = Command::new(&example).current_dir(folder.path()).output();
        let output = output.expect("the example is built");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.starts_with(&format!("Ada came {count} times")), "{said}");
    }
}

#[test]
fn the_readme_shows_the_quickstart() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = fs::read_to_string(root.join("examples/quickstart.rs")).expect("the example");
    let code = example.split_once("\n\n").expect("a comment before the code").1;
    let lines = code.lines().filter(|line| !line.trim().is_empty());
    assert!(lines.count() <= 15, "a quickstart is short");
    let readme = fs::read_to_string(root.join("../../README.md")).expect("README");
    assert!(readme.contains(code), "README shows another program");
}
