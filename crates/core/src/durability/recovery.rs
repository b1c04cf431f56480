//! Recovery: makes a journal from the store that a crash has left.
//!
//! Recovery overwrites nothing that an earlier recovery needs. Pages go to free slots, and the base
//! map to the area that is not in use. Only then does a new superblock name both. So a recovery
//! that is cut off leaves everything as it was.
//!
//! Recovery reads the pages that the log stores to in portions that fit in the DRAM it may use. It
//! reads the log once for each portion. From the log it keeps a place for each page with stores
//! that no copy has, and the map records since the last flush.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::Lsn;
use super::base_map::{Mapped, PageMap};
use super::disk::{Disk, DiskError, RecoveryError};
use super::geometry::{Block, Geometry, Page, SUPERBLOCKS};
use super::journal::{Journal, Limits};
use super::log::Log;
use super::log_block::HEADER_BYTES;
use super::readable::Readable;
use super::record::{Map, Record, runs};
use super::scan::{End, Extent, check_end, scan};
use super::slots::Slots;
use super::superblock::Superblock;
use super::work::RecoveryWork;
use crate::addr::{PAGE_BYTES, PageId};
use crate::placement::Run;
use crate::watch::Watch;

/// Blocks of the base map that are written at once.
const BASE_BLOCKS_AT_ONCE: usize = 64;

/// Slots that are taken at once, to be written together.
const SLOTS_AT_ONCE: u32 = 64;

/// The outcome of a recovery.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Transactions in the log from the horizon on.
    pub transactions: u64,
    /// Blocks of the log that were read.
    pub log_blocks: u64,
    /// Pages to which stores of the log were applied.
    pub pages: u64,
    /// The work of the recovery, as estimated before it began.
    pub work: RecoveryWork,
    /// Damaged pages, now or before. An access to one is an error.
    pub poisoned: Vec<PageId>,
    /// Blocks that the device could not read. Recovery treated them as damaged.
    pub unreadable: Vec<Block>,
}

/// Options of recovery.
#[derive(Debug, Clone, Copy)]
pub struct RecoveryOptions {
    /// The most pages in DRAM at once.
    pub pages_at_once: usize,
    /// The bounds of the journal.
    pub limits: Limits,
}

/// The superblock, base map and log of a store: all that recovery starts from.
pub(super) struct Found {
    pub(super) superblock: Superblock,
    pub(super) map: PageMap,
    pub(super) end: End,
    /// Pages with stores that no copy has.
    pub(super) redo: BTreeMap<PageId, Redo>,
    pub(super) transactions: u64,
    pub(super) records: u64,
    /// Damaged blocks of the base map.
    pub(super) damaged_blocks: u64,
    /// Copies of pages that were read to check them.
    pub(super) copies_read: u64,
}

/// Stores to a page that its copy on flash may not have.
pub(super) struct Redo {
    /// The copy contains everything before this place in the log.
    from: Lsn,
    /// The last of these stores.
    last: Lsn,
}

/// A copy whose map record may not have been flushed.
///
/// Such a record may survive a loss of power while the copy does not. The previous copy is still
/// there then, since its slot is free only when the record is on the device.
struct Unsure {
    /// Where the record ends.
    end: Lsn,
    page: PageId,
    copy: Mapped,
    /// The copy contains all stores before this place in the log.
    covers: Lsn,
}

/// The state of pages according to the log, as far as it was read. A page has an entry only while a
/// store to it or its newest copy is in doubt. So a long log takes no more DRAM than a short one.
struct Pages<'a> {
    map: &'a PageMap,
    redo: BTreeMap<PageId, Redo>,
    /// In the order of the log.
    unsure: VecDeque<Unsure>,
}

