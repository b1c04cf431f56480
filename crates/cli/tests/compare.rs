//! `ebbtide compare`: every design on the same work, by program and by trace.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{complaint, ebbtide, folder, names};
use ebbtide_sim::designs::ALL;
use serde_json::Value;

/// A comparison that takes seconds: two cores, 64 MiB of data, 2 MiB of DRAM.
fn small(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = ebbtide(folder, &["compare", "--scale=1/1"]);
    command.args([
        "--set=cores.count=2",
        "--set=llc.size=256KiB",
        "--set=dataset.size=64MiB",
        "--set=dram_cache.size=2MiB",
        "--set=switch.threads=8",
    ]);
    command.args(arguments);
    command
}

fn json(command: &mut Command) -> Value {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON value")
}

fn rows(comparison: &Value) -> &[Value] {
    comparison["designs"].as_array().expect("a list")
}

fn row<'a>(comparison: &'a Value, design: &str) -> &'a Value {
    rows(comparison).iter().find(|row| row["design"] == design).expect("the design was run")
}

#[test]
fn a_trace_of_any_size_leaves_no_design_out_for_its_size() {
    let folder = folder();
    let line = |n: u64| format!("{} 0 {} 64 {}\n", n * 100, n * 7 % 1500 * 4096, n % 2);
    let text: String = (0..3_000).map(line).collect();
    fs::write(folder.path().join("t.txt"), text).expect("room");
    let arguments = ["compare", "--trace=t.txt", "--design=flatflash", "--json"];
    let found = json(&mut ebbtide(folder.path(), &arguments));
    assert_eq!(found["left_out"].as_array().map(Vec::len), Some(0), "{}", found["left_out"]);
    assert_eq!(row(&found, "flatflash")["design"], "flatflash");
}

#[test]
fn every_design_does_the_same_work_on_the_same_machine() {
    let folder = folder();
    let all = json(&mut small(folder.path(), &["array-swap", "--jobs=300", "--json"]));
    let left_out = all["left_out"].as_array().expect("a list").len();
    assert_eq!(rows(&all).len() + left_out, ALL.len());
    assert!(left_out < 3, "{}", all["left_out"]);
    let work = all["work_us"].as_f64().expect("a time");
    for row in rows(&all) {
        let outcome = &row["outcome"];
        let name = &row["design"];
        assert_eq!(outcome["config"]["cores"]["count"], 2, "{name}");
        assert_eq!(outcome["config"]["dataset"]["size"], "64MiB", "{name}");
        assert_eq!(outcome["warm_up"]["work_ns"].as_f64(), Some(work * 1e3), "{name}");
        assert!(row["throughput_per_s"].as_f64() > Some(0.0), "{name}");
        let (p50, p99) = (row["p50_us"].as_f64(), row["p99_us"].as_f64());
        assert!(p50 > Some(0.0) && p99 >= p50, "{name}");
        let described = name != "optane-p";
        assert_eq!(row["energy"]["total_uj"].as_f64() > Some(0.0), described, "{name}");
    }
    let dram = row(&all, "dram-only");
    assert_eq!((&dram["ratio_to_dram"], &dram["effectiveness"]), (&1.0.into(), &1.0.into()));
    assert!(dram["lifetime"].is_null() && dram["price"]["flash_gib"] == 0.0);
    let astriflash = row(&all, "astriflash");
    assert!(astriflash["saving"].as_f64() > Some(10.0), "{astriflash}");
    assert!(
        astriflash["ratio_to_dram"].as_f64() > row(&all, "flash-sync")["ratio_to_dram"].as_f64()
    );
    assert!(astriflash["lifetime"]["round_the_clock"].as_f64() > Some(0.0));
}

