//! [`Database`]: rows in memory with checksums, and their latches.

use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, LINE_BYTES};
use ebbtide_structures::latch;
use smallvec::SmallVec;

use super::input::{LINES_MAX, Transaction, Who};
use super::layout::{Layout, bytes_of};
use super::names::Names;
use super::rows::{Customer, CustomerInfo, District, Office, Order, OrderLine, Stock, last_name};
use super::scale::Scale;
use super::size::Size;
use crate::Corrupt;
use crate::keys::Scatter;
use ebbtide_structures::checksum::Checksums;

const LINE: u64 = LINE_BYTES as u64;

/// The lines of an order.
pub type OrderLines = SmallVec<[OrderLine; LINES_MAX]>;

/// The nine tables.
///
/// # Latches
/// The latch of a district covers everything in it that changes: its row, its customers, its orders
/// with their lines, its NEW-ORDER and HISTORY rows and its index of last orders. The latch of a
/// warehouse covers its W_YTD, and each stock row has its own. Latches are taken in the order of
/// their addresses: districts, then warehouses, then stock. A transaction touches its rows before,
/// so that it waits for misses without latches.
///
/// A transaction takes all its latches before it writes and holds them to its end, and reads and
/// checks everything before its first store. So transactions are serialisable (except Stock-Level,
/// for which the standard requires less), and one that returns [`Corrupt`] has stored nothing.
///
/// A device fault may end a transaction anywhere. Before the first store, nothing has changed.
/// Between stores, a part remains, as after any write under a [`latch`]. This is as rare as an
/// eviction between two stores, since the pages were just read. Stores are ordered so that such a
/// part is not [`Corrupt`]. An order is in the database when the district's row includes it. That
/// row is stored after the order and before a NEW-ORDER row is deleted.
///
/// # Rings
/// Orders, with their lines and NEW-ORDER rows, lie in a ring of slots for each district; so do
/// HISTORY rows. A New-Order takes the slot of the oldest order, which leaves the database. If that
/// order is not delivered yet, it counts as delivered, but its customer is not charged. Without
/// Deliveries no order is delivered. The full mix delivers 40 orders for 44.55 new ones. District
/// rows keep the sums of the rows that have left, so that the consistency conditions stay exact.
#[derive(Debug, Clone)]
pub struct Database {
    pub(super) layout: Layout,
    pub(super) names: Names,
    pub(super) checksums: Checksums,
    pub(super) seed: u64,
}

impl Database {
    pub(super) fn new(size: Size, scatter: Scatter, checksums: Checksums, seed: u64) -> Database {
        let layout = Layout::new(size, scatter, seed);
        Database { layout, names: Names::new(size.scale, seed), checksums, seed }
    }

    /// The numbers of warehouses, customers and items.
    pub fn scale(&self) -> Scale {
        self.layout.size.scale
    }

    /// Size of all tables in bytes.
    pub fn size_bytes(&self) -> u64 {
        bytes_of(self.layout.size)
    }

