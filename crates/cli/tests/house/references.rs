//! Nothing refers to a document that is not in the project: a source is a paper and its section.

use std::fs;

use super::{text_files, workspace};

/// Names and abbreviations of documents that a reader of the project does not have.
const OUTSIDE: [&str; 8] =
    ["SPEC", "H21n", "Contradiction F", "DESIGN §", "AF§", "FF§", "HM§", "ATC§"];

/// The documents outside of the project that `line` names.
fn named(line: &str) -> Vec<&'static str> {
    let is_letter = |character: Option<char>| character.is_some_and(char::is_alphabetic);
    let names = OUTSIDE.into_iter().filter(|name| {
        line.match_indices(name).any(|(at, _)| {
            let goes_on = name.ends_with(char::is_alphanumeric)
                && is_letter(line[at + name.len()..].chars().next());
            !is_letter(line[..at].chars().next_back()) && !goes_on
        })
    });
    names.collect()
}

#[test]
fn nothing_refers_to_a_document_outside_of_the_project() {
    let mut wrong = Vec::new();
    // This file names them.
    let texts = text_files(&["rs", "toml", "md"]).into_iter();
    for name in texts.filter(|name| !name.ends_with("house/references.rs")) {
        let text = fs::read_to_string(workspace().join(&name)).expect("a text");
        for (number, line) in (1..).zip(text.lines()) {
            let found = named(line).into_iter();
            wrong.extend(found.map(|document| format!("{name}:{number}: {document}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_reference_is_found_as_a_word() {
    assert_eq!(named("/// As SPEC A1 has it, see AF§IV."), ["SPEC", "AF§"]);
    assert_eq!(named("SPECIFIC, UNSPEC'D and HALF§ are other words"), Vec::<&str>::new());
    assert_eq!(named("(SPEC)."), ["SPEC"]);
}
