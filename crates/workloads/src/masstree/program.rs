//! [`Masstree`]: TailBench's key-value store, as in AstriFlash (HPCA'23, §V-A).

use std::ops::{ControlFlow, Range};

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, PAGE_BYTES, PageId};
use ebbtide_structures::latch;
use rand::RngExt;

use super::{KEYS_PER_PAGE, Tree};
use crate::keys::{Places, Ranks, job_rng, share};
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Corrupt, PageBytes, Workload};
use ebbtide_structures::checksum::Checksums;
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::fill_lines;

const RECORDS_PER_PAGE: u64 = (PAGE_BYTES / LINE_BYTES) as u64;
/// A block is a page of border nodes and the records of its keys.
const KEYS_PER_BLOCK: u64 = KEYS_PER_PAGE;
/// The distance between neighbouring permanent keys. Temporary keys lie between two of each block.
const KEY_STEP: u64 = 16;
/// The key of a block behind which temporary keys lie.
const BUSY_KEY: u64 = KEYS_PER_BLOCK / 2;
/// Nodes that a block may need in addition to the fresh tree's. The border node with temporary keys
/// has at most 26 keys, which take three nodes. Every 14 border nodes may split the interior node
/// above.
const MORE_NODES_PER_BLOCK: u64 = 3;

/// A key-value store: a [`Tree`] that leads to records of 64 bytes. Half of the jobs read, half
/// write.
///
/// * 50%: get. Looks a key up and reads its record.
/// * 47.5%: put. Looks a key up and writes its record's next value, under the record's latch.
/// * 2.5%: insert or removal of a temporary key. Each block of 128 permanent keys has one place for
///   15 temporary keys. So nodes split and are joined while the size stays the same.
///
/// Keys are 8 bytes. With [`Scatter::Pages`](crate::Scatter::Pages) blocks of 128 neighbouring
/// ranks of popularity are neighbouring keys: a page of border nodes and two of records. With
/// [`Scatter::Keys`](crate::Scatter::Keys) every key has any rank.
#[derive(Debug, Clone)]
pub struct Masstree {
    tree: Tree,
    blocks: u64,
    /// The address of the first record.
    records: Addr,
    ranks: Ranks,
    /// Rank to key.
    places: Places,
    checksums: Checksums,
    seed: u64,
    work: u64,
}

/// The operation of a job, and the number of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Reads the record of a permanent key, `0..keys()`.
    Get(u64),
    /// Sets the next value of a permanent key.
    Put(u64),
    /// Inserts a temporary key: a permanent key and the distance behind it.
    Insert(u64, u64),
    /// Removes a temporary key.
    Remove(u64, u64),
}

/// A record, without latch and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Record {
    /// The key.
    pub key: u64,
    /// The number of puts.
    pub version: u64,
    /// Follows from the key and the version.
    pub payload: [u64; 4],
}

impl Record {
    /// The record of `key` after `version` puts.
    pub fn new(key: u64, version: u64) -> Record {
        let first = mix(key ^ mix(version));
        Record { key, version, payload: std::array::from_fn(|i| first.rotate_left(16 * i as u32)) }
    }
}

impl Masstree {
    /// The number of permanent keys.
    pub fn keys(&self) -> u64 {
        self.blocks * KEYS_PER_BLOCK
    }

    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the operation of job `job`.
    #[inline]
    pub fn job(&self, job: u64) -> Operation {
        let mut rng = job_rng(self.seed, job);
        let number = self.places.place(self.ranks.draw(&mut rng));
        let busy = number / KEYS_PER_BLOCK * KEYS_PER_BLOCK + BUSY_KEY;
        match rng.random_range(0..80) {
            0..40 => Operation::Get(number),
            40..78 => Operation::Put(number),
            78 => Operation::Insert(busy, rng.random_range(1..KEY_STEP)),
            _ => Operation::Remove(busy, rng.random_range(1..KEY_STEP)),
        }
    }

    /// The record of key number `number`, also while other jobs put it.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data.
    pub fn get<M: FullMemory>(&self, m: &mut M, number: u64) -> Result<Record, Corrupt> {
        let at = self.find(m, number)?;
        let record = self.checksums.read(m, at)?;
        check(record, number)
    }

