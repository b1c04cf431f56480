//! The content of `docs/ADDING_A_DESIGN.md`: new files, and changes to existing files.

use std::fs;
use std::path::{Path, PathBuf};

/// A fenced block of the guide.
pub struct Block {
    /// The language after the fence.
    pub language: String,
    /// The file that the line before the block names.
    pub path: String,
    /// The text in the block.
    pub text: String,
}

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every fenced block of the guide.
///
/// # Panics
/// When the line before a block does not end with a file's name between backticks and a colon.
pub fn blocks() -> Vec<Block> {
    let guide = fs::read_to_string(workspace().join("docs/ADDING_A_DESIGN.md")).expect("a guide");
    let mut blocks = Vec::new();
    let (mut before, mut lines) = ("", guide.lines());
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let path = before.strip_suffix("`:").and_then(|line| line.rsplit_once('`'));
            let (_, path) = path.unwrap_or_else(|| panic!("no file is named in '{before}'"));
            let inside = lines.by_ref().take_while(|line| *line != "```");
            let text = inside.map(|line| format!("{line}\n")).collect();
            blocks.push(Block { language: language.to_string(), path: path.to_string(), text });
        } else if !line.is_empty() {
            before = line;
        }
    }
    blocks
}

/// Whether `diff` applies to `text`. The kept and removed lines of `diff` follow each other there,
/// exactly once.
pub fn applies(diff: &str, text: &str) -> bool {
    let old = diff.lines().filter_map(|line| match line.split_at_checked(1) {
        Some((" " | "-", rest)) => Some(rest),
        Some(("+", _)) => None,
        _ => panic!("'{line}' is no line of a diff"),
    });
    let old: Vec<&str> = old.collect();
    let lines: Vec<&str> = text.lines().collect();
    !old.is_empty() && lines.windows(old.len()).filter(|window| *window == old).count() == 1
}
