//! The text is plain: sentences are short, phrases that are hard to read stay rare, and lines fit a
//! screen.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::sync::LazyLock;

use regex::Regex;

use super::{text_files, workspace};

/// The longest sentence in words.
const SENTENCE_WORDS: usize = 25;

/// The longest line of a comment in Rust, in characters. rustfmt keeps the code within this width.
const RUST_COLUMNS: usize = 100;

/// The longest line of a document, in characters. Tables are exempt.
const DOCUMENT_COLUMNS: usize = 120;

/// The largest share of hard sentences, in percent, in every crate and document.
const HARD_PERCENT: usize = 5;

/// Patterns of phrases that make a sentence hard, each with its plain form.
const PHRASES: [(&str, &str); 9] = [
    (r"(?i)^(give|tell|say)s?\b", "Returns, Reports or States"),
    (r"(?i)\b(who|what|wher)ever\b", "the thing's name"),
    (r"(?i)\bso (many|much|long|often)\b( (that|as)\b)?", "the quantity"),
    (r"(?i)\b(of|by|from|in) which\b", "two sentences"),
    (r"(?i)\b(in vain|by itself|meanwhile|beside)\b", "unsuccessfully, alone, or next to"),
    (r"(?i)\b(no|some|every)body\b", "the component's name"),
    (
        r"(?i)\bwhat (is|are|was|were|it|they|an?|the|there|no|one|each)\b[^.?]{0,60}\b(is|are|has|have|does|do)\b",
        "a noun first",
    ),
    (r"(?i)\bis to (be|go|have|do|stay|come)\b", "must or will"),
    (r"(?i)\bno (longer|more|less) than\b.*\band no\b", "at most or at least"),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let pattern = |(pattern, plain)| (Regex::new(pattern).expect("a pattern"), plain);
    PHRASES.map(pattern).into()
});

/// One sentence, with the number of the line where its paragraph starts.
type Sentence = (usize, String);

/// Returns the reasons why `sentence` is hard to read.
fn faults(sentence: &str) -> Vec<String> {
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    let words = sentence.split_whitespace().filter(is_word).count();
    let long = (words > SENTENCE_WORDS).then(|| format!("{words} words"));
    let phrases = PATTERNS.iter().filter_map(|(pattern, plain)| {
        let found = pattern.find(sentence)?.as_str();
        let counts = !found.ends_with(" that") && !found.ends_with(" as");
        counts.then(|| format!("'{found}': write {plain}"))
    });
    long.into_iter().chain(phrases).collect()
}

/// Returns the text of a comment line of a language with `marks`, without the mark.
fn comment<'a>(line: &'a str, marks: &[&str]) -> Option<&'a str> {
    let line = line.trim_start();
    marks.iter().find_map(|mark| line.strip_prefix(mark)).map(str::trim)
}

/// Returns the lines of prose in a file by line number. `None` separates paragraphs.
fn prose(name: &str, text: &str) -> Vec<(usize, Option<String>)> {
    let marks: &[&str] = match name.rsplit('.').next() {
        Some("md") => &[],
        Some("rs") => &["///", "//!"],
        Some("h" | "hpp") => &["//"],
        _ => &["#"],
    };
    let mut is_code = false;
    let line = |(number, line): (usize, &str)| {
        let text = if marks.is_empty() { Some(line.trim_end()) } else { comment(line, marks) };
        let Some(text) = text else {
            is_code = false;
            return (number, None);
        };
        if text.trim_start().starts_with("```") {
            is_code = !is_code;
            return (number, None);
        }
        let no_prose = text.is_empty() || text.starts_with(['|', '#']) || text.starts_with("    ");
        (number, (!is_code && !no_prose).then(|| text.trim().to_string()))
    };
    (1..).zip(text.lines()).map(line).collect()
}

/// Returns the sentences of a file. Code, headings and tables have none.
fn sentences(name: &str, text: &str) -> Vec<Sentence> {
    static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("`[^`]*`").expect("a pattern"));
    static LINK: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\[([^\]]*)\]\([^)]*\)").expect("a pattern"));
    static END: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"[.?!:]\s+([A-Z*`])").expect("a pattern"));
    static ITEM: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^([*-]|\d+\.)\s+").expect("a pattern"));
    let mut paragraphs: Vec<Sentence> = Vec::new();
    let mut goes_on = false;
    for (number, line) in prose(name, text) {
        let Some(line) = line else {
            goes_on = false;
            continue;
        };
        let item = ITEM.find(&line).map(|mark| line[mark.end()..].to_string());
        match paragraphs.last_mut().filter(|_| goes_on && item.is_none()) {
            Some((_, paragraph)) => write!(paragraph, " {line}").expect("text"),
            None => paragraphs.push((number, item.unwrap_or(line))),
        }
        goes_on = true;
    }
    let split = |(number, paragraph): Sentence| {
        let plain = CODE.replace_all(&paragraph, "X");
        let plain = LINK.replace_all(&plain, "$1");
        let cut = END.replace_all(&plain, ".\n$1");
        cut.lines().map(|sentence| (number, sentence.to_string())).collect::<Vec<_>>()
    };
    paragraphs.into_iter().flat_map(split).collect()
}