    /// Sets the next value of key number `number` and returns its record.
    ///
    /// # Errors
    /// As for [`get`](Masstree::get).
    pub fn put<M: FullMemory>(&self, m: &mut M, number: u64) -> Result<Record, Corrupt> {
        let at = self.find(m, number)?;
        self.put_at(m, at, number)
    }

    /// As [`put`](Masstree::put), but touches the record before it takes the latch.
    pub(crate) fn update<M: FullMemory>(&self, m: &mut M, number: u64) -> Result<(), Corrupt> {
        let at = self.find(m, number)?;
        let _latch: u64 = m.load(at);
        self.put_at(m, at, number).map(|_| ())
    }

    /// Removes key number `number`, sets the next value of its record, and inserts the key again.
    pub(crate) fn replace<M: FullMemory>(&self, m: &mut M, number: u64) -> Result<(), Corrupt> {
        let at = self.record_address(number);
        let key = key(number).to_be_bytes();
        // Waits for misses without latches.
        self.tree.get(m, &key)?;
        let _latch: u64 = m.load(at);
        // Another job that replaces the same key may have removed it.
        let gone = self.tree.remove(m, &key)?;
        self.put_at(m, at, number)?;
        let there = self.tree.put(m, &key, at.0)?;
        match gone.or(there).filter(|found| *found != at.0) {
            Some(found) => Err(misled(number, Some(found), at)),
            None => Ok(()),
        }
    }

