//! [`matrix_market`]: graphs as sparse matrices, in Matrix Market's coordinate format (Boisvert,
//! Pozo and Remington, NISTIR 5935).

use std::io::BufRead;

use super::csr::EdgeList;
use super::numbering::{VERTEX_MAX, vertex};
use super::text_lines::{GraphError, TextLines};

/// The first word of the file.
pub(super) const BANNER: &str = "%%MatrixMarket";

const COMMENTS: &[u8] = b"%";

/// The contents of the header.
struct Matrix {
    /// Whether an entry stands for its mirror image too.
    symmetric: bool,
    /// The number of fields of an entry: its row, its column and perhaps its value.
    columns: usize,
    vertices: u32,
    entries: u64,
}

/// Reads a matrix. The current line of `lines` is its first.
pub(super) fn matrix_market<R: BufRead>(
    mut lines: TextLines<'_, R>,
) -> Result<EdgeList, GraphError> {
    let matrix = matrix(&mut lines)?;
    let mut edges = Vec::new();
    for read in 0..matrix.entries {
        if !lines.advance_to_content(COMMENTS)? {
            let (entries, found) = (matrix.entries, format!("the end of the file after {read}"));
            return Err(lines.error(format!("{entries} entries"), found));
        }
        let [from, to] = entry(&lines, &matrix)?;
        edges.push([from, to]);
        if matrix.symmetric && from != to {
            edges.push([to, from]);
        }
    }
    if lines.advance_to_content(COMMENTS)? {
        return Err(lines.expected(format!("the end of the file (entries: {})", matrix.entries)));
    }
    Ok(EdgeList::new(matrix.vertices, edges))
}

/// Reads the banner and the line of sizes.
fn matrix<R: BufRead>(lines: &mut TextLines<'_, R>) -> Result<Matrix, GraphError> {
    let banner: Vec<String> = lines.columns().map(str::to_ascii_lowercase).collect();
    let banner: Vec<&str> = banner.iter().map(String::as_str).collect();
    let [_, "matrix", "coordinate", field @ ("pattern" | "integer" | "real"), symmetry] =
        banner[..]
    else {
        return Err(unreadable(lines));
    };
    let symmetric = match symmetry {
        "general" => false,
        "symmetric" => true,
        _ => return Err(unreadable(lines)),
    };
    let columns = if field == "pattern" { 2 } else { 3 };
    let (vertices, entries) = sizes(lines)?;
    Ok(Matrix { symmetric, columns, vertices, entries })
}

fn unreadable<R: BufRead>(lines: &TextLines<'_, R>) -> GraphError {
    lines.expected(
        "'%%MatrixMarket matrix coordinate', then pattern, integer or real, then general or \
         symmetric",
    )
}

/// Reads the number of rows, which equals the number of columns, and the number of entries.
fn sizes<R: BufRead>(lines: &mut TextLines<'_, R>) -> Result<(u32, u64), GraphError> {
    if !lines.advance_to_content(COMMENTS)? {
        return Err(lines.end("the numbers of rows, columns and entries"));
    }
    match lines.numbers().filter(|_| lines.columns().count() == 3) {
        Some([rows, columns, entries]) if rows == columns && rows > 0 => {
            let vertices = vertex(rows);
            let too_many = || lines.expected(format!("at most {VERTEX_MAX} rows"));
            Ok((vertices.ok_or_else(too_many)?, entries))
        }
        _ => Err(lines.expected("the numbers of rows, of as many columns, and of entries")),
    }
}

/// The entry on the current line, counted from 0.
fn entry<R: BufRead>(lines: &TextLines<'_, R>, matrix: &Matrix) -> Result<[u32; 2], GraphError> {
    let vertices = u64::from(matrix.vertices);
    let index = |number: u64| (1..=vertices).contains(&number).then(|| number as u32 - 1);
    let entry = lines.numbers().and_then(|[row, column]| Some([index(row)?, index(column)?]));
    entry.filter(|_| lines.columns().count() == matrix.columns).ok_or_else(|| {
        let value = if matrix.columns == 3 { ", and a value" } else { "" };
        lines.expected(format!("a row and a column of 1 to {vertices}{value}"))
    })
}
