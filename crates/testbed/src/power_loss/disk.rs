//! [`DiskModel`]: a disk whose cache loses what was not flushed.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use ebbtide_core::durability::{Block, Disk, DiskError, Fault, Page};

const ZEROS: Page = [0; 4096];

/// The effect of a loss of power on a write that was not flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// It never happened.
    Lost,
    /// All of it is there.
    Whole,
    /// Its first half is there.
    Torn,
}

#[derive(Clone, Debug)]
struct Write {
    number: u64,
    block: Block,
    page: Rc<Page>,
    completed: bool,
    /// True if a flush is under way that began after the write was completed.
    flushing: bool,
    /// True if it ended in an error: reads do not see it, and a loss of power may keep it or not.
    failed: bool,
}

/// A disk with a volatile write cache. Reads see completed writes; power may go at any moment.
#[derive(Clone, Debug, Default)]
pub struct DiskModel {
    stable: HashMap<Block, Rc<Page>>,
    /// Oldest first.
    unflushed: Vec<Write>,
    writes: u64,
    /// Writes and flushes that [`Disk`] still performs before power goes.
    power: Option<u64>,
    /// Writes and flushes that [`Disk`] has performed.
    calls: u64,
    /// Blocks that [`Disk`] has read.
    reads: u64,
    /// Blocks that [`Disk`] cannot read until they are written.
    unreadable: HashSet<Block>,
}

impl DiskModel {
    /// A disk with these `blocks`, and zeros elsewhere.
    pub fn holding(blocks: impl IntoIterator<Item = (Block, Box<Page>)>) -> DiskModel {
        let stable = blocks.into_iter().map(|(block, page)| (block, Rc::from(page))).collect();
        DiskModel { stable, ..DiskModel::default() }
    }

    /// Submits a write. Returns its number.
    pub fn submit(&mut self, block: Block, page: &Page) -> u64 {
        self.writes += 1;
        let (number, page) = (self.writes, Rc::new(*page));
        // The remains of a failed write there are gone now.
        self.unflushed.retain(|write| !write.failed || write.block != block);
        let (completed, flushing, failed) = (false, false, false);
        self.unflushed.push(Write { number, block, page, completed, flushing, failed });
        number
    }

    /// Completes a write: it is in the disk's cache.
    pub fn complete(&mut self, number: u64) {
        let write = self.unflushed.iter_mut().find(|write| write.number == number);
        write.expect("it was submitted").completed = true;
    }

    /// Fails a write; a part of it may still be on the disk.
    pub fn fail(&mut self, number: u64) {
        let write = self.unflushed.iter_mut().find(|write| write.number == number);
        write.expect("it was submitted").failed = true;
    }

    /// Begins a flush.
    pub fn begin_flush(&mut self) {
        for write in &mut self.unflushed {
            write.flushing = write.completed;
        }
    }

    /// Ends the flush.
    pub fn end_flush(&mut self) {
        let (flushed, left) =
            std::mem::take(&mut self.unflushed).into_iter().partition(|w| w.flushing);
        self.unflushed = left;
        let flushed: Vec<Write> = flushed;
        for write in flushed {
            self.stable.insert(write.block, write.page);
        }
    }

    /// Returns the block as a read sees it.
    pub fn contents(&self, block: Block) -> &Page {
        let cached = |write: &&Write| write.completed && write.block == block;
        let newest = self.unflushed.iter().rev().find(cached).map(|write| &write.page);
        newest.or_else(|| self.stable.get(&block)).map_or(&ZEROS, |page| page)
    }

    /// Blocks that were read by recovery.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Writes that were not flushed.
    pub fn unflushed(&self) -> usize {
        self.unflushed.len()
    }

    /// Returns the disk after a loss of power. `kept` decides each write that was not flushed.
    pub fn after_power_loss(&self, mut kept: impl FnMut(usize) -> Kept) -> DiskModel {
        let mut stable = self.stable.clone();
        for (index, write) in self.unflushed.iter().enumerate() {
            match kept(index) {
                Kept::Lost => {}
                Kept::Whole => drop(stable.insert(write.block, write.page.clone())),
                Kept::Torn => {
                    let old = stable.get(&write.block).map_or(ZEROS, |page| **page);
                    let mut torn = *write.page;
                    torn[2048..].copy_from_slice(&old[2048..]);
                    stable.insert(write.block, Rc::new(torn));
                }
            }
        }
        DiskModel { stable, writes: self.writes, ..DiskModel::default() }
    }

    /// Lets power go after `calls` more writes and flushes through [`Disk`].
    pub fn lose_power_after(&mut self, calls: u64) {
        self.power = Some(calls);
    }

    /// Writes and flushes through [`Disk`] so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Blocks that hold something, in order.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = self.stable.keys().copied().collect();
        blocks.sort_unstable();
        blocks
    }

    /// Damages a block on the disk directly.
    pub fn damage(&mut self, block: Block, change: impl FnOnce(&mut Page)) {
        let mut page = self.stable.get(&block).map_or(ZEROS, |page| **page);
        change(&mut page);
        self.stable.insert(block, Rc::new(page));
    }

    /// Makes reads of a block fail until it is written.
    pub fn lose(&mut self, block: Block) {
        self.unreadable.insert(block);
    }

    fn call(&mut self, doing: &str) -> Result<(), DiskError> {
        match &mut self.power {
            Some(0) => {
                let reason = "power is gone".to_string();
                return Err(DiskError { doing: doing.into(), reason, fault: Fault::Device });
            }
            Some(left) => *left -= 1,
            None => {}
        }
        self.calls += 1;
        Ok(())
    }
}

impl Disk for DiskModel {
    fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError> {
        self.reads += 1;
        if self.unreadable.contains(&block) {
            let (doing, reason) = ("read".into(), "the block is unreadable".into());
            return Err(DiskError { doing, reason, fault: Fault::Block });
        }
        into.copy_from_slice(self.contents(block));
        Ok(())
    }

    fn write_block(&mut self, block: Block, page: &Page) -> Result<(), DiskError> {
        self.unreadable.remove(&block);
        // The write is under way when power goes.
        let number = self.submit(block, page);
        self.call("write")?;
        self.complete(number);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.begin_flush();
        self.call("flush")?;
        self.end_flush();
        Ok(())
    }
}
