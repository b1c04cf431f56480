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

#[test]
fn what_an_option_needs_is_said_in_a_sentence() {
    let folder = folder();
    let text = complaint(&mut ebbtide(folder.path(), &["bench", "--machine=x.toml"]), 2);
    assert!(text.contains("not provided: --predict") && !text.contains(":;"), "{text}");
}
