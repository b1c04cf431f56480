//! Order-Status (TPC-C rev. 5.11, clause 2.6): the state of a customer's last order.

use ebbtide_core::FullMemory;
use smallvec::SmallVec;

use super::database::{Database, expect};
use super::rows::{OrderLineRow, OrderRow};
use super::{keys, number};
use crate::Corrupt;
use crate::keys::share;
use crate::silo::{Abort, Isolation, Transaction};
use crate::tpcc::input::OrderStatus;

/// The lines of an order.
pub(super) type Lines = SmallVec<[OrderLineRow; 15]>;

/// The result of an Order-Status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The customer's balance.
    pub balance_cents: i64,
    /// The number of the customer's last order and its total quantity, if the ring still has it.
    pub last: Option<(u64, u32)>,
}

impl Database {
    /// Runs an Order-Status as job `job` and computes `work` instructions between its accesses.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn order_status<M: FullMemory>(
        &self,
        memory: &mut M,
        job: u64,
        input: &OrderStatus,
        work: u64,
    ) -> Result<Status, Corrupt> {
        let &OrderStatus { w_id, d_id, who } = input;
        let c_id = number(who)?;
        let done = self.silo.run(memory, job, Isolation::Serializable, |transaction| {
            transaction.memory().work(share(work, 0, 4));
            let key = keys::customer(w_id, d_id, c_id);
            let customer = expect(transaction, &self.customers.table, key)?;
            transaction.memory().work(share(work, 1, 4));
            let newest = keys::customer_order(w_id, d_id, c_id, keys::ORDERS_MAX - 1);
            let all = newest..=keys::customer_order(w_id, d_id, c_id, 0);
            let last = transaction.scan(&self.customer_orders.table, all, 1)?;
            let last = match last.first() {
                None => {
                    (2..4).for_each(|part| transaction.memory().work(share(work, part, 4)));
                    None
                }
                Some(last) => {
                    let o_id = last.row.o_id;
                    let key = keys::order(w_id, d_id, o_id);
                    transaction.memory().work(share(work, 2, 4));
                    let order = expect(transaction, &self.orders.table, key)?;
                    transaction.memory().work(share(work, 3, 4));
                    let lines = self.lines_of(transaction, (w_id, d_id, o_id), &order.row)?;
                    Some((o_id, lines.iter().map(|line| line.quantity).sum()))
                }
            };
            Ok(Status { balance_cents: customer.row.account.balance_cents, last })
        })?;
        let done = done.ok_or_else(|| Corrupt("an Order-Status was rolled back".to_string()))?;
        Ok(done.value)
    }

    /// The lines of an order. Checks their number.
    pub(super) fn lines_of<'a, M: FullMemory>(
        &'a self,
        transaction: &mut Transaction<'a, M>,
        (w_id, d_id, o_id): (u32, u8, u64),
        order: &OrderRow,
    ) -> Result<Lines, Abort> {
        let first = keys::line(w_id, d_id, o_id, 1);
        let all = first..=keys::line(w_id, d_id, o_id, keys::LINES_MAX);
        let found = transaction.scan(&self.order_lines.table, all, keys::LINES_MAX as usize)?;
        let as_said = found.len() == usize::from(order.ol_cnt)
            && found.iter().zip(first..).all(|(line, key)| line.key == key);
        if !as_said {
            return Err(Abort::Corrupt(Corrupt(format!(
                "order {o_id} of district {d_id} of warehouse {w_id} has {} lines, not {}",
                found.len(),
                order.ol_cnt
            ))));
        }
        Ok(found.iter().map(|line| line.row).collect())
    }
}