impl Pages<'_> {
    fn stored(&mut self, page: PageId, at: Lsn) {
        self.redo.entry(page).or_insert(Redo { from: at, last: at }).last = at;
    }

    fn named(&mut self, place: Extent, named: &Map) {
        self.trust(place.flushed);
        let copy = Mapped::Slot { slot: named.slot, checksum: named.checksum };
        let Map { page, covers, .. } = *named;
        self.unsure.push_back(Unsure { end: place.end, page, copy, covers });
    }

    /// Accepts the copies whose records end before `flushed`: they are on the device.
    fn trust(&mut self, flushed: Lsn) {
        while let Some(named) = self.unsure.pop_front_if(|named| named.end <= flushed) {
            self.settle(&named);
        }
    }

    /// Makes `named` the newest copy of its page so far.
    fn settle(&mut self, named: &Unsure) {
        self.map.set(named.page, named.copy);
        let Some(redo) = self.redo.get_mut(&named.page) else { return };
        if redo.last < named.covers {
            self.redo.remove(&named.page);
        } else {
            redo.from = redo.from.max(named.covers);
        }
    }

    /// Settles the copies that are still in doubt at the end of the log: takes the newest whole
    /// copy of each page. Returns how many copies were read.
    fn settle_rest(&mut self, geometry: &Geometry, disk: &mut impl Disk) -> Result<u64, DiskError> {
        let (mut settled, mut looked_at) = (HashSet::new(), 0);
        let mut block = Box::new([0; PAGE_BYTES]);
        while let Some(named) = self.unsure.pop_back() {
            let Mapped::Slot { slot, checksum } = named.copy else { continue };
            if settled.contains(&named.page) {
                continue;
            }
            disk.read_block(geometry.slot(slot), &mut block)?;
            looked_at += 1;
            if geometry.checksum(&block[..]) == checksum {
                self.settle(&named);
                settled.insert(named.page);
            }
        }
        Ok(looked_at)
    }
}

/// Reads a store without changing anything.
pub(super) fn look(
    geometry: &Geometry,
    disk: &mut Readable<'_, impl Disk>,
    watch: Watch<'_>,
) -> Result<Found, RecoveryError> {
    let mut copies = Box::new([[0; PAGE_BYTES]; SUPERBLOCKS as usize]);
    for (copy, into) in copies.iter_mut().enumerate() {
        disk.read_block(geometry.superblock(copy as u64), into)?;
    }
    let superblock = Superblock::newest(geometry, &copies).ok_or_else(|| {
        let failed = disk.unreadable().values().next().cloned();
        failed.map_or(RecoveryError::NoSuperblock, RecoveryError::Disk)
    })?;
    let map = PageMap::blank(geometry.pages);
    let mut damaged_blocks = 0;
    if let Some(area) = superblock.base {
        let mut block = Box::new([0; PAGE_BYTES]);
        for index in 0..geometry.base_blocks() {
            disk.read_block(geometry.base(area, index), &mut block)?;
            let sound = map.decode(geometry, index, superblock.base_generation, &block);
            damaged_blocks += u64::from(!sound);
        }
    }
    watch.tell("reading the log", 0.0)?;
    let mut pages = Pages { map: &map, redo: BTreeMap::new(), unsure: VecDeque::new() };
    let (mut transactions, mut records, mut wrong) = (0, 0, None);
    let end = scan(geometry, disk, &superblock, &mut |place, record| {
        records += 1;
        match record {
            Record::Stores(contents) => {
                transactions += 1;
                for run in runs(contents).flatten() {
                    let last = (run.at + (run.bytes.len() as u64 - 1)).page().0;
                    for page in (run.at.page().0..=last).map(PageId) {
                        pages.stored(page, place.start);
                    }
                }
            }
            Record::Map(named) if u64::from(named.slot) < geometry.slots => {
                pages.named(place, &named);
            }
            Record::Map(named) => {
                let problem = "which does not exist";
                let Map { page, slot, .. } = named;
                wrong = Some(RecoveryError::WrongMap { page, slot, problem });
            }
        }
    })?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    check_end(geometry, disk, &superblock, &end)?;
    pages.trust(end.flushed);
    let copies_read = pages.settle_rest(geometry, disk)?;
    let mut redo = pages.redo;
    redo.retain(|page, _| map.get(*page) != Mapped::Poisoned);
    Ok(Found { superblock, map, end, redo, transactions, records, damaged_blocks, copies_read })
}

