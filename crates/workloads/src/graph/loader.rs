//! [`read`]: graphs from files, as edge lists or in Matrix Market's coordinate format.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::csr::EdgeList;
use super::numbering::Numbering;

/// The greatest vertex number that is read.
const VERTEX_MAX: u32 = u32::MAX - 1;

/// A line may be this long, in bytes.
const LINE_BYTES_MAX: u64 = 4096;

/// How much of a line an error shows, in characters.
const SHOWN_CHARS: usize = 40;

/// What the first line of a Matrix Market file begins with.
const MATRIX_MARKET: &[u8] = b"%%MatrixMarket";

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

/// Reads the graph in the file at `path`, line by line.
///
/// *Edge lists* (as SNAP's) have an edge a line: the numbers of the vertices it leads from and to,
/// apart by blanks. Further columns must be numbers and are left out; lines that begin with `#` or
/// `%`, and empty ones, too. Vertices are numbered anew, without gaps and in the same order: a
/// number that is nowhere in the file is no vertex.
///
/// *Matrix Market* files (those that begin with `%%MatrixMarket`) must be square coordinate
/// matrices, pattern, integer or real, general or symmetric. Entry `i j` is an edge from vertex
/// `i - 1` to `j - 1`, and of a symmetric matrix also one back; values are left out. All rows are
/// vertices, also empty ones.
///
/// # Errors
/// [`GraphError`] with the file and the line, what was expected and what was found.
pub fn read(path: &Path) -> Result<EdgeList, GraphError> {
    let file =
        File::open(path).map_err(|source| GraphError::Io { path: path.to_path_buf(), source })?;
    parse(path, BufReader::with_capacity(1 << 20, file))
}

/// Reads the graph in `input`, which errors call `path`.
fn parse(path: &Path, input: impl BufRead) -> Result<EdgeList, GraphError> {
    let mut lines = Lines { path, input, number: 0, line: Vec::new() };
    if !lines.advance()? {
        return Err(lines.end("an edge"));
    }
    if lines.line.starts_with(MATRIX_MARKET) { matrix_market(lines) } else { edge_list(lines) }
}

