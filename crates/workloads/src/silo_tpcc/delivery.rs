//! Delivery (TPC-C rev. 5.11, clause 2.7): the oldest order of each district is delivered.

use ebbtide_core::FullMemory;

use super::database::{Database, expect};
use super::keys;
use super::rows::{CustomerRow, OrderRow, Pointer};
use crate::Corrupt;
use crate::keys::share;
use crate::silo::{Abort, Found, Isolation, Transaction};
use crate::tpcc::DISTRICTS;
use crate::tpcc::input::Delivery;

impl Database {
    /// Runs a Delivery as job `job` and computes `work` instructions between its accesses. Each
    /// district is a transaction, as clause 2.7.2 permits. Returns the number of delivered orders.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn delivery<M: FullMemory>(
        &self,
        memory: &mut M,
        job: u64,
        input: &Delivery,
        work: u64,
    ) -> Result<u32, Corrupt> {
        let mut delivered = 0;
        for d_id in 1..=DISTRICTS {
            let w_id = input.w_id;
            let work = share(work, u64::from(d_id - 1), u64::from(DISTRICTS));
            self.silo.rehearse(memory, |transaction| self.due(transaction, w_id, d_id, work));
            let done = self.silo.run(memory, job, Isolation::Serializable, |transaction| {
                self.deliver(transaction, input, d_id)
            })?;
            delivered += u32::from(done.is_some_and(|done| done.value));
        }
        Ok(delivered)
    }

    /// The oldest undelivered order of one district, if there is one. Computes `work` instructions
    /// between its rows.
    fn due<'a, M: FullMemory>(
        &'a self,
        transaction: &mut Transaction<'a, M>,
        w_id: u32,
        d_id: u8,
        work: u64,
    ) -> Result<Option<Due>, Abort> {
        transaction.memory().work(share(work, 0, 4));
        let district = keys::order(w_id, d_id, 0)..=keys::order(w_id, d_id, keys::ORDERS_MAX - 1);
        let oldest = transaction.scan(&self.new_orders.table, district, 1)?;
        let Some(&pointer) = oldest.first() else {
            (1..4).for_each(|part| transaction.memory().work(share(work, part, 4)));
            return Ok(None);
        };
        transaction.memory().work(share(work, 1, 4));
        let order = expect(transaction, &self.orders.table, pointer.key)?;
        transaction.memory().work(share(work, 2, 4));
        let lines = self.lines_of(transaction, (w_id, d_id, pointer.row.o_id), &order.row)?;
        let key = keys::customer(w_id, d_id, order.row.c_id);
        transaction.memory().work(share(work, 3, 4));
        let customer = expect(transaction, &self.customers.table, key)?;
        let cents = lines.iter().map(|line| i64::from(line.amount_cents)).sum();
        Ok(Some(Due { pointer, order, customer, cents }))
    }

    /// Delivers the oldest order of one district, if there is one.
    fn deliver<'a, M: FullMemory>(
        &'a self,
        transaction: &mut Transaction<'a, M>,
        input: &Delivery,
        d_id: u8,
    ) -> Result<bool, Abort> {
        let Some(due) = self.due(transaction, input.w_id, d_id, 0)? else { return Ok(false) };
        let Due { pointer, mut order, mut customer, cents } = due;
        transaction.remove(&self.new_orders.table, &pointer);
        order.row.carrier_id = input.carrier_id;
        order.row.delivery_d = input.date;
        transaction.put(&order);
        customer.row.account.deliver(cents);
        transaction.put(&customer);
        Ok(true)
    }
}

/// An order to deliver.
struct Due {
    pointer: Found<Pointer>,
    order: Found<OrderRow>,
    customer: Found<CustomerRow>,
    /// The sum of its lines' amounts.
    cents: i64,
}
