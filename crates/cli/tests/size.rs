//! `ebbtide size` answers in one line and in figures, from a program or a trace. If it cannot
//! answer, one line has the reason.

mod common;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::thread;

use common::{complaint, cpu_ticks, ebbtide, folder, names, wait_for};
use serde_json::Value;

/// The report of `size` with `arguments`, which may name [`MACHINE`] as `m.toml`.
fn json(arguments: &[&str]) -> Value {
    let folder = folder();
    fs::write(folder.path().join("m.toml"), MACHINE).expect("a file");
    let mut command = ebbtide(folder.path(), &["size", "--json"]);
    if !arguments.iter().any(|argument| argument.starts_with("--dataset")) {
        command.arg("--dataset=16MiB");
    }
    let output = command.args(arguments).output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn design<'a>(report: &'a Value, name: &str) -> &'a Value {
    let designs = report["designs"].as_array().expect("a list");
    designs.iter().find(|design| design["design"] == name).expect("it is listed")
}

#[test]
fn a_program_gets_a_size_a_cost_and_a_lifetime() {
    let report = json(&["--workload=array-swap", "--machine=published"]);
    assert_eq!(report["recommended"], "astriflash");
    let chosen = design(&report, "astriflash");
    let need = |key: &str| chosen["need"][key].as_f64().expect("a number");
    assert!(need("dram_bytes") >= need("analytic_dram_bytes").max(need("simulated_dram_bytes")));
    assert!(need("analytic_p99_us") <= 1000.0 && need("simulated_p99_us") <= 1000.0);
    assert!((0.8..1.0).contains(&need("throughput_kept")), "{need}", need = chosen["need"]);
    // A job swaps two elements, and there is room for those of the jobs under way.
    let pages = report["demand"]["pages_per_job"].as_f64().expect("a number");
    assert!((2.0..5.0).contains(&pages) && need("dram_bytes") >= 4096.0 * pages, "{pages} pages");
    let worth = &chosen["worth"];
    assert!(worth["saving"].as_f64().expect("a number") > 1.0);
    let lifetimes = worth["lifetimes"].as_array().expect("a list");
    let years = |cells: &str| {
        let of_kind = |lifetime: &&Value| lifetime["cells"] == cells;
        let found = lifetimes.iter().find(of_kind).expect("it is listed");
        found["years"].as_f64().expect("array-swap writes")
    };
    // Erase cycles that a block survives: 100,000, 3,000 and 1,000.
    assert!((years("SLC") / years("TLC") - 100.0 / 3.0).abs() < 1e-6);
    assert!((years("TLC") / years("QLC") - 3.0).abs() < 1e-6);
    // Whatever loses more of a core's time at a miss needs more DRAM for the same.
    let dram = |name: &str| design(&report, name)["need"]["dram_bytes"].as_u64();
    assert!(dram("astriflash") < dram("os-swap") && dram("os-swap") <= dram("dram-only"));
}

#[test]
#[ignore = "slow"]
fn a_lifetime_that_must_be_kept_takes_more_dram() {
    let years = |report: &Value, cells: &str| {
        let lifetimes = design(report, "ebbtide")["worth"]["lifetimes"].as_array();
        let of_kind = |lifetime: &&Value| lifetime["cells"] == cells;
        let found = lifetimes.expect("a list").iter().find(of_kind).expect("it is listed");
        found["years"].as_f64().unwrap_or(f64::INFINITY)
    };
    let dram = |report: &Value| design(report, "ebbtide")["need"]["dram_bytes"].as_u64();
    let free = json(&["--workload=array-swap"]);
    let wished = 2.0 * years(&free, "TLC");
    let bound = format!("--min-lifetime={wished}");
    let kept = json(&["--workload=array-swap", &bound]);
    assert!(years(&kept, "TLC") >= wished, "{} of {wished} years", years(&kept, "TLC"));
    assert!(dram(&kept) > dram(&free));
}

