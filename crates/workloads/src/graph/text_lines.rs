//! [`TextLines`]: the lines of a text file. [`GraphError`]: why a graph cannot be read.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The greatest length of a line, in bytes.
const LINE_BYTES_MAX: u64 = 4096;

/// The characters of a line that an error shows.
const SHOWN_CHARS: usize = 40;

/// An error of reading a graph.
#[derive(Debug, Error)]
pub enum GraphError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A line is invalid.
    #[error("{}:{line}: expected {expected}, found {found}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
}

/// The lines of a file, one at a time.
pub(super) struct TextLines<'a, R> {
    path: &'a Path,
    input: R,
    /// The number of the current line, from 1.
    number: u64,
    line: Vec<u8>,
}

impl<'a, R: BufRead> TextLines<'a, R> {
    /// The lines of `input`. Errors call it `path`. There is no current line yet.
    pub(super) fn new(path: &'a Path, input: R) -> TextLines<'a, R> {
        TextLines { path, input, number: 0, line: Vec::new() }
    }

    /// Goes to the next line; `false` at the end of the file.
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

    /// Goes to the next line that is not empty and does not begin with one of `comments`.
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

    /// Whether the current line begins with `text`, in any case.
    pub(super) fn begins_with(&self, text: &str) -> bool {
        let beginning = self.line.get(..text.len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(text.as_bytes()))
    }

    /// The columns of the current line. A column that is not UTF-8 becomes `?`, which no format
    /// expects.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        let columns = self.line.split(u8::is_ascii_whitespace).filter(|column| !column.is_empty());
        columns.map(|column| std::str::from_utf8(column).unwrap_or("?"))
    }

    /// The first `N` columns of the current line as integers, if all columns are numbers.
    pub(super) fn numbers<const N: usize>(&self) -> Option<[u64; N]> {
        let mut columns = self.columns();
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = columns.next()?.parse().ok()?;
        }
        columns.all(|column| column.parse::<f64>().is_ok()).then_some(numbers)
    }

    /// The error that the current line is not what was `expected`.
    pub(super) fn expected(&self, expected: impl Into<String>) -> GraphError {
        let text = String::from_utf8_lossy(self.line.trim_ascii());
        let mut shown: String =
            text.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
        if text.chars().count() > SHOWN_CHARS {
            shown.push('…');
        }
        self.error(expected, format!("'{shown}'"))
    }

    /// The error that the file ends where something was `expected`.
    pub(super) fn end(&self, expected: impl Into<String>) -> GraphError {
        self.error(expected, "the end of the file".into())
    }

    /// The error that something was `expected` and something else `found`.
    pub(super) fn error(&self, expected: impl Into<String>, found: String) -> GraphError {
        let (path, line) = (self.path.to_path_buf(), self.number);
        GraphError::Line { path, line, expected: expected.into(), found }
    }
}