/// Returns the slots that hold a page, one bit each.
pub(super) fn used_slots(geometry: &Geometry, map: &PageMap) -> Result<Vec<u64>, RecoveryError> {
    let mut used = vec![0u64; geometry.slots.div_ceil(64) as usize];
    for page in (0..geometry.pages).map(PageId) {
        let Mapped::Slot { slot, .. } = map.get(page) else { continue };
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        if used[word] & bit != 0 {
            let problem = "where another page is as well";
            return Err(RecoveryError::WrongMap { page, slot, problem });
        }
        used[word] |= bit;
    }
    Ok(used)
}

/// Brings a store up to its last durable transaction. Returns the journal that continues from
/// there.
///
/// # Errors
/// When that is not possible. The store is then as it was.
pub fn recover(
    geometry: Geometry,
    disk: &mut impl Disk,
    options: &RecoveryOptions,
    watch: Watch<'_>,
) -> Result<(Journal, Recovered), RecoveryError> {
    let disk = &mut Readable::new(disk);
    let found = look(&geometry, disk, watch)?;
    let used = used_slots(&geometry, &found.map)?;
    let is_used = |slot: u32| used[slot as usize / 64] & 1 << (slot % 64) != 0;
    let mut slots = Slots::new(geometry.slots, is_used);
    let (pages, at_once) = (found.redo.len(), options.pages_at_once.max(1));
    let log_blocks = found.end.number - found.superblock.horizon.block();
    let work = RecoveryWork::new(&geometry, pages, at_once, log_blocks, found.copies_read);
    let left = redo(&geometry, disk, &found, &mut slots, at_once, &work.to_string(), watch)?;
    let next = next_superblock(&found);
    if next.base_generation == next.generation {
        write_base(&geometry, disk, &found.map, &next)?;
    }
    disk.flush()?;
    let mut block = Box::new([0; PAGE_BYTES]);
    next.encode(&geometry, &mut block);
    for place in next.places(&geometry) {
        disk.write_block(place, &block)?;
    }
    disk.flush()?;
    // From here on nothing needs the older copies.
    left.into_iter().for_each(|slot| slots.release(slot));
    let is_poisoned = |page: &PageId| found.map.get(*page) == Mapped::Poisoned;
    let recovered = Recovered {
        transactions: found.transactions,
        log_blocks,
        pages: pages as u64,
        work,
        poisoned: (0..geometry.pages).map(PageId).filter(is_poisoned).collect(),
        unreadable: disk.unreadable().keys().copied().collect(),
    };
    let end = &found.end;
    let log =
        Log::new(geometry, next.boot, next.generation, end.number, end.previous, next.log_end);
    let journal = Journal::new(geometry, log, found.map, slots, next, options.limits);
    Ok((journal, recovered))
}

/// Writes all pages with stores that no copy has to new slots. Returns the slots that they leave.
fn redo(
    geometry: &Geometry,
    disk: &mut impl Disk,
    found: &Found,
    slots: &mut Slots,
    at_once: usize,
    stage: &str,
    watch: Watch<'_>,
) -> Result<Vec<u32>, RecoveryError> {
    let map = &found.map;
    let pages: Vec<PageId> = found.redo.keys().copied().collect();
    let mut left = Vec::new();
    for (done, portion) in pages.chunks(at_once).enumerate() {
        watch.tell(stage, (done * at_once) as f64 / pages.len() as f64)?;
        let mut contents = read_pages(geometry, disk, map, portion)?;
        apply(geometry, disk, found, &mut contents)?;
        let mut free = Run { first: 0, count: 0 };
        let mut writes = Vec::with_capacity(contents.len());
        for (page, contents) in contents {
            let old = map.get(page);
            let slot = next_slot(slots, &mut free)?;
            let checksum = geometry.checksum(&contents[..]);
            writes.push((geometry.slot(slot), contents));
            map.set(page, Mapped::Slot { slot, checksum });
            if let Mapped::Slot { slot: old, .. } = old {
                left.push(old);
            }
        }
        (free.first..free.first + free.count).for_each(|slot| slots.release(slot));
        disk.write_blocks(&writes)?;
    }
    Ok(left)
}

