//! [`Layout`]: the addresses of tables and rows.

use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, PageId};

use super::scale::{DISTRICTS, Scale};
use super::size::{RingLengths, Size};
use crate::keys::{Places, Scatter};
use ebbtide_structures::hash::mix;

const LINES_PER_PAGE: u64 = (PAGE_BYTES / LINE_BYTES) as u64;
const WORDS_PER_LINE: u64 = (LINE_BYTES / 8) as u64;
const DISTRICTS_OF_ONE: u64 = DISTRICTS as u64;

/// The number of orders that a Stock-Level reads.
pub(super) const RECENT_ORDERS: u64 = 20;

/// Rings have room for the orders at first, for those that a Stock-Level looks at, and for the next
/// order. No line is shared between rings.
const RING_LENGTHS: RingLengths = RingLengths { spare: RECENT_ORDERS + 1, step: WORDS_PER_LINE };

/// The tables, in the order of their addresses. Those with latches come first, in the order of
/// taking latches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    District,
    Warehouse,
    Stock,
    Customer,
    Item,
    /// An order with room for all its lines.
    Order,
    /// The line of a NEW-ORDER ring: eight rows.
    NewOrders,
    /// The line of an index from customer to last order: eight entries.
    LastOrders,
    History,
}

impl Table {
    const ALL: [Table; 9] = [
        Table::District,
        Table::Warehouse,
        Table::Stock,
        Table::Customer,
        Table::Item,
        Table::Order,
        Table::NewOrders,
        Table::LastOrders,
        Table::History,
    ];

    /// Lines from one row to the next. A row never lies on two pages.
    pub(super) const fn lines(self) -> u64 {
        match self {
            Table::District | Table::Warehouse => 4,
            Table::Stock => 7,
            Table::Customer => 12,
            Table::Item => 2,
            Table::Order => 16,
            Table::NewOrders | Table::LastOrders | Table::History => 1,
        }
    }

    /// Bytes from one row to the next.
    pub(super) const fn bytes(self) -> u64 {
        self.lines() * LINE_BYTES as u64
    }

    /// Rows on a page.
    pub(super) const fn per_page(self) -> u64 {
        LINES_PER_PAGE / self.lines()
    }

    const fn rows(self, size: Size) -> u64 {
        let warehouses = size.scale.warehouses as u64;
        let districts = warehouses * DISTRICTS_OF_ONE;
        let customers = districts * size.scale.customers as u64;
        match self {
            Table::District => districts,
            Table::Warehouse => warehouses,
            Table::Stock => warehouses * size.scale.items as u64,
            Table::Customer | Table::History => customers,
            Table::Item => size.scale.items as u64,
            Table::Order => districts * size.ring,
            Table::NewOrders => districts * size.ring / WORDS_PER_LINE,
            Table::LastOrders => customers.div_ceil(WORDS_PER_LINE),
        }
    }

    const fn pages(self, size: Size) -> u64 {
        self.rows(size).div_ceil(self.per_page())
    }

    /// How rows of different popularity are laid over the table's pages. Rings are filled in the
    /// order of time, and every page of a small table is hot.
    fn scatter(self, scatter: Scatter) -> Scatter {
        match self {
            Table::Stock | Table::Customer | Table::Item => scatter,
            _ => Scatter::Pages,
        }
    }
}

/// The least size that works.
pub(super) const LEAST: Size = RING_LENGTHS.shortest(Scale::LEAST);

/// The largest size that fits in `bytes`.
///
/// # Panics
/// When `bytes` is less than [`LEAST`] needs.
pub(super) fn size_within(bytes: u64) -> Size {
    RING_LENGTHS.largest(bytes, bytes_of)
}

/// The bytes of all tables.
pub(super) const fn bytes_of(size: Size) -> u64 {
    let (mut pages, mut table) = (0, 0);
    while table < Table::ALL.len() {
        pages += Table::ALL[table].pages(size);
        table += 1;
    }
    pages * PAGE_BYTES as u64
}

