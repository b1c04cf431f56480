//! The inputs of the five transactions (TPC-C rev. 5.11, clause 2).

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use smallvec::SmallVec;

use super::nurand::NuRand;
use super::scale::{DISTRICTS, Scale};
use crate::keys::{Ranks, job_rng};
use crate::permutation::Permutation;
use ebbtide_structures::hash::mix;

/// The most lines an order has.
pub const LINES_MAX: usize = 15;

/// Logical time, counted in jobs, since programs have no clock. 0 means "not yet".
pub type Date = u32;

/// The time at which the database was loaded.
pub(crate) const LOADED: Date = 1;

/// One transaction with its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transaction {
    /// A customer orders items: 45 in 100.
    NewOrder(NewOrder),
    /// A customer pays: 43 in 100.
    Payment(Payment),
    /// The state of a customer's last order: 4 in 100.
    OrderStatus(OrderStatus),
    /// The oldest order of each district is delivered: 4 in 100.
    Delivery(Delivery),
    /// The number of recently sold items that are low in stock: 4 in 100.
    StockLevel(StockLevel),
}

/// The input of a New-Order (clause 2.4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOrder {
    /// The warehouse, from 1.
    pub w_id: u32,
    /// The district, 1 to 10.
    pub d_id: u8,
    /// The customer of that district, from 1.
    pub c_id: u32,
    /// 5 to 15 lines. In one of a hundred orders the last one asks for an item that does not
    /// exist, and the transaction must be rolled back.
    pub lines: SmallVec<[Ordered; LINES_MAX]>,
    /// The time of entry.
    pub entry_d: Date,
}

/// A line of a New-Order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ordered {
    /// The item, from 1; beyond the last when it does not exist.
    pub i_id: u32,
    /// The warehouse that supplies it: in one of a hundred lines not the home warehouse.
    pub supply_w_id: u32,
    /// 1 to 10.
    pub quantity: u8,
}

/// How a terminal names a customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// By number, from 1.
    Id(u32),
    /// By the number of the last name, from 0: the middle one of all who have it.
    Name(u32),
}

/// The input of a Payment (clause 2.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payment {
    /// The warehouse that is paid, from 1.
    pub w_id: u32,
    /// The district that is paid, 1 to 10.
    pub d_id: u8,
    /// The customer's warehouse: another one than `w_id` in 15% of all payments.
    pub c_w_id: u32,
    /// The customer's district.
    pub c_d_id: u8,
    /// The customer: by name in 60%.
    pub who: Who,
    /// 100 to 500,000 cents.
    pub amount_cents: u32,
    /// The time of the payment.
    pub date: Date,
}

/// The input of an Order-Status (clause 2.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderStatus {
    /// The warehouse, from 1.
    pub w_id: u32,
    /// The district, 1 to 10.
    pub d_id: u8,
    /// The customer: by name in 60%.
    pub who: Who,
}

/// The input of a Delivery (clause 2.7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// The warehouse, from 1.
    pub w_id: u32,
    /// The carrier, 1 to 10.
    pub carrier_id: u8,
    /// The time of the delivery.
    pub date: Date,
}

/// The input of a Stock-Level (clause 2.8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StockLevel {
    /// The warehouse, from 1.
    pub w_id: u32,
    /// The district, 1 to 10.
    pub d_id: u8,
    /// A stock below this is low: 10 to 20.
    pub threshold: u32,
}

/// Makes the input of any job.
///
/// The home warehouse is drawn by Zipf (in TPC-C, terminals are spread evenly: θ = 0). Within it,
/// the standard's distributions apply: `NuRand` for customers, names and items, and uniform ones
/// for the rest.
#[derive(Debug, Clone)]
pub struct Inputs {
    scale: Scale,
    ranks: Ranks,
    /// Rank to warehouse, from 0.
    warehouses: Permutation,
    customers: NuRand,
    names: NuRand,
    items: NuRand,
    seed: u64,
}

impl Inputs {
    /// Inputs for a database of this scale. `theta` is the skew of the home warehouses; `seed`
    /// selects the stream and the constants C.
    pub fn new(scale: Scale, theta: f64, seed: u64) -> Inputs {
        let constant = |of: u64| mix(mix(seed) ^ of);
        Inputs {
            scale,
            ranks: Ranks::new(u64::from(scale.warehouses), theta),
            warehouses: Permutation::new(u64::from(scale.warehouses), constant(0)),
            customers: NuRand::customers(scale.customers, constant(1)),
            names: NuRand::names(scale.names(), constant(2)),
            items: NuRand::items(scale.items, constant(3)),
            seed,
        }
    }

    /// The New-Order of job `job` in a stream of New-Orders.
    pub fn new_order(&self, job: u64) -> NewOrder {
        draw_new_order(self, &mut job_rng(self.seed, job), date(job))
    }

    /// The transaction of job `job` in the full mix.
    pub fn transaction(&self, job: u64) -> Transaction {
        draw_transaction(self, &mut job_rng(self.seed, job), date(job))
    }