/// Returns the area of a file: its crate, its document, or its folder.
fn area(name: &str) -> String {
    let parts: Vec<_> = name.split('/').collect();
    match parts[..] {
        ["crates", folder, ..] => format!("crates/{folder}"),
        _ if name.ends_with(".md") => name.to_string(),
        [folder, ..] => folder.to_string(),
        [] => String::new(),
    }
}

#[test]
fn hard_sentences_are_rare_in_every_crate_and_document() {
    let mut areas: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for name in text_files(&["md", "rs", "py", "h", "hpp", "toml"]) {
        let text = fs::read_to_string(workspace().join(&name)).expect("a text");
        let (total, hard) = areas.entry(area(&name)).or_default();
        for (number, sentence) in sentences(&name, &text) {
            *total += 1;
            let faults = faults(&sentence);
            if !faults.is_empty() {
                hard.push(format!("  {name}:{number}: {sentence} <- {}", faults.join("; ")));
            }
        }
    }
    let bad: Vec<_> = areas
        .into_iter()
        // One hard sentence is allowed in a text of any length.
        .filter(|(_, (total, hard))| hard.len() > (total * HARD_PERCENT / 100).max(1))
        .map(|(area, (total, hard))| {
            format!("{area}: {} of {total} sentences are hard\n{}", hard.len(), hard.join("\n"))
        })
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn lines_of_text_fit_a_screen() {
    let is_table = |text: &str| text.starts_with('|');
    let mut long = Vec::new();
    for name in text_files(&["md", "rs"]) {
        let text = fs::read_to_string(workspace().join(&name)).expect("a text");
        let is_rust = name.ends_with(".rs");
        let columns = if is_rust { RUST_COLUMNS } else { DOCUMENT_COLUMNS };
        for (number, line) in (1..).zip(text.lines()) {
            let is_exempt = match is_rust {
                true => comment(line, &["///", "//!", "//"]).is_none_or(is_table),
                false => is_table(line.trim_start()),
            };
            // A link cannot be broken.
            if !is_exempt && line.chars().count() > columns && !line.contains("://") {
                long.push(format!("{name}:{number}"));
            }
        }
    }
    assert!(long.is_empty(), "{} lines are too long:\n{}", long.len(), long.join("\n"));
}

/// Returns the words of a document. Those of its tables count if `tables`.
fn words(text: &str, tables: bool) -> usize {
    let counted = text.lines().filter(|line| tables || !line.starts_with('|'));
    counted.map(|line| line.split_whitespace().count()).sum()
}

#[test]
fn documents_keep_their_length() {
    let read = |name: &str| fs::read_to_string(workspace().join(name)).expect("a document");
    let most = [
        ("README.md", 900, true),
        ("docs/ARCHITECTURE.md", 2_500, true),
        ("docs/RESULTS.md", 5_000, true),
        // Its tables are made of TOML files and of the claims.
        ("docs/SYSTEMS.md", 4_000, false),
    ];
    for (name, most, tables) in most {
        let count = words(&read(name), tables);
        assert!(count <= most, "{name} has {count} words, expected at most {most}");
    }
    let lines = read("CHANGELOG.md").lines().count();
    assert!(lines <= 120, "CHANGELOG.md has {lines} lines, expected at most 120");
}

#[test]
fn words_of_tables_count_only_if_asked() {
    let text = "Two words.\n| a | b |\n";
    assert_eq!((words(text, true), words(text, false)), (7, 2));
}

#[test]
fn a_sentence_is_hard_for_its_length_or_a_phrase() {
    let long = ["word"; SENTENCE_WORDS + 1].join(" ");
    assert_eq!(faults(&long), ["26 words"]);
    assert_eq!(faults(&["word"; SENTENCE_WORDS].join(" ")), Vec::<String>::new());
    assert_eq!(
        faults("Says that nobody waits."),
        ["'Says': write Returns, Reports or States", "'nobody': write the component's name",]
    );
    assert_eq!(faults("A job waits so long that it is aborted."), Vec::<String>::new());
}

#[test]
fn code_and_tables_are_no_sentences_and_paragraphs_end() {
    let text = "//! One. Two is\n//! longer.\n//! ```\n//! let x = 1;\n//! ```\n//!\n//! - Item.\n\
                fn f() {}\n/// Of `a. B` and [c](d).\n";
    let found: Vec<_> = sentences("a.rs", text).into_iter().map(|(_, text)| text).collect();
    assert_eq!(found, ["One.", "Two is longer.", "Item.", "Of X and c."]);
    assert_eq!(sentences("a.md", "# Title\n\n| a | b |\n\nText.\n"), [(5, "Text.".into())]);
}