/// A table's place in the address space.
#[derive(Debug, Clone)]
struct Extent {
    first: PageId,
    rows: u64,
    /// Row to place.
    places: Places,
}

/// The addresses of all rows.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) size: Size,
    extents: [Extent; Table::ALL.len()],
}

/// The rows of a page.
pub(super) struct PageOfRows<'a> {
    pub(super) table: Table,
    extent: &'a Extent,
    first_place: u64,
}

impl PageOfRows<'_> {
    /// The number of the row in a slot, from 0 to `table.per_page()`; `None` beyond the last.
    pub(super) fn row(&self, slot: u64) -> Option<u64> {
        let row = self.extent.places.rank(self.first_place + slot);
        Some(row).filter(|&row| row < self.extent.rows)
    }
}

impl Layout {
    pub(super) fn new(size: Size, scatter: Scatter, seed: u64) -> Layout {
        let mut first = PageId(0);
        let extents = Table::ALL.map(|table| {
            let pages = table.pages(size);
            let seed = mix(seed ^ mix(table as u64));
            let scatter = table.scatter(scatter);
            let places = Places::new(pages, table.per_page(), scatter, seed);
            let extent = Extent { first, rows: table.rows(size), places };
            first = PageId(first.0 + pages);
            extent
        });
        Layout { size, extents }
    }

