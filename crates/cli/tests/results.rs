//! The output of a bench has the same shape on every machine. Every key is in every entry, figures
//! have a median and a range, and the resolved configuration is included.

mod common;

use std::fs;
use std::path::Path;

use common::{ebbtide, folder, names, printed, small_bench};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("one JSON value")
}

fn assert_spread(value: &Value, name: &str) {
    let part = |part: &str| value[part].as_f64().unwrap_or_else(|| panic!("{name}: {value}"));
    let (min, median, max) = (part("min"), part("median"), part("max"));
    assert!(min <= median && median <= max, "{name}: {value}");
}

fn assert_entry(entry: &Value) {
    let get = |key: &str| entry.get(key).unwrap_or_else(|| panic!("no {key} in {entry}"));
    let is_dram = entry["mode"] == "dram";
    assert!(get("doubts").is_array() && get("rounds_measured").as_u64() >= Some(1));
    assert_eq!(get("by_round")["jobs_per_s"].as_array().map(Vec::len), Some(1));
    assert_eq!(entry["cores"], 1);
    for key in ["jobs_per_s", "ratio_to_dram", "lru_miss_interval_us", "rss_mib"] {
        assert_spread(get(key), key);
    }
    for key in ["flash_reads_per_s", "flash_writes_per_s", "others_cpu_share", "steal_share"] {
        assert_spread(get(key), key);
    }
    for key in ["service_us", "response_us"] {
        for quantile in ["p50", "p99", "p999"] {
            assert_spread(&get(key)[quantile], key);
        }
    }
    for key in ["miss_interval_us", "cpu_us_per_miss"] {
        match get(key) {
            Value::Null => assert!(is_dram, "{key}: {entry}"),
            spread => assert_spread(spread, key),
        }
    }
    if is_dram {
        assert_eq!(entry["ratio_to_dram"]["median"], 1.0);
        assert!(get("miss_interval_us").is_null());
    }
}

#[test]
fn every_mode_has_every_key_and_the_report_the_same_numbers() {
    let folder = folder();
    let both = ["array-swap", "--dram=32MiB", "--json", "--report=out/report"];
    let found = json(&printed(&mut small_bench(folder.path(), &both)));
    let machine = &found["machine"];
    assert!(machine["kernel"].is_string() && machine["cores"].as_u64() >= Some(1));
    assert!(machine["read_us_qd1"].as_f64() > Some(0.0), "{machine}");
    assert!(machine["read_us_qd32"].as_f64() > Some(0.0), "{machine}");
    assert_eq!(found["config"]["dataset_bytes"], 64 << 20);
    assert_eq!(found["config"]["dram_bytes"], 32 << 20);
    assert_eq!(found["config"]["replacement"], "mini-sim");
    let results = found["results"].as_array().expect("a list");
    results.iter().for_each(assert_entry);
    let modes: Vec<&str> = results.iter().filter_map(|entry| entry["mode"].as_str()).collect();
    let notices = found["notices"].to_string();
    match modes.len() {
        4 => assert_eq!(modes, ["dram", "paging", "sync", "ebbtide"]),
        _ => assert!(modes.len() == 3 && notices.contains("paging: left out: "), "{found}"),
    }
    assert_report(&folder.path().join("out/report"), results);
}

fn assert_report(report: &Path, results: &[Value]) {
    let html = fs::read_to_string(report.join("report.html")).expect("a page");
    for part in ["<svg", "array-swap", "DRAM-only", "dataset_bytes = 67108864", "results.csv"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("src=") && !html.contains("<script"), "nothing is loaded");
    let csv = fs::read_to_string(report.join("results.csv")).expect("a file");
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let column = |name| header.iter().position(|column| *column == name).expect("the column");
    // The last column is a text that may hold commas.
    let rows: Vec<Vec<&str>> =
        csv.lines().skip(1).map(|line| line.splitn(header.len(), ',').collect()).collect();
    assert_eq!(rows.len(), results.len());
    for (row, entry) in rows.iter().zip(results) {
        assert_eq!(row.len(), header.len());
        assert_eq!(row[column("mode")], entry["mode"]);
        let median = row[column("jobs_per_s_median")].parse::<f64>().expect("a number");
        // Reading JSON may be off by the last bit.
        let same = entry["jobs_per_s"]["median"].as_f64().expect("a number");
        assert!((median / same - 1.0).abs() < 1e-12, "{median} {same}");
    }
}

#[test]
fn what_is_fetched_ahead_is_counted_where_something_is() {
    let folder = folder();
    let run = |arguments: &[&str]| {
        let scan = ["seq-read", "--mode=ebbtide", "--admission=adaptive", "--json"];
        let found = json(&printed(&mut small_bench(folder.path(), &[&scan, arguments].concat())));
        assert_eq!(found["config"]["admission"], "adaptive");
        found
    };
    for arguments in [["--prefetch=next-n-line", "--hints=off"], ["--prefetch=none", "--hints=on"]]
    {
        let found = run(&arguments);
        let ebbtide = &found["results"][1];
        assert_eq!(
            (&found["results"][0]["ahead"], &ebbtide["mode"]),
            (&Value::Null, &"ebbtide".into())
        );
        for key in ["pages_per_s", "accuracy", "lateness", "pollution"] {
            assert_spread(&ebbtide["ahead"][key], key);
        }
        assert!(ebbtide["ahead"]["pages_per_s"]["median"].as_f64() > Some(0.0), "{ebbtide}");
    }
    let found = run(&["--prefetch=none", "--hints=off"]);
    assert_eq!(found["config"]["prefetch"], "none");
    assert_eq!(found["config"]["hints"], false);
    assert_eq!(found["results"][1]["ahead"], Value::Null);
}

#[test]
fn an_open_loop_draws_responses_and_a_used_data_file_is_made_anew() {
    let folder = folder();
    let quick = ["tatp", "--mode=ebbtide", "--seconds=0.05"];
    let closed = printed(&mut small_bench(folder.path(), &quick));
    assert!(closed.contains("tatp: ") && closed.contains("ebbtide"), "{closed}");
    assert_eq!(names(folder.path()), ["data"], "the data stays for the next run");
    let open = [&quick[..], &["--arrivals=poisson", "--json", "--report=report"]].concat();
    let found = json(&printed(&mut small_bench(folder.path(), &open)));
    let results = found["results"].as_array().expect("a list");
    assert_eq!(results.len(), 2 * found["config"]["loads"].as_array().expect("a list").len());
    assert!(results.iter().all(|entry| entry["load"].as_f64() > Some(0.0)));
    let html = fs::read_to_string(folder.path().join("report/report.html")).expect("a page");
    assert!(html.contains("tatp: p99 response against throughput"));
}

#[test]
fn the_list_says_what_each_workload_is_and_runs_nothing() {
    let folder = folder();
    let text = printed(&mut ebbtide(folder.path(), &["bench", "--list"]));
    for part in ["array-swap", "hash-table", "red-black-tree", "tatp", "8192 bytes", "AstriFlash"] {
        assert!(text.contains(part), "{text}");
    }
    let list = json(&printed(&mut ebbtide(folder.path(), &["bench", "--list", "--json"])));
    for entry in list.as_array().expect("a list") {
        for key in ["workload", "description", "job", "source"] {
            assert!(entry[key].is_string(), "{entry}");
        }
        assert!(entry["min_bytes"].is_u64(), "{entry}");
    }
    assert!(names(folder.path()).is_empty());
}
