//! [`Ycsb`] and [`YcsbE`]: the core workloads of the Yahoo! Cloud Serving Benchmark over a
//! key-value table, and over one with an ordered index.
//!
//! Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC'10, and the client that is
//! published with it. FlatFlash (ASPLOS'19 §5.4) runs B and D over pairs of 64 bytes.

mod client;
mod core_workloads;
mod key;
mod names;
mod record;
mod requests;
mod scans;
mod spread;
mod table;
mod tags;

use std::marker::PhantomData;
use std::ops::Range;

pub use client::{Client, Mix, Operation, Verb};
pub use core_workloads::{CoreWorkload, YcsbA, YcsbB, YcsbB64, YcsbC, YcsbD, YcsbD64, YcsbF};
use ebbtide_core::{FullMemory, PAGE_BYTES, PageId};
pub use key::Key;
pub use record::{Pair, Record, Stock};
pub use requests::{Distribution, Requests};
pub use scans::YcsbE;
pub use table::{Inserted, Table};

use crate::keys::share;
use crate::shape::{Named, Shape};
use crate::{Corrupt, PageBytes, Workload};

/// A core workload (other than E, which is [`YcsbE`]) over a [`Table`]; a job is one operation of
/// the client.
///
/// The table holds the newest items of an endless sequence. An insert adds an item and removes the
/// oldest, so the set of keys slides and its size stays the same. See [`Client`] for the stream of
/// operations.
///
/// With [`Scatter::Keys`](crate::Scatter::Keys) popular items are scattered by the client's hash
/// and items lie in random order. With [`Scatter::Pages`](crate::Scatter::Pages) neighbours in
/// popularity, or in age, share a page.
#[derive(Debug, Clone)]
pub struct Ycsb<C: CoreWorkload> {
    table: Table<C::Record>,
    client: Client,
    work: u64,
    of: PhantomData<C>,
}

impl<C: CoreWorkload> Ycsb<C> {
    /// Returns the table.
    pub fn table(&self) -> &Table<C::Record> {
        &self.table
    }

    /// Returns the stream of operations.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Writes a field of `item`, and touches its page before it takes the latch.
    fn update<M: FullMemory>(&self, memory: &mut M, item: u64, work: u64) -> Result<(), Corrupt> {
        let key = Key::hashed(item);
        memory.work(share(work, 0, 2));
        let _latch: u64 = memory.load(self.table.latch(&key));
        memory.work(share(work, 1, 2));
        self.table.update(memory, &key).map(|_| ())
    }

    fn read<M: FullMemory>(&self, memory: &mut M, item: u64, work: u64) -> Result<(), Corrupt> {
        memory.work(work);
        self.table.get(memory, &Key::hashed(item)).map(|_| ())
    }

    fn insert<M: FullMemory>(&self, memory: &mut M, item: u64, work: u64) -> Result<(), Corrupt> {
        let key = Key::hashed(item);
        memory.work(share(work, 0, 2));
        let _latch: u64 = memory.load(self.table.latch(&key));
        memory.work(share(work, 1, 2));
        self.table.insert(memory, &key).map(|_| ())
    }
}

impl<C: CoreWorkload> Named for Ycsb<C> {
    const NAME: &'static str = C::NAME;
    const DESCRIPTION: &'static str = C::DESCRIPTION;
    const MIX: &'static str = C::MIX_TEXT;
    const SOURCE: &'static str = C::SOURCE;
    /// One page.
    const MIN_BYTES: u64 = PAGE_BYTES as u64;

    fn with_shape(shape: &Shape) -> Ycsb<C> {
        let table = Table::new(shape.dataset_bytes / PAGE_BYTES as u64, shape.scatter, shape.seed);
        let client = Client::new(C::MIX, shape.scatter, table.records(), shape.theta, shape.seed);
        Ycsb { table, client, work: shape.work_instructions, of: PhantomData }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl<C: CoreWorkload> Workload for Ycsb<C> {
    fn size_bytes(&self) -> u64 {
        self.table.pages().end.start().0
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.table.image(page, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        self.table.image_lines(page, lines, out)
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        match self.client.operation(job) {
            Operation::Read(item) => self.read(memory, item, self.work),
            Operation::Update(item) => self.update(memory, item, self.work),
            Operation::Insert(item) => self.insert(memory, item, self.work),
            Operation::ReadModifyWrite(item) => {
                self.read(memory, item, share(self.work, 0, 2))?;
                self.update(memory, item, share(self.work, 1, 2))
            }
        }
    }

    fn writes(&self) -> bool {
        C::MIX.writes()
    }

    fn commits(&self) -> bool {
        self.writes()
    }
}