#[test]
#[ignore = "slow"]
fn without_a_machine_a_drive_of_today_is_sized_and_this_one_if_it_was_measured() {
    let sized = |folder: &Path, arguments: &[&str]| {
        let output = ebbtide(folder, arguments).output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let folder = folder();
    let arguments = ["size", "--workload=array-swap", "--dataset=1MiB", "--load=0.2", "--json"];
    let bought = sized(folder.path(), &arguments);
    assert_eq!(bought["recommended"], "ebbtide");
    assert!(bought["machine"].as_str().expect("text").contains("Micron 7500"), "{bought}");
    // A drive is as large as drives are, not as the data.
    assert_eq!(bought["options"]["market"]["drive_bytes"], 3_840_000_000_000_u64);
    fs::write(folder.path().join("machine.toml"), MACHINE).expect("a file");
    let here = sized(folder.path(), &arguments);
    assert_eq!(here["machine"], "what misses cost as measured on a test's");
    let published = [&arguments[..], &["--machine=published"]].concat();
    assert_eq!(sized(folder.path(), &published)["recommended"], "astriflash");
}

#[test]
#[ignore = "slow"]
fn the_same_arguments_give_the_same_answer() {
    let arguments = ["--dataset=1MiB", "--seed=3"];
    let [one, other] = both(|| json(&arguments), || json(&arguments));
    assert_eq!(one, other);
}

/// Returns the results of both, run at the same time.
fn both(one: impl Fn() -> Value + Send, other: impl Fn() -> Value) -> [Value; 2] {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        [one.join().expect("it panics with a message of its own"), other]
    })
}

/// Lines of a trace in text form: a power law over 4,096 pages, the half of them written.
fn power_law() -> String {
    let mut text = String::new();
    let mut state = 1_u64;
    for n in 0..60_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let page = 2_f64.powf(12.0 * (state >> 11) as f64 / 2_f64.powi(53)) as u64;
        writeln!(text, "{} 0 {} 8 {}", n * 500, page * 4096, n % 2).expect("memory");
    }
    text
}

#[test]
fn a_trace_gets_an_answer_and_a_report() {
    let folder = folder();
    fs::write(folder.path().join("t.txt"), power_law()).expect("a file");
    let arguments =
        ["size", "--trace=t.txt", "--report=out", "--slo=2ms", "--claims", "--machine=published"];
    let output = ebbtide(folder.path(), &arguments).output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let first = said.lines().next().expect("a line");
    assert!(first.contains(" of DRAM, ") && first.contains("p99 within 2.000 ms"), "{said}");
    for id in ["AS4 ", "AS6 ", "AS7 ", "AS8 ", "AS9 ", "AS10 ", "AS11 "] {
        assert!(said.lines().any(|line| line.starts_with(id)), "{id} in {said}");
    }
    // Its pages are fewer than a sample has.
    assert!(said.contains("all curves are exact"), "{said}");
    assert!(said.contains("note: AS5, the switch"), "{said}");
    let written = names(&folder.path().join("out"));
    assert!(written.contains(&"report.html".to_string()), "{written:?}");
    assert!(written.contains(&"miss-ratio.csv".to_string()), "{written:?}");
}

/// A machine as `doctor --write` describes it.
const MACHINE: &str = r#"
machine = "a test's"
switches = { user_ns = 12.5, os_us = 2.0 }
submission = { call_us = 1.0, read_us = 2.0 }
reads = [
    { in_flight = 1, reads_per_s = 10000.0, mean_us = 100.0, p99_us = 200.0 },
    { in_flight = 32, reads_per_s = 200000.0, mean_us = 160.0, p99_us = 400.0 },
]
modes = [
    { mode = "ebbtide", miss_us = 3.0, write_back_us = 2.0, lost_bytes = 0 },
    { mode = "sync", miss_us = 110.0, write_back_us = 2.0, lost_bytes = 0 },
]
"#;

