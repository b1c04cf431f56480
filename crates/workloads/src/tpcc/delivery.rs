//! Delivery: the oldest order of each district is delivered (TPC-C rev. 5.11, clause 2.7).

use ebbtide_core::FullMemory;
use ebbtide_structures::latch;

use super::database::{Database, line_address};
use super::input::{Delivery, Who};
use super::rows::{District, Order, OrderLine};
use super::scale::DISTRICTS;
use crate::Corrupt;
use crate::commit::commit;
use crate::keys::share;

/// The order that a Delivery delivered in each district; `None` if there was none.
pub type Delivered = [Option<u64>; DISTRICTS as usize];

impl Database {
    /// Runs a Delivery and computes `work` instructions between its accesses. Each district is a
    /// transaction of its own, in one atomic step, as the standard permits (clause 2.7.4).
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row. Nothing is then stored in that district and the
    /// ones after it.
    pub fn delivery<M: FullMemory>(
        &self,
        memory: &mut M,
        delivery: &Delivery,
        work: u64,
    ) -> Result<Delivered, Corrupt> {
        let mut delivered = Delivered::default();
        for (part, d_id) in (0..).zip(1..=DISTRICTS) {
            memory.work(share(work, part, DISTRICTS.into()));
            self.touch_oldest(memory, delivery.w_id, d_id)?;
            let latch = self.layout.district(delivery.w_id, d_id);
            delivered[usize::from(d_id - 1)] = commit(memory, |memory| {
                latch::write(memory, latch, |memory| self.deliver(memory, delivery, d_id))
            })?;
        }
        Ok(delivered)
    }

    /// Touches the rows that will probably be delivered.
    fn touch_oldest<M: FullMemory>(
        &self,
        memory: &mut M,
        w_id: u32,
        d_id: u8,
    ) -> Result<(), Corrupt> {
        let o_id = self.district(memory, w_id, d_id)?.oldest_undelivered;
        let _new_order: u64 = memory.load(self.layout.new_order(w_id, d_id, o_id));
        let order: Result<Order, Corrupt> =
            self.checksums.read_row(memory, self.layout.order(w_id, d_id, o_id));
        // It may be half written, since no latch is held.
        if let Ok(Order { c_id, .. }) = order
            && (1..=self.scale().customers).contains(&c_id)
        {
            let _customer: u64 = memory.load(self.layout.customer(w_id, d_id, c_id));
        }
        Ok(())
    }

    /// The transaction itself, with the district's latch held.
    fn deliver<M: FullMemory>(
        &self,
        memory: &mut M,
        delivery: &Delivery,
        d_id: u8,
    ) -> Result<Option<u64>, Corrupt> {
        let &Delivery { w_id, carrier_id, date } = delivery;
        let district_at = self.layout.district(w_id, d_id);
        let district: District = self.checksums.read_latched(memory, district_at)?;
        let o_id = district.oldest_undelivered;
        if o_id == district.next_o_id {
            return Ok(None);
        }
        let new_order_at = self.layout.new_order(w_id, d_id, o_id);
        let new_order = self.checksums.read_number(memory, new_order_at)?;
        if new_order != o_id {
            return Err(Corrupt(format!(
                "NEW-ORDER {new_order} is at {new_order_at:?}, not {o_id}"
            )));
        }
        let mut order = self.read_order(memory, (w_id, d_id), o_id)?;
        let lines = self.read_lines(memory, &order)?;
        let who = Who::Id(order.c_id);
        let mut customer = self.read_customer(memory, (w_id, d_id), order.c_id, who)?;

        // All rows are read and valid. From here on there are only stores.
        order.carrier_id = carrier_id;
        order.delivered_cents = lines.iter().map(|line| i64::from(line.amount_cents)).sum();
        let slot = self.layout.order(w_id, d_id, o_id);
        for line in lines {
            let line = OrderLine { delivery_d: date, ..line };
            self.checksums.write_row(memory, line_address(slot, line.number), &line);
        }
        self.checksums.write_row(memory, slot, &order);
        customer.deliver(order.delivered_cents);
        self.checksums.write_row(memory, self.layout.customer(w_id, d_id, order.c_id), &customer);
        let district = District { oldest_undelivered: o_id + 1, ..district };
        self.checksums.write_latched(memory, district_at, district);
        self.checksums.write_number(memory, new_order_at, 0);
        Ok(Some(o_id))
    }
}
