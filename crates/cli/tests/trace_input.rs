//! What `sim`, `compare` and `bench` take of a trace: all pages of every access, and a word on what
//! they do not read.

mod common;

use std::fmt::Write;
use std::fs;

use common::{bench, ebbtide, folder, printed};
use serde_json::Value;

/// Accesses of four pages each to all of 16 MiB, twice, with a column that no reader knows.
fn write_trace(path: &std::path::Path) {
    let mut text = String::from("time_ns,address,bytes,op,colour\n");
    for number in 0..2048u64 {
        writeln!(text, "{},{},16384,R,7", number * 1000, number % 1024 * 16384).expect("memory");
    }
    fs::write(path, text).expect("room");
}

fn told(text: &str) -> bool {
    text.contains("wide.csv: not read: columns 'colour'")
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("one JSON value")
}

#[test]
fn a_simulation_reads_every_page_of_an_access_and_tells_of_columns() {
    let folder = folder();
    write_trace(&folder.path().join("wide.csv"));
    let sim = ["sim", "--trace=wide.csv", "--scale=1/16384", "--json"];
    let text = printed(&mut ebbtide(folder.path(), &sim));
    assert_eq!(value(&text)["accesses"], 8192);
    assert!(told(&text), "{text}");
    let text = printed(&mut ebbtide(folder.path(), &sim[..3]));
    assert!(told(&text), "{text}");
}

#[test]
fn a_comparison_reads_every_page_of_an_access_and_tells_of_columns() {
    let folder = folder();
    write_trace(&folder.path().join("wide.csv"));
    let compare = ["compare", "--trace=wide.csv", "--design=astriflash", "--json"];
    let text = printed(&mut ebbtide(folder.path(), &compare));
    assert_eq!(value(&text)["touched_pages"], 4096);
    assert!(told(&text), "{text}");
    let text = printed(&mut ebbtide(folder.path(), &compare[..3]));
    assert!(told(&text), "{text}");
}

#[test]
fn a_bench_reads_every_page_of_an_access_and_tells_of_columns() {
    let folder = folder();
    write_trace(&folder.path().join("wide.csv"));
    let arguments =
        ["--trace=wide.csv", "--mode=dram", "--rounds=1", "--seconds=0.1", "--data=data"];
    let text = printed(bench(folder.path()).args(arguments).args(["--dram=8MiB", "--json"]));
    assert_eq!(value(&text)["workloads"][0]["pages"], 4096);
    assert!(told(&text), "{text}");
}
