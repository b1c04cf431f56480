//! `ebbtide size` answers in one line and in figures, from a program or a trace, and says in one line
//! what keeps it from answering.

mod common;

use std::fmt::Write;
use std::fs;

use common::{complaint, ebbtide, folder, names};
use serde_json::Value;

const SMALL: [&str; 2] = ["size", "--dataset=16MiB"];

fn json(arguments: &[&str]) -> Value {
    let folder = folder();
    let mut command = ebbtide(folder.path(), &SMALL);
    let output = command.args(arguments).arg("--json").output().expect("the program runs");
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
    let report = json(&["--workload=array-swap"]);
    assert_eq!(report["recommended"], "astriflash");
    let chosen = design(&report, "astriflash");
    let need = |key: &str| chosen["need"][key].as_f64().expect("a number");
    assert!(need("dram_bytes") >= need("analytic_dram_bytes").max(need("simulated_dram_bytes")));
    assert!(need("analytic_p99_us") <= 1000.0 && need("simulated_p99_us") <= 1000.0);
    assert!((0.8..1.0).contains(&need("throughput_kept")), "{need}", need = chosen["need"]);
    let worth = &chosen["worth"];
    assert!(worth["saving"].as_f64().expect("a number") > 1.0);
    let lifetimes = worth["lifetimes"].as_array().expect("a list");
    for lifetime in lifetimes {
        let years = |key: &str| lifetime[key].as_f64().expect("array-swap writes");
        // 8760 hours against 2080.
        assert!((years("working_years") / years("years") - 8760.0 / 2080.0).abs() < 1e-6);
    }
    assert_eq!(lifetimes.len(), 4);
    // Whatever loses more of a core's time at a miss needs more DRAM for the same.
    let dram = |name: &str| design(&report, name)["need"]["dram_bytes"].as_u64();
    assert!(dram("astriflash") < dram("os-swap") && dram("os-swap") <= dram("dram-only"));
}

#[test]
fn a_lifetime_that_must_be_kept_takes_more_dram() {
    let years = |report: &Value, cells: &str| {
        let lifetimes = design(report, "astriflash")["worth"]["lifetimes"].as_array();
        let of_kind = |lifetime: &&Value| lifetime["cells"] == cells;
        let found = lifetimes.expect("a list").iter().find(of_kind).expect("it is listed");
        found["years"].as_f64().unwrap_or(f64::INFINITY)
    };
    let dram = |report: &Value| design(report, "astriflash")["need"]["dram_bytes"].as_u64();
    let free = json(&["--workload=array-swap"]);
    let wished = 2.0 * years(&free, "TLC");
    let bound = format!("--min-lifetime={wished}");
    let kept = json(&["--workload=array-swap", &bound]);
    assert!(years(&kept, "TLC") >= wished, "{} of {wished} years", years(&kept, "TLC"));
    assert!(dram(&kept) > dram(&free));
}

#[test]
fn the_same_arguments_give_the_same_answer() {
    assert_eq!(json(&["--seed=3"]), json(&["--seed=3"]));
}

#[test]
fn a_trace_gets_an_answer_and_a_report() {
    let folder = folder();
    let mut text = String::new();
    let mut state = 1_u64;
    for n in 0..60_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // A power law over 4,096 pages.
        let page = 2_f64.powf(12.0 * (state >> 11) as f64 / 2_f64.powi(53)) as u64;
        writeln!(text, "{} 0 {} 8 {}", n * 500, page * 4096, n % 4).expect("memory");
    }
    let text = text.replace(" 8 2\n", " 8 1\n").replace(" 8 3\n", " 8 1\n");
    fs::write(folder.path().join("t.txt"), text).expect("a file");
    let arguments = ["size", "--trace=t.txt", "--report=out", "--slo=2ms"];
    let output = ebbtide(folder.path(), &arguments).output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let first = said.lines().next().expect("a line");
    assert!(first.contains(" of DRAM, ") && first.contains("p99 within 2.000 ms"), "{said}");
    for id in ["AS4 ", "AS6 ", "AS7 ", "AS10 ", "AS11 "] {
        assert!(said.lines().any(|line| line.starts_with(id)), "{id} in {said}");
    }
    let written = names(&folder.path().join("out"));
    assert!(written.contains(&"report.html".to_string()), "{written:?}");
    assert!(written.contains(&"miss-ratio.csv".to_string()), "{written:?}");
}

#[test]
fn what_cannot_be_answered_is_said_in_a_line() {
    let folder = folder();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    file("foreign", "\u{7f}ELF is no trace\n");
    file("empty", "");
    file("still", "5 0 0 8 1\n5 0 4096 8 1\n");
    for (arguments, expected) in [
        (["--slo=20us"].as_slice(), ["--slo 20.0 us: no size of DRAM meets it", "at best"]),
        (&["--dram-price=0"], ["--dram-price 0: expected", "more than 0"]),
        (&["--flash-price=-1"], ["--flash-price -1: expected", "more than 0"]),
        (&["--load=1"], ["--load 1: expected", "below 1"]),
        (&["--cores=0"], ["--cores 0: expected", "at least 1"]),
        (&["--min-lifetime=0"], ["--min-lifetime 0: expected", "years, more than 0"]),
        (&["--cells=tcl"], ["unknown kind of flash 'TCL'", "known: ULL, SLC, MLC, TLC"]),
        (&["--slo=soon"], ["'soon' is no time", "expected something like 10us"]),
        (&["--workload=hash-tabel"], ["'hash-tabel'", "did you mean 'hash-table'?"]),
        (&["--policy=clok"], ["'clok'", "did you mean 'clock'?"]),
        (&["--dataset=1"], ["needs a dataset of", "not 1"]),
    ] {
        let mut command = ebbtide(folder.path(), &["size"]);
        if !arguments[0].starts_with("--dataset") {
            command.arg("--dataset=16MiB");
        }
        let text = complaint(command.args(arguments), 2);
        assert!(expected.iter().all(|part| text.contains(part)), "{arguments:?}: {text}");
    }
    for (trace, expected) in [
        ("missing", "cannot open missing"),
        ("foreign", "foreign"),
        ("empty", "empty: no access in it"),
        ("still", "still: all its accesses are at one time"),
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
        let text = complaint(&mut ebbtide(folder.path(), &["size", &argument]), 1);
        assert!(text.contains(expected) && text.contains("accesses were read before it"), "{text}");
    }
}
