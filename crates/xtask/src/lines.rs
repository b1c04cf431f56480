//! `lines`: the size of each crate. A line counts if it holds a token of production code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use walkdir::WalkDir;

/// Crates that exist for tests and developers.
const NOT_PRODUCTION: [&str; 3] = ["testbed", "planted", "xtask"];

#[derive(clap::Args)]
pub struct Arguments {
    /// The workspace to count.
    #[arg(long, default_value_os_t = crate::workspace())]
    workspace: PathBuf,
    /// Also lists every file, longest last.
    #[arg(long)]
    files: bool,
}

/// Prints the lines of each crate, largest last, and their sum.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut crates = Vec::new();
    let folder = arguments.workspace.join("crates");
    for entry in fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !NOT_PRODUCTION.contains(&&*name) {
            crates.push((files_of(&path.join("src"))?, name));
        }
    }
    if arguments.files {
        let mut files: Vec<_> = crates.iter().flat_map(|(files, _)| files).collect();
        files.sort_by_key(|(_, lines)| **lines);
        for (path, lines) in files {
            let path = path.strip_prefix(&arguments.workspace).unwrap_or(path);
            println!("{lines:7} {}", path.display());
        }
    }
    let sum = |files: &BTreeMap<PathBuf, usize>| files.values().sum::<usize>();
    crates.sort_by_key(|(files, _)| sum(files));
    for (files, name) in &crates {
        println!("{:7} {name}", sum(files));
    }
    println!("{:7} in all", crates.iter().map(|(files, _)| sum(files)).sum::<usize>());
    Ok(())
}

/// Returns the lines of each file below `source`, without files that only tests compile.
fn files_of(source: &Path) -> anyhow::Result<BTreeMap<PathBuf, usize>> {
    let (mut lines, mut of_tests) = (BTreeMap::new(), BTreeSet::new());
    for entry in WalkDir::new(source) {
        let path = entry?.into_path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        let code = Code::read(&text).with_context(|| format!("{}", path.display()))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let folder = path.parent().unwrap_or(source);
        let inner = match &*stem {
            "lib" | "main" | "mod" => folder.to_path_buf(),
            stem => folder.join(stem),
        };
        for module in code.test_modules {
            of_tests.insert(inner.join(format!("{module}.rs")));
            of_tests.insert(inner.join(module));
        }
        lines.insert(path, code.lines.len());
    }
    lines.retain(|path, _| !path.ancestors().any(|part| of_tests.contains(part)));
    Ok(lines)
}

/// The production code of a file.
#[derive(Default)]
struct Code {
    /// The numbers of its lines.
    lines: BTreeSet<usize>,
    /// Modules in other files that only tests compile.
    test_modules: BTreeSet<String>,
}

impl Code {
    fn read(text: &str) -> anyhow::Result<Code> {
        let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{error}"))?;
        let mut code = Code::default();
        code.add(tokens);
        Ok(code)
    }

    /// Adds the lines of `tokens`, without comments and items under `#[cfg(test)]`.
    fn add(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            if is_punct(&token, '#') {
                let inner = tokens.next_if(|next| is_punct(next, '!'));
                if let Some(attribute) = tokens.next_if(is_bracket).and_then(as_group) {
                    if is_test(&attribute) && inner.is_none() {
                        self.skip_item(&mut tokens);
                    } else if !begins_with(&attribute, "doc") {
                        self.add_token(token);
                        self.add_token(TokenTree::Group(attribute));
                    }
                    continue;
                }
            }
            self.add_token(token);
        }
    }

    fn add_token(&mut self, token: TokenTree) {
        match token {
            TokenTree::Group(group) => {
                self.lines.insert(group.span_open().start().line);
                self.lines.insert(group.span_close().end().line);
                self.add(group.stream());
            }
            token => self.lines.extend(token.span().start().line..=token.span().end().line),
        }
    }

    /// Skips the item that follows. Notes its name if it is a module in another file.
    fn skip_item(&mut self, tokens: &mut impl Iterator<Item = TokenTree>) {
        let mut words = Vec::new();
        for token in tokens {
            match token {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
                TokenTree::Punct(punct) if punct.as_char() == ';' => break,
                // A field or a variant.
                TokenTree::Punct(punct) if punct.as_char() == ',' => return,
                TokenTree::Ident(word) => words.push(word.to_string()),
                _ => {}
            }
        }
        if let Some([word, name]) = words.last_chunk()
            && word == "mod"
        {
            self.test_modules.insert(name.clone());
        }
    }
}

fn is_punct(token: &TokenTree, of: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == of)
}

fn is_bracket(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket)
}

fn as_group(token: TokenTree) -> Option<Group> {
    if let TokenTree::Group(group) = token { Some(group) } else { None }
}

fn begins_with(attribute: &Group, word: &str) -> bool {
    matches!(attribute.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == word)
}

/// Returns true for `cfg(test)` and `cfg(all(test, …))`.
fn is_test(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_do_not_count() {
        let text = "//! The file.\n\n/// A type.\npub struct A {\n    // one\n    b: u8,\n}\n\n\
                    #[derive(Debug)]\nenum C {}\n#[cfg(test)]\nuse a::b;\n\
                    #[cfg(test)]\nmod tests {\n    fn d() {}\n}\n#[cfg(test)]\npub mod checks;\n\
                    const S: &str = \"\n\n\";\n";
        let code = Code::read(text).expect("Rust");
        assert_eq!(code.lines, BTreeSet::from([4, 6, 7, 9, 10, 19, 20, 21]));
        assert_eq!(code.test_modules, BTreeSet::from(["checks".to_string()]));
    }
}
