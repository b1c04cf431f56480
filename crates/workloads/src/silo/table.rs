//! [`Table`]: rows of one type with an index.

use std::marker::PhantomData;

use ebbtide_core::{Addr, LINE_BYTES};
use ebbtide_structures::ROW_WORDS_MAX;

use super::record::{self, Head};
use super::{Silo, Tid};
use crate::masstree::Tree;
use ebbtide_structures::image::Line;

/// The row of a record.
pub trait Row: ebbtide_structures::Row {
    /// The number of lines of a record with this row.
    const LINES: usize = record::lines_of(Self::WORDS);
}
impl<T: ebbtide_structures::Row> Row for T {}

/// Rows of type `R` by 8-byte keys.
#[derive(Debug, Clone)]
pub struct Table<R> {
    pub(super) index: Tree,
    row: PhantomData<fn() -> R>,
}

impl<R: Row> Table<R> {
    /// Returns the table whose records `index` leads to.
    pub fn new(index: Tree) -> Table<R> {
        Table { index, row: PhantomData }
    }

    /// Returns the index.
    pub fn index(&self) -> &Tree {
        &self.index
    }
}

impl Silo {
    /// Returns line `line` of the record at `at`, for the initial image.
    pub fn image_of<R: Row>(&self, at: Addr, key: u64, row: &R, line: usize) -> Line {
        record::image_line(self.checksums, at, Head { tid: Tid::INITIAL, key }, words_of(row), line)
    }

    /// Returns line `line` of the free place at `at`, for the initial image.
    pub fn image_of_free_place(&self, at: Addr, line: usize) -> Line {
        match line {
            0 => record::image_line(
                self.checksums,
                at,
                Head { tid: Tid::NEVER, key: NO_KEY },
                &[],
                0,
            ),
            _ => [0; LINE_BYTES / 8],
        }
    }

    /// The line of the epoch, for the initial image.
    pub fn image_of_epoch(&self) -> Line {
        let mut line = [0; LINE_BYTES / 8];
        line[0] = self.epoch.word(1);
        line
    }
}

/// A row as words.
pub(super) fn words_of<R: Row>(row: &R) -> &[u64] {
    const { assert!(R::WORDS <= ROW_WORDS_MAX) };
    bytemuck::cast_slice(std::slice::from_ref(row))
}

/// A row as words to be written.
pub(super) fn words_of_mut<R: Row>(row: &mut R) -> &mut [u64] {
    const { assert!(R::WORDS <= ROW_WORDS_MAX) };
    bytemuck::cast_slice_mut(std::slice::from_mut(row))
}

/// The key in a place that never had one. No row has this key.
pub(super) const NO_KEY: u64 = u64::MAX;
