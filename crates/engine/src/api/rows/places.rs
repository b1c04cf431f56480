//! [`Places`]: where each row is.

use ebbtide_core::{Addr, PageId};

use super::error::RowError;

/// Consecutive rows in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRun {
    /// Where the first begins, in bytes from the start of the file.
    pub offset: u64,
    /// How many there are.
    pub rows: u64,
}

/// The part of a file that has all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    /// Where it begins in the file.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// The place of each row.
pub(super) struct Places {
    /// The number of the first row of every run, and its address. In ascending order of numbers.
    runs: Box<[(u64, Addr)]>,
    pub(super) count: u64,
    pub(super) row_bytes: usize,
    /// True if rows with higher numbers lie behind those with lower ones.
    pub(super) in_order: bool,
}

/// The runs that have rows, and the part of the file that they lie in.
pub(super) fn range_of(
    runs: &[RowRun],
    row_bytes: usize,
) -> Result<(Vec<RowRun>, Range), RowError> {
    let runs: Vec<RowRun> = runs.iter().copied().filter(|run| run.rows > 0).collect();
    if row_bytes == 0 || runs.is_empty() {
        return Err(RowError::Empty);
    }
    let end = |run: &RowRun| {
        let bytes = run.rows.checked_mul(row_bytes as u64)?;
        run.offset.checked_add(bytes).filter(|end| *end < 1 << 63)
    };
    let ends: Option<Vec<u64>> = runs.iter().map(end).collect();
    let last = ends.and_then(|ends| ends.into_iter().max()).ok_or(RowError::Beyond)?;
    let offset = runs.iter().map(|run| run.offset).min().unwrap_or(0);
    Ok((runs, Range { offset, bytes: last - offset }))
}

impl Places {
    /// The places of `runs`, in an address space where the first byte of `range` is at `start`.
    pub(super) fn new(runs: &[RowRun], row_bytes: usize, range: Range, start: Addr) -> Places {
        let mut count = 0;
        let placed = runs.iter().map(|run| {
            let number = count;
            count += run.rows;
            (number, start + (run.offset - range.offset))
        });
        let placed = placed.collect();
        let bytes = |run: &RowRun| run.rows * row_bytes as u64;
        let in_order =
            runs.windows(2).all(|pair| pair[0].offset + bytes(&pair[0]) <= pair[1].offset);
        Places { runs: placed, count, row_bytes, in_order }
    }

    /// Where row `row` begins.
    pub(super) fn address(&self, row: u64) -> Addr {
        let run = self.runs.partition_point(|(first, _)| *first <= row) - 1;
        let (first, at) = self.runs[run];
        at + (row - first) * self.row_bytes as u64
    }

    /// The first and the last page of row `row`.
    pub(super) fn pages(&self, row: u64) -> (PageId, PageId) {
        let first = self.address(row);
        (first.page(), (first + (self.row_bytes as u64 - 1)).page())
    }

    /// Whether the row behind `row` lies right behind it.
    pub(super) fn is_followed(&self, row: u64) -> bool {
        self.runs.binary_search_by_key(&(row + 1), |(first, _)| *first).is_err()
    }
}