/// The lines of a file, one at a time.
struct Lines<'a, R> {
    path: &'a Path,
    input: R,
    /// Of the line at hand, from 1.
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<'_, R> {
    /// Takes the next line in hand; `false` at the end of the file.
    fn advance(&mut self) -> Result<bool, GraphError> {
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
    fn advance_to_content(&mut self, comments: &[u8]) -> Result<bool, GraphError> {
        while self.advance()? {
            if self.has_content(comments) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_content(&self, comments: &[u8]) -> bool {
        self.line.trim_ascii().first().is_some_and(|byte| !comments.contains(byte))
    }

    /// The columns of the line at hand. What is not text is no column that anyone expects.
    fn columns(&self) -> impl Iterator<Item = &str> {
        let columns = self.line.split(u8::is_ascii_whitespace).filter(|column| !column.is_empty());
        columns.map(|column| std::str::from_utf8(column).unwrap_or("?"))
    }

    /// The columns of the line at hand as `N` numbers, if they are; others behind them must be
    /// numbers too.
    fn numbers<const N: usize>(&self) -> Option<[u64; N]> {
        let mut columns = self.columns();
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = columns.next()?.parse().ok()?;
        }
        columns.all(|column| column.parse::<f64>().is_ok()).then_some(numbers)
    }

    /// The line at hand is not what was `expected`.
    fn expected(&self, expected: impl Into<String>) -> GraphError {
        let text = String::from_utf8_lossy(self.line.trim_ascii());
        let mut shown: String =
            text.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
        if text.chars().count() > SHOWN_CHARS {
            shown.push('…');
        }
        self.error(expected, format!("'{shown}'"))
    }

    /// The file ends where something was `expected`.
    fn end(&self, expected: impl Into<String>) -> GraphError {
        self.error(expected, "the end of the file".into())
    }

    fn error(&self, expected: impl Into<String>, found: String) -> GraphError {
        let (path, line) = (self.path.to_path_buf(), self.number);
        GraphError::Line { path, line, expected: expected.into(), found }
    }
}

fn edge_list<R: BufRead>(mut lines: Lines<'_, R>) -> Result<EdgeList, GraphError> {
    const COMMENTS: &[u8] = b"#%";
    let mut numbering = Numbering::default();
    let mut edges = Vec::new();
    // The first line is in hand already.
    let mut more = lines.has_content(COMMENTS) || lines.advance_to_content(COMMENTS)?;
    while more {
        let ends = lines.numbers().and_then(|[from, to]| Some([vertex(from)?, vertex(to)?]));
        let ends =
            ends.ok_or_else(|| lines.expected(format!("two vertex numbers of 0 to {VERTEX_MAX}")))?;
        ends.iter().for_each(|&end| numbering.insert(end));
        edges.push(ends);
        more = lines.advance_to_content(COMMENTS)?;
    }
    if edges.is_empty() {
        return Err(lines.end("an edge"));
    }
    let vertices = numbering.finish();
    edges.iter_mut().flatten().for_each(|end| *end = numbering.number(*end));
    Ok(EdgeList::new(vertices, edges))
}

fn vertex(number: u64) -> Option<u32> {
    u32::try_from(number).ok().filter(|&number| number <= VERTEX_MAX)
}

fn matrix_market<R: BufRead>(mut lines: Lines<'_, R>) -> Result<EdgeList, GraphError> {
    const COMMENTS: &[u8] = b"%";
    let header = lines.columns().map(str::to_ascii_lowercase).collect::<Vec<String>>();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let symmetric = match header[..] {
        [_, "matrix", "coordinate", "pattern" | "integer" | "real", "general"] => false,
        [_, "matrix", "coordinate", "pattern" | "integer" | "real", "symmetric"] => true,
        _ => {
            return Err(lines.expected(
                "'%%MatrixMarket matrix coordinate', then pattern, integer or real, then general \
                 or symmetric",
            ));
        }
    };
    let columns = if header[3] == "pattern" { 2 } else { 3 };
    if !lines.advance_to_content(COMMENTS)? {
        return Err(lines.end("the numbers of rows, columns and entries"));
    }
    let (vertices, count) = match lines.numbers() {
        Some([rows, columns, count])
            if rows == columns && rows > 0 && lines.columns().count() == 3 =>
        {
            let vertices =
                vertex(rows).ok_or_else(|| lines.expected(format!("at most {VERTEX_MAX} rows")))?;
            (vertices, count)
        }
        _ => {
            return Err(lines.expected("the numbers of rows, of as many columns, and of entries"));
        }
    };
    let mut edges = Vec::new();
    for read in 0..count {
        if !lines.advance_to_content(COMMENTS)? {
            return Err(lines.end(format!("{count} entries, of which {read} are here")));
        }
        let [from, to] = entry(&lines, vertices, columns)?;
        edges.push([from, to]);
        if symmetric && from != to {
            edges.push([to, from]);
        }
    }
    if lines.advance_to_content(COMMENTS)? {
        return Err(lines.expected(format!("the end of the file after {count} entries")));
    }
    Ok(EdgeList::new(vertices, edges))
}

/// The entry on the line at hand, counted from 0.
fn entry<R: BufRead>(
    lines: &Lines<'_, R>,
    vertices: u32,
    columns: usize,
) -> Result<[u32; 2], GraphError> {
    let index =
        |number: u64| (1..=u64::from(vertices)).contains(&number).then(|| number as u32 - 1);
    let entry = lines.numbers().and_then(|[row, column]| Some([index(row)?, index(column)?]));
    entry.filter(|_| lines.columns().count() == columns).ok_or_else(|| {
        let value = if columns == 3 { ", and a value" } else { "" };
        lines.expected(format!("a row and a column of 1 to {vertices}{value}"))
    })
}
