//! Payment (TPC-C rev. 5.11, clause 2.5): a customer pays.

use ebbtide_core::FullMemory;

use super::database::{Database, expect};
use super::rows::CustomerRow;
use super::{keys, number};
use crate::Corrupt;
use crate::keys::share;
use crate::silo::Isolation;
use crate::tpcc::input::Payment;

impl Database {
    /// Runs a Payment as job `job` and computes `work` instructions between its accesses. Returns
    /// the customer's new balance in cents. There is no HISTORY, since no transaction reads it.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn payment<M: FullMemory>(
        &self,
        memory: &mut M,
        job: u64,
        input: &Payment,
        work: u64,
    ) -> Result<i64, Corrupt> {
        let c_id = number(input.who)?;
        let amount = i64::from(input.amount_cents);
        let done = self.silo.run(memory, job, Isolation::Serializable, |transaction| {
            transaction.memory().work(share(work, 0, 3));
            let key = keys::customer(input.c_w_id, input.c_d_id, c_id);
            let mut customer = expect(transaction, &self.customers.table, key)?;
            let CustomerRow { account, data, .. } = &mut customer.row;
            account.pay(input.amount_cents);
            if account.credit == *b"BC" {
                account.note(data, input);
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
        let done = done.ok_or_else(|| Corrupt("a Payment was rolled back".to_string()))?;
        Ok(done.value)
    }
}
