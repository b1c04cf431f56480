//! Unsafe code has its places: memory, threads, the kernel's rings, and what C gives.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

use super::{needs, workspace};

/// Where unsafe code may be: folders and files below `crates`.
const PLACES: [&str; 3] = ["capi/src", "engine/src", "fiber/src"];

/// Whether `unsafe` occurs in `tokens`, as a word of the language.
fn has_unsafe(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "unsafe",
        TokenTree::Group(group) => has_unsafe(group.stream()),
        _ => false,
    })
}

/// Adds every source file below `folder` to `files`.
fn add_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            add_sources(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn unsafe_code_is_only_in_its_places() {
    let crates = workspace().join("crates");
    let mut files = Vec::new();
    needs().keys().for_each(|name| add_sources(&crates.join(name).join("src"), &mut files));
    let unsafe_files = files.iter().filter(|file| {
        let text = fs::read_to_string(file).expect("a source file");
        has_unsafe(text.parse().expect("Rust"))
    });
    let names = unsafe_files.map(|file| file.strip_prefix(&crates).expect("it lies there"));
    let names: Vec<_> = names.collect();
    let elsewhere = names.iter().filter(|name| !PLACES.iter().any(|place| name.starts_with(place)));
    assert_eq!(elsewhere.collect::<Vec<_>>(), Vec::<&&Path>::new());
    for place in PLACES {
        assert!(
            names.iter().any(|name| name.starts_with(place)),
            "{place} needs no place any more"
        );
    }
}