    /// Reads the records of keys number `numbers` by a scan of the tree. The numbers are
    /// consecutive, except for a wrap to the first key. `each` is called before each record.
    pub(crate) fn scan<M: FullMemory>(
        &self,
        m: &mut M,
        numbers: &[u64],
        mut each: impl FnMut(&mut M),
    ) -> Result<(), Corrupt> {
        for run in numbers.chunk_by(|before, after| before + 1 == *after) {
            let mut found = Vec::with_capacity(run.len());
            self.tree.scan(m, &key(run[0]).to_be_bytes(), |at, value| {
                // Temporary keys lie between.
                if number_of(at).is_multiple_of(KEY_STEP) {
                    found.push(value);
                }
                if found.len() == run.len() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            for (index, number) in run.iter().enumerate() {
                each(m);
                let (at, value) = (self.record_address(*number), found.get(index).copied());
                if value != Some(at.0) {
                    return Err(misled(*number, value, at));
                }
                check(self.checksums.read(m, at)?, *number)?;
            }
        }
        Ok(())
    }

    fn put_at<M: FullMemory>(&self, m: &mut M, at: Addr, number: u64) -> Result<Record, Corrupt> {
        latch::write(m, at, |m| {
            let old = check(self.checksums.read_latched(m, at)?, number)?;
            let record = Record::new(old.key, old.version + 1);
            self.checksums.write_latched(m, at, record);
            Ok(record)
        })
    }

    /// Looks key number `number` up in the tree.
    #[inline]
    fn find<M: FullMemory>(&self, m: &mut M, number: u64) -> Result<Addr, Corrupt> {
        let expected = self.record_address(number);
        match self.tree.get(m, &key(number).to_be_bytes())? {
            Some(at) if Addr(at) == expected => Ok(expected),
            found => Err(misled(number, found, expected)),
        }
    }

    /// Inserts or removes the temporary key that lies `behind` key number `number`. Returns whether
    /// it was present.
    fn toggle<M: FullMemory>(
        &self,
        m: &mut M,
        number: u64,
        behind: u64,
        insert: bool,
    ) -> Result<bool, Corrupt> {
        let key = key(number) + behind;
        let value = mix(key ^ self.seed);
        let previous = match insert {
            true => self.tree.put(m, &key.to_be_bytes(), value)?,
            false => self.tree.remove(m, &key.to_be_bytes())?,
        };
        match previous {
            Some(previous) if previous != value => {
                Err(Corrupt(format!("key {key:#x} had value {previous:#x} instead of {value:#x}")))
            }
            previous => Ok(previous.is_some()),
        }
    }

    fn record_address(&self, number: u64) -> Addr {
        self.records + number * LINE_BYTES as u64
    }
}

#[cold]
fn misled(number: u64, found: Option<u64>, expected: Addr) -> Corrupt {
    Corrupt(format!("key {number} leads to {:?} instead of {expected:?}", found.map(Addr)))
}

/// The number of a key of the tree.
fn number_of(key: &[u8]) -> u64 {
    key.try_into().map_or(u64::MAX, u64::from_be_bytes)
}

/// The permanent key of number `number`.
fn key(number: u64) -> u64 {
    number * KEY_STEP
}

/// Bytes of the tree over `blocks` blocks.
fn tree_bytes(blocks: u64) -> u64 {
    Tree::bytes(blocks * KEYS_PER_BLOCK, blocks * MORE_NODES_PER_BLOCK)
}

/// Bytes of the tree and the records of `blocks` blocks.
fn bytes(blocks: u64) -> u64 {
    tree_bytes(blocks) + blocks * KEYS_PER_BLOCK * LINE_BYTES as u64
}

/// Checks that `record` is a record of key number `number`.
fn check(record: Record, number: u64) -> Result<Record, Corrupt> {
    if record == Record::new(key(number), record.version) {
        return Ok(record);
    }
    Err(Corrupt(format!("key {number} has {record:?}")))
}

impl Named for Masstree {
    const NAME: &'static str = "masstree";
    const DESCRIPTION: &'static str = "gets and puts in a key-value store, a trie of B+-trees";
    const MIX: &'static str =
        "1 of: get 50%, put 47.5%, insert or remove 2.5%; 6 to 9 nodes and a record";
    const SOURCE: &'static str = "AstriFlash (HPCA'23) section V-A; Masstree (EuroSys'12); TailBench's halves of get and put";
    /// Four blocks: 9 pages of tree and 8 of records.
    const MIN_BYTES: u64 = 17 * PAGE_BYTES as u64;
    /// Inserting into a full leaf splits nodes up to the root of its layer.
    const STACK_BYTES: usize = 20 << 10;

    fn with_shape(shape: &Shape) -> Masstree {
        let fits = |blocks: &u64| bytes(*blocks) <= shape.dataset_bytes;
        let most = shape.dataset_bytes / (KEYS_PER_BLOCK * LINE_BYTES as u64) + 1;
        // The most that fit, by halving.
        let (mut blocks, mut too_many) = (0, most);
        while too_many - blocks > 1 {
            let middle = blocks + (too_many - blocks) / 2;
            if fits(&middle) { blocks = middle } else { too_many = middle }
        }
        let keys = blocks * KEYS_PER_BLOCK;
        Masstree {
            tree: Tree::new(Addr(0), tree_bytes(blocks), keys, shape.seed),
            blocks,
            records: Addr(tree_bytes(blocks)),
            ranks: Ranks::new(keys, shape.theta),
            places: Places::new(blocks, KEYS_PER_BLOCK, shape.scatter, mix(shape.seed)),
            checksums: Checksums::new(
                Kind::Masstree as u64,
                bytes(blocks) / PAGE_BYTES as u64,
                shape.seed,
            ),
            seed: shape.seed,
            work: shape.work_instructions,
        }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for Masstree {
    fn size_bytes(&self) -> u64 {
        bytes(self.blocks)
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        assert!(page.start().0 < self.size_bytes(), "{page:?} of {}", self.size_bytes());
        match page.0.checked_sub(self.records.page().0) {
            None => {
                let entry = |rank| (key(rank), self.record_address(rank).0);
                self.tree.image_lines(page, lines, entry, out)
            }
            Some(page) => fill_lines(out, lines, |line| {
                let number = page * RECORDS_PER_PAGE + line;
                self.checksums.line(self.record_address(number), Record::new(key(number), 0))
            }),
        }
    }

    fn run<M: FullMemory>(&self, job: u64, m: &mut M) -> Result<(), Corrupt> {
        m.work(share(self.work, 0, 2));
        match self.job(job) {
            Operation::Get(number) => {
                let at = self.find(m, number)?;
                m.work(share(self.work, 1, 2));
                check(self.checksums.read(m, at)?, number)?;
            }
            Operation::Put(number) => {
                let at = self.find(m, number)?;
                m.work(share(self.work, 1, 2));
                // Waits for a miss without the latch.
                let _latch: u64 = m.load(at);
                self.put_at(m, at, number)?;
            }
            Operation::Insert(number, behind) => {
                self.toggle(m, number, behind, true)?;
                m.work(share(self.work, 1, 2));
            }
            Operation::Remove(number, behind) => {
                self.toggle(m, number, behind, false)?;
                m.work(share(self.work, 1, 2));
            }
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        true
    }
}
