//! [`IndexedTable`]: a table with its index and the places of its rows.

use crate::PageBytes;
use std::ops::Range;

use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, PageId};

use super::contents::{Contents, Setup};
use crate::masstree::Tree;
use crate::silo::Row;
use crate::silo::{Silo, Table};
use crate::tpcc::size::Size;
use ebbtide_structures::image::clear_records;

const PAGE: u64 = PAGE_BYTES as u64;
const LINES_PER_PAGE: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// A table: the pages of its index, followed by the places of its rows. A place lies on one page.
#[derive(Debug, Clone)]
pub(super) struct IndexedTable<C: Contents> {
    pub table: Table<C::Row>,
    first_index_page: u64,
    first_row_page: u64,
    end: u64,
}

impl<C: Contents> IndexedTable<C> {
    const LINES: u64 = C::Row::LINES as u64;
    const PER_PAGE: u64 = LINES_PER_PAGE / Self::LINES;

    /// The number of its pages.
    pub fn pages(size: Size) -> u64 {
        index_bytes::<C>(size) / PAGE + C::places(size).div_ceil(Self::PER_PAGE)
    }

    /// The table that begins at page `first`.
    pub fn new(first: u64, size: Size, seed: u64) -> IndexedTable<C> {
        let bytes = index_bytes::<C>(size);
        let index = Tree::new(PageId(first).start(), bytes, C::keys(size), seed);
        IndexedTable {
            table: Table::new(index),
            first_index_page: first,
            first_row_page: first + bytes / PAGE,
            end: first + Self::pages(size),
        }
    }

    /// The address of place number `place`.
    pub fn place(&self, place: u64) -> Addr {
        let page = PageId(self.first_row_page + place / Self::PER_PAGE);
        page.start() + place % Self::PER_PAGE * Self::LINES * LINE_BYTES as u64
    }

    /// Whether `page` belongs to this table.
    pub fn has(&self, page: PageId) -> bool {
        (self.first_index_page..self.end).contains(&page.0)
    }

    /// Writes at least the lines `lines` of the initial contents of `page`, which belongs to this
    /// table, into `out`, and returns which it wrote.
    pub fn image(
        &self,
        silo: &Silo,
        setup: &Setup,
        page: PageId,
        lines: Range<usize>,
        out: &mut PageBytes,
    ) -> Range<usize> {
        let entry = |rank| {
            let (key, place) = C::entry(setup, rank);
            (key, self.place(place).0)
        };
        match page.0.checked_sub(self.first_row_page) {
            None => self.table.index().image_lines(page, lines, entry, out),
            Some(rows) => self.image_of_rows(silo, setup, (rows, lines), out),
        }
    }

    /// Writes the places of page number `page` of rows that have a line in `lines`.
    fn image_of_rows(
        &self,
        silo: &Silo,
        setup: &Setup,
        (page, lines): (u64, Range<usize>),
        out: &mut PageBytes,
    ) -> Range<usize> {
        let (slots, written) = clear_records(out, lines, C::Row::LINES);
        let places = page * Self::PER_PAGE + slots.start as u64..C::places(setup.size);
        let records = out.chunks_exact_mut(C::Row::LINES * LINE_BYTES);
        let records = records.skip(slots.start).take(slots.len());
        for (place, record) in places.zip(records) {
            let at = self.place(place);
            let row =
                C::rank(setup, place).map(|rank| (C::entry(setup, rank).0, C::row(setup, rank)));
            for (line, bytes) in record.as_chunks_mut::<LINE_BYTES>().0.iter_mut().enumerate() {
                *bytes = bytemuck::cast(match &row {
                    Some((key, row)) => silo.image_of(at, *key, row, line),
                    None => silo.image_of_free_place(at, line),
                });
            }
        }
        written
    }
}

fn index_bytes<C: Contents>(size: Size) -> u64 {
    Tree::bytes(C::keys(size), C::more_nodes(size))
}
