//! Order-Status: the state of a customer's last order (TPC-C rev. 5.11, clause 2.6).

use ebbtide_core::FullMemory;
use ebbtide_structures::latch;

use super::database::{Database, OrderLines};
use super::input::OrderStatus;
use super::rows::{Customer, Order};
use crate::Corrupt;
use crate::keys::share;

/// The result of an Order-Status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The customer.
    pub customer: Customer,
    /// The last order, unless it has left the ring.
    pub order: Option<(Order, OrderLines)>,
}

impl Database {
    /// Runs an Order-Status, which reads atomically, and computes `work` instructions between its
    /// accesses.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn order_status<M: FullMemory>(
        &self,
        memory: &mut M,
        status: &OrderStatus,
        work: u64,
    ) -> Result<Status, Corrupt> {
        let &OrderStatus { w_id, d_id, who } = status;
        memory.work(share(work, 0, 2));
        let c_id = self.find(memory, (w_id, d_id), who)?;
        let _customer: u64 = memory.load(self.layout.customer(w_id, d_id, c_id));
        memory.work(share(work, 1, 2));
        let o_id = self.checksums.read_number(memory, self.layout.last_order(w_id, d_id, c_id))?;
        let _order: u64 = memory.load(self.layout.order(w_id, d_id, o_id));
        latch::read(memory, self.layout.district(w_id, d_id), |memory| {
            let customer = self.read_customer(memory, (w_id, d_id), c_id, who)?;
            let order = self.read_last_order(memory, &customer)?;
            Ok(Status { customer, order })
        })
    }

    /// The last order of a customer with its lines, if it is still present.
    fn read_last_order<M: FullMemory>(
        &self,
        memory: &mut M,
        customer: &Customer,
    ) -> Result<Option<(Order, OrderLines)>, Corrupt> {
        let &Customer { w_id, d_id, c_id, .. } = customer;
        let at = self.layout.district(w_id, d_id);
        let orders = self.orders_of(&self.checksums.read_latched(memory, at)?);
        let o_id = self.checksums.read_number(memory, self.layout.last_order(w_id, d_id, c_id))?;
        if !orders.contains(&o_id) {
            return Ok(None);
        }
        let order = self.read_order(memory, (w_id, d_id), o_id)?;
        if order.c_id != c_id {
            return Err(Corrupt(format!("{order:?} is not of customer {c_id}")));
        }
        let lines = self.read_lines(memory, &order)?;
        Ok(Some((order, lines)))
    }
}