    fn who(&self, rng: &mut Pcg64Mcg) -> Who {
        match rng.random_range(0..100) {
            0..60 => Who::Name(self.names.draw(rng)),
            _ => Who::Id(self.customers.draw(rng)),
        }
    }

    /// Another warehouse, uniformly; `w_id` itself if it is the only one.
    fn other_than(&self, w_id: u32, rng: &mut Pcg64Mcg) -> u32 {
        if self.scale.warehouses == 1 {
            return w_id;
        }
        let other = rng.random_range(1..self.scale.warehouses);
        other + u32::from(other >= w_id)
    }
}

impl Terminal for Inputs {
    fn items(&self) -> u32 {
        self.scale.items
    }

    fn home(&self, rng: &mut Pcg64Mcg) -> u32 {
        self.warehouses.apply(self.ranks.draw(rng)) as u32 + 1
    }

    fn buyer(&self, rng: &mut Pcg64Mcg) -> (u8, u32) {
        (district(rng), self.customers.draw(rng))
    }

    fn named_customer(&self, rng: &mut Pcg64Mcg) -> (u8, Who) {
        (district(rng), self.who(rng))
    }

    fn line(&self, w_id: u32, rng: &mut Pcg64Mcg) -> (u32, u32) {
        let i_id = self.items.draw(rng);
        let remote = rng.random_range(0..100) == 0;
        (i_id, if remote { self.other_than(w_id, rng) } else { w_id })
    }

    fn payment(&self, date: Date, rng: &mut Pcg64Mcg) -> Payment {
        let (w_id, d_id) = (self.home(rng), district(rng));
        let (c_w_id, c_d_id) = match rng.random_range(0..100) {
            0..85 => (w_id, d_id),
            _ => (self.other_than(w_id, rng), district(rng)),
        };
        let who = self.who(rng);
        let amount_cents = rng.random_range(100..=500_000);
        Payment { w_id, d_id, c_w_id, c_d_id, who, amount_cents, date }
    }
}

/// How a program draws the inputs of its terminals. Each program draws its random numbers in an
/// order of its own, which is part of its job stream.
pub(crate) trait Terminal {
    /// The number of items.
    fn items(&self) -> u32;

    /// The terminal's warehouse.
    fn home(&self, rng: &mut Pcg64Mcg) -> u32;

    /// A district and a customer of it.
    fn buyer(&self, rng: &mut Pcg64Mcg) -> (u8, u32);

    /// A district and a customer of it, perhaps by name.
    fn named_customer(&self, rng: &mut Pcg64Mcg) -> (u8, Who);

    /// An item, and the warehouse that supplies it to a customer of warehouse `w_id`.
    fn line(&self, w_id: u32, rng: &mut Pcg64Mcg) -> (u32, u32);

    /// A Payment.
    fn payment(&self, date: Date, rng: &mut Pcg64Mcg) -> Payment;
}

/// A transaction of the full mix: New-Order 45%, Payment 43%, and Order-Status, Delivery and
/// Stock-Level 4% each (clause 5.2.3).
pub(crate) fn draw_transaction(
    terminal: &impl Terminal,
    rng: &mut Pcg64Mcg,
    date: Date,
) -> Transaction {
    match rng.random_range(0..100) {
        0..45 => Transaction::NewOrder(draw_new_order(terminal, rng, date)),
        45..88 => Transaction::Payment(terminal.payment(date, rng)),
        88..92 => {
            let w_id = terminal.home(rng);
            let (d_id, who) = terminal.named_customer(rng);
            Transaction::OrderStatus(OrderStatus { w_id, d_id, who })
        }
        92..96 => Transaction::Delivery(Delivery {
            w_id: terminal.home(rng),
            carrier_id: rng.random_range(1..=10),
            date,
        }),
        _ => Transaction::StockLevel(StockLevel {
            w_id: terminal.home(rng),
            d_id: district(rng),
            threshold: rng.random_range(10..=20),
        }),
    }
}

fn draw_new_order(terminal: &impl Terminal, rng: &mut Pcg64Mcg, entry_d: Date) -> NewOrder {
    let w_id = terminal.home(rng);
    let (d_id, c_id) = terminal.buyer(rng);
    let count = rng.random_range(5..=LINES_MAX);
    let mut lines: SmallVec<[Ordered; LINES_MAX]> = (0..count)
        .map(|_| {
            let (i_id, supply_w_id) = terminal.line(w_id, rng);
            Ordered { i_id, supply_w_id, quantity: rng.random_range(1..=10) }
        })
        .collect();
    if rng.random_range(0..100) == 0 {
        lines[count - 1].i_id = terminal.items() + 1;
    }
    NewOrder { w_id, d_id, c_id, lines, entry_d }
}

pub(crate) fn district(rng: &mut Pcg64Mcg) -> u8 {
    rng.random_range(1..=DISTRICTS)
}

/// The time of entry of job `job`, after the database was loaded. Wraps after 2³² jobs.
pub(crate) fn date(job: u64) -> Date {
    (job % u64::from(Date::MAX - LOADED)) as Date + LOADED + 1
}
