//! A bench takes its options from a file, saves its result, and is compared with a saved one.

mod common;

use std::fs;

use common::{complaint, folder, small_bench};
use serde_json::Value;

#[test]
fn a_result_is_saved_and_a_later_bench_compared_with_it() {
    let folder = folder();
    let base = ["hash-table", "--mode=ebbtide", "--rounds=2"];
    let run = |more: &[&str]| {
        let output = small_bench(folder.path(), &[&base, more].concat()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).expect("text")
    };
    run(&["--save=old", "--markdown=old.md"]);
    let saved = fs::read_to_string(folder.path().join("old.bench.json")).expect("a result");
    let saved: Value = serde_json::from_str(&saved).expect("JSON");
    assert_eq!(saved["results"][1]["mode"], "ebbtide");
    let markdown = fs::read_to_string(folder.path().join("old.md")).expect("a table");
    assert!(markdown.contains("| workload | mode |"), "{markdown}");
    let now: Value = serde_json::from_str(&run(&["--against=old", "--json"])).expect("JSON");
    let changes = now["against"]["changes"].as_array().expect("a list");
    let modes: Vec<_> = changes.iter().filter_map(|change| change["mode"].as_str()).collect();
    assert_eq!(modes, ["dram", "ebbtide"]);
    for change in changes {
        let of = |end: usize| change["throughput"]["ci95"][end].as_f64().expect("an end");
        assert!(of(0) <= of(1), "{change}");
    }
}

#[test]
fn only_results_of_a_bench_are_compared_with_or_replaced() {
    let folder = folder();
    fs::write(folder.path().join("mine.bench.json"), "[1, 2]").expect("written");
    for option in ["--against=mine", "--save=mine"] {
        let text = complaint(&mut small_bench(folder.path(), &["hash-table", option]), 2);
        assert!(text.contains("mine.bench.json: not the result of a bench"), "{text}");
    }
    let text = complaint(&mut small_bench(folder.path(), &["hash-table", "--against=none"]), 2);
    assert!(text.contains("none.bench.json"), "{text}");
    assert_eq!(fs::read(folder.path().join("mine.bench.json")).expect("a file"), b"[1, 2]");
}

#[test]
fn options_come_from_a_file_and_the_command_line_overrides_them() {
    let folder = folder();
    let file = "workloads = [\"array-swap\"]\nmode = [\"ebbtide\"]\ntheta = 0.5\nhints = false\n\
                miss_interval = \"20us\"\nseed = 7\njson = true\n";
    fs::write(folder.path().join("bench.toml"), file).expect("written");
    let arguments = ["--config=bench.toml", "--seed=9"];
    let output = small_bench(folder.path(), &arguments).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let config = &found["config"];
    assert_eq!(config["workloads"][0], "array-swap");
    assert_eq!((config["theta"].as_f64(), config["seed"].as_u64()), (Some(0.5), Some(9)));
    assert_eq!(
        (config["hints"].as_bool(), config["miss_interval_us"].as_f64()),
        (Some(false), Some(20.0))
    );
}

#[test]
fn a_wrong_option_in_a_file_is_named_with_file_and_line() {
    let folder = folder();
    for (text, expected) in [
        ("seed = 1\nthreds = 8\n", ["bench.toml:2", "did you mean 'threads'?"]),
        ("miss_interval = \"10\"\n", ["bench.toml: ", "'10' is not a time"]),
        ("force = 7\n", ["bench.toml:1", "force: expected true or false"]),
        ("theta = [0.5]\n", ["bench.toml:1", "theta: expected a text or a number"]),
        ("theta = \n", ["bench.toml:1", "bench.toml:1"]),
        ("config = \"other.toml\"\n", ["bench.toml:1", "unknown option 'config'"]),
    ] {
        fs::write(folder.path().join("bench.toml"), text).expect("written");
        let text = complaint(&mut small_bench(folder.path(), &["--config=bench.toml"]), 2);
        assert!(expected.iter().all(|part| text.contains(part)), "{text}");
    }
    let text = complaint(&mut small_bench(folder.path(), &["--config=none.toml"]), 2);
    assert!(text.contains("none.toml"), "{text}");
}

#[test]
fn programs_run_in_a_mapped_region_if_it_is_named() {
    let folder = folder();
    let arguments = ["array-swap", "hash-table", "--mode=mapped,ebbtide", "--json"];
    let output = small_bench(folder.path(), &arguments).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("mapped regions do not work here") {
        eprintln!("SKIPPED: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = found["results"].as_array().expect("a list");
    let modes: Vec<_> = results.iter().filter_map(|outcome| outcome["mode"].as_str()).collect();
    assert_eq!(modes, ["dram", "ebbtide", "mapped", "dram", "ebbtide", "mapped"]);
    for mapped in results.iter().filter(|outcome| outcome["mode"] == "mapped") {
        assert!(mapped["misses_per_job"]["median"].as_f64().is_some_and(|misses| misses > 0.0));
        let ratio = mapped["ratio_to_dram"]["median"].as_f64().expect("a number");
        assert!(ratio > 0.0, "{mapped}");
    }
}
