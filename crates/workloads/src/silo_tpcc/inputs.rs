//! [`Inputs`]: the inputs of TPC-C's transactions (rev. 5.11, clause 2), with popularity by Zipf.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::keys::{Places, Ranks, Scatter, job_rng};
use crate::permutation::Permutation;
use crate::tpcc::DISTRICTS;
use crate::tpcc::input::{
    Date, Payment, Terminal, Transaction, Who, date, district, draw_transaction,
};
use crate::tpcc::size::Size;
use ebbtide_structures::hash::mix;

/// Customers whose rows share a page.
const CUSTOMERS_TOGETHER: u64 = 5;

/// Items whose stock rows share a page.
const ITEMS_TOGETHER: u64 = 10;

/// Makes the input of any job.
///
/// Warehouses, the customers of a warehouse, and items are each drawn by Zipf. Other inputs follow
/// the standard, except that customers are always given by number. The same customers and items are
/// popular in all warehouses.
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

    /// The transaction of job `job` in the full mix.
    pub fn job(&self, job: u64) -> Transaction {
        let rng = &mut job_rng(self.seed, job);
        let w_id = self.warehouses.apply(self.warehouse_ranks.draw(rng)) as u32 + 1;
        draw_transaction(&At { inputs: self, w_id }, rng, date(job))
    }
}

/// A terminal of one warehouse.
struct At<'a> {
    inputs: &'a Inputs,
    w_id: u32,
}

impl At<'_> {
    /// Another warehouse, uniformly; this one if it is the only one.
    fn other(&self, rng: &mut Pcg64Mcg) -> u32 {
        match self.inputs.size.scale.warehouses {
            1 => self.w_id,
            n => (self.w_id - 1 + rng.random_range(1..n)) % n + 1,
        }
    }
}

impl Terminal for At<'_> {
    fn items(&self) -> u32 {
        self.inputs.size.scale.items
    }

    fn home(&self, _rng: &mut Pcg64Mcg) -> u32 {
        self.w_id
    }

    fn buyer(&self, rng: &mut Pcg64Mcg) -> (u8, u32) {
        let number = self.inputs.customers.place(self.inputs.customer_ranks.draw(rng));
        let customers = self.inputs.size.customers();
        ((number / customers) as u8 + 1, (number % customers) as u32 + 1)
    }

    fn named_customer(&self, rng: &mut Pcg64Mcg) -> (u8, Who) {
        let (d_id, c_id) = self.buyer(rng);
        (d_id, Who::Id(c_id))
    }

    fn line(&self, w_id: u32, rng: &mut Pcg64Mcg) -> (u32, u32) {
        let remote = rng.random_range(0..100) == 0;
        let i_id = self.inputs.items.place(self.inputs.item_ranks.draw(rng)) as u32 + 1;
        (i_id, if remote { self.other(rng) } else { w_id })
    }

    fn payment(&self, date: Date, rng: &mut Pcg64Mcg) -> Payment {
        let (c_d_id, c_id) = self.buyer(rng);
        let remote = rng.random_range(0..100) >= 85;
        let c_w_id = if remote { self.other(rng) } else { self.w_id };
        let d_id = if remote { district(rng) } else { c_d_id };
        let amount_cents = rng.random_range(100..=500_000);
        Payment { w_id: self.w_id, d_id, c_w_id, c_d_id, who: Who::Id(c_id), amount_cents, date }
    }
}
