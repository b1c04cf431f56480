//! `ebbtide sim`: the same arguments give the same result, in the expected shape. Impossible
//! simulations are refused in one line.

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{complaint, complaint_of, cpu_ticks, ebbtide, folder, names, printed, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A simulation that takes moments: two cores, 64 MiB of data, 2 MiB of DRAM.
fn small_sim(folder: &Path, arguments: &[&str]) -> Command {
    const SMALL: [&str; 5] = [
        "--set=cores.count=2",
        "--set=llc.size=256KiB",
        "--set=dataset.size=64MiB",
        "--set=dram_cache.size=2MiB",
        "--set=switch.threads=8",
    ];
    let mut command = ebbtide(folder, &["sim"]);
    command.args(SMALL).args(arguments);
    let given_otherwise = ["--jobs", "--trace"];
    let given = |argument: &&str| given_otherwise.iter().any(|name| argument.starts_with(name));
    if !arguments.iter().any(given) {
        command.arg("--jobs=500");
    }
    let given_otherwise = ["--seeds", "--trace", "--explain"];
    let given = |argument: &&str| given_otherwise.iter().any(|name| argument.starts_with(name));
    if !arguments.iter().any(given) {
        command.arg("--seeds=1");
    }
    command
}

fn json(command: &mut Command) -> Value {
    serde_json::from_str(&printed(command)).expect("one JSON value")
}

/// Asserts that `arguments` are refused with all of `expected`, and that nothing is written.
fn assert_refused(arguments: &[&str], expected: &[&str]) {
    let folder = folder();
    let text = complaint(&mut small_sim(folder.path(), arguments), 2);
    for part in expected {
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
    assert!(names(folder.path()).is_empty(), "{arguments:?}");
}

/// Lines of a trace: `count` reads of 64 bytes, 200 ns apart, over 16 MiB.
fn trace(count: u64) -> String {
    (0..count).map(|i| format!("{} 0 {} 64 1\n", i * 200, i * 40_507 % (1 << 18) * 64)).collect()
}

/// Returns the output without its duration.
fn without_wall(text: String) -> String {
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains("wall_s\"")).collect();
    assert_eq!(text.lines().count() - kept.len(), 2);
    kept.join("\n")
}

#[test]
fn the_same_arguments_give_the_same_bytes() {
    let folder = folder();
    let [one, other, seeded] = ["--seed=5", "--seed=5", "--seed=6"]
        .map(|seed| without_wall(printed(&mut small_sim(folder.path(), &["--json", seed]))));
    assert!(one == other && one != seeded);
    fs::write(folder.path().join("trace.txt"), trace(3_000)).expect("written");
    let [one, other] = [(); 2].map(|()| {
        without_wall(printed(&mut small_sim(folder.path(), &["--trace=trace.txt", "--json"])))
    });
    assert_eq!(one, other);
    assert_eq!(names(folder.path()), ["trace.txt"]);
}

#[test]
fn an_outcome_has_every_key() {
    let folder = folder();
    let found = json(&mut small_sim(folder.path(), &["--json", "--workload=array-swap"]));
    assert_eq!(
        (&found["design"], &found["workload"]),
        (&"astriflash".into(), &"array-swap".into())
    );
    for key in [
        "accesses",
        "simulated_ns",
        "wall_s",
        "accesses_per_wall_s",
        "jobs_per_s",
        "ratio_to_dram",
        "miss_interval_us",
    ] {
        assert!(found[key].as_f64() > Some(0.0), "{key}: {found}");
    }
    assert_eq!(found["config"]["dataset"]["size"], "64MiB");
    for (section, keys) in [
        ("dram_cache", ["hits", "hits_under_miss", "misses", "evictions_clean", "evictions_dirty"]),
        ("flash", ["reads", "writes", "erases", "write_amplification", "gc_blocked_share"]),
        ("latency_ns", ["mean", "p50", "p99", "p999", "max"]),
        ("device_latency_ns", ["mean", "p50", "p99", "p999", "max"]),
        ("service_ns", ["mean", "p50", "p99", "p999", "max"]),
        ("response_ns", ["mean", "p50", "p99", "p999", "max"]),
        ("energy", ["total_uj", "cores_busy_uj", "dram_uj", "link_uj", "flash_reads_uj"]),
    ] {
        assert!(keys.iter().all(|key| found[section][key].is_number()), "{section}: {found}");
    }
    for section in ["latency_ns", "device_latency_ns"] {
        assert!(found[section]["sub_us_share"].as_f64() < Some(1.0), "{section}: {found}");
    }
    assert!(found["service_ns"].get("sub_us_share").is_none());
    assert!(found.get("lifetime_years").is_some());
    assert!(found["warm_up"]["evictions_per_miss"].as_f64() >= Some(0.99), "{found}");
}

#[test]
fn energy_comes_from_the_table_that_is_given() {
    let folder = folder();
    let shipped = include_str!("../../study/configs/energy.toml");
    let twice = shipped.replace("busy_mw = 1030 ", "busy_mw = 2060 ");
    fs::write(folder.path().join("mine.toml"), twice).expect("written");
    let usual = json(&mut small_sim(folder.path(), &["--json"]));
    let mine = json(&mut small_sim(folder.path(), &["--json", "--energy=mine.toml"]));
    assert_eq!(usual["simulated_ns"], mine["simulated_ns"]);
    let uj = |found: &Value, key: &str| found["energy"][key].as_f64().expect("a number");
    let busy = uj(&usual, "cores_busy_uj");
    assert!((uj(&mine, "cores_busy_uj") / busy - 2.0).abs() < 1e-9, "{mine}");
    assert!((uj(&mine, "total_uj") - uj(&usual, "total_uj") - busy).abs() < 1e-6 * busy);
    let text = printed(&mut small_sim(folder.path(), &[]));
    assert!(text.contains("energy ") && text.contains(" uJ a job: cores at work "), "{text}");
    // The table is not for every design, and a wrong one is refused.
    let optane = ["--json", "--design=optane-p", "--set=noc.columns=2"];
    assert!(json(&mut small_sim(folder.path(), &optane)).get("energy").is_none());
    fs::write(folder.path().join("wrong.toml"), "[core]\nbusy_mw = 1\n").expect("written");
    for (file, expected) in [("wrong.toml", "line"), ("none.toml", "No such file")] {
        let option = format!("--energy={file}");
        let said = complaint(&mut small_sim(folder.path(), &[&option]), 2);
        assert!(said.contains(file) && said.contains(expected), "{said}");
    }
}

#[test]
fn the_table_says_how_the_machine_was_warmed_up() {
    let folder = folder();
    let text = printed(&mut small_sim(folder.path(), &["--arrivals=poisson:0.5"]));
    for part in [
        "warmed up with ",
        " until evictions were 100.0% of the pages that came; ",
        "of DRAM-only",
        "p99.9",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("Poisson arrivals at 0.5"), "{text}");
}

#[test]
fn a_typical_miss_is_followed_from_its_issue_to_its_line() {
    let folder = folder();
    // Misses far apart: the page has the link for itself.
    let apart = "--set=workload.miss_interval_us=50";
    let plain = json(&mut small_sim(folder.path(), &["--json", apart]));
    let explained = json(&mut small_sim(folder.path(), &["--json", "--explain", apart]));
    assert_eq!(plain["simulated_ns"], explained["simulated_ns"], "watching changes nothing");
    assert!(plain.get("typical_miss").is_none());
    let miss = &explained["typical_miss"];
    let steps = miss["steps"].as_array().expect("a list");
    let number = |value: &Value| value.as_f64().expect("a number");
    let step = |who: &str, what: &str| {
        let named = |step: &&Value| {
            step["who"] == who && step["what"].as_str().is_some_and(|text| text.contains(what))
        };
        steps.iter().find(named).unwrap_or_else(|| panic!("no {who} {what} in {miss}"))
    };
    assert_eq!(number(&step("flash", "reads")["for_ns"]), 50_000.0);
    // The pipeline's 13 cycles, a switch, and a page at 16 GB/s.
    assert_eq!(number(&step("core", "flushes")["for_ns"]), 6.5);
    assert_eq!(number(&step("core", "switches to")["for_ns"]), 100.0);
    assert_eq!(number(&step("core", "switches back")["for_ns"]), 100.0);
    assert_eq!(number(&step("link", "the page")["for_ns"]), 256.0);
    assert_eq!(number(&steps[0]["from_ns"]), 0.0);
    let repeat = steps.last().expect("a step");
    let end = number(&repeat["from_ns"]) + number(&repeat["for_ns"]);
    assert!((end - number(&miss["total_ns"])).abs() < 1e-6, "{miss}");
    let text = printed(&mut small_sim(folder.path(), &["--explain", "--design=flash-sync"]));
    assert!(text.contains("a typical miss") && !text.contains("switches"), "{text}");
    let text = printed(&mut small_sim(folder.path(), &["--explain", "--design=dram-only"]));
    assert!(!text.contains("a typical miss"), "{text}");
}

#[test]
fn several_seeds_give_means_with_intervals_that_hold_them() {
    let folder = folder();
    let found = json(&mut small_sim(folder.path(), &["--json", "--seeds=3", "--seed=7"]));
    let runs = found["runs"].as_array().expect("a list");
    let seeds: Vec<_> = runs.iter().filter_map(|run| run["seed"].as_u64()).collect();
    assert_eq!(seeds, [7, 8, 9]);
    let ratios: Vec<f64> = runs.iter().filter_map(|run| run["ratio_to_dram"].as_f64()).collect();
    let mean = ratios.iter().sum::<f64>() / 3.0;
    let summary = &found["summary"]["ratio_to_dram"];
    assert!((summary["mean"].as_f64().expect("a number") - mean).abs() < 1e-9, "{summary}");
    assert!(summary["ci95"][0].as_f64() < Some(mean) && summary["ci95"][1].as_f64() > Some(mean));
    assert!(found["summary"].get("wall_s").is_none(), "no figure of the simulated machine");
    // A run among several is the run alone.
    let alone = json(&mut small_sim(folder.path(), &["--json", "--seed=8"]));
    assert_eq!(alone["simulated_ns"], runs[1]["simulated_ns"]);
    let usual =
        json(&mut ebbtide(folder.path(), &["sim", "--scale=1/1024", "--jobs=50", "--json"]));
    assert_eq!(usual["runs"].as_array().map(Vec::len), Some(3));
    let text = printed(&mut small_sim(folder.path(), &["--seeds=2"]));
    assert!(text.contains("seeds 1 to 2") && text.contains("95% confidence"), "{text}");
    // So few jobs leave out the longest, by another factor with each seed; both say their p99 is
    // poor.
    let few = printed(&mut small_sim(folder.path(), &["--seeds=2", "--jobs=200"]));
    let warned = few.lines().filter(|line| line.starts_with("warning: "));
    let (of_one, of_both): (Vec<_>, Vec<_>) = warned.partition(|line| line.contains(": seed "));
    assert!(of_one.len() >= 2 && of_one[0].starts_with("warning: seed 1: the run lasts"), "{few}");
    assert!(of_both.iter().any(|line| line.contains("a p99 of 200 jobs")), "{few}");
}

#[test]
fn a_trace_is_read_plain_or_compressed_or_from_standard_input() {
    let folder = folder();
    let text = trace(3_000);
    let compressed = zstd::encode_all(text.as_bytes(), 1).expect("compressed");
    fs::write(folder.path().join("plain.txt"), &text).expect("written");
    fs::write(folder.path().join("compressed.txt.zst"), compressed).expect("written");
    let times = |found: &Value| {
        assert_eq!(found["accesses"], 3_000);
        found["simulated_ns"].as_u64().expect("a number")
    };
    let [plain, compressed] = ["--trace=plain.txt", "--trace=compressed.txt.zst"]
        .map(|option| times(&json(&mut small_sim(folder.path(), &[option, "--json"]))));
    let mut piped = small_sim(folder.path(), &["--trace=-", "--format=text", "--json"]);
    let mut child = piped.stdin(Stdio::piped()).spawn().expect("the program runs");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    let piped = times(&serde_json::from_slice(&output.stdout).expect("one JSON value"));
    assert!(plain > 600_000 && plain == compressed && plain == piped);
    let table =
        printed(&mut small_sim(folder.path(), &["--trace=plain.txt", "--design=flash-sync"]));
    assert!(table.contains("the DRAM cache starts empty"), "{table}");
    assert!(table.contains("--scale makes the machine smaller"), "{table}");
}

#[test]
fn a_trace_that_is_no_whole_trace_gives_no_result() {
    let text = trace(1_000);
    let cut = zstd::encode_all(text.as_bytes(), 1).expect("compressed");
    for (contents, expected, status) in [
        (Vec::new(), "the trace is empty", 2),
        (text.as_bytes()[..text.len() - 4].to_vec(), "trace.txt:1000: ", 2),
        (cut[..cut.len() / 2].to_vec(), "cut short", 2),
        (b"\n\n".to_vec(), "the trace is empty", 2),
        (format!("{text}5 0 0 64 1\n").into_bytes(), "trace.txt:1001: ", 2),
        (format!("{text}what\n").into_bytes(), "trace.txt:1001: ", 2),
    ] {
        let folder = folder();
        fs::write(folder.path().join("trace.txt"), contents).expect("written");
        for json in [&[][..], &["--json"]] {
            let arguments = [&["--trace=trace.txt", "--report=report"], json].concat();
            let text = complaint(&mut small_sim(folder.path(), &arguments), status);
            assert!(text.contains(expected), "{text}");
        }
        assert_eq!(names(folder.path()), ["trace.txt"]);
    }
    assert_refused(&["--trace=missing"], &["cannot open missing"]);
    assert_refused(&["--trace=."], &["cannot read .", "directory"]);
}

#[test]
fn addresses_beyond_the_data_are_folded_onto_it_or_refused() {
    let folder = folder();
    let text = trace(1_000);
    let beyond = format!("{text}300000 0 {} 64 1\n", 64 << 20);
    fs::write(folder.path().join("trace.txt"), &beyond).expect("written");
    let found = json(&mut small_sim(folder.path(), &["--trace=trace.txt", "--json"]));
    assert_eq!(found["accesses"], 1_001);
    assert!(!found.to_string().contains("lie where another does"), "{found}");
    let arguments = ["--trace=trace.txt", "--beyond=refuse"];
    let text = complaint(&mut small_sim(folder.path(), &arguments), 2);
    assert!(text.contains("0x4000000 lies beyond dataset.size = 64MiB"), "{text}");
    let arguments = ["--trace=trace.txt", "--set=dataset.size=8MiB"];
    let text = printed(&mut small_sim(folder.path(), &arguments));
    assert!(text.contains("warning: ") && text.contains("lie where another does"), "{text}");
}

#[test]
fn an_unknown_name_is_met_with_the_nearest() {
    for (argument, expected) in [
        ("--design=astroflash", ["'astroflash'", "did you mean 'astriflash'?"]),
        ("--workload=hashtable", ["'hashtable'", "did you mean 'hash-table'?"]),
        ("--set=dram_cache.way=8", ["dram_cache.way", "'ways'"]),
        ("--set=dram_cash.ways=8", ["dram_cash", "'dram_cache'"]),
        ("--set=dram_cache.policy=lru2", ["'lru2'", "did you mean 'lru'?"]),
        ("--set=switch.scheduler=prio", ["'prio'", "priority"]),
        ("--set=flash.preset=flatt", ["'flatt'", "did you mean 'flat'?"]),
        ("--jbs=3", ["'--jbs'", "'--jobs'"]),
    ] {
        assert_refused(&[argument], &expected);
    }
}

#[test]
fn values_that_cannot_be_are_met_with_what_can() {
    for (argument, expected) in [
        (
            "--set=dram_cache.ways=many",
            ["dram_cache.ways: string \"many\"", "expected a whole number"],
        ),
        ("--set=dram_cache=7", ["dram_cache: integer `7`", "expected a table of keys"]),
        ("--set=dram_cache.ways=3", ["dram_cache.size = 2MiB", "3 ways"]),
        ("--set=dram_cache.size=128MiB", ["dram_cache.size = 128MiB", "less than dataset.size"]),
        ("--set=cores.count=0", ["cores.count = 0", "1 to 1024"]),
        ("--set=cores.count=1000000", ["cores.count = 1000000", "1 to 1024"]),
        ("--set=workload.theta=-1", ["workload.theta = -1", "0 to 10"]),
        ("--set=dataset.size=128TiB", ["dataset.size = 128TiB", "at most 16TiB"]),
        ("--set=ways", ["'ways' is not a setting", "dram_cache.ways=8"]),
        ("--scale=half", ["'half' is not a fraction", "1/64"]),
        ("--scale=0/4", ["'0/4' is not a fraction", "1/64"]),
        ("--scale=1/30", ["dram_cache.size = 69905B", "power of two"]),
        ("--jobs=0", ["--jobs", "at least 1"]),
        ("--jobs=many", ["'many' is not a whole number", "--jobs"]),
        ("--seeds=0", ["--seeds", "at least 1"]),
        ("--seeds=1000000000000", ["--seeds", "at most 10000"]),
        ("--seeds=99999999999999999999", ["--seeds", "is not a whole number"]),
        ("--set=cores.width=64", ["cores.width = 64", "1 to 8"]),
        ("--arrivals=poisson", ["'poisson' is not a load", "poisson:0.8"]),
        ("--arrivals=poisson:2", ["'poisson:2' is not a load", "a share up to 1"]),
        ("--design=missing.toml", ["missing.toml", "No such file"]),
        ("--report=/proc/report", ["cannot write", "/proc/report"]),
    ] {
        assert_refused(&[argument], &expected);
    }
    assert_refused(&["--trace=-", "--workload=tatp"], &["'--trace <FILE>'", "'--workload"]);
    assert_refused(&["--explain", "--seeds=2"], &["'--explain'", "'--seeds"]);
    assert_refused(&["--trace=-", "--seeds=2"], &["'--trace <FILE>'", "'--seeds"]);
}

#[test]
fn a_design_of_ones_own_is_a_file_over_a_base() {
    let folder = folder();
    let file = folder.path().join("mine.toml");
    fs::write(&file, "base = \"flash-sync\"\n[dram_cache]\nways = 8\n").expect("written");
    let found = json(&mut small_sim(folder.path(), &["--design=mine.toml", "--json"]));
    assert_eq!(found["config"]["dram_cache"]["ways"], 8);
    assert_eq!(found["design"], "flash-sync");
    fs::write(&file, "base = \"flash-sync\"\n[dram_cache]\nways = = 8\n").expect("written");
    let text = complaint(&mut small_sim(folder.path(), &["--design=mine.toml"]), 2);
    assert!(text.contains("mine.toml: line 3"), "{text}");
}

#[test]
fn the_scale_shrinks_what_must_shrink_together() {
    let folder = folder();
    let mut sim =
        ebbtide(folder.path(), &["sim", "--scale=1/1024", "--jobs=50", "--seeds=1", "--json"]);
    let config = &json(&mut sim)["config"];
    let sizes = [("dataset", "256MiB"), ("dram_cache", "8MiB"), ("llc", "16KiB"), ("l1", "64KiB")];
    for (section, size) in sizes {
        assert_eq!(config[section]["size"], size, "{section}");
    }
}

#[test]
fn a_report_holds_the_same_numbers() {
    let folder = folder();
    let report = |name: &str| folder.path().join(name);
    let found = json(&mut small_sim(folder.path(), &["--json", "--report=one"]));
    let html = fs::read_to_string(report("one/report.html")).expect("a page");
    for part in
        ["<svg", "astriflash on hash-table", "dataset.size = &quot;64MiB&quot;", "Warmed up"]
    {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("src=") && !html.contains("<script"), "nothing is loaded");
    let csv = fs::read_to_string(report("one/results.csv")).expect("a file");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 2);
    let column = rows[0].iter().position(|name| *name == "dram_cache.misses").expect("a column");
    assert_eq!(rows[1][column], found["dram_cache"]["misses"].to_string());
    printed(&mut small_sim(folder.path(), &["--seeds=2", "--report=two"]));
    let csv = fs::read_to_string(report("two/results.csv")).expect("a file");
    assert_eq!(csv.lines().count(), 3);
    assert!(report("two/means-over-the-seeds.csv").exists());
    fs::write(report("trace.txt"), trace(500)).expect("written");
    printed(&mut small_sim(folder.path(), &["--trace=trace.txt", "--report=three"]));
    assert!(report("three/latency.csv").exists());
}

