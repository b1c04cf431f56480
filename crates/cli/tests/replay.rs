//! A bench that replays a trace, in every mode and from every form of trace, with answers checked.
//! A trace that cannot be replayed is refused before anything is written.

mod common;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{complaint, ebbtide, folder, names};
use serde_json::Value;

/// Writes a trace in text form: every page of 32 MiB once, then anywhere with every `writes`th
/// access a write.
fn write_trace(path: &Path, writes: Option<u64>) {
    let mut text = String::new();
    for number in 0..20_000u64 {
        let page = if number < 8192 { number } else { number.wrapping_mul(number) * 31 % 8192 };
        let is_read = writes.is_none_or(|every| number % every > 0);
        let address = 0x5555_0000_0000 + page * 0x10_0000 + number % 64 * 64;
        writeln!(text, "{} 0 {address} 8 {}", number * 100, u8::from(is_read)).unwrap();
    }
    fs::write(path, text).unwrap();
}

/// A bench with half the data's size in DRAM. With 6 MiB the kernel killed many paging processes,
/// because their 64 threads take as much. With 8 MiB it killed one while the disk was busy.
fn bench(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = common::bench(folder);
    command.args(["--rounds=1", "--seconds=0.1", "--data=data", "--dram=16MiB"]).args(arguments);
    command
}

fn json(command: &mut Command) -> Value {
    let output = command.arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON value")
}

#[test]
fn every_mode_replays_a_trace() {
    let folder = folder();
    write_trace(&folder.path().join("trace.txt"), Some(3));
    let report = json(&mut bench(folder.path(), &["--trace=trace.txt"]));
    // Pages far apart in the trace lie side by side.
    assert_eq!(report["workloads"][0]["pages"], 8192);
    assert_eq!(report["config"]["dataset_bytes"], 32 << 20);
    let notices = report["notices"].as_array().expect("notices");
    let says = |text: &str| notices.iter().any(|notice| notice.as_str().unwrap().contains(text));
    assert!(says("replay: all 20000 accesses of trace.txt, as 20000 lines"), "{notices:?}");
    for mode in ["dram", "sync", "ebbtide", "paging"] {
        let results = report["results"].as_array().expect("results");
        let Some(result) = results.iter().find(|result| result["mode"] == mode) else {
            assert!(mode == "paging" && says("paging: left out"), "{mode} is missing");
            continue;
        };
        assert_eq!(result["workload"], "replay");
        assert!(result["jobs_per_s"]["median"].as_f64() > Some(0.0), "{mode}");
        if mode == "ebbtide" {
            assert!(result["misses_per_job"]["median"].as_f64() > Some(0.0));
        }
    }
}

#[test]
fn a_replay_that_only_reads_leaves_one_copy_of_the_data_for_the_next() {
    let folder = folder();
    write_trace(&folder.path().join("trace.txt"), None);
    let convert = ["trace", "convert", "trace.txt", "trace.ebt"];
    assert!(ebbtide(folder.path(), &convert).status().unwrap().success());
    for trace in ["--trace=trace.txt", "--trace=trace.ebt"] {
        let output =
            bench(folder.path(), &["--mode=sync,ebbtide", trace]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(&format!("replay: 32 MiB, {}", &trace[8..])), "{text}");
    }
    assert_eq!(names(folder.path()), ["data", "trace.ebt", "trace.txt"]);
}

#[test]
fn a_trace_that_cannot_be_replayed_is_refused_before_anything_is_written() {
    let folder = folder();
    let file = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write_trace(&folder.path().join("trace.txt"), Some(3));
    let convert = ["trace", "convert", "trace.txt", "trace.ebt"];
    assert!(ebbtide(folder.path(), &convert).status().unwrap().success());
    let whole = fs::read(folder.path().join("trace.ebt")).unwrap();
    file("cut.ebt", &whole[..whole.len() - 10]);
    file("foreign", b"\x7fELF is no trace\n");
    file("empty", b"");
    let before = names(folder.path());
    for (arguments, status, expected) in [
        (["--trace=cut.ebt"].as_slice(), 2, "cut.ebt: 20000 entries were read; at byte"),
        (&["--trace=foreign"], 2, "foreign: a program at byte 0, expected a trace"),
        (&["--trace=missing"], 2, "cannot open missing"),
        (&["--trace=empty"], 2, "empty: the trace is empty; expected at least one access"),
        (&["--trace=trace.txt", "tatp"], 2, "cannot be used with"),
        (&["--trace=trace.txt", "--dataset=1GiB"], 2, "cannot be used with"),
    ] {
        let said = complaint(&mut bench(folder.path(), arguments), status);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(names(folder.path()), before);
    }
}
