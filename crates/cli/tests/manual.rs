//! The manual and the completions name every verb.

mod common;

use common::{complaint, ebbtide, folder, names, printed_by};

#[test]
fn the_manual_names_every_verb() {
    let page = printed_by(&["man"]);
    for verb in ["bench", "doctor", "sim", "compare", "sweep", "size", "reproduce", "trace"] {
        assert!(page.contains(&format!("ebbtide\\-{verb}(1)")), "{verb}: {page}");
    }
    let folder = folder();
    let output = ebbtide(folder.path(), &["man", "pages"]).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pages = names(&folder.path().join("pages"));
    for page in ["ebbtide.1", "ebbtide-bench.1", "ebbtide-trace-convert.1"] {
        assert!(pages.contains(&page.to_string()), "{pages:?}");
    }
}

#[test]
fn completions_are_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed_by(&["completions", shell]);
        assert!(script.contains("ebbtide") && script.contains("bench"), "{shell}");
    }
    let folder = folder();
    let text = complaint(&mut ebbtide(folder.path(), &["completions", "csh"]), 2);
    assert!(text.contains("'csh'") && text.contains("bash"), "{text}");
}

/// What bash offers for the last of `words`, after the completions are loaded.
fn offered_by_bash(words: &[&str]) -> Vec<String> {
    let folder = folder();
    std::fs::write(folder.path().join("script"), printed_by(&["completions", "bash"]))
        .expect("room");
    let last = words.len() - 1;
    let (word, before) = (words[last], words[last - 1]);
    let program = format!(
        "source ./script; COMP_WORDS=({}); COMP_CWORD={last}; _ebbtide ebbtide '{word}' '{before}'; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.iter().map(|word| format!("'{word}' ")).collect::<String>()
    );
    let mut bash = std::process::Command::new("bash");
    let output = bash.args(["-c", &program]).current_dir(folder.path()).output().expect("bash");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_string).collect()
}

#[test]
fn completions_offer_designs_presets_and_workloads() {
    let designs = offered_by_bash(&["ebbtide", "sim", "--design", "astri"]);
    assert!(designs.contains(&"astriflash".to_string()), "{designs:?}");
    assert!(designs.iter().all(|name| name.starts_with("astri")), "{designs:?}");
    let offered = |words: &[&str]| offered_by_bash(words);
    assert_eq!(offered(&["ebbtide", "sim", "--preset", ""]), ["atc23"]);
    assert_eq!(offered(&["ebbtide", "sim", "--workload", "hash"]), ["hash-table"]);
    assert_eq!(offered(&["ebbtide", "compare", "hash"]), ["hash-table"]);
    assert_eq!(offered(&["ebbtide", "bench", "red"]), ["red-black-tree"]);
    assert_eq!(offered(&["ebbtide", "designs", "flatf"]), ["flatflash"]);
    assert_eq!(offered(&["ebbtide", "reproduce", "cxl"]), ["cxl-flash"]);
    assert_eq!(offered(&["ebbtide", "trace", "convert", "--from", "drm"]), ["drmemtrace"]);
    // Other shells show what a design is.
    for shell in ["zsh", "fish"] {
        let script = printed_by(&["completions", shell]);
        assert!(script.contains("flatflash") && script.contains("atc23"), "{shell}");
    }
}

#[test]
fn help_shows_examples_and_no_list_of_names() {
    let help = printed_by(&["sim", "--help"]);
    assert!(help.contains("Examples:\n  ebbtide sim --scale 1/64\n"), "{help}");
    assert!(!help.contains("possible values"), "{help}");
}

#[test]
fn what_an_option_needs_is_said_in_a_sentence() {
    let folder = folder();
    let text = complaint(&mut ebbtide(folder.path(), &["bench", "--machine=x.toml"]), 2);
    assert!(text.contains("not provided: --predict") && !text.contains(":;"), "{text}");
}
