//! A program whose panics abort gets an error when it is compiled, not when a transaction runs
//! again.

use std::path::Path;
use std::process::{Command, Output};

/// Compiles the crate's check of panics for a program with this `strategy`.
fn compiled(strategy: &str) -> Output {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/host/panics.rs");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Command::new(compiler)
        .args(["--crate-type=lib", "--edition=2024", "--emit=metadata"])
        .arg(format!("-Cpanic={strategy}"))
        .arg("--out-dir")
        .arg(folder.path())
        .arg(source)
        .output()
        .unwrap()
}

#[test]
fn panics_that_abort_are_refused_with_the_reason() {
    assert!(compiled("unwind").status.success());
    let refused = compiled("abort");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    assert!(said.contains("ebbtide needs panic = \"unwind\""), "{said}");
    assert!(said.contains("profile in Cargo.toml"), "{said}");
}
