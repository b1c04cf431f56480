//! Nothing refers to a document that is not in the project: a source is a paper and its section.

use std::fs;
use std::path::{Path, PathBuf};

use super::workspace;

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

/// Adds every text below `folder` to `files`, but for this one.
fn add_texts(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            add_texts(&path, files);
        } else if path
            .extension()
            .is_some_and(|ending| ["rs", "toml", "md"].iter().any(|e| ending == *e))
            && !path.ends_with("house/references.rs")
        {
            files.push(path);
        }
    }
}

#[test]
fn nothing_refers_to_a_document_outside_of_the_project() {
    let (root, mut files) = (workspace(), Vec::new());
    add_texts(&root.join("crates"), &mut files);
    add_texts(&root.join("docs"), &mut files);
    files.extend(
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|f| root.join(f)),
    );
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a text");
        let name = file.strip_prefix(&root).expect("it lies there").display().to_string();
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
