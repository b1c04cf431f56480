//! The consistency conditions of the tables while no transaction runs (TPC-C rev. 5.11, clause
//! 3.3.2).

use ebbtide_core::FullMemory;

use super::database::Database;
use super::rows::{Customer, District, History, Order, Warehouse};
use super::scale::DISTRICTS;
use crate::Corrupt;

/// Sums over a district's rows.
#[derive(Debug, Default)]
struct Sums {
    /// C_BALANCE of its customers.
    balance_cents: i64,
    /// C_YTD_PAYMENT of its customers.
    paid_by_customers_cents: i64,
    /// OL_AMOUNT of its delivered orders, including those that have left the ring.
    delivered_cents: i64,
    /// D_YTD.
    paid_here_cents: i64,
}

impl Database {
    /// Checks the consistency conditions over all warehouses. No job may write during the call.
    ///
    /// It checks conditions 1 to 9, including the sums of rows that have left the rings. It checks
    /// conditions 10 and 12 summed over customers, since the orders and payments of each customer
    /// may have left. (Condition 11 holds only before the first Delivery.)
    ///
    /// # Errors
    /// [`Corrupt`] with the condition that does not hold and its place, or the invalid row.
    pub fn check_consistency<M: FullMemory>(&self, memory: &mut M) -> Result<(), Corrupt> {
        let mut all = Sums::default();
        for w_id in 1..=self.scale().warehouses {
            let mut of_warehouse = 0;
            for d_id in 1..=DISTRICTS {
                let sums = self.check_district(memory, (w_id, d_id))?;
                of_warehouse += sums.paid_here_cents;
                all.balance_cents += sums.balance_cents;
                all.paid_by_customers_cents += sums.paid_by_customers_cents;
                all.delivered_cents += sums.delivered_cents;
                all.paid_here_cents += sums.paid_here_cents;
            }
            let warehouse: Warehouse =
                self.checksums.read_latched(memory, self.layout.warehouse(w_id))?;
            // Together with condition 9 of each district, this implies condition 8.
            let at = || format!("warehouse {w_id}");
            same(1, at, "W_YTD", warehouse.ytd_cents, "all D_YTD", of_warehouse)?;
        }
        let (paid, found) = (all.paid_here_cents, all.paid_by_customers_cents);
        same(10, || "all".into(), "all C_YTD_PAYMENT", found, "all H_AMOUNT", paid)
    }

    fn check_district<M: FullMemory>(
        &self,
        memory: &mut M,
        ids: (u32, u8),
    ) -> Result<Sums, Corrupt> {
        let (w_id, d_id) = ids;
        let district = self.district(memory, w_id, d_id)?;
        self.check_new_orders(memory, ids, &district)?;
        let delivered_cents = self.check_orders(memory, ids, &district)?;
        self.check_history(memory, ids, &district)?;
        let mut sums = Sums {
            delivered_cents: district.retired_delivered_cents + delivered_cents,
            paid_here_cents: district.ytd_cents,
            ..Sums::default()
        };
        for c_id in 1..=self.scale().customers {
            let customer: Customer =
                self.checksums.read_row(memory, self.layout.customer(w_id, d_id, c_id))?;
            sums.balance_cents += customer.balance_cents;
            sums.paid_by_customers_cents += customer.ytd_payment_cents;
        }
        let found = sums.balance_cents + sums.paid_by_customers_cents;
        let at = || place(ids);
        same(12, at, "all C_BALANCE + C_YTD_PAYMENT", found, "OL_AMOUNT", sums.delivered_cents)?;
        Ok(sums)
    }

