//! TPC-C: wholesale orders (TPC-C standard, revision 5.11), over latches in memory.
//!
//! Nine [tables](rows) hold warehouses, their districts, customers, stock and orders. Five
//! transactions run on them: [`input`] has their inputs, and [`Database`] runs them.
//!
//! There are two programs: [`Tpcc`] runs New-Orders only, as AstriFlash does, and [`TpccMix`] runs
//! the standard's mix of all five, as FlatFlash does.
//!
//! # Scale
//! A warehouse of the standard's size takes 104 MB, and the items, which all warehouses share, 13
//! MB. A dataset holds as many warehouses as fit. The remaining space makes the rings of orders
//! longer. A dataset with room for less than one has one smaller warehouse. It has fewer customers
//! and items, in the standard's ratio, down to 3 customers to a district and 100 items.
//!
//! # Popularity
//! The warehouse is drawn by Zipf, and within it customers and items by the standard's own
//! `NuRand`. With [`Scatter::Pages`](crate::Scatter::Pages) rows lie in the order of their keys,
//! where both kinds of popularity cluster. All rows of a page belong to one warehouse, and keys
//! that differ in the lowest bits only are equally popular. With
//! [`Scatter::Keys`](crate::Scatter::Keys) the stock, customer and item rows of all warehouses are
//! shuffled one by one. Orders lie in the order of time in both cases.
//!
//! `NuRand` is less skewed than Zipf, and an order has ten items on average. With 3% of a 2 GiB
//! dataset in DRAM under LRU, a New-Order misses on 7.8 pages (10.1 with `Scatter::Keys`; 9.2 with
//! θ = 0), and a transaction of the mix on 8.6.

pub(crate) mod columns;
mod consistency;
mod database;
mod delivery;
mod image;
pub mod input;
mod layout;
mod names;
mod new_order;
mod nurand;
mod order_status;
mod payment;
pub mod rows;
pub(crate) mod scale;
pub(crate) mod size;
mod stock_level;

pub use database::{Database, OrderLines};
pub use delivery::Delivered;
pub use new_order::Placed;
pub use order_status::Status;
pub use payment::Paid;
pub use scale::{DISTRICTS, Scale};

use std::ops::Range;

use ebbtide_core::{FullMemory, PAGE_BYTES, PageId};

use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Corrupt, PageBytes, Workload};
use ebbtide_structures::checksum::Checksums;
use input::{Inputs, NewOrder, Transaction};
use layout::{LEAST, bytes_of, size_within};

/// The transactions of TPC-C's terminals over latches: New-Orders alone, or the full mix.
///
/// In the full mix 45% are New-Orders, 43% Payments, and 4% each Order-Status, Delivery and
/// Stock-Level. Without Deliveries no order is delivered; [`Database`] describes what happens to
/// the oldest.
#[derive(Debug, Clone)]
pub struct LatchedTpcc<const FULL_MIX: bool> {
    database: Database,
    inputs: Inputs,
    work: u64,
}

/// New-Orders alone: a customer orders 5 to 15 items from stock.
pub type Tpcc = LatchedTpcc<false>;
/// The full mix.
pub type TpccMix = LatchedTpcc<true>;

impl<const FULL_MIX: bool> LatchedTpcc<FULL_MIX> {
    const KIND: Kind = if FULL_MIX { Kind::TpccMix } else { Kind::Tpcc };

    /// The tables.
    pub fn database(&self) -> &Database {
        &self.database
    }
}

impl Tpcc {
    /// The transaction of job `job`.
    pub fn job(&self, job: u64) -> NewOrder {
        self.inputs.new_order(job)
    }
}

impl TpccMix {
    /// The transaction of job `job`.
    pub fn job(&self, job: u64) -> Transaction {
        self.inputs.transaction(job)
    }
}

impl<const FULL_MIX: bool> Named for LatchedTpcc<FULL_MIX> {
    const NAME: &'static str = if FULL_MIX { "tpcc-mix" } else { "tpcc" };
    const DESCRIPTION: &'static str = match FULL_MIX {
        true => "orders, pays, delivers and asks, as TPC-C's terminals do",
        false => "orders 5 to 15 items from the stock of a warehouse (TPC-C)",
    };
    const MIX: &'static str = match FULL_MIX {
        true => "45% New-Order, 43% Payment, 4% each of Order-Status, Delivery and Stock-Level",
        false => "1 New-Order: about 24 rows read, 24 written",
    };
    const SOURCE: &'static str = match FULL_MIX {
        true => "FlatFlash (ASPLOS'19) section 5.6; TPC-C standard, revision 5.11",
        false => "AstriFlash (HPCA'23) section V-A; TPC-C standard, revision 5.11",
    };
    const MIN_BYTES: u64 = bytes_of(LEAST);
    /// Stack for the five transactions. New-Order keeps 15 lines and its latches.
    const STACK_BYTES: usize = if FULL_MIX { 20 << 10 } else { 16 << 10 };

    fn with_shape(shape: &Shape) -> LatchedTpcc<FULL_MIX> {
        let size = size_within(shape.dataset_bytes);
        let pages = bytes_of(size) / PAGE_BYTES as u64;
        let checksums = Checksums::new(Self::KIND as u64, pages, shape.seed);
        LatchedTpcc {
            database: Database::new(size, shape.scatter, checksums, shape.seed),
            inputs: Inputs::new(size.scale, shape.theta, shape.seed),
            work: shape.work_instructions,
        }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl<const FULL_MIX: bool> Workload for LatchedTpcc<FULL_MIX> {
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
        match FULL_MIX {
            true => self.database.run(memory, &self.inputs.transaction(job), self.work),
            false => {
                self.database.new_order(memory, &self.inputs.new_order(job), self.work).map(|_| ())
            }
        }
    }

    fn writes(&self) -> bool {
        true
    }

    fn commits(&self) -> bool {
        true
    }
}
