//! [`Part`]: a table with its index and its places, somewhere in the address space.

use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, PageId};

use super::contents::{Contents, Setup};
use super::size::Size;
use crate::masstree::Tree;
use crate::silo::table::Row;
use crate::silo::{Silo, Table};

const PAGE: u64 = PAGE_BYTES as u64;
const LINES_PER_PAGE: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// One table: the pages of its index, and behind them the places of its rows. A place never lies
/// on two pages.
#[derive(Debug, Clone)]
pub(super) struct Part<C: Contents> {
    pub table: Table<C::Row>,
    first_index_page: u64,
    first_row_page: u64,
    end: u64,
}

impl<C: Contents> Part<C> {
    const LINES: u64 = C::Row::LINES as u64;
    const PER_PAGE: u64 = LINES_PER_PAGE / Self::LINES;

    /// How many pages it takes.
    pub fn pages(size: Size) -> u64 {
        index_bytes::<C>(size) / PAGE + C::places(size).div_ceil(Self::PER_PAGE)
    }

    /// The part that begins with page `first`.
    pub fn new(first: u64, size: Size, seed: u64) -> Part<C> {
        let bytes = index_bytes::<C>(size);
        let index = Tree::new(PageId(first).start(), bytes, C::keys(size), seed);
        Part {
            table: Table::new(index),
            first_index_page: first,
            first_row_page: first + bytes / PAGE,
            end: first + Self::pages(size),
        }
    }

    /// Where place number `place` is.
    pub fn place(&self, place: u64) -> Addr {
        let page = PageId(self.first_row_page + place / Self::PER_PAGE);
        page.start() + place % Self::PER_PAGE * Self::LINES * LINE_BYTES as u64
    }

    /// Writes the initial contents of `page` into `out`, or says that it is not of this part.
    pub fn image(
        &self,
        silo: &Silo,
        setup: &Setup,
        page: PageId,
        out: &mut [u8; PAGE_BYTES],
    ) -> bool {
        if !(self.first_index_page..self.end).contains(&page.0) {
            return false;
        }
        let entry = |rank| {
            let (key, place) = C::entry(setup, rank);
            (key, self.place(place).0)
        };
        match page.0.checked_sub(self.first_row_page) {
            None => self.table.index().image(page, entry, out),
            Some(rows) => self.image_of_rows(silo, setup, rows * Self::PER_PAGE, out),
        }
        true
    }

    /// Writes the places from number `first` on.
    fn image_of_rows(&self, silo: &Silo, setup: &Setup, first: u64, out: &mut [u8; PAGE_BYTES]) {
        out.fill(0);
        let places = first..C::places(setup.size);
        let records = out.chunks_exact_mut(C::Row::LINES * LINE_BYTES);
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
    }
}

fn index_bytes<C: Contents>(size: Size) -> u64 {
    Tree::bytes(C::keys(size), C::more_nodes(size))
}