    /// Conditions 2, 3 and 5: the NEW-ORDER rows are those from the oldest undelivered order to the
    /// newest order.
    fn check_new_orders<M: FullMemory>(
        &self,
        memory: &mut M,
        ids: (u32, u8),
        district: &District,
    ) -> Result<(), Corrupt> {
        let undelivered = district.oldest_undelivered..district.next_o_id;
        let mut rows = 0;
        for slot in 0..self.layout.size.ring {
            match self.checksums.read_number(memory, self.layout.new_order(ids.0, ids.1, slot))? {
                0 => {}
                o_id if undelivered.contains(&o_id) => rows += 1,
                o_id => {
                    let place = place(ids);
                    let why = format!("{place}: NEW-ORDER {o_id} is not one of {undelivered:?}");
                    return Err(violated(2, &why));
                }
            }
        }
        let expected = undelivered.end.saturating_sub(undelivered.start);
        same(3, || place(ids), "NEW-ORDER rows", rows, "undelivered orders", expected as i64)
    }

    /// Checks conditions 2, 4, 5, 6 and 7. Every order up to D_NEXT_O_ID is present with all its
    /// lines, and either all or none are delivered. Returns the sum of OL_AMOUNT of delivered
    /// orders.
    fn check_orders<M: FullMemory>(
        &self,
        memory: &mut M,
        ids: (u32, u8),
        district: &District,
    ) -> Result<i64, Corrupt> {
        let mut delivered_cents = 0;
        for o_id in self.orders_of(district) {
            let order = self.read_order(memory, ids, o_id)?;
            let delivered = o_id < district.oldest_undelivered;
            if delivered != (order.carrier_id != 0) {
                return Err(violated(5, &format!("{order:?}, but delivered is {delivered}")));
            }
            let lines_cents = self.check_lines(memory, &order)?;
            let expected = if delivered { lines_cents } else { 0 };
            let at = || format!("{order:?}");
            same(12, at, "delivered_cents", order.delivered_cents, "OL_AMOUNT", expected)?;
            delivered_cents += order.delivered_cents;
        }
        Ok(delivered_cents)
    }

    /// The sum of OL_AMOUNT of an order. Checks that its lines are present and agree on its
    /// delivery.
    fn check_lines<M: FullMemory>(&self, memory: &mut M, order: &Order) -> Result<i64, Corrupt> {
        // Conditions 4 and 6: a missing line is an error.
        let mut sum_cents = 0;
        for line in self.read_lines(memory, order)? {
            if (line.delivery_d != 0) != (order.carrier_id != 0) {
                return Err(violated(7, &format!("{line:?} of {order:?}")));
            }
            sum_cents += i64::from(line.amount_cents);
        }
        Ok(sum_cents)
    }

    /// Condition 9: D_YTD is the sum of the district's HISTORY rows.
    fn check_history<M: FullMemory>(
        &self,
        memory: &mut M,
        ids: (u32, u8),
        district: &District,
    ) -> Result<(), Corrupt> {
        let (w_id, d_id) = ids;
        let mut sum_cents = district.retired_history_cents;
        for sequence in district.payments - self.layout.history_ring()..district.payments {
            let at = self.layout.history(w_id, d_id, sequence);
            let row: History = self.checksums.read_row(memory, at)?;
            if row.sequence != sequence {
                return Err(violated(9, &format!("{row:?} in place of payment {sequence}")));
            }
            sum_cents += i64::from(row.amount_cents);
        }
        same(9, || place(ids), "D_YTD", district.ytd_cents, "all H_AMOUNT", sum_cents)
    }
}

fn place((w_id, d_id): (u32, u8)) -> String {
    format!("district {d_id} of warehouse {w_id}")
}

fn same(
    condition: u32,
    at: impl Fn() -> String,
    one: &str,
    found: i64,
    other: &str,
    expected: i64,
) -> Result<(), Corrupt> {
    if found == expected {
        return Ok(());
    }
    Err(violated(condition, &format!("{}: {one} = {found}, but {other} = {expected}", at())))
}

#[cold]
fn violated(condition: u32, why: &str) -> Corrupt {
    Corrupt(format!("consistency condition {condition} does not hold: {why}"))
}