#[test]
fn the_help_says_that_random_arrivals_queue_at_each_core() {
    let folder = folder();
    let help = printed(&mut ebbtide(folder.path(), &["sim", "--help"]));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains("poisson:SHARE") && help.contains("into a queue for each core"),
        "{help}"
    );
    let run = printed(&mut small_sim(folder.path(), &["--seeds=1", "--arrivals=poisson:0.3"]));
    assert!(run.contains("a queue a core"), "{run}");
}

#[test]
fn an_empty_standard_input_is_an_empty_trace() {
    let folder = folder();
    let mut sim = small_sim(folder.path(), &["--trace=-"]);
    let mut child = sim.stdin(Stdio::piped()).spawn().expect("the program runs");
    drop(child.stdin.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(complaint_of(&output, 2).contains("the trace is empty"));
}

#[test]
fn interrupted_it_stops_and_prints_nothing() {
    let folder = folder();
    // At the paper's size the warm-up alone takes minutes.
    let mut command = ebbtide(folder.path(), &["sim", "--json", "--report=report"]);
    let process = command.spawn().expect("the program runs");
    wait_for("a second of work", || (cpu_ticks(process.id()) > 100).then_some(()));
    let since = Instant::now();
    kill_process(Pid::from_child(&process), Signal::INT).expect("it runs still");
    let output = process.wait_with_output().expect("it ends");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    assert_eq!(complaint_of(&output, 130), "ebbtide: cancelled\n");
    assert!(names(folder.path()).is_empty());
}
