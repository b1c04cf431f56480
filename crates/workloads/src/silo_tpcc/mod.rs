//! TPC-C over Silo's transactions, as in TailBench (Kasture and Sanchez, "TailBench: A Benchmark
//! Suite and Evaluation Methodology for Latency-Critical Applications", IISWC'16) and AstriFlash
//! (HPCA'23).
//!
//! All five transactions run in the standard's mix (TPC-C revision 5.11, clause 5.2.3): New-Order
//! 45%, Payment 43%, and Order-Status, Delivery and Stock-Level 4% each. Customers are always given
//! by number, and there is no HISTORY table.
//!
//! # Scale
//! A warehouse of the standard's size takes about 150 MB with its indexes and places for as many
//! orders as it has customers. A dataset holds as many warehouses as fit. The remaining space makes
//! the rings of orders longer. A dataset with room for less than one has one smaller warehouse. It
//! has fewer customers and items, in the standard's ratio, down to 3 customers to a district and
//! 100 items.
//!
//! # Popularity
//! Warehouses, customers within a warehouse and items are each drawn by Zipf. Rows lie in the order
//! of their keys. With [`Scatter::Pages`](crate::Scatter::Pages) customers and items of consecutive
//! ranks have consecutive numbers, as many as share a page; with
//! [`Scatter::Keys`](crate::Scatter::Keys) numbers are random.

mod consistency;
mod contents;
mod database;
mod delivery;
mod indexed_table;
mod inputs;
mod keys;
mod new_order;
mod order_status;
mod payment;
mod rows;
mod stock_level;

pub use consistency::Totals;
pub use database::Database;
pub use new_order::Placed;
pub use order_status::Status;

use std::ops::Range;

use ebbtide_core::{FullMemory, PAGE_BYTES, PageId};

use crate::shape::{Named, Shape};
use crate::tpcc::input::{Transaction, Who};
use crate::{ALL_LINES, Corrupt, PageBytes, Workload};
use inputs::Inputs;

/// TPC-C as serialisable transactions over Masstree; a job is one of them.
#[derive(Debug, Clone)]
pub struct SiloTpcc {
    /// The handles of nine tables, boxed because they are large.
    database: Box<Database>,
    inputs: Inputs,
    work: u64,
}

impl SiloTpcc {
    /// The tables.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The transaction of job `job`.
    pub fn job(&self, job: u64) -> Transaction {
        self.inputs.job(job)
    }

    /// The instructions that job `job` computes.
    pub fn work_of(&self, job: u64) -> u64 {
        computing(&self.job(job), self.work)
    }
}

/// Rows that an average transaction of the mix touches: 45% New-Orders of ten lines, 43% Payments,
/// and 4% each of the others.
const ROWS_MEAN: u64 = (45 * 48 + 43 * 3 + 4 * (12 + 130 + 400)) / 100;

/// Returns the instructions that a transaction computes, where an average one computes `mean`. The
/// number is proportional to the rows it touches. So a Payment with three rows computes less than a
/// Stock-Level with hundreds.
fn computing(transaction: &Transaction, mean: u64) -> u64 {
    let rows = match transaction {
        // Item, stock, and a line that is inserted and one that is removed; orders and their
        // indexes.
        Transaction::NewOrder(input) => 4 * input.lines.len() as u64 + 8,
        Transaction::Payment(_) => 3,
        Transaction::OrderStatus(_) => 12,
        Transaction::Delivery(_) => 130,
        Transaction::StockLevel(_) => 400,
    };
    (u128::from(mean) * u128::from(rows) / u128::from(ROWS_MEAN)) as u64
}

/// The customer's number. Jobs do not give last names.
fn number(who: Who) -> Result<u32, Corrupt> {
    match who {
        Who::Id(c_id) => Ok(c_id),
        Who::Name(name) => Err(Corrupt(format!("there is no index of names to find {name} by"))),
    }
}

impl Named for SiloTpcc {
    const NAME: &'static str = "silo";
    const DESCRIPTION: &'static str =
        "runs TPC-C as serialisable transactions of an optimistic database over B+-trees";
    const MIX: &'static str = "45% New-Order, 43% Payment, 4% each of Order-Status, Delivery and \
                               Stock-Level";
    const SOURCE: &'static str = "AstriFlash (HPCA'23) section V-A; Silo (SOSP'13); TPC-C \
                                  standard, revision 5.11";
    /// One warehouse of a thousandth of the standard's size.
    const MIN_BYTES: u64 = 99 * PAGE_BYTES as u64;
    /// A transaction keeps its reads, its writes and a walk through a tree.
    const STACK_BYTES: usize = 32 << 10;

    fn with_shape(shape: &Shape) -> SiloTpcc {
        let database = Box::new(Database::fitting(shape.dataset_bytes, shape.seed));
        let inputs = Inputs::new(database.size(), shape.theta, shape.scatter, shape.seed);
        SiloTpcc { database, inputs, work: shape.work_instructions }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for SiloTpcc {
    fn size_bytes(&self) -> u64 {
        self.database.size_bytes()
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        self.database.image(page, lines, out)
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let (database, job_input) = (&self.database, self.job(job));
        let work = computing(&job_input, self.work);
        match job_input {
            Transaction::NewOrder(input) => {
                database.new_order(memory, job, &input, work).map(|_| ())
            }
            Transaction::Payment(input) => database.payment(memory, job, &input, work).map(|_| ()),
            Transaction::OrderStatus(input) => {
                database.order_status(memory, job, &input, work).map(|_| ())
            }
            Transaction::Delivery(input) => {
                database.delivery(memory, job, &input, work).map(|_| ())
            }
            Transaction::StockLevel(input) => {
                database.stock_level(memory, job, &input, work).map(|_| ())
            }
        }
    }

    fn writes(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::database::RING_LENGTHS;
    use super::*;
    use crate::tpcc::Scale;

    #[test]
    fn the_least_size_is_what_the_least_scale_needs() {
        assert_eq!(
            Database::pages(RING_LENGTHS.shortest(Scale::LEAST)) * PAGE_BYTES as u64,
            SiloTpcc::MIN_BYTES
        );
    }

    #[test]
    fn a_warehouse_takes_about_what_it_is_said_to() {
        let database = Database::fitting(16 << 30, 1);
        let warehouses = u64::from(database.size().scale.warehouses);
        let megabytes = database.size_bytes() / warehouses / 1_000_000;
        assert!((130..160).contains(&megabytes), "{megabytes} MB");
        assert!(database.size_bytes() * 1000 > (16 << 30) * 999);
    }
}
