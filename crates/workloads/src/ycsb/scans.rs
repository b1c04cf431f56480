//! [`YcsbE`]: core workload E, short ranges, over a [`Table`] with an ordered index.

use std::ops::{ControlFlow, Range};

use ebbtide_core::{Addr, FullMemory, PAGE_BYTES, PageId};

use super::client::{Client, Mix, Operation, SCAN_RECORDS_MAX, Verb};
use super::key::Key;
use super::names::{Names, Sorted};
use super::record::Stock;
use super::requests::Distribution;
use super::table::{Inserted, Table};
use crate::keys::share;
use crate::masstree::Tree;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Corrupt, PageBytes, Workload};
use ebbtide_structures::hash::mix;

/// The index has room for one split for each of this many keys, far more than change at once.
const KEYS_PER_MORE_NODE: u64 = 64;

/// The least number of pages of the table.
const TABLE_PAGES_MIN: u64 = 4;

const MIX: Mix = Mix {
    mostly: Verb::Read,
    other: Verb::Insert,
    others_in_twenty: 1,
    distribution: Distribution::Zipfian,
};

/// Core workload E: 95% scans of 1 to 100 records from a Zipfian one on, 5% inserts.
///
/// The records lie in a [`Table`]. A Masstree ([`Tree`]) leads from the numbers in their names, 8
/// bytes that sort as the names do, to their items. A scan reads entries of the index in order, and
/// then their records one by one.
///
/// The client's own names cannot be sorted without a table of all of them. The names here are
/// spread as evenly over the same range and have 19 digits. Every part of the range keeps one name
/// (two or none for a moment, as inserts overtake each other). So the shape of the index stays the
/// same.
///
/// An insert adds its name to the index, then its record to the table, and then removes the
/// replaced record's name from the index. So a name leads to a record, except while an insert is
/// under way.
#[derive(Debug, Clone)]
pub struct YcsbE {
    index: Tree,
    names: Sorted,
    table: Table<Stock>,
    client: Client,
    work: u64,
}

impl YcsbE {
    /// The table.
    pub fn table(&self) -> &Table<Stock> {
        &self.table
    }

    /// The index, from the number in a record's name to its item.
    pub fn index(&self) -> &Tree {
        &self.index
    }

    /// The key of item `item`.
    pub fn key(&self, item: u64) -> Key {
        self.names.key(item)
    }