#[test]
fn a_machine_that_was_measured_brings_its_own_costs_and_its_switch() {
    let folder = folder();
    fs::write(folder.path().join("t.txt"), power_law()).expect("a file");
    fs::write(folder.path().join("m.toml"), MACHINE).expect("a file");
    let arguments =
        ["size", "--trace=t.txt", "--machine=m.toml", "--load=0.2", "--claims", "--json"];
    let output = ebbtide(folder.path(), &arguments).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["recommended"], "ebbtide");
    assert_eq!(design(&report, "ebbtide")["overhead_us"], 3.0);
    assert_eq!(design(&report, "sync")["blocks"], true);
    let claims = report["astriflash"]["claims"].as_array().expect("a list");
    let ids: Vec<_> = claims.iter().map(|claim| claim["id"].as_str().expect("an id")).collect();
    assert_eq!(ids, ["AS4", "AS5", "AS6", "AS7", "AS8", "AS9", "AS10", "AS11"]);
    assert_eq!((&claims[1]["ours"], &claims[1]["verdict"]), (&"12.5 ns".into(), &"within".into()));
    assert!(claims[4]["verdict"] == "input" && claims[5]["verdict"] == "input");
}

#[test]
#[ignore = "slow"]
fn how_far_off_a_sample_is_was_measured() {
    // 64 MiB are as many pages as a sample has, 128 MiB twice as many.
    let sampling = |dataset: &str| {
        // With few designs, as fewer policies then have curves of their own.
        let arguments = [dataset, "--theta=0.6", "--slo=10ms", "--machine=m.toml"];
        json(&arguments)["demand"]["sampling"].clone()
    };
    let error = |sampling: &Value, of: &str| {
        let pair = sampling[of].as_array().map(|pair| (pair[0].as_f64(), pair[1].as_f64()));
        pair.map(|(most, mean)| (most.expect("a number"), mean.expect("a number")))
    };
    let [sampled, whole] = both(|| sampling("--dataset=128MiB"), || sampling("--dataset=32MiB"));
    assert!(sampled["rate"].as_f64().is_some_and(|rate| rate < 0.6), "{sampled}");
    for of in ["error", "small_caches_error"] {
        let (most, mean) = error(&sampled, of).expect("there is an exact curve");
        assert!(most > mean && mean > 0.0 && most < 0.05, "{of}: {sampled}");
    }
    // All pages are in the sample: what is off are distances that are counted together.
    assert!(whole["rate"] == 1.0 && whole["small_caches_error"].is_null(), "{whole}");
    assert!(error(&whole, "error").is_some_and(|(most, _)| most < 0.002), "{whole}");
}

#[test]
#[ignore = "slow"]
fn curves_are_printed_where_no_size_meets_the_objective() {
    let folder = folder();
    let arguments = ["size", "--dataset=1MiB", "--slo=20us"];
    let output = ebbtide(folder.path(), &arguments).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("--slo 20.0 us: no size of DRAM meets it"), "{said}");
    assert!(said.contains("at best"), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("nothing to recommend: --slo 20.0 us"), "{text}");
    for part in ["knee of the LRU curve", "miss ratio with DRAM of", "not met"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = ebbtide(folder.path(), &[&arguments[..], &["--json"]].concat()).output();
    let output = output.expect("it runs");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(json["unmet"].as_str().is_some_and(|unmet| unmet.contains("no size")), "{json}");
    assert!(json["demand"]["curves"][0]["points"].as_array().is_some(), "{json}");
}

#[test]
fn an_interrupt_inside_of_large_accesses_ends_a_sizing_soon() {
    let folder = folder();
    let line = |n: u64| format!("{n} 0 {} 4294967295 1\n", (n % 3) << 40);
    let text: String = (0..4_000).map(line).collect();
    fs::write(folder.path().join("t.txt"), text).expect("room");
    let mut child = ebbtide(folder.path(), &["size", "--trace=t.txt"]).spawn().expect("it runs");
    // Within 0.5 s of processor time it has read the trace, which is short, and is in its accesses.
    wait_for("half a second", || (cpu_ticks(child.id()) > 50).then_some(()));
    let pid = rustix::process::Pid::from_child(&child);
    let before = cpu_ticks(child.id());
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
    // Processor time, as the machine may be busy: the whole batch takes 40 s of it and more.
    let status = wait_for("the end", || {
        let spent = cpu_ticks(child.id()).saturating_sub(before);
        assert!(spent < 500, "{spent} ticks of 10 ms after the interrupt");
        child.try_wait().expect("a child")
    });
    assert_eq!(status.code(), Some(130));
}

