//! Runs C programs against the library: the examples and the ones of `tests/c`. They are compiled
//! with the C compiler that links Rust's programs (`CC`, or `cc`).

use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command to its end and returns its output.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (&output.stdout, &output.stderr);
    let text = format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err));
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text
}

/// Compiles `source` against the library that was built with this test.
fn compile(source: &Path, into: &Path) -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let libraries = test.parent().expect("a folder");
    let program = into.join(source.file_stem().expect("a name"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-o"]).arg(&program);
    command.arg("-I").arg(folder().join("include")).arg(source);
    command.arg("-L").arg(libraries).args(["-lebbtide_capi", "-lpthread"]);
    command.arg(format!("-Wl,-rpath,{}", libraries.display()));
    output(&mut command);
    program
}

/// Returns the output of a program of `tests/c`.
fn run(name: &str) -> String {
    let place = tempfile::tempdir().expect("a folder");
    let program = compile(&folder().join("tests/c").join(name), place.path());
    output(Command::new(program).arg(place.path().join("store")))
}

#[test]
fn visits_go_on_where_they_stopped() {
    let place = tempfile::tempdir().expect("a folder");
    let program = compile(&folder().join("examples/visits.c"), place.path());
    let store = place.path().join("visits.store");
    let said =
        |visits| format!("{visits} visits of pages, {visits} in all, after 201 jobs of this run\n");
    assert_eq!(output(Command::new(&program).arg(&store)), said(200));
    assert_eq!(output(Command::new(&program).arg(&store)), said(400));
}

#[test]
fn words_are_counted_over_runs_and_listed_in_order() {
    let place = tempfile::tempdir().expect("a folder");
    let program = compile(&folder().join("examples/words.c"), place.path());
    let store = place.path().join("words.ebb");
    let run = |words: &[&str]| output(Command::new(&program).arg(&store).args(words));
    assert_eq!(run(&["tide", "ebb", "tide"]), "ebb 1\ntide 2\n");
    assert_eq!(run(&["flood", "ebb"]), "ebb 2\nflood 1\ntide 2\n");
}

#[test]
fn jobs_run_at_once() {
    let place = tempfile::tempdir().expect("a folder");
    let program = compile(&folder().join("examples/jobs.c"), place.path());
    let said = output(Command::new(&program).arg(place.path().join("jobs.store")));
    assert_eq!(said, "the sum of squares is 328350\n");
}

#[test]
fn wrong_calls_have_codes_and_texts() {
    assert_eq!(run("bad_input.c"), "every wrong call had its code\n");
}

#[test]
fn a_device_error_is_the_code_of_the_call_that_met_it() {
    assert_eq!(run("device_errors.c"), "device errors were codes\n");
}

#[test]
fn transactions_are_whole_after_a_kill() {
    assert_eq!(run("transactions.c"), "transactions were whole after a kill\n");
}

#[test]
fn typed_maps_have_values_of_every_size() {
    assert_eq!(run("typed_maps.c"), "maps had values of every size\n");
}

#[test]
fn maps_have_keys_and_values_of_bytes() {
    assert_eq!(run("maps.c"), "maps had keys and values of bytes\n");
}

#[test]
fn transactions_that_waited_know_their_job() {
    assert_eq!(run("sharing.c"), "transactions ran after they had waited\n");
}

#[test]
fn threads_share_an_engine_until_it_is_closed() {
    assert_eq!(run("threads.c"), "threads shared the engine\n");
}
