//! `ebbtide sweep`: resumable after Ctrl-C, and never mixed with another sweep's runs.

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{complaint, complaint_of, ebbtide, folder, names, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A sweep of `seeds` short runs.
fn sweep_file(folder: &Path, seeds: u64, jobs: u64) {
    let seeds: Vec<String> = (1..=seeds).map(|seed| seed.to_string()).collect();
    let text = format!(
        "design = [\"astriflash\", \"flash-sync\"]\nworkload = \"array-swap\"\njobs = {jobs}\n\
         seeds = [{}]\n[set]\ncores.count = 2\nllc.size = \"256KiB\"\ndataset.size = \"16MiB\"\n\
         dram_cache.size = \"1MiB\"\nswitch.threads = 8\n",
        seeds.join(", ")
    );
    fs::write(folder.join("small.toml"), text).expect("written");
}

#[test]
fn a_sweep_is_printed_and_written() {
    let folder = folder();
    sweep_file(folder.path(), 2, 200);
    let mut sweep = ebbtide(folder.path(), &["sweep", "small.toml"]);
    let output = sweep.output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let header = text.lines().find(|line| line.starts_with("design  ")).expect("a header");
    assert!(header.contains("of DRAM") && header.contains("p99 us") && header.contains("+-"));
    // A row for both seeds.
    assert!(text.contains("means of 2 seeds"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("flash-sync")).count(), 1, "{text}");
    let results = names(&folder.path().join("small.results"));
    for name in ["points.jsonl", "report.html", "results.csv", "results.parquet"] {
        assert!(results.iter().any(|result| result == name), "{results:?}");
    }
    // What is kept is printed at once.
    let arguments = ["sweep", "small.toml", "--json", "--figures=paper"];
    let output = ebbtide(folder.path(), &arguments).output().expect("it runs");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let points = json["points"].as_array().expect("a list");
    assert_eq!(points.len(), 4);
    assert!(points[3]["outcome"]["jobs_per_s"].as_f64() > Some(0.0));
    assert_eq!(points[3]["values"][0], "flash-sync");
    assert_eq!(points[3]["outcome"]["config"]["dataset"]["size"], "16MiB");
    let figures = names(&folder.path().join("paper"));
    for name in ["of-dram.svg", "of-dram.pdf", "p99-us.svg", "p99-us.pdf"] {
        assert!(figures.iter().any(|figure| figure == name), "{figures:?}");
    }
    let part = ["sweep", "small.toml", "--shard=1/2", "--figures=paper"];
    complaint(&mut ebbtide(folder.path(), &part), 2);
}

#[test]
fn interrupted_it_keeps_what_ended_and_goes_on_from_there() {
    let folder = folder();
    sweep_file(folder.path(), 20, 20_000);
    let kept = folder.path().join("results/points.jsonl");
    let lines = || fs::read_to_string(&kept).unwrap_or_default().lines().count();
    let arguments = ["sweep", "small.toml", "--report=results", "--threads=2"];
    let process = ebbtide(folder.path(), &arguments).spawn().expect("the program runs");
    wait_for("a run that ended", || (lines() > 1).then_some(()));
    let since = Instant::now();
    kill_process(Pid::from_child(&process), Signal::INT).expect("it runs still");
    let output = process.wait_with_output().expect("it ends");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    let said = complaint_of(&output, 130);
    let ended = lines() - 1;
    assert!(said.contains(&format!("cancelled; {ended} of 40 runs are kept in results")), "{said}");
    assert_eq!(names(&folder.path().join("results")), ["points.jsonl"]);

    // Another sweep does not touch them.
    sweep_file(folder.path(), 1, 200);
    let said = complaint(&mut ebbtide(folder.path(), &arguments), 2);
    assert!(
        said.contains("results holds runs of another sweep") && said.contains("--force"),
        "{said}"
    );
    assert_eq!(lines() - 1, ended);
    let mut forced = ebbtide(folder.path(), &arguments);
    assert!(forced.arg("--force").output().expect("it runs").status.success());
    assert_eq!(lines() - 1, 2);
}

#[test]
fn what_cannot_be_swept_leaves_nothing() {
    let folder = folder();
    for (text, expected) in [
        ("design = \"astroflash\"", "design astroflash: unknown design"),
        ("designs = 3 4", "small.toml: line 1:"),
        ("workloads = [\"hash-table\"]\nsize = 4", "unknown key 'size'"),
        ("[set]\ndram_cache.size = \"512GiB\"", "less than dataset.size"),
    ] {
        fs::write(folder.path().join("small.toml"), text).expect("written");
        let said = complaint(&mut ebbtide(folder.path(), &["sweep", "small.toml"]), 2);
        assert!(said.contains(expected), "{text}: {said}");
        assert_eq!(names(folder.path()), ["small.toml"], "{text}");
    }
    let said = complaint(&mut ebbtide(folder.path(), &["sweep", "none.toml"]), 2);
    assert!(said.contains("none.toml: No such file"), "{said}");
}

#[test]
fn parts_are_run_apart_and_merged() {
    let folder = folder();
    sweep_file(folder.path(), 2, 200);
    let run = |arguments: &[&str]| {
        let output = ebbtide(folder.path(), arguments).output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(&["sweep", "small.toml", "--report=whole"]);
    let said = run(&["sweep", "small.toml", "--shard=1/2"]);
    assert!(said.contains("part 1/2: 2 of 4 runs are in small.results/shard-1-of-2"), "{said}");
    let merge = ["sweep", "merge", "small.results/shard-1-of-2", "small.results/shard-2-of-2"];
    let said = complaint(&mut ebbtide(folder.path(), &merge), 2);
    assert!(said.contains("shard-2-of-2 holds no points.jsonl"), "{said}");
    run(&["sweep", "small.toml", "--shard=2/2"]);
    run(&merge);
    for name in ["report.html", "results.csv", "results.parquet"] {
        let bytes = |of: &str| fs::read(folder.path().join(of).join(name)).expect("a file");
        assert!(bytes("whole") == bytes("small.results"), "{name}");
    }
    let said = complaint(&mut ebbtide(folder.path(), &["sweep", "--shard=3/2"]), 2);
    assert!(said.contains("expected I/N"), "{said}");
}
