//! New-Order (TPC-C rev. 5.11, clause 2.4): a customer orders 5 to 15 items.

use ebbtide_core::FullMemory;

use super::contents::{line_place, order_place};
use super::database::{Database, expect, insert};
use super::keys;
use super::rows::{OrderLineRow, OrderRow, Pointer};
use crate::Corrupt;
use crate::keys::share;
use crate::silo::{Abort, Isolation, Transaction};
use crate::tpcc::input::{NewOrder, Ordered};
use crate::tpcc::rows::left_in_stock;

/// The result of a committed New-Order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The number of the new order.
    pub o_id: u64,
    /// The price, with taxes and less the customer's discount.
    pub total_cents: i64,
}

impl Database {
    /// Runs a New-Order as job `job` and computes `work` instructions between its accesses. Returns
    /// `None` if an item does not exist. Nothing then changes.
    ///
    /// All reads are rehearsed first, and the rehearsal computes. Pages miss there, while no row is
    /// contended. Then rows that probably miss are read first and contended rows last.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn new_order<M: FullMemory>(
        &self,
        memory: &mut M,
        job: u64,
        input: &NewOrder,
        work: u64,
    ) -> Result<Option<Placed>, Corrupt> {
        self.silo.rehearse(memory, |transaction| self.foresee(transaction, input, work));
        let done = self.silo.run(memory, job, Isolation::Serializable, |transaction| {
            let mut rows = Vec::with_capacity(input.lines.len());
            for line in &input.lines {
                rows.push(self.take_from_stock(transaction, input, line)?);
            }
            self.place_order(transaction, input, &rows)
        })?;
        Ok(done.map(|done| done.value))
    }

    /// Reads the rows that the order will need if it is the next of its district, and computes
    /// `work` instructions between them.
    fn foresee<'a, M: FullMemory>(
        &'a self,
        transaction: &mut Transaction<'a, M>,
        input: &NewOrder,
        work: u64,
    ) -> Result<(), Abort> {
        let &NewOrder { w_id, d_id, c_id, .. } = input;
        let parts = 2 * input.lines.len() as u64 + 2;
        for (line, first) in input.lines.iter().zip((0..).step_by(2)) {
            transaction.memory().work(share(work, first, parts));
            transaction.get(&self.items.table, keys::one(line.i_id))?;
            transaction.memory().work(share(work, first + 1, parts));
            transaction.get(&self.stocks.table, keys::stock(line.supply_w_id, line.i_id))?;
        }
        transaction.memory().work(share(work, parts - 2, parts));
        transaction.get(&self.customers.table, keys::customer(w_id, d_id, c_id))?;
        let district = expect(transaction, &self.districts.table, keys::district(w_id, d_id))?;
        let o_id = district.row.next_o_id;
        transaction.memory().work(share(work, parts - 1, parts));
        self.foresee_order(transaction, (w_id, d_id, o_id), c_id, input.lines.len() as u64)?;
        let Some(oldest) = (o_id + 1).checked_sub(self.size().ring) else { return Ok(()) };
        let Some(order) = transaction.get(&self.orders.table, keys::order(w_id, d_id, oldest))?
        else {
            return Ok(());
        };
        let (c_id, lines) = (order.row.c_id, u64::from(order.row.ol_cnt));
        self.foresee_order(transaction, (w_id, d_id, oldest), c_id, lines)
    }

    /// Reads an order of customer `c_id` with `lines` lines, or touches the places that they will
    /// get.
    fn foresee_order<'a, M: FullMemory>(
        &'a self,
        transaction: &mut Transaction<'a, M>,
        (w_id, d_id, o_id): (u32, u8, u64),
        c_id: u32,
        lines: u64,
    ) -> Result<(), Abort> {
        let place = order_place(self.size(), w_id, d_id, o_id);
        let key = keys::order(w_id, d_id, o_id);
        transaction.get(&self.orders.table, key)?;
        let _record: u64 = transaction.memory().load(self.orders.place(place));
        transaction.get(&self.new_orders.table, key)?;
        let _record: u64 = transaction.memory().load(self.new_orders.place(place));
        let key = keys::customer_order(w_id, d_id, c_id, o_id);
        transaction.get(&self.customer_orders.table, key)?;
        let _record: u64 = transaction.memory().load(self.customer_orders.place(place));
        for number in 1..=lines {
            transaction.get(&self.order_lines.table, keys::line(w_id, d_id, o_id, number))?;
            let place = self.order_lines.place(line_place(place, number));
            let _record: u64 = transaction.memory().load(place);
        }
        Ok(())
    }

    /// Takes the goods of one line from stock. Returns the line's row.
    fn take_from_stock<'a, M: FullMemory>(
        &'a self,
        transaction: &mut Transaction<'a, M>,
        input: &NewOrder,
        line: &Ordered,
    ) -> Result<OrderLineRow, Abort> {
        let &Ordered { i_id, supply_w_id, quantity } = line;
        let item = transaction.get(&self.items.table, keys::one(i_id))?.ok_or(Abort::Rollback)?;
        let key = keys::stock(supply_w_id, i_id);
        let mut found = expect(transaction, &self.stocks.table, key)?;
        let (stock, quantity) = (&mut found.row, u32::from(quantity));
        stock.quantity = left_in_stock(stock.quantity, quantity);
        stock.ytd += u64::from(quantity);
        stock.order_cnt = stock.order_cnt.wrapping_add(1);
        stock.remote_cnt = stock.remote_cnt.wrapping_add(u32::from(supply_w_id != input.w_id));
        transaction.put(&found);
        Ok(OrderLineRow {
            i_id,
            supply_w_id,
            amount_cents: quantity * item.row.price_cents,
            quantity,
            dist_info: found.row.dist[usize::from(input.d_id) - 1],
        })
    }

    /// Numbers the order and inserts it.
    fn place_order<'a, M: FullMemory>(
        &'a self,
        transaction: &mut Transaction<'a, M>,
        input: &NewOrder,
        lines: &[OrderLineRow],
    ) -> Result<Placed, Abort> {
        let &NewOrder { w_id, d_id, c_id, entry_d, .. } = input;
        let customer = keys::customer(w_id, d_id, c_id);
        let customer = expect(transaction, &self.customers.table, customer)?;
        let warehouse = expect(transaction, &self.warehouses.table, keys::one(w_id))?;
        let mut district = expect(transaction, &self.districts.table, keys::district(w_id, d_id))?;
        let o_id = district.row.next_o_id;
        if o_id >= keys::ORDERS_MAX {
            return Err(Abort::Corrupt(Corrupt(format!(
                "district {d_id} of warehouse {w_id} has no number for another order"
            ))));
        }
        district.row.next_o_id += 1;
        transaction.put(&district);

        let order = OrderRow {
            c_id,
            entry_d,
            delivery_d: 0,
            carrier_id: 0,
            ol_cnt: lines.len() as u8,
            all_local: lines.iter().all(|line| line.supply_w_id == w_id).into(),
            spare: 0,
        };
        self.insert_order(transaction, (w_id, d_id, o_id), &order, lines)?;
        if let Some(oldest) = (o_id + 1).checked_sub(self.size().ring).filter(|&o_id| o_id > 0) {
            self.remove_order(transaction, (w_id, d_id, oldest))?;
        }
        let cents = lines.iter().map(|line| i64::from(line.amount_cents)).sum();
        let taxes = [warehouse.row.office.tax, district.row.office.tax];
        Ok(Placed { o_id, total_cents: customer.row.account.charged(cents, taxes) })
    }

    fn insert_order<'a, M: FullMemory>(
        &'a self,
        transaction: &mut Transaction<'a, M>,
        (w_id, d_id, o_id): (u32, u8, u64),
        order: &OrderRow,
        lines: &[OrderLineRow],
    ) -> Result<(), Abort> {
        let place = order_place(self.size(), w_id, d_id, o_id);
        let pointer = Pointer { o_id };
        let key = keys::order(w_id, d_id, o_id);
        insert(transaction, &self.orders.table, key, self.orders.place(place), order)?;
        insert(transaction, &self.new_orders.table, key, self.new_orders.place(place), &pointer)?;
        let key = keys::customer_order(w_id, d_id, order.c_id, o_id);
        let at = self.customer_orders.place(place);
        insert(transaction, &self.customer_orders.table, key, at, &pointer)?;
        for (number, line) in (1..).zip(lines) {
            let at = self.order_lines.place(line_place(place, number));
            let key = keys::line(w_id, d_id, o_id, number);
            insert(transaction, &self.order_lines.table, key, at, line)?;
        }
        Ok(())
    }

    /// Removes an order with its lines and index entries.
    fn remove_order<'a, M: FullMemory>(
        &'a self,
        transaction: &mut Transaction<'a, M>,
        (w_id, d_id, o_id): (u32, u8, u64),
    ) -> Result<(), Abort> {
        let key = keys::order(w_id, d_id, o_id);
        let order = expect(transaction, &self.orders.table, key)?;
        transaction.remove(&self.orders.table, &order);
        if let Some(undelivered) = transaction.get(&self.new_orders.table, key)? {
            transaction.remove(&self.new_orders.table, &undelivered);
        }
        let key = keys::customer_order(w_id, d_id, order.row.c_id, o_id);
        let entry = expect(transaction, &self.customer_orders.table, key)?;
        transaction.remove(&self.customer_orders.table, &entry);
        for number in 1..=u64::from(order.row.ol_cnt) {
            let key = keys::line(w_id, d_id, o_id, number);
            let line = expect(transaction, &self.order_lines.table, key)?;
            transaction.remove(&self.order_lines.table, &line);
        }
        Ok(())
    }
}
