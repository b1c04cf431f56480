//! Writes the lines of a page of a structure's initial image.

use std::ops::Range;

use ebbtide_core::{LINE_BYTES, PAGE_BYTES};

/// The bytes of a page.
pub type PageBytes = [u8; PAGE_BYTES];

/// The lines of a page.
pub const ALL_LINES: Range<usize> = 0..PAGE_BYTES / LINE_BYTES;

/// A line as words.
pub type Line = [u64; LINE_BYTES / 8];

/// Writes the lines `lines` of `page` one by one: `line(i)` returns line `i`. Returns `lines`.
pub fn fill_lines(
    page: &mut PageBytes,
    lines: Range<usize>,
    mut line: impl FnMut(u64) -> Line,
) -> Range<usize> {
    let wanted = &mut page.as_chunks_mut::<LINE_BYTES>().0[lines.clone()];
    for (i, bytes) in (lines.start as u64..).zip(wanted) {
        *bytes = bytemuck::cast(line(i));
    }
    lines
}

/// Zeroes every record of `page` that has a line in `lines`. Records take `record_lines` lines
/// each.
///
/// Returns the numbers of those records, and all lines that were zeroed. Lines behind the last
/// whole record of a page are zeroed too and belong to no record.
pub fn clear_records(
    page: &mut PageBytes,
    lines: Range<usize>,
    record_lines: usize,
) -> (Range<usize>, Range<usize>) {
    let whole = ALL_LINES.end / record_lines;
    let (first, end) = (lines.start / record_lines, lines.end.div_ceil(record_lines));
    let cleared = first * record_lines..(end * record_lines).min(ALL_LINES.end);
    page.as_chunks_mut::<LINE_BYTES>().0[cleared.clone()].as_flattened_mut().fill(0);
    (first.min(whole)..end.min(whole), cleared)
}
