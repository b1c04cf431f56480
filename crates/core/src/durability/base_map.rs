//! The page map: the slot of each page's copy and its checksum. It is in DRAM, and on flash as
//! blocks of a base map.
//!
//! The checksum of a page lies in the map, not in the page. So it also reveals a write that was
//! lost or went to the wrong place, not only a torn one.
//!
//! A cache also knows the slot of every page, because it must find the pages that it does not hold.
//! To have each slot in DRAM only once, the map keeps the checksums alone and asks a [`SlotTable`]
//! for the slots.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::geometry::{ENTRIES_PER_BLOCK, Geometry, Page, get_u32, get_u64, put_u32, put_u64};
use crate::addr::{PAGE_BYTES, PageId};

/// Bytes in front of the entries of a block: checksum, index, generation.
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 8;

const _: () = assert!(HEADER_BYTES + ENTRIES_PER_BLOCK * ENTRY_BYTES <= PAGE_BYTES);

/// Where a page is on flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapped {
    /// Not on flash: the page was never written, and is zeros.
    Blank,
    /// Its copy was damaged beyond repair. An access to the page is an error.
    Poisoned,
    /// In a slot.
    Slot {
        /// The slot.
        slot: u32,
        /// The CRC32C of its contents.
        checksum: u32,
    },
}

/// Stands for a slot: the page was never written, and is zeros.
pub const BLANK_SLOT: u32 = u32::MAX;

/// Stands for a slot: the page's copy is damaged.
pub const POISONED_SLOT: u32 = u32::MAX - 1;

/// The most slots that a map can name. In the engine a slot number shares a word with two flags.
pub const SLOTS_MAX: u64 = (1 << 30) - 2;

impl Mapped {
    fn new(slot: u32, checksum: u32) -> Mapped {
        match slot {
            BLANK_SLOT => Mapped::Blank,
            POISONED_SLOT => Mapped::Poisoned,
            slot => Mapped::Slot { slot, checksum },
        }
    }

    /// Returns the slot, or the constant that stands for it, and the checksum.
    fn parts(self) -> (u32, u32) {
        match self {
            Mapped::Blank => (BLANK_SLOT, 0),
            Mapped::Poisoned => (POISONED_SLOT, 0),
            Mapped::Slot { slot, checksum } => (slot, checksum),
        }
    }

    /// Returns the entry of a base map. The checksum comes first.
    fn word(self) -> u64 {
        let (slot, checksum) = self.parts();
        u64::from(slot) << 32 | u64::from(checksum)
    }

    fn of_word(word: u64) -> Mapped {
        Mapped::new((word >> 32) as u32, word as u32)
    }
}

/// The slot of each page's newest copy.
///
/// Only [`set_slot`](SlotTable::set_slot) changes it. The journal calls that under its lock, so it
/// sees the map as of one place in the log.
pub trait SlotTable: fmt::Debug + Send + Sync {
    /// The slot of `page`, [`BLANK_SLOT`] or [`POISONED_SLOT`].
    fn slot(&self, page: PageId) -> u32;

    /// Moves `page` to `slot`.
    fn set_slot(&self, page: PageId, slot: u32);
}

/// A word of four bytes for each page.
struct Words(Box<[AtomicU32]>);

impl Words {
    fn new(pages: u64, word: u32) -> Words {
        Words((0..pages).map(|_| AtomicU32::new(word)).collect())
    }

    fn get(&self, page: PageId) -> u32 {
        self.0[page.index()].load(Ordering::Acquire)
    }

    fn set(&self, page: PageId, word: u32) {
        self.0[page.index()].store(word, Ordering::Release);
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "words of {} pages", self.0.len())
    }
}

impl SlotTable for Words {
    fn slot(&self, page: PageId) -> u32 {
        self.get(page)
    }

    fn set_slot(&self, page: PageId, slot: u32) {
        self.set(page, slot);
    }
}

/// The checksums of all pages' copies. Any thread may read them while the journal changes one.
#[derive(Debug)]
pub struct Checksums(Words);

impl Checksums {
    /// Bytes of DRAM a page.
    pub const ENTRY_BYTES: usize = size_of::<AtomicU32>();

    /// Returns the CRC32C of the copy of `page`. The page must have a copy.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn get(&self, page: PageId) -> u32 {
        self.0.get(page)
    }
}

/// Where all pages are now. The next base map will hold the same.
#[derive(Debug)]
pub struct PageMap {
    checksums: Arc<Checksums>,
    slots: Arc<dyn SlotTable>,
}

