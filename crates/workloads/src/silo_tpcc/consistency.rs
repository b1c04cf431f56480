//! The consistency conditions of the tables while no transaction runs (TPC-C rev. 5.11, clause
//! 3.3.2).

use std::fmt::Debug;

use ebbtide_core::FullMemory;

use super::database::{Database, expect};
use super::keys;
use crate::Corrupt;
use crate::silo::{Abort, Isolation, Transaction};
use crate::tpcc::DISTRICTS;

/// Sums over rows, for comparison with the results of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Orders ever placed, from D_NEXT_O_ID.
    pub orders: u64,
    /// Lines ever ordered, from S_ORDER_CNT.
    pub lines: u64,
    /// S_YTD.
    pub quantity: u64,
    /// C_YTD_PAYMENT.
    pub paid_cents: i64,
    /// C_PAYMENT_CNT.
    pub payments: u64,
    /// C_DELIVERY_CNT.
    pub deliveries: u64,
}

impl Database {
    /// Checks the consistency conditions over all warehouses while no job writes. Returns sums over
    /// the rows.
    ///
    /// It checks conditions 1 to 7 for the orders that are still in their rings. It also checks
    /// that the rings have no gaps, and that warehouses have the sum of their customers' payments.
    ///
    /// # Errors
    /// [`Corrupt`] with the condition that does not hold, and its place.
    pub fn check_consistency<M: FullMemory>(&self, memory: &mut M) -> Result<Totals, Corrupt> {
        let mut totals = Totals::default();
        let mut paid_here = 0;
        for w_id in 1..=self.size().scale.warehouses {
            let done = self.silo.run(memory, 1, Isolation::Serializable, |transaction| {
                let mut sums = Totals::default();
                let paid_here = self.check_warehouse(transaction, w_id, &mut sums)?;
                Ok((sums, paid_here))
            })?;
            let Some(done) = done else { continue };
            totals.add(done.value.0);
            paid_here += done.value.1;
        }
        same("all W_YTD and all C_YTD_PAYMENT", "all", paid_here, totals.paid_cents)?;
        Ok(totals)
    }

    /// Checks a warehouse and returns its W_YTD.
    fn check_warehouse<'a, M: FullMemory>(
        &'a self,
        transaction: &mut Transaction<'a, M>,
        w_id: u32,
        totals: &mut Totals,
    ) -> Result<i64, Abort> {
        let mut districts = 0;
        for d_id in 1..=DISTRICTS {
            let key = keys::district(w_id, d_id);
            let district = expect(transaction, &self.districts.table, key)?.row;
            districts += district.ytd_cents;
            totals.orders += district.next_o_id - 1;
            self.check_orders(transaction, (w_id, d_id), district.next_o_id)?;
        }
        let all = keys::customer(w_id, 1, 0)..=keys::customer(w_id, DISTRICTS, (1 << 12) - 1);
        for customer in transaction.scan(&self.customers.table, all, usize::MAX)? {
            let account = customer.row.account;
            totals.paid_cents += account.ytd_payment_cents;
            totals.payments += u64::from(account.payment_cnt);
            totals.deliveries += u64::from(account.delivery_cnt);
        }
        let all = keys::stock(w_id, 0)..=keys::stock(w_id, u32::MAX);
        for stock in transaction.scan(&self.stocks.table, all, usize::MAX)? {
            totals.lines += u64::from(stock.row.order_cnt);
            totals.quantity += stock.row.ytd;
        }
        let warehouse = expect(transaction, &self.warehouses.table, keys::one(w_id))?.row;
        same("1: W_YTD and all D_YTD", w_id, warehouse.ytd_cents, districts)?;
        Ok(warehouse.ytd_cents)
    }

    /// Checks the orders of a district, their lines and their index entries.
    fn check_orders<'a, M: FullMemory>(
        &'a self,
        transaction: &mut Transaction<'a, M>,
        (w_id, d_id): (u32, u8),
        next_o_id: u64,
    ) -> Result<(), Abort> {
        let at = (w_id, d_id);
        let all = keys::order(w_id, d_id, 0)..=keys::order(w_id, d_id, keys::ORDERS_MAX - 1);
        let orders = transaction.scan(&self.orders.table, all.clone(), usize::MAX)?;
        let new_orders = transaction.scan(&self.new_orders.table, all, usize::MAX)?;
        let kept = (next_o_id - 1).min(self.size().ring - 1);
        let first = keys::order(w_id, d_id, next_o_id - kept);
        let keys_of = |range: std::ops::Range<u64>| range.collect::<Vec<u64>>();
        let found: Vec<u64> = orders.iter().map(|order| order.key).collect();
        same("2: all O_ID and D_NEXT_O_ID", at, found, keys_of(first..first + kept))?;
        let pending: Vec<u64> = new_orders.iter().map(|new| new.key).collect();
        let undelivered = orders.iter().filter(|order| order.row.carrier_id == 0);
        let undelivered: Vec<u64> = undelivered.map(|order| order.key).collect();
        same("5: NEW-ORDER and O_CARRIER_ID", at, &pending, &undelivered)?;
        let last = first + kept;
        let without_gaps = keys_of(last - pending.len() as u64..last);
        same("3: all NO_O_ID", at, pending, without_gaps)?;

        let mut lines = 0;
        for (order, o_id) in orders.iter().zip(next_o_id - kept..) {
            // Conditions 6 and 7.
            lines += self.lines_of(transaction, (w_id, d_id, o_id), &order.row)?.len();
            let key = keys::customer_order(w_id, d_id, order.row.c_id, o_id);
            let entry = expect(transaction, &self.customer_orders.table, key)?;
            same("an order and its customer's entry", at, entry.row.o_id, o_id)?;
        }
        let all = keys::line(w_id, d_id, 0, 0)
            ..=keys::line(w_id, d_id, keys::ORDERS_MAX - 1, keys::LINES_MAX);
        let found = transaction.scan(&self.order_lines.table, all, usize::MAX)?.len();
        same("4: all O_OL_CNT and the order lines", at, lines, found)?;
        let customers = keys::customer_order(w_id, d_id, 0, keys::ORDERS_MAX - 1)
            ..=keys::customer_order(w_id, d_id, (1 << 12) - 1, 0);
        let found = transaction.scan(&self.customer_orders.table, customers, usize::MAX)?.len();
        Ok(same("orders and their customers' entries", at, orders.len(), found)?)
    }
}

impl Totals {
    fn add(&mut self, other: Totals) {
        self.orders += other.orders;
        self.lines += other.lines;
        self.quantity += other.quantity;
        self.paid_cents += other.paid_cents;
        self.payments += other.payments;
        self.deliveries += other.deliveries;
    }
}

/// Checks that two values are equal.
fn same<T: PartialEq + Debug>(what: &str, at: impl Debug, one: T, other: T) -> Result<(), Corrupt> {
    match one == other {
        true => Ok(()),
        false => Err(Corrupt(format!("{what} differ at {at:?}: {one:?} and {other:?}"))),
    }
}