#[test]
fn some_designs_are_compared_with_dram_only_and_reported() {
    let folder = folder();
    let some = ["--design=flash-sync", "--design=astriflash", "--jobs=200"];
    let written = ["--report=report", "--figures=paper"];
    let output = small(folder.path(), &some).args(written).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let order: Vec<&str> = ALL
        .iter()
        .map(|design| design.name)
        .filter(|name| text.lines().any(|line| line.starts_with(&format!("{name} "))))
        .collect();
    assert_eq!(order, ["dram-only", "astriflash", "flash-sync"], "{text}");
    let report = folder.path().join("report");
    let page = fs::read_to_string(report.join("report.html")).expect("a page");
    assert!(page.contains("Throughput by design") && page.contains("p99 by design"));
    assert!(page.contains("<p>Of 2 designs beside DRAM-only, astriflash keeps most"), "{page}");
    // Both have the same memory: there is no chart of what does not differ.
    assert!(!page.contains("Against cost"), "{page}");
    assert!(names(&report).contains(&"comparison.csv".to_string()), "{:?}", names(&report));
    // Hash-table only reads.
    assert!(page.contains(">read<") && !page.contains(">written<"), "{page}");
    let mut figures = names(&folder.path().join("paper"));
    figures.sort();
    let (pdf, svg): (Vec<_>, Vec<_>) = figures.iter().partition(|name| name.ends_with(".pdf"));
    assert_eq!(pdf.len(), page.matches("class=\"chart wide\"").count(), "{figures:?}");
    assert_eq!(svg.len(), pdf.len(), "{figures:?}");
    let drawing = fs::read(folder.path().join("paper/throughput-by-design.pdf")).expect("a figure");
    assert!(drawing.starts_with(b"%PDF"));
}

#[test]
fn designs_are_compared_on_a_trace() {
    let folder = folder();
    let lines = (0..3_000)
        .map(|i| format!("{} 0 {} 64 {}\n", i * 2_000, i * 40_507 % (1 << 18) * 64, i % 2));
    fs::write(folder.path().join("trace.txt"), lines.collect::<String>()).expect("written");
    let arguments = ["--trace=trace.txt", "--design=astriflash", "--design=os-swap", "--json"];
    let found = json(&mut small(folder.path(), &arguments));
    assert_eq!((&found["unit"], &found["work_us"]), (&"accesses".into(), &Value::Null));
    assert_eq!(rows(&found).len(), 3);
    assert_eq!(row(&found, "os-swap")["outcome"]["accesses"], 3_000);
    assert!(
        row(&found, "astriflash")["p99_us"].as_f64() > row(&found, "dram-only")["p99_us"].as_f64()
    );
}

#[test]
fn a_trace_is_compared_on_machines_as_large_as_what_it_touches() {
    let folder = folder();
    // 1,500 pages, far above any machine's data.
    let lines = (0..3_000).map(|i| {
        let page = 0x7f00_0000_0000_u64 + i * 7 % 1_500 * 3 * 4096;
        format!("{} 0 {page} 64 {}\n", i * 2_000, i % 2)
    });
    fs::write(folder.path().join("trace.txt"), lines.collect::<String>()).expect("written");
    let arguments = ["compare", "--trace=trace.txt", "--json"];
    let found = json(&mut ebbtide(folder.path(), &arguments));
    assert_eq!(found["touched_pages"], 1_500);
    assert!(rows(&found).len() > ALL.len() / 2, "{}", found["left_out"]);
    for row in rows(&found) {
        let config = &row["outcome"]["config"];
        assert_eq!(config["dataset"]["size"], "8MiB", "{}", row["design"]);
        // 1,500 pages do not fit into a 32nd of the DRAM.
        let (reads, has_flash) = (&row["flash_read_mb_per_s"], row["price"]["flash_gib"] != 0.0);
        assert_eq!(reads.as_f64() > Some(0.0), has_flash, "{}", row["design"]);
    }
    assert_eq!(row(&found, "astriflash")["outcome"]["config"]["dram_cache"]["size"], "256KiB");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let folder = folder();
    for (arguments, expected) in [
        (["hashtable", "--json"], "did you mean 'hash-table'?"),
        (["--design=astroflash", "--json"], "did you mean 'astriflash'?"),
        (["--trace=none", "--json"], "none"),
        (["--trace=-", "--json"], "expected a file"),
        (["--set=dram_cache.sise=1GiB", "--json"], "dram_cache.sise"),
    ] {
        let said = complaint(&mut small(folder.path(), &arguments), 2);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_design_from_a_file_is_compared_under_its_name() {
    let folder = folder();
    fs::write(folder.path().join("mine.toml"), "base = \"astriflash\"\n").expect("written");
    let found = json(&mut small(folder.path(), &["--design=mine.toml", "--jobs=200", "--json"]));
    let names: Vec<_> = rows(&found).iter().map(|row| row["design"].clone()).collect();
    assert_eq!(names, ["dram-only", "mine.toml"]);
    let market = &found["market"];
    assert_eq!((&market["prices"]["dram"], &market["cells"]), (&3.0.into(), &"TLC".into()));
    assert_eq!(market["drive_bytes"], 3_840_000_000_000_u64, "as in `size`");
}