#[test]
fn what_cannot_be_answered_is_said_in_a_line() {
    let folder = folder();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    file("foreign", "\u{7f}ELF is no trace\n");
    file("empty", "");
    file("still.txt", "5 0 0 8 1\n5 0 4096 8 1\n");
    for (arguments, expected) in [
        (["--slo=1ns"].as_slice(), ["--slo 1 ns: expected", "at least 1us"]),
        (&["--job=5us"], ["--job: expected --trace FILE", "with it"]),
        (&["--claims"], ["--claims: expected --trace FILE", "with it"]),
        (&["--dataset", "-1"], ["'-1' is not a size", "expected something like 2GiB"]),
        (&["--dram-price=0"], ["--dram-price 0: expected", "0.000001 to 1000000 dollars"]),
        (&["--dram-price=1e308"], ["--dram-price 1e308: expected", "0.000001 to 1000000"]),
        (&["--ssd=0"], ["--ssd 0B: expected", "above 0, at most 1PiB"]),
        (&["--flash-price=-1"], ["--flash-price -1: expected", "0.000001 to 1000000 dollars"]),
        (&["--load=1"], ["--load 1: expected", "below 1"]),
        (&["--load=1e-300"], ["--load 1e-300: expected", "at least 0.000001"]),
        (&["--cores=0"], ["--cores 0: expected", "at least 1"]),
        (&["--min-lifetime=0"], ["--min-lifetime 0: expected", "years, more than 0"]),
        (&["--miss-interval=2s"], ["--miss-interval 2000000: expected", "at most 1000000 us"]),
        (&["--cells=tcl"], ["unknown kind of flash 'TCL'", "known: ULL, SLC, MLC, TLC, QLC"]),
        (&["--slo=soon"], ["'soon' is not a time", "expected something like 10us"]),
        (&["--workload=hash-tabel"], ["'hash-tabel'", "did you mean 'hash-table'?"]),
        (&["--policy=clok"], ["'clok'", "did you mean 'clock'?"]),
        (&["--dataset=1"], ["needs a dataset of", "not 1"]),
    ] {
        let mut command = ebbtide(folder.path(), &["size"]);
        if !arguments[0].starts_with("--dataset") {
            command.arg("--dataset=1MiB");
        }
        let text = complaint(command.args(arguments), 2);
        assert!(expected.iter().all(|part| text.contains(part)), "{arguments:?}: {text}");
    }
    for (trace, expected) in [
        ("missing", "cannot open missing"),
        ("foreign", "foreign"),
        ("empty", "empty: the trace is empty"),
        ("still.txt", "still.txt: all its accesses are at one time"),
    ] {
        let argument = format!("--trace={trace}");
        let text = complaint(&mut ebbtide(folder.path(), &["size", &argument]), 2);
        assert!(text.contains(expected), "{trace}: {text}");
    }
}

#[test]
fn of_a_trace_that_was_cut_short_is_said_what_could_be_read() {
    let folder = folder();
    let text: String = (0..5000).map(|n| format!("{} 0 {} 8 1\n", n * 500, n * 64)).collect();
    fs::write(folder.path().join("t.txt"), &text).expect("a file");
    let convert = ["trace", "convert", "t.txt", "t.ebt"];
    assert!(ebbtide(folder.path(), &convert).status().expect("it runs").success());
    let whole = fs::read(folder.path().join("t.ebt")).expect("the file");
    fs::write(folder.path().join("cut.ebt"), &whole[..whole.len() - 9]).expect("a file");
    fs::write(folder.path().join("cut.txt"), &text[..text.len() - 4]).expect("a file");
    for (trace, expected) in
        [("cut.ebt", "cut.ebt: 5000 entries were read"), ("cut.txt", "cut.txt:5000: ")]
    {
        let argument = format!("--trace={trace}");
        let text = complaint(&mut ebbtide(folder.path(), &["size", &argument]), 2);
        assert!(text.contains(expected) && text.contains("accesses were read before it"), "{text}");
    }
}
