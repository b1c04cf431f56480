//! Delivery (TPC-C rev. 5.11, clause 2.7): the oldest order of each district is delivered.

use ebbtide_core::Memory;

use super::database::{Database, expect};
use super::keys;
use crate::Wrong;
use crate::keys::share;
use crate::silo::{Abort, Isolation, Transaction};
use crate::tpcc::DISTRICTS;
use crate::tpcc::input::Delivery;

impl Database {
    /// Runs a Delivery as job `job`, computing `work` instructions on the way: a transaction for
    /// each district, as clause 2.7.2 permits. How many orders were delivered.
    ///
    /// # Errors
    /// [`Wrong`] when a row is not what it must be.
    pub fn delivery<M: Memory>(
        &self,
        memory: &mut M,
        job: u64,
        input: &Delivery,
        work: u64,
    ) -> Result<u32, Wrong> {
        let mut delivered = 0;
        for d_id in 1..=DISTRICTS {
            let done = self.silo.run(memory, job, Isolation::Serializable, |transaction| {
                let part = u64::from(d_id - 1);
                transaction.memory().work(share(work, part, u64::from(DISTRICTS)));
                self.deliver(transaction, input, d_id)
            })?;
            delivered += u32::from(done.is_some_and(|done| done.value));
        }
        Ok(delivered)
    }

    /// Delivers the oldest order of one district, if there is one.
    fn deliver<'a, M: Memory>(
        &'a self,
        transaction: &mut Transaction<'a, M>,
        input: &Delivery,
        d_id: u8,
    ) -> Result<bool, Abort> {
        let w_id = input.w_id;
        let district = keys::order(w_id, d_id, 0)..=keys::order(w_id, d_id, keys::ORDERS_MAX - 1);
        let oldest = transaction.scan(&self.new_orders.table, district, 1)?;
        let Some(oldest) = oldest.first() else { return Ok(false) };
        transaction.remove(&self.new_orders.table, oldest);

        let mut order = expect(transaction, &self.orders.table, oldest.key)?;
        order.row.carrier_id = input.carrier_id;
        order.row.delivery_d = input.date;
        transaction.put(&order);
        let lines = self.lines_of(transaction, (w_id, d_id, oldest.row.o_id), &order.row)?;

        let key = keys::customer(w_id, d_id, order.row.c_id);
        let mut customer = expect(transaction, &self.customers.table, key)?;
        let account = &mut customer.row.account;
        account.balance_cents += lines.iter().map(|line| i64::from(line.amount_cents)).sum::<i64>();
        account.delivery_cnt = account.delivery_cnt.wrapping_add(1);
        transaction.put(&customer);
        Ok(true)
    }
}
