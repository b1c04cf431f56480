//! Payment (TPC-C rev. 5.11, clause 2.5): a customer pays.

use ebbtide_core::Memory;

use super::database::{Database, expect};
use super::rows::CustomerRow;
use super::{keys, number};
use crate::Wrong;
use crate::keys::share;
use crate::tpcc::input::Payment;
use ebbtide_structures::silo::Isolation;

impl Database {
    /// Runs a Payment as job `job`, computing `work` instructions on the way;
    /// the customer's new balance in cents. There is no HISTORY: nobody would read it.
    ///
    /// # Errors
    /// [`Wrong`] when a row is not what it must be.
    pub fn payment<M: Memory>(
        &self,
        memory: &mut M,
        job: u64,
        input: &Payment,
        work: u64,
    ) -> Result<i64, Wrong> {
        let c_id = number(input.who)?;
        let amount = i64::from(input.amount_cents);
        let done = self.silo.run(memory, job, Isolation::Serializable, |transaction| {
            transaction.memory().work(share(work, 0, 3));
            let key = keys::customer(input.c_w_id, input.c_d_id, c_id);
            let mut customer = expect(transaction, &self.customers.table, key)?;
            let account = &mut customer.row.account;
            account.balance_cents -= amount;
            account.ytd_payment_cents += amount;
            account.payment_cnt = account.payment_cnt.wrapping_add(1);
            if account.credit == *b"BC" {
                note(&mut customer.row, input);
            }
            transaction.put(&customer);

            transaction.memory().work(share(work, 1, 3));
            let key = keys::district(input.w_id, input.d_id);
            let mut district = expect(transaction, &self.districts.table, key)?;
            district.row.ytd_cents += amount;
            transaction.put(&district);

            transaction.memory().work(share(work, 2, 3));
            let key = keys::one(input.w_id);
            let mut warehouse = expect(transaction, &self.warehouses.table, key)?;
            warehouse.row.ytd_cents += amount;
            transaction.put(&warehouse);
            Ok(customer.row.account.balance_cents)
        })?;
        let done = done.ok_or_else(|| Wrong("a Payment was rolled back".to_string()))?;
        Ok(done.value)
    }
}

/// Notes a payment in front of C_DATA; what does not fit any more is cut off.
fn note(customer: &mut CustomerRow, input: &Payment) {
    let &Payment { w_id, d_id, c_w_id, c_d_id, amount_cents, .. } = input;
    let c_id = customer.account.c_id;
    let note = format!("{c_id} {c_d_id} {c_w_id} {d_id} {w_id} {amount_cents} ");
    let kept = customer.data.len() - note.len();
    customer.data.copy_within(..kept, note.len());
    customer.data[..note.len()].copy_from_slice(note.as_bytes());
}
