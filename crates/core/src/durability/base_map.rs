//! The page map: where each page's copy lies and its checksum; in DRAM, and as blocks of a base map.
//!
//! A checksum lies in the map and not in the page, so that a write that was lost or went elsewhere is
//! found as well as one that was torn.

use std::sync::atomic::{AtomicU64, Ordering};

use super::geometry::{ENTRIES_PER_BLOCK, Geometry, Page, get_u32, get_u64, put_u32, put_u64};
use crate::addr::{PAGE_BYTES, PageId};

/// Bytes before the entries of a block: checksum, index, generation.
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 8;

const _: () = assert!(HEADER_BYTES + ENTRIES_PER_BLOCK * ENTRY_BYTES <= PAGE_BYTES);

/// Where a page is on flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapped {
    /// Nowhere: it was never written, and is zeros.
    Blank,
    /// Its copy was damaged beyond repair. To touch it is an error.
    Poisoned,
    /// In a slot.
    Slot {
        /// The slot.
        slot: u32,
        /// The CRC32C of its contents.
        checksum: u32,
    },
}

const BLANK: u32 = u32::MAX;
const POISONED: u32 = u32::MAX - 1;

/// The most slots that a map can name; slot numbers share a word with two flags in the engine.
pub const SLOTS_MAX: u64 = (1 << 30) - 2;

impl Mapped {
    fn word(self) -> u64 {
        match self {
            Mapped::Blank => u64::from(BLANK) << 32,
            Mapped::Poisoned => u64::from(POISONED) << 32,
            Mapped::Slot { slot, checksum } => u64::from(slot) << 32 | u64::from(checksum),
        }
    }

    fn of_word(word: u64) -> Mapped {
        match (word >> 32) as u32 {
            BLANK => Mapped::Blank,
            POISONED => Mapped::Poisoned,
            slot => Mapped::Slot { slot, checksum: word as u32 },
        }
    }
}

/// Where all pages are, as the next base map will say. Any thread may look while one changes it.
#[derive(Debug)]
pub struct PageMap(Box<[AtomicU64]>);

impl PageMap {
    /// The map of `pages` pages, all blank.
    pub fn blank(pages: u64) -> PageMap {
        PageMap((0..pages).map(|_| AtomicU64::new(Mapped::Blank.word())).collect())
    }

    /// Bytes of DRAM a page.
    pub const ENTRY_BYTES: usize = ENTRY_BYTES;

    /// How many pages there are.
    pub fn pages(&self) -> u64 {
        self.0.len() as u64
    }

    /// Where `page` is.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn get(&self, page: PageId) -> Mapped {
        Mapped::of_word(self.0[page.index()].load(Ordering::Acquire))
    }

    pub(super) fn set(&self, page: PageId, mapped: Mapped) {
        self.0[page.index()].store(mapped.word(), Ordering::Release);
    }

    /// Writes block `index` of the base map of `generation`.
    pub(super) fn encode(&self, geometry: &Geometry, index: u64, generation: u64, out: &mut Page) {
        out.fill(0);
        put_u32(out, 4, index as u32);
        put_u64(out, 8, generation);
        let first = index as usize * ENTRIES_PER_BLOCK;
        for (place, entry) in self.0[first..].iter().take(ENTRIES_PER_BLOCK).enumerate() {
            put_u64(out, HEADER_BYTES + place * ENTRY_BYTES, entry.load(Ordering::Acquire));
        }
        let checksum = geometry.checksum(&out[4..]);
        put_u32(out, 0, checksum);
    }

    /// The entries of a block of a base map, which may be fewer pages than it has room for: those are blank.
    pub(super) fn entries(block: &Page) -> impl Iterator<Item = Mapped> {
        (0..ENTRIES_PER_BLOCK)
            .map(|place| Mapped::of_word(get_u64(block, HEADER_BYTES + place * ENTRY_BYTES)))
    }

    /// Takes over block `index` of the base map of `generation`. If it is damaged, its pages are
    /// poisoned and this is false.
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
        let first = index as usize * ENTRIES_PER_BLOCK;
        for (place, entry) in self.0[first..].iter().take(ENTRIES_PER_BLOCK).enumerate() {
            let word = get_u64(block, HEADER_BYTES + place * ENTRY_BYTES);
            let named = match Mapped::of_word(word) {
                Mapped::Slot { slot, .. } => u64::from(slot) < geometry.slots,
                Mapped::Blank | Mapped::Poisoned => true,
            };
            let word = if sound && named { word } else { Mapped::Poisoned.word() };
            entry.store(word, Ordering::Release);
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
