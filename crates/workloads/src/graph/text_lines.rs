//! [`TextLines`] of a text file, and what is wrong with them ([`GraphError`]).

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A line may be this long, in bytes.
const LINE_BYTES_MAX: u64 = 4096;

/// How much of a line an error shows, in characters.
const SHOWN_CHARS: usize = 40;

/// Why a graph could not be read.
#[derive(Debug, Error)]
pub enum GraphError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line is not what it must be.
    #[error("{}:{line}: expected {expected}, found {found}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// What must be there.
        expected: String,
        /// What is there.
        found: String,
    },
}

/// The lines of a file, one at a time.
pub(super) struct TextLines<'a, R> {
    path: &'a Path,
    input: R,
    /// Of the line at hand, from 1.
    number: u64,
    line: Vec<u8>,
}

impl<'a, R: BufRead> TextLines<'a, R> {
    /// The lines of `input`, which errors call `path`; none is in hand yet.
    pub(super) fn new(path: &'a Path, input: R) -> TextLines<'a, R> {
        TextLines { path, input, number: 0, line: Vec::new() }
    }

    /// Takes the next line in hand; `false` at the end of the file.
    pub(super) fn advance(&mut self) -> Result<bool, GraphError> {
        self.line.clear();
        let mut limited = self.input.by_ref().take(LINE_BYTES_MAX);
        let read = limited.read_until(b'\n', &mut self.line);
        let read =
            read.map_err(|source| GraphError::Io { path: self.path.to_path_buf(), source })?;
        self.number += 1;
        if read as u64 == LINE_BYTES_MAX && !self.line.ends_with(b"\n") {
            return Err(self.expected("a line of text"));
        }
        Ok(read > 0)
    }

    /// Takes the next line in hand that is neither empty nor begins with one of `comments`.
    pub(super) fn advance_to_content(&mut self, comments: &[u8]) -> Result<bool, GraphError> {
        while self.advance()? {
            if self.has_content(comments) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn has_content(&self, comments: &[u8]) -> bool {
        self.line.trim_ascii().first().is_some_and(|byte| !comments.contains(byte))
    }

    /// Whether the line at hand begins with `text`, in capitals or not.
    pub(super) fn begins_with(&self, text: &str) -> bool {
        let beginning = self.line.get(..text.len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(text.as_bytes()))
    }

    /// The columns of the line at hand. What is not text is no column that anyone expects.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        let columns = self.line.split(u8::is_ascii_whitespace).filter(|column| !column.is_empty());
        columns.map(|column| std::str::from_utf8(column).unwrap_or("?"))
    }

    /// The columns of the line at hand as `N` numbers, if they are; others behind them must be
    /// numbers too.
    pub(super) fn numbers<const N: usize>(&self) -> Option<[u64; N]> {
        let mut columns = self.columns();
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = columns.next()?.parse().ok()?;
        }
        columns.all(|column| column.parse::<f64>().is_ok()).then_some(numbers)
    }

    /// The line at hand is not what was `expected`.
    pub(super) fn expected(&self, expected: impl Into<String>) -> GraphError {
        let text = String::from_utf8_lossy(self.line.trim_ascii());
        let mut shown: String =
            text.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
        if text.chars().count() > SHOWN_CHARS {
            shown.push('…');
        }
        self.error(expected, format!("'{shown}'"))
    }

    /// The file ends where something was `expected`.
    pub(super) fn end(&self, expected: impl Into<String>) -> GraphError {
        self.error(expected, "the end of the file".into())
    }

    /// Something was `expected` and something else `found`.
    pub(super) fn error(&self, expected: impl Into<String>, found: String) -> GraphError {
        let (path, line) = (self.path.to_path_buf(), self.number);
        GraphError::Line { path, line, expected: expected.into(), found }
    }
}
