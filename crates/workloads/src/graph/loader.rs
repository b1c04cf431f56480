//! [`read`]: graphs from files, as edge lists or in Matrix Market's coordinate format.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::csr::EdgeList;
use super::matrix_market::{self, matrix_market};
use super::numbering::{Numbering, VERTEX_MAX, vertex};
use super::text_lines::{GraphError, TextLines};

/// Reads the graph in the file at `path`, line by line.
///
/// *Edge lists* (such as SNAP's) have an edge on each line: the numbers of its source and its
/// target, separated by blanks. Further columns must be numbers and are ignored, as are empty lines
/// and lines that begin with `#` or `%`. Vertices are renumbered without gaps in the same order: a
/// number that does not occur in the file is not a vertex.
///
/// *Matrix Market* files (those that begin with `%%MatrixMarket`) must be square coordinate
/// matrices, pattern, integer or real, general or symmetric. Entry `i j` is an edge from
/// vertex `i - 1` to `j - 1`, and in a symmetric matrix also one back. Values are ignored. All rows
/// are vertices, also empty ones.
///
/// # Errors
/// [`GraphError`] with the file and the line, what was expected and what was found.
pub fn read(path: &Path) -> Result<EdgeList, GraphError> {
    let file =
        File::open(path).map_err(|source| GraphError::Io { path: path.to_path_buf(), source })?;
    let mut lines = TextLines::new(path, BufReader::with_capacity(1 << 20, file));
    if !lines.advance()? {
        return Err(lines.end("an edge"));
    }
    match lines.begins_with(matrix_market::BANNER) {
        true => matrix_market(lines),
        false => edge_list(lines),
    }
}

/// Reads an edge list whose first line is in hand.
fn edge_list<R: BufRead>(mut lines: TextLines<'_, R>) -> Result<EdgeList, GraphError> {
    const COMMENTS: &[u8] = b"#%";
    let mut numbering = Numbering::default();
    let mut edges = Vec::new();
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