    /// Runs a transaction and computes `work` instructions between its accesses.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn run<M: FullMemory>(
        &self,
        memory: &mut M,
        transaction: &Transaction,
        work: u64,
    ) -> Result<(), Corrupt> {
        match transaction {
            Transaction::NewOrder(input) => self.new_order(memory, input, work).map(|_| ()),
            Transaction::Payment(input) => self.payment(memory, input, work).map(|_| ()),
            Transaction::OrderStatus(input) => self.order_status(memory, input, work).map(|_| ()),
            Transaction::Delivery(input) => self.delivery(memory, input, work).map(|_| ()),
            Transaction::StockLevel(input) => self.stock_level(memory, input, work).map(|_| ()),
        }
    }

    /// The number of orders that a district keeps, which are the newest.
    pub fn orders_kept(&self) -> u64 {
        // One slot is free for the next.
        self.layout.size.ring - 1
    }

    /// The orders that a district keeps.
    pub fn orders_of(&self, district: &District) -> Range<u64> {
        let oldest = district.next_o_id.saturating_sub(self.orders_kept()).max(1);
        oldest..district.next_o_id
    }

    /// The first line of a DISTRICT row: where its latch is.
    pub fn district_address(&self, w_id: u32, d_id: u8) -> Addr {
        self.layout.district(w_id, d_id)
    }

    /// The first line of a WAREHOUSE row: where its latch is.
    pub fn warehouse_address(&self, w_id: u32) -> Addr {
        self.layout.warehouse(w_id)
    }

    /// The first line of a STOCK row: where its latch is.
    pub fn stock_address(&self, w_id: u32, i_id: u32) -> Addr {
        self.layout.stock(w_id, i_id)
    }

    /// A STOCK row's counts, read atomically.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn stock<M: FullMemory>(
        &self,
        memory: &mut M,
        w_id: u32,
        i_id: u32,
    ) -> Result<Stock, Corrupt> {
        self.checksums.read(memory, self.layout.stock(w_id, i_id))
    }

    /// The changing part of a DISTRICT row, read atomically.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn district<M: FullMemory>(
        &self,
        memory: &mut M,
        w_id: u32,
        d_id: u8,
    ) -> Result<District, Corrupt> {
        self.checksums.read(memory, self.layout.district(w_id, d_id))
    }

    /// The changing part of a CUSTOMER row, read atomically.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn customer<M: FullMemory>(
        &self,
        memory: &mut M,
        w_id: u32,
        d_id: u8,
        c_id: u32,
    ) -> Result<Customer, Corrupt> {
        latch::read(memory, self.layout.district(w_id, d_id), |memory| {
            self.checksums.read_row(memory, self.layout.customer(w_id, d_id, c_id))
        })
    }

    /// The constant part of the WAREHOUSE or DISTRICT row at `at`.
    #[inline]
    pub(super) fn read_office<M: FullMemory>(
        &self,
        memory: &mut M,
        at: Addr,
    ) -> Result<Office, Corrupt> {
        self.checksums.read_row(memory, at + LINE)
    }

    /// The order `o_id` of a district, which must be in its slot.
    pub(super) fn read_order<M: FullMemory>(
        &self,
        memory: &mut M,
        (w_id, d_id): (u32, u8),
        o_id: u64,
    ) -> Result<Order, Corrupt> {
        let at = self.layout.order(w_id, d_id, o_id);
        let order: Order = self.checksums.read_row(memory, at)?;
        if order.o_id != o_id {
            let found = order.o_id;
            return Err(Corrupt(format!("order {found} is at {at:?} in place of order {o_id}")));
        }
        Ok(order)
    }

    /// All lines of an order.
    pub(super) fn read_lines<M: FullMemory>(
        &self,
        memory: &mut M,
        order: &Order,
    ) -> Result<OrderLines, Corrupt> {
        let slot = self.layout.order(order.w_id, order.d_id, order.o_id);
        let read = |number| {
            let at = line_address(slot, number);
            let line: OrderLine = self.checksums.read_row(memory, at)?;
            if (line.o_id, line.number) != (order.o_id, number) {
                return Err(Corrupt(format!(
                    "{line:?} is at {at:?}, not line {number} of {order:?}"
                )));
            }
            Ok(line)
        };
        (1..=order.ol_cnt).map(read).collect()
    }

    /// The address of the constant part of a CUSTOMER row.
    pub(super) fn customer_info_address(&self, w_id: u32, d_id: u8, c_id: u32) -> Addr {
        self.layout.customer(w_id, d_id, c_id) + LINE
    }

    /// The address of C_DATA.
    pub(super) fn customer_data_address(&self, w_id: u32, d_id: u8, c_id: u32) -> Addr {
        self.layout.customer(w_id, d_id, c_id) + 3 * LINE
    }

    /// The number of the customer that a terminal names. Of customers with one last name, it is the
    /// middle one in the order of first names, rounded up (clause 2.5.2).
    pub(super) fn find<M: FullMemory>(
        &self,
        memory: &mut M,
        (w_id, d_id): (u32, u8),
        who: Who,
    ) -> Result<u32, Corrupt> {
        let name = match who {
            Who::Id(c_id) => return Ok(c_id),
            Who::Name(name) => name,
        };
        let mut found = self.names.customers(name).map(|c_id| ([0; 16], c_id));
        for (first, c_id) in &mut found {
            let at = self.customer_info_address(w_id, d_id, *c_id);
            *first = self.checksums.read_row::<_, CustomerInfo>(memory, at)?.first;
        }
        found.sort_unstable();
        Ok(found[found.len().div_ceil(2) - 1].1)
    }

    /// The changing part of the CUSTOMER row, with the district's latch held. Checks the last name
    /// if `who` has one.
    pub(super) fn read_customer<M: FullMemory>(
        &self,
        memory: &mut M,
        (w_id, d_id): (u32, u8),
        c_id: u32,
        who: Who,
    ) -> Result<Customer, Corrupt> {
        let at = self.layout.customer(w_id, d_id, c_id);
        let customer: Customer = self.checksums.read_row(memory, at)?;
        match who {
            Who::Name(name) if customer.last != last_name(name) => {
                Err(Corrupt(format!("the customer at {at:?} is not called {name}")))
            }
            _ => Ok(customer),
        }
    }
}

/// The address of line `number`, from 1, of the order in a slot.
pub(super) fn line_address(slot: Addr, number: u8) -> Addr {
    slot + u64::from(number) * LINE
}