/// Returns the superblock of the recovered store. An empty log and a sound base map hold everything
/// already. Otherwise it names a new base map.
fn next_superblock(found: &Found) -> Superblock {
    let superblock = &found.superblock;
    let tail = Lsn::at(found.end.number, HEADER_BYTES);
    let mut next = Superblock {
        generation: superblock.generation + 1,
        boot: superblock.boot + 1,
        log_boot: superblock.boot + 1,
        horizon: tail,
        log_end: tail,
        ..*superblock
    };
    if found.records > 0 || found.damaged_blocks > 0 {
        next.base = Some(superblock.base.map_or(0, |area| 1 - area));
        next.base_generation = next.generation;
    }
    next
}

/// Writes the base map that `next` names.
fn write_base(
    geometry: &Geometry,
    disk: &mut impl Disk,
    map: &PageMap,
    next: &Superblock,
) -> Result<(), DiskError> {
    let area = next.base.unwrap_or(0);
    let indices: Vec<u64> = (0..geometry.base_blocks()).collect();
    for portion in indices.chunks(BASE_BLOCKS_AT_ONCE) {
        let encoded = portion.iter().map(|&index| {
            let mut block = Box::new([0; PAGE_BYTES]);
            map.encode(geometry, index, next.generation, &mut block);
            (geometry.base(area, index), block)
        });
        disk.write_blocks(&encoded.collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Returns a free slot: the next of the run `free`, or of a new one.
fn next_slot(slots: &mut Slots, free: &mut Run) -> Result<u32, RecoveryError> {
    if free.count == 0 {
        *free = slots.take(SLOTS_AT_ONCE).ok_or(RecoveryError::NoFreeSlot)?;
    }
    let slot = free.first;
    *free = Run { first: slot + 1, count: free.count - 1 };
    Ok(slot)
}

/// Reads the newest copies of pages. A damaged one is poisoned and left out.
fn read_pages(
    geometry: &Geometry,
    disk: &mut impl Disk,
    map: &PageMap,
    portion: &[PageId],
) -> Result<BTreeMap<PageId, Box<Page>>, RecoveryError> {
    let mut pages = BTreeMap::new();
    let mut wanted = Vec::new();
    for &page in portion {
        match map.get(page) {
            Mapped::Blank => drop(pages.insert(page, Box::new([0; PAGE_BYTES]))),
            Mapped::Slot { slot, checksum } => wanted.push((page, geometry.slot(slot), checksum)),
            Mapped::Poisoned => {}
        }
    }
    let blocks: Vec<Block> = wanted.iter().map(|&(_, block, _)| block).collect();
    let mut contents = vec![[0; PAGE_BYTES]; blocks.len()];
    disk.read_blocks(&blocks, &mut contents)?;
    for ((page, _, checksum), contents) in wanted.into_iter().zip(contents) {
        if geometry.checksum(&contents) == checksum {
            pages.insert(page, Box::new(contents));
        } else {
            map.set(page, Mapped::Poisoned);
        }
    }
    Ok(pages)
}

/// Applies the log's stores to pages.
fn apply(
    geometry: &Geometry,
    disk: &mut impl Disk,
    found: &Found,
    pages: &mut BTreeMap<PageId, Box<Page>>,
) -> Result<(), RecoveryError> {
    scan(geometry, disk, &found.superblock, &mut |place, record| {
        let Record::Stores(contents) = record else { return };
        for run in runs(contents).flatten() {
            let (mut at, mut bytes) = (run.at, run.bytes);
            while !bytes.is_empty() {
                let (piece, later) = bytes.split_at(bytes.len().min(PAGE_BYTES - at.page_offset()));
                if let Some(page) = pages.get_mut(&at.page())
                    && found.redo.get(&at.page()).is_some_and(|redo| place.start >= redo.from)
                {
                    page[at.page_offset()..at.page_offset() + piece.len()].copy_from_slice(piece);
                }
                (at, bytes) = (at + piece.len() as u64, later);
            }
        }
    })?;
    Ok(())
}
