//! `ebbtide designs`: every design is listed, and described with the source of every parameter.

mod common;

use std::fs;

use common::{complaint, ebbtide, folder, printed_by};
use ebbtide_sim::designs::ALL;
use serde_json::Value;

#[test]
fn the_list_says_what_each_design_is() {
    let text = printed_by(&["designs"]);
    let json: Value = serde_json::from_str(&printed_by(&["designs", "--json"])).expect("JSON");
    let entries = json.as_array().expect("a list");
    assert_eq!((text.lines().count(), entries.len()), (ALL.len(), ALL.len()));
    for ((design, line), entry) in ALL.iter().zip(text.lines()).zip(entries) {
        assert!(line.starts_with(design.name) && line.ends_with(design.about), "{line}");
        assert_eq!(
            (&entry["design"], &entry["description"]),
            (&design.name.into(), &design.about.into())
        );
    }
}

#[test]
fn a_design_is_described_with_its_parts_and_sources() {
    let text = printed_by(&["designs", "os-swap"]);
    for part in [
        "memory side  Paging",
        "of 32 threads",
        "\"AstriFlash\" is the paper",
        "AstriFlash Table I: 3% of",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json: Value =
        serde_json::from_str(&printed_by(&["designs", "os-swap", "--json"])).expect("JSON");
    assert_eq!(json["memory_side"], "Paging");
    let parameters = json["parameters"].as_array().expect("a list");
    let ways = parameters.iter().find(|p| p["key"] == "dram_cache.ways").expect("a parameter");
    assert_eq!((&ways["value"], &ways["source"]), (&"0".into(), &"pages lie in any frame".into()));
}

#[test]
fn a_file_is_described_over_the_design_it_starts_from() {
    let folder = folder();
    let mine =
        "# A narrower AstriFlash.\nbase = \"astriflash\"\n\n[dram_cache]\nways = 2 # a guess\n";
    fs::write(folder.path().join("mine.toml"), mine).expect("written");
    let output = ebbtide(folder.path(), &["designs", "mine.toml"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("A narrower AstriFlash.") && text.contains("a guess"), "{text}");
}

#[test]
fn what_is_no_design_is_refused() {
    let folder = folder();
    for (given, expected) in
        [("astroflash", "did you mean 'astriflash'?"), ("none.toml", "none.toml: No such file")]
    {
        let text = complaint(&mut ebbtide(folder.path(), &["designs", given]), 2);
        assert!(text.contains(expected), "{text}");
    }
}