    /// The rows that lie on `page`.
    ///
    /// # Panics
    /// When `page` lies beyond the last table.
    pub(super) fn rows_of(&self, page: PageId) -> PageOfRows<'_> {
        let pages = bytes_of(self.size) / PAGE_BYTES as u64;
        assert!(page.0 < pages, "{page:?} of {pages}");
        let after = self.extents.partition_point(|extent| extent.first <= page);
        let (table, extent) = (Table::ALL[after - 1], &self.extents[after - 1]);
        let first_place = (page.0 - extent.first.0) * table.per_page();
        PageOfRows { table, extent, first_place }
    }

    /// The address of a row of `table`.
    #[inline]
    pub(super) fn row(&self, table: Table, row: u64) -> Addr {
        let extent = &self.extents[table as usize];
        debug_assert!(row < extent.rows, "row {row} of {} in {table:?}", extent.rows);
        let place = extent.places.place(row);
        let (page, slot) = (place / table.per_page(), place % table.per_page());
        PageId(extent.first.0 + page).start() + slot * table.bytes()
    }

    /// The address of word `index` of a table that has eight to a line.
    #[inline]
    fn word(&self, table: Table, index: u64) -> Addr {
        self.row(table, index / WORDS_PER_LINE) + index % WORDS_PER_LINE * 8
    }

    /// The number of a district among all districts.
    #[inline]
    fn district_number(&self, w_id: u32, d_id: u8) -> u64 {
        u64::from(w_id - 1) * DISTRICTS_OF_ONE + u64::from(d_id - 1)
    }

    #[inline]
    fn customer_number(&self, w_id: u32, d_id: u8, c_id: u32) -> u64 {
        let customers = u64::from(self.size.scale.customers);
        self.district_number(w_id, d_id) * customers + u64::from(c_id - 1)
    }

    #[inline]
    fn order_number(&self, w_id: u32, d_id: u8, o_id: u64) -> u64 {
        self.district_number(w_id, d_id) * self.size.ring + o_id % self.size.ring
    }

    /// A DISTRICT row, and its latch.
    #[inline]
    pub(super) fn district(&self, w_id: u32, d_id: u8) -> Addr {
        self.row(Table::District, self.district_number(w_id, d_id))
    }

    /// A WAREHOUSE row, and its latch.
    #[inline]
    pub(super) fn warehouse(&self, w_id: u32) -> Addr {
        self.row(Table::Warehouse, u64::from(w_id - 1))
    }

    /// A STOCK row, and its latch.
    #[inline]
    pub(super) fn stock(&self, w_id: u32, i_id: u32) -> Addr {
        let items = u64::from(self.size.scale.items);
        self.row(Table::Stock, u64::from(w_id - 1) * items + u64::from(i_id - 1))
    }

    /// A CUSTOMER row.
    #[inline]
    pub(super) fn customer(&self, w_id: u32, d_id: u8, c_id: u32) -> Addr {
        self.row(Table::Customer, self.customer_number(w_id, d_id, c_id))
    }

    /// An ITEM row.
    #[inline]
    pub(super) fn item(&self, i_id: u32) -> Addr {
        self.row(Table::Item, u64::from(i_id - 1))
    }

    /// The slot of an order; its lines follow the ORDER row.
    #[inline]
    pub(super) fn order(&self, w_id: u32, d_id: u8, o_id: u64) -> Addr {
        self.row(Table::Order, self.order_number(w_id, d_id, o_id))
    }

    /// A NEW-ORDER row: a word.
    #[inline]
    pub(super) fn new_order(&self, w_id: u32, d_id: u8, o_id: u64) -> Addr {
        self.word(Table::NewOrders, self.order_number(w_id, d_id, o_id))
    }

    /// The index entry of a customer's last order: a word.
    #[inline]
    pub(super) fn last_order(&self, w_id: u32, d_id: u8, c_id: u32) -> Addr {
        self.word(Table::LastOrders, self.customer_number(w_id, d_id, c_id))
    }

    /// How many HISTORY rows a district has.
    #[inline]
    pub(super) fn history_ring(&self) -> u64 {
        u64::from(self.size.scale.customers)
    }

    /// The HISTORY row of the district's payment number `sequence`, from 0.
    #[inline]
    pub(super) fn history(&self, w_id: u32, d_id: u8, sequence: u64) -> Addr {
        let ring = self.history_ring();
        self.row(Table::History, self.district_number(w_id, d_id) * ring + sequence % ring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn datasets_are_filled_at_any_size() {
        for bytes in [400 << 10, 1 << 20, 10 << 20, 99 << 20, 112 << 20, 1 << 30, 1 << 38, 1 << 46]
        {
            let size = size_within(bytes);
            assert!(bytes_of(size) <= bytes, "{size:?}");
            let more = Size { ring: size.ring + WORDS_PER_LINE, ..size };
            assert!(bytes_of(more) > bytes, "{size:?}");
            let full = bytes >= 112 << 20;
            assert_eq!((size.scale.items == 100_000, size.scale.warehouses > 0), (full, true));
        }
        assert_eq!(size_within(bytes_of(LEAST)), LEAST);
    }

    #[test]
    fn a_warehouse_of_the_standard_size_takes_about_a_hundred_megabytes() {
        let bytes =
            |warehouses| bytes_of(RING_LENGTHS.shortest(Scale { warehouses, ..Scale::FULL }));
        let (warehouse, items) = (bytes(2) - bytes(1), 2 * bytes(1) - bytes(2));
        assert!((100_000_000..106_000_000).contains(&warehouse), "{warehouse}");
        assert!((12_000_000..13_000_000).contains(&items), "{items}");
        assert_eq!(size_within(2 << 30).scale.warehouses, 20);
    }

    #[test]
    fn every_row_lies_alone_where_its_page_says() {
        for scatter in [Scatter::Pages, Scatter::Keys] {
            let size = size_within(1 << 20);
            let layout = Layout::new(size, scatter, 5);
            let mut found = HashMap::new();
            for page in 0..bytes_of(size) / PAGE_BYTES as u64 {
                let rows = layout.rows_of(PageId(page));
                let table = rows.table;
                for slot in 0..table.per_page() {
                    let Some(row) = rows.row(slot) else { continue };
                    let at = PageId(page).start() + slot * table.bytes();
                    assert_eq!(layout.row(table, row), at);
                    assert_eq!(found.insert((table as usize, row), at), None);
                }
            }
            let rows: u64 = Table::ALL.iter().map(|table| table.rows(size)).sum();
            assert_eq!(found.len() as u64, rows);
        }
    }
}