impl PageMap {
    /// The map of `pages` pages, all blank, with a table of its own for their slots.
    pub fn blank(pages: u64) -> PageMap {
        PageMap {
            checksums: Arc::new(Checksums(Words::new(pages, 0))),
            slots: Arc::new(Words::new(pages, BLANK_SLOT)),
        }
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> u64 {
        self.checksums.0.0.len() as u64
    }

    /// The checksums of all pages.
    pub fn checksums(&self) -> &Arc<Checksums> {
        &self.checksums
    }

    /// Asks `slots` from now on. It must name the same slot for every page.
    pub(super) fn keep_slots_in(&mut self, slots: Arc<dyn SlotTable>) {
        self.slots = slots;
    }

    /// Where `page` is.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn get(&self, page: PageId) -> Mapped {
        Mapped::new(self.slots.slot(page), self.checksums.get(page))
    }

    pub(super) fn set(&self, page: PageId, mapped: Mapped) {
        let (slot, checksum) = mapped.parts();
        self.checksums.0.set(page, checksum);
        self.slots.set_slot(page, slot);
    }

    /// The pages of block `index` of a base map.
    fn pages_of_block(&self, index: u64) -> impl Iterator<Item = PageId> + use<> {
        let first = index * ENTRIES_PER_BLOCK as u64;
        (first..self.pages().min(first + ENTRIES_PER_BLOCK as u64)).map(PageId)
    }

    /// Writes block `index` of the base map of `generation`.
    pub(super) fn encode(&self, geometry: &Geometry, index: u64, generation: u64, out: &mut Page) {
        out.fill(0);
        put_u32(out, 4, index as u32);
        put_u64(out, 8, generation);
        for (place, page) in self.pages_of_block(index).enumerate() {
            put_u64(out, HEADER_BYTES + place * ENTRY_BYTES, self.get(page).word());
        }
        let checksum = geometry.checksum(&out[4..]);
        put_u32(out, 0, checksum);
    }

    /// Returns the entries of a block of a base map. The last block may cover fewer pages; the rest
    /// is blank.
    pub(super) fn entries(block: &Page) -> impl Iterator<Item = Mapped> {
        (0..ENTRIES_PER_BLOCK)
            .map(|place| Mapped::of_word(get_u64(block, HEADER_BYTES + place * ENTRY_BYTES)))
    }

    /// Loads block `index` of the base map of `generation`. If the block is damaged, poisons its
    /// pages and returns false.
    pub(super) fn decode(
        &self,
        geometry: &Geometry,
        index: u64,
        generation: u64,
        block: &Page,
    ) -> bool {
        let sound = get_u32(block, 0) == geometry.checksum(&block[4..])
            && get_u32(block, 4) == index as u32
            && get_u64(block, 8) == generation;
        for (mapped, page) in PageMap::entries(block).zip(self.pages_of_block(index)) {
            let named = match mapped {
                Mapped::Slot { slot, .. } => u64::from(slot) < geometry.slots,
                Mapped::Blank | Mapped::Poisoned => true,
            };
            self.set(page, if sound && named { mapped } else { Mapped::Poisoned });
        }
        sound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry { id: 7, pages: 600, slots: 900, log_blocks: 16 };

    #[test]
    fn a_block_of_the_map_comes_back_and_a_damaged_or_stale_one_poisons_its_pages() {
        let map = PageMap::blank(GEOMETRY.pages);
        map.set(PageId(3), Mapped::Slot { slot: 44, checksum: 0xdead_beef });
        map.set(PageId(599), Mapped::Slot { slot: 0, checksum: 0 });
        map.set(PageId(4), Mapped::Poisoned);
        let mut blocks = [[0; PAGE_BYTES]; 2];
        for (index, block) in blocks.iter_mut().enumerate() {
            map.encode(&GEOMETRY, index as u64, 9, block);
        }
        let read = |blocks: &[Page; 2], generation| {
            let map = PageMap::blank(GEOMETRY.pages);
            let sound = [0, 1]
                .map(|index| map.decode(&GEOMETRY, index, generation, &blocks[index as usize]));
            (map, sound)
        };
        let (copy, sound) = read(&blocks, 9);
        assert_eq!(sound, [true; 2]);
        assert!((0..600).all(|page| copy.get(PageId(page)) == map.get(PageId(page))));
        assert_eq!(read(&blocks, 8).1, [false; 2], "of another generation");
        blocks.swap(0, 1);
        assert_eq!(read(&blocks, 9).1, [false; 2], "misdirected");
        blocks.swap(0, 1);
        blocks[1][100] ^= 1;
        let (copy, sound) = read(&blocks, 9);
        assert_eq!(sound, [true, false]);
        assert_eq!(copy.get(PageId(3)), map.get(PageId(3)));
        assert_eq!(copy.get(PageId(599)), Mapped::Poisoned);
    }
}
