//! Tests that a sweep writes the same bytes on any number of threads, with and without
//! interruptions.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use ebbtide_core::{Stop, Watch};
use ebbtide_report::Report;
use ebbtide_study::sweep::{
    Sweep, SweepError, SweepOptions, Swept, merge, run, run_point, run_shard,
};

/// Twelve short runs.
const SMALL: &str = "
    design = [\"astriflash\", \"os-swap\", \"dram-only\"]
    workload = \"array-swap\"
    jobs = 200
    seeds = [1, 2]
    [set]
    cores.count = 2
    llc.size = \"256KiB\"
    dataset.size = \"16MiB\"
    dram_cache.size = [\"1MiB\", \"2MiB\"]
    switch.threads = 8
";

fn options(folder: &Path, threads: usize) -> SweepOptions {
    let program = "a test".to_string();
    SweepOptions { folder: folder.to_path_buf(), program, threads, force: false }
}

/// Runs the sweep until `runs` runs have begun, or to its end.
fn sweep(folder: &Path, threads: usize, runs: Option<usize>) -> Result<(), SweepError> {
    let (stop, begun) = (Stop::new(), AtomicUsize::new(0));
    let show = |stage: &str, share: f64| {
        assert!((0.0..=1.0).contains(&share), "{share}");
        // The last stage that a run reports before it ends.
        let measuring = stage.ends_with("measuring");
        let number = begun.fetch_add(usize::from(measuring), Ordering::Relaxed);
        if measuring && runs.is_some_and(|runs| number >= runs) {
            stop.stop();
        }
    };
    let sweep = Sweep::parse("small.toml", SMALL).expect("a valid sweep");
    run(&sweep, &options(folder, threads), Watch::new(&show, &stop))?
        .write(folder)
        .map(drop)
        .map_err(SweepError::from)
}

/// The bytes of every file in `folder` by name, except the file of kept runs.
fn results(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .filter(|(name, _)| name != "points.jsonl")
        .map(|(name, path)| (name, fs::read(path).expect("a file")))
        .collect();
    files.sort();
    files
}

#[test]
fn results_are_the_same_bytes_on_any_number_of_threads_and_after_any_break() {
    let folders = [(); 4].map(|()| tempfile::tempdir().expect("a folder"));
    let [one, three, twelve, broken] = [0, 1, 2, 3].map(|n: usize| folders[n].path());
    for (folder, threads) in [(one, 1), (three, 3), (twelve, 12)] {
        sweep(folder, threads, None).expect("it ends");
    }
    let expected = results(one);
    let names: Vec<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["report.html", "results.csv", "results.parquet"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(results(three) == expected && results(twelve) == expected);

    let csv = expected.iter().find(|(name, _)| name == "results.csv").expect("it was found");
    assert_eq!(csv.1.iter().filter(|byte| **byte == b'\n').count(), 13);

    for (runs, threads) in [(0, 1), (3, 1), (2, 4)] {
        let error = sweep(broken, threads, Some(runs)).expect_err("it was broken off").to_string();
        assert!(error.contains("the same command goes on"), "{error}");
        assert!(results(broken).is_empty(), "nothing is written of a sweep that was broken off");
    }
    sweep(broken, 2, None).expect("it ends");
    assert!(results(broken) == expected);
    // Everything is present, so no run begins.
    sweep(broken, 1, Some(0)).expect("nothing is left to run");
}

fn small() -> Sweep {
    Sweep::parse("small.toml", SMALL).expect("a valid sweep")
}

#[test]
fn parts_and_single_points_join_to_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join("whole");
    sweep(&whole, 2, None).expect("it ends");

    let parts: Vec<_> = (1..=3).map(|part| folder.path().join(format!("{part}"))).collect();
    for (number, part) in parts.iter().enumerate() {
        let shard = format!("{}/3", number + 1).parse().expect("a part");
        let done = run_shard(&small(), shard, &options(part, 1), Watch::unattended());
        assert_eq!(done.expect("it ends").runs, 4);
    }
    let joined = folder.path().join("joined");
    merge(&parts).expect("all are there").write(&joined).expect("written");
    assert_eq!(results(&joined), results(&whole));

    let point = |number| run_point(&small().point(number), Watch::unattended()).expect("it ends");
    let outcomes = (0..small().points()).rev().map(point).rev().collect();
    let alone = folder.path().join("alone");
    Swept::new(&small(), outcomes).write(&alone).expect("written");
    assert_eq!(results(&alone), results(&whole));
}

#[test]
fn parts_that_are_missing_or_of_another_sweep_are_not_joined() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, other) = (folder.path().join("first"), folder.path().join("other"));
    let shard = "1/6".parse().expect("a part");
    run_shard(&small(), shard, &options(&first, 1), Watch::unattended()).expect("it ends");
    let refused = |folders: &[&Path]| {
        let folders: Vec<_> = folders.iter().map(|folder| folder.to_path_buf()).collect();
        let error = merge(&folders).expect_err("it is refused");
        assert!(error.is_input());
        error.to_string()
    };
    let said = refused(&[&first]);
    assert!(said.contains("10 of 12 runs are in none") && said.contains("seed 2"), "{said}");
    let said = refused(&[&first, folder.path()]);
    assert!(said.contains("holds no points.jsonl"), "{said}");
    let another = SMALL.replace("jobs = 200", "jobs = 201");
    let another = Sweep::parse("another", &another).expect("a valid sweep");
    run_shard(&another, shard, &options(&other, 1), Watch::unattended()).expect("it ends");
    let said = refused(&[&first, &other]);
    assert!(said.contains("other holds runs of another sweep"), "{said}");
    assert!(refused(&[]).contains("expected folders"));
}
