//! [`Inputs`]: what jobs ask for. TPC-C's transactions (rev. 5.11, clause 2), with popularity by
//! Zipf.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::size::Size;
use crate::keys::{Places, Ranks, Scatter, job_rng};
use crate::permutation::Permutation;
use crate::tpcc::DISTRICTS;
use crate::tpcc::input::{
    Date, Delivery, LINES_MAX, LOADED, NewOrder, OrderStatus, Ordered, Payment, StockLevel,
    Transaction, Who,
};
use ebbtide_structures::hash::mix;

/// Customers whose rows share a page.
const CUSTOMERS_TOGETHER: u64 = 5;

/// Items whose stock rows share a page.
const ITEMS_TOGETHER: u64 = 10;

/// Makes the input of any job.
///
/// Warehouses, the customers of a warehouse, and items are each drawn by Zipf; the rest is as the
/// standard says, but that customers are never named by their last names. Which customers and items
/// are popular is the same for all warehouses.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    size: Size,
    warehouse_ranks: Ranks,
    customer_ranks: Ranks,
    item_ranks: Ranks,
    warehouses: Permutation,
    customers: Places,
    items: Places,
    seed: u64,
}

impl Inputs {
    pub fn new(size: Size, theta: f64, scatter: Scatter, seed: u64) -> Inputs {
        let customers = u64::from(DISTRICTS) * size.customers();
        let places = |n: u64, together, seed| Places::new(n / together, together, scatter, seed);
        Inputs {
            size,
            warehouse_ranks: Ranks::new(size.warehouses(), theta),
            customer_ranks: Ranks::new(customers, theta),
            item_ranks: Ranks::new(size.items(), theta),
            warehouses: Permutation::new(size.warehouses(), mix(seed)),
            customers: places(customers, CUSTOMERS_TOGETHER, mix(seed ^ 1)),
            items: places(size.items(), ITEMS_TOGETHER, mix(seed ^ 2)),
            seed,
        }
    }

    /// The transaction that is job `job`: New-Order 45%, Payment 43%, and Order-Status, Delivery
    /// and Stock-Level 4% each.
    pub fn job(&self, job: u64) -> Transaction {
        let rng = &mut job_rng(self.seed, job);
        let date = (job % u64::from(Date::MAX - LOADED)) as Date + LOADED + 1;
        let w_id = self.warehouse(rng);
        match rng.random_range(0..100) {
            0..45 => Transaction::NewOrder(self.new_order(rng, w_id, date)),
            45..88 => Transaction::Payment(self.payment(rng, w_id, date)),
            88..92 => {
                let (d_id, c_id) = self.customer(rng);
                Transaction::OrderStatus(OrderStatus { w_id, d_id, who: Who::Id(c_id) })
            }
            92..96 => {
                let carrier_id = rng.random_range(1..=10);
                Transaction::Delivery(Delivery { w_id, carrier_id, date })
            }
            _ => Transaction::StockLevel(StockLevel {
                w_id,
                d_id: rng.random_range(1..=DISTRICTS),
                threshold: rng.random_range(10..=20),
            }),
        }
    }

    fn new_order(&self, rng: &mut Pcg64Mcg, w_id: u32, entry_d: Date) -> NewOrder {
        let (d_id, c_id) = self.customer(rng);
        let count = rng.random_range(5..=LINES_MAX);
        let line = |_| {
            let remote = rng.random_range(0..100) == 0;
            Ordered {
                i_id: self.items.place(self.item_ranks.draw(rng)) as u32 + 1,
                supply_w_id: if remote { self.other_than(w_id, rng) } else { w_id },
                quantity: rng.random_range(1..=10),
            }
        };
        let mut order =
            NewOrder { w_id, d_id, c_id, lines: (0..count).map(line).collect(), entry_d };
        if rng.random_range(0..100) == 0 {
            order.lines[count - 1].i_id = self.size.scale.items + 1;
        }
        order
    }

    fn payment(&self, rng: &mut Pcg64Mcg, w_id: u32, date: Date) -> Payment {
        let (c_d_id, c_id) = self.customer(rng);
        let remote = rng.random_range(0..100) >= 85;
        let c_w_id = if remote { self.other_than(w_id, rng) } else { w_id };
        let d_id = if remote { rng.random_range(1..=DISTRICTS) } else { c_d_id };
        let amount_cents = rng.random_range(100..=500_000);
        Payment { w_id, d_id, c_w_id, c_d_id, who: Who::Id(c_id), amount_cents, date }
    }

    fn warehouse(&self, rng: &mut Pcg64Mcg) -> u32 {
        self.warehouses.apply(self.warehouse_ranks.draw(rng)) as u32 + 1
    }

    /// Any other warehouse, all alike; `w_id` itself if it is the only one.
    fn other_than(&self, w_id: u32, rng: &mut Pcg64Mcg) -> u32 {
        match self.size.scale.warehouses {
            1 => w_id,
            n => (w_id - 1 + rng.random_range(1..n)) % n + 1,
        }
    }

    /// A customer of some warehouse, and its district.
    fn customer(&self, rng: &mut Pcg64Mcg) -> (u8, u32) {
        let number = self.customers.place(self.customer_ranks.draw(rng));
        let customers = self.size.customers();
        ((number / customers) as u8 + 1, (number % customers) as u32 + 1)
    }
}
