//! Links between the documents lead somewhere.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::{text_files, workspace};

/// The anchors of a document's headings, as sites for repositories make them: small letters,
/// digits, hyphens and underscores remain, and spaces become hyphens.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let name = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = name.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// The targets of the links in a document, without those in code.
fn targets(text: &str) -> Vec<String> {
    static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("`[^`]*`").expect("a pattern"));
    static LINK: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern"));
    let mut found = Vec::new();
    for (number, part) in text.split("```").enumerate() {
        if number % 2 == 0 {
            let part = CODE.replace_all(part, "");
            found.extend(LINK.captures_iter(&part).map(|link| link[1].to_string()));
        }
    }
    found
}

/// Why the link to `target` in the document `name` leads nowhere, if it does.
fn fault(name: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = Path::new(name).parent().expect("a folder");
    let file = match path {
        "" => workspace().join(name),
        path => workspace().join(folder).join(path),
    };
    if !file.exists() {
        return Some(format!("{name}: {target}: no such file"));
    }
    let is_document = file.extension().is_some_and(|ending| ending == "md");
    if anchor.is_empty() || !is_document {
        return None;
    }
    let text = fs::read_to_string(&file).expect("a document");
    let is_there = anchors(&text).iter().any(|there| there == anchor);
    (!is_there).then(|| format!("{name}: {target}: no such heading"))
}

#[test]
fn every_link_of_a_document_leads_to_a_file_and_a_heading() {
    let mut faults = Vec::new();
    for name in text_files(&["md"]) {
        let text = fs::read_to_string(workspace().join(&name)).expect("a document");
        faults.extend(targets(&text).iter().filter_map(|target| fault(&name, target)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn links_in_code_do_not_count_and_a_missing_heading_is_found() {
    let text = "See [a](b.md#c-d), `[](x)` and\n```\n[e](f)\n```\n[g](h).\n";
    assert_eq!(targets(text), ["b.md#c-d", "h"]);
    assert_eq!(anchors("# A `b`, c!\n## D_e f\n"), ["a-b-c", "d_e-f"]);
    assert_eq!(fault("README.md", "docs/ARCHITECTURE.md#glossary"), None);
    for nowhere in ["docs/ARCHITECTURE.md#nowhere", "docs/NOWHERE.md"] {
        assert!(fault("README.md", nowhere).is_some(), "{nowhere}");
    }
}
