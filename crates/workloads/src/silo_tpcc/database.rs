//! [`Database`]: all tables.

use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, PAGE_BYTES, PageId};

use super::contents::{
    CustomerOrders, Customers, Districts, Items, NewOrders, OrderLines, Orders, Setup, Stocks,
    Warehouses,
};
use super::indexed_table::IndexedTable;
use crate::silo::Row;
use crate::silo::{Abort, Found, Silo, Table, Transaction};
use crate::tpcc::size::{RingLengths, Size};
use crate::{Corrupt, PageBytes};
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::fill_lines;

/// Rings have room for the orders at first, for one more, and a place that is always free.
pub(super) const RING_LENGTHS: RingLengths = RingLengths { spare: 2, step: 1 };

/// Declares the tables in the order of their addresses.
macro_rules! parts {
    ($($name:ident: $contents:ty),+ $(,)?) => {
        /// TPC-C's tables, each with an index, and the index from customers to their orders.
        ///
        /// The first page holds the epoch. The orders of a district with their lines and index
        /// entries lie in a ring: order `o` goes to place `o` modulo the ring's length. The
        /// New-Order that takes the last free place removes the oldest order, delivered or not. Its
        /// place is then free. So jobs can run until a district has had 2²⁸ orders.
        #[derive(Debug, Clone)]
        pub struct Database {
            pub(super) silo: Silo,
            pub(super) setup: Setup,
            pages: u64,
            $(pub(super) $name: IndexedTable<$contents>),+
        }

        impl Database {
            /// The number of pages of a database of this size.
            pub(super) fn pages(size: Size) -> u64 {
                1 $(+ IndexedTable::<$contents>::pages(size))+
            }

            fn new(size: Size, seed: u64) -> Database {
                let pages = Database::pages(size);
                let mut first = 1;
                $(
                    let $name = IndexedTable::<$contents>::new(first, size, seed);
                    first += IndexedTable::<$contents>::pages(size);
                )+
                debug_assert_eq!(first, pages);
                let silo = Silo::new(Addr(0), mix(seed ^ mix(pages)));
                Database { silo, setup: Setup::new(size, seed), pages, $($name),+ }
            }

            /// Writes at least the lines `lines` of the initial contents of `page` into `out`, and
            /// returns which it wrote.
            ///
            /// # Panics
            /// When `page` lies beyond the last table.
            pub(super) fn image(
                &self,
                page: PageId,
                lines: Range<usize>,
                out: &mut PageBytes,
            ) -> Range<usize> {
                assert!(page.0 < self.pages, "{page:?} of {}", self.pages);
                if page == PageId(0) {
                    let epoch = self.silo.image_of_epoch();
                    return fill_lines(out, lines, |line| if line == 0 { epoch } else { [0; 8] });
                }
                $(if self.$name.has(page) {
                    return self.$name.image(&self.silo, &self.setup, page, lines, out);
                })+
                unreachable!("a part has every page but the first")
            }
        }
    };
}

parts! {
    stocks: Stocks,
    customers: Customers,
    items: Items,
    order_lines: OrderLines,
    orders: Orders,
    new_orders: NewOrders,
    customer_orders: CustomerOrders,
    districts: Districts,
    warehouses: Warehouses,
}

impl Database {
    /// The largest database in `bytes` bytes.
    pub(super) fn fitting(bytes: u64, seed: u64) -> Database {
        let size = RING_LENGTHS.largest(bytes, |size| Database::pages(size) * PAGE_BYTES as u64);
        Database::new(size, seed)
    }

    pub(super) fn size(&self) -> Size {
        self.setup.size
    }

    /// Size of the image in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES as u64
    }
}

/// The row of `key`, which must exist.
pub(super) fn expect<'a, M: FullMemory, R: Row>(
    transaction: &mut Transaction<'a, M>,
    table: &'a Table<R>,
    key: u64,
) -> Result<Found<R>, Abort> {
    let found = transaction.get(table, key)?;
    found.ok_or_else(|| Abort::Corrupt(Corrupt(format!("there is no row of key {key:#x}"))))
}

/// Inserts a row that must not exist yet.
pub(super) fn insert<'a, M: FullMemory, R: Row>(
    transaction: &mut Transaction<'a, M>,
    table: &'a Table<R>,
    key: u64,
    place: Addr,
    row: &R,
) -> Result<(), Abort> {
    match transaction.insert(table, key, place, row)? {
        true => Ok(()),
        false => Err(Abort::Corrupt(Corrupt(format!("there is a row of key {key:#x} already")))),
    }
}
