//! A bench on a graph from a file. The graph is read once and stored as the data file. Children
//! with limited DRAM read it from there. A file that is no graph is bad input.

mod common;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use common::{bench, complaint, ebbtide, folder, names};
use serde_json::Value;

/// Writes a graph of 100,000 vertices and a million edges, rotated by `turned` vertices.
fn write_graph(path: &Path, turned: u64) {
    let mut text = String::from("# a ring, and edges into the first vertices\n");
    for vertex in 0..100_000u64 {
        for edge in 0..10 {
            let to = if edge == 0 { vertex + 1 } else { vertex * edge % 1000 } + turned;
            writeln!(text, "{vertex}\t{}", to % 100_000).unwrap();
        }
    }
    fs::write(path, text).unwrap();
}

const ARGUMENTS: [&str; 3] = ["--graph=graph.txt", "--mode=ebbtide", "--json"];

/// Returns the memory of a child under the same DRAM budget and with as much data, but without a
/// graph.
fn resident_mib_without_graph(folder: &Path) -> f64 {
    let mut command = bench(folder);
    command.args(["hash-table", "--mode=ebbtide", "--json"]);
    command.args(["--rounds=1", "--seconds=0.1", "--dataset=18MiB", "--dram=6MiB", "--data=plain"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    let results = report["results"].as_array().expect("results");
    let ebbtide = results.iter().find(|entry| entry["mode"] == "ebbtide").expect("it was run");
    ebbtide["rss_mib"]["median"].as_f64().expect("a number")
}

#[test]
fn both_graph_programs_run_on_a_file_within_their_dram() {
    let folder = folder();
    write_graph(&folder.path().join("graph.txt"), 0);
    let mut command = bench(folder.path());
    command.args(["--rounds=1", "--seconds=0.1", "--dram=6MiB", "--data=data"]).args(ARGUMENTS);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    let results = report["results"].as_array().expect("results");
    let plain_mib = resident_mib_without_graph(folder.path());
    for workload in ["pagerank", "connected-components"] {
        let of_mode = |mode: &str| {
            let entry = |entry: &&Value| entry["workload"] == workload && entry["mode"] == mode;
            results.iter().find(entry).unwrap_or_else(|| panic!("no {workload} in {mode}"))
        };
        for mode in ["dram", "ebbtide"] {
            assert!(of_mode(mode)["jobs_per_s"]["median"].as_f64() > Some(0.0), "{mode}");
        }
        // More than the graph's megabytes beyond a child's that has none would show that it was
        // loaded.
        let rss_mib = of_mode("ebbtide")["rss_mib"]["median"].as_f64().expect("a number");
        assert!(rss_mib < plain_mib + 2.0, "{workload} takes {rss_mib} MiB, {plain_mib} without");
    }
    // 8 bytes an edge and a rank, 16 a row.
    assert_eq!(report["workloads"][0]["pages"], 391 + 1954 + 196);
    assert_eq!(report["config"]["dataset_bytes"], (391 + 3907 + 196) * 4096);
}

#[test]
fn a_graph_that_changed_has_data_of_its_own() {
    let folder = folder();
    let bench = || {
        let mut command = bench(folder.path());
        command.args(["pagerank", "--rounds=1", "--seconds=0.1", "--dram=6MiB", "--data=data"]);
        command.args(ARGUMENTS);
        command
    };
    write_graph(&folder.path().join("graph.txt"), 0);
    assert!(bench().status().unwrap().success());
    let first = fs::read(folder.path().join("data")).unwrap();
    write_graph(&folder.path().join("graph.txt"), 7);
    assert!(bench().status().unwrap().success());
    // Jobs check every word they read: over the old data they would have failed.
    assert_ne!(first[4096..], fs::read(folder.path().join("data")).unwrap()[4096..]);
}

#[test]
fn a_file_that_is_no_graph_is_refused_with_its_line() {
    for (text, expected) in [
        ("0 1\n1 foo\n", "graph.txt:2: expected two vertex numbers"),
        ("", "graph.txt:1: expected an edge, found the end of the file"),
        ("%%MatrixMarket matrix array real general\n", "graph.txt:1: expected '%%MatrixMarket"),
    ] {
        let folder = folder();
        fs::write(folder.path().join("graph.txt"), text).unwrap();
        let mut command = ebbtide(folder.path(), &["bench", "--graph=graph.txt"]);
        let said = complaint(&mut command, 2);
        assert!(said.contains(expected), "{said}");
        assert_eq!(names(folder.path()), ["graph.txt"]);
    }
}

#[test]
fn what_does_not_go_with_a_graph_is_refused() {
    for (arguments, expected) in [
        (["tatp", "--graph=graph.txt"].as_slice(), "'tatp' runs on no graph, only pagerank and"),
        (&["--graph=none.txt"], "none.txt: No such file"),
        (&["--graph=graph.txt", "--dataset=1GiB"], "'--graph <FILE>' cannot be used with"),
        (&["--graph=graph.txt", "--dram=1MiB"], "--dram: 1048576 bytes are more than the dataset"),
    ] {
        let folder = folder();
        fs::write(folder.path().join("graph.txt"), "0 1\n1 2\n").unwrap();
        let mut command = ebbtide(folder.path(), &["bench"]);
        let said = complaint(command.args(arguments), 2);
        assert!(said.contains(expected), "{said}");
        assert_eq!(names(folder.path()), ["graph.txt"]);
    }
}