    /// The operations. A read of the client is a scan from that item on.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads up to `records` records from `from` on, in the order of their names, and calls `visit`
    /// with the key and the version of each.
    ///
    /// Records that are inserted or removed during the scan may or may not be among them. They
    /// count towards `records`.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data or its index.
    pub fn scan<M: FullMemory>(
        &self,
        memory: &mut M,
        from: &Key,
        records: u64,
        mut visit: impl FnMut(&mut M, &Key, Option<u64>),
    ) -> Result<(), Corrupt> {
        let mut found = [(0, 0); SCAN_RECORDS_MAX as usize];
        let mut count = 0;
        let wanted = records.min(SCAN_RECORDS_MAX) as usize;
        self.index.scan(memory, &from.number.to_be_bytes(), |number, item| {
            found[count] = (number_of(number), item);
            count += 1;
            if count == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let mut least = from.number;
        for &(number, item) in &found[..count] {
            let key = self.names.key(item);
            if number < least || key.number != number {
                return Err(Corrupt(format!("the index has item {item} at {number}")));
            }
            least = number + 1;
            let version = self.table.get(memory, &key)?;
            visit(memory, &key, version);
        }
        Ok(())
    }

    /// Adds the record of `key`, in place of the oldest in its bucket.
    ///
    /// # Errors
    /// As for [`scan`](YcsbE::scan).
    pub fn insert<M: FullMemory>(&self, memory: &mut M, key: &Key) -> Result<(), Corrupt> {
        self.index.put(memory, &key.number.to_be_bytes(), key.item)?;
        let gone = match self.table.insert(memory, key)? {
            Inserted::InPlaceOf(oldest) => oldest,
            Inserted::TooOld => key.item,
            Inserted::WasThere => return Ok(()),
        };
        let number = self.names.key(gone).number;
        match self.index.remove(memory, &number.to_be_bytes())? {
            None => Ok(()),
            Some(item) if item == gone => Ok(()),
            Some(item) => Err(Corrupt(format!("the index had item {item} at {number}"))),
        }
    }

    fn run_scan<M: FullMemory>(&self, memory: &mut M, job: u64, item: u64) -> Result<(), Corrupt> {
        let records = self.client.scan_records(job);
        memory.work(share(self.work, 0, records + 1));
        let mut done = 0;
        self.scan(memory, &self.names.key(item), records, |memory, _, _| {
            done += 1;
            memory.work(share(self.work, done, records + 1));
        })?;
        // The last names have fewer records behind them.
        (done + 1..=records).for_each(|part| memory.work(share(self.work, part, records + 1)));
        Ok(())
    }

    fn run_insert<M: FullMemory>(&self, memory: &mut M, item: u64) -> Result<(), Corrupt> {
        let key = self.names.key(item);
        memory.work(share(self.work, 0, 2));
        // Waits for misses without latches.
        self.index.get(memory, &key.number.to_be_bytes())?;
        let _latch: u64 = memory.load(self.table.latch(&key));
        memory.work(share(self.work, 1, 2));
        self.insert(memory, &key)
    }

    fn tree_bytes(records: u64) -> u64 {
        Tree::bytes(records, records / KEYS_PER_MORE_NODE + KEYS_PER_MORE_NODE)
    }

    /// Bytes of the index and of a table of `pages` pages.
    fn bytes(table_pages: u64) -> u64 {
        YcsbE::tree_bytes(table_pages * Table::<Stock>::PER_PAGE) + table_pages * PAGE_BYTES as u64
    }
}

/// The number of a key of the index.
fn number_of(key: &[u8]) -> u64 {
    key.try_into().map_or(u64::MAX, u64::from_be_bytes)
}

impl Named for YcsbE {
    const NAME: &'static str = "ycsb-e";
    const DESCRIPTION: &'static str = "adds records of 10 x 100 bytes and scans them in key order";
    const MIX: &'static str =
        "1 operation: 95% scan 1 to 100 records, 5% insert one for the oldest";
    const SOURCE: &'static str = "YCSB (SoCC'10) and the core workloads of its public client";
    /// The least index and the least table.
    const MIN_BYTES: u64 = 16 * PAGE_BYTES as u64;
    /// The table under it is a Masstree.
    const STACK_BYTES: usize = 20 << 10;

    fn with_shape(shape: &Shape) -> YcsbE {
        let (mut table_pages, mut too_many) =
            (TABLE_PAGES_MIN, shape.dataset_bytes / PAGE_BYTES as u64 + 1);
        // The most pages that fit, by binary search.
        while too_many - table_pages > 1 {
            let middle = table_pages + (too_many - table_pages) / 2;
            let fits = YcsbE::bytes(middle) <= shape.dataset_bytes;
            *(if fits { &mut table_pages } else { &mut too_many }) = middle;
        }
        let records = table_pages * Table::<Stock>::PER_PAGE;
        let tree_bytes = YcsbE::tree_bytes(records);
        let names = Sorted::new(records, shape.scatter, mix(!shape.seed));
        let first_page = PageId(tree_bytes / PAGE_BYTES as u64);
        YcsbE {
            index: Tree::new(Addr(0), tree_bytes, records, shape.seed),
            table: Table::with_names(
                first_page,
                table_pages,
                shape.scatter,
                shape.seed,
                Names::Sorted(names.clone()),
            ),
            names,
            client: Client::new(MIX, shape.scatter, records, shape.theta, shape.seed),
            work: shape.work_instructions,
        }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for YcsbE {
    fn size_bytes(&self) -> u64 {
        self.table.pages().end.start().0
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        if page < self.table.pages().start {
            let entry = |rank| {
                let item = self.names.at_first(rank);
                (self.names.key(item).number, item)
            };
            self.index.image_lines(page, lines, entry, out)
        } else {
            self.table.image_lines(page, lines, out)
        }
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        match self.client.operation(job) {
            Operation::Insert(item) => self.run_insert(memory, item),
            Operation::Read(item) | Operation::Update(item) | Operation::ReadModifyWrite(item) => {
                self.run_scan(memory, job, item)
            }
        }
    }

    fn writes(&self) -> bool {
        true
    }
}
