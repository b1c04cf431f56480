//! The superblock: the place where recovery begins.
//!
//! Each generation is written to two of four copies, so that the one before it stays whole until
//! the new one is on the device.

use super::Lsn;
use super::base_map::{Mapped, PageMap};
use super::geometry::{Block, Geometry, Page, SUPERBLOCKS, get_u32, get_u64, put_u32, put_u64};
use super::log_block::NUMBER_MAX;
use crate::addr::{PAGE_BYTES, PageId};

const MAGIC: [u8; 8] = *b"EBBTSUPR";

/// The contents of a superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Grows with every superblock.
    pub generation: u64,
    /// Grows with every time the store is opened. Log blocks and latches carry it.
    pub boot: u32,
    /// The base map to begin with (0 or 1), or none: all pages are blank.
    pub base: Option<u8>,
    /// The generation under which that base map was written.
    pub base_generation: u64,
    /// Where in the log to begin. All before it is in the base map and the pages it names.
    pub horizon: Lsn,
    /// Log blocks from the horizon on belong to this boot or a later one.
    pub log_boot: u32,
    /// The log was on the device up to here when this was written.
    pub log_end: Lsn,
}

impl Superblock {
    /// The superblock of a new store.
    pub(super) const FIRST: Superblock = Superblock {
        generation: 1,
        boot: 0,
        base: None,
        base_generation: 0,
        horizon: Lsn::at(1, super::log_block::HEADER_BYTES),
        log_boot: 0,
        log_end: Lsn::at(1, super::log_block::HEADER_BYTES),
    };

    /// Returns the blocks of the two copies that this generation is written to.
    pub(super) fn places(&self, geometry: &Geometry) -> [Block; 2] {
        let first = self.generation % 2 * 2;
        [geometry.superblock(first), geometry.superblock(first + 1)]
    }

    /// Encodes the superblock into a block.
    pub fn encode(&self, geometry: &Geometry, out: &mut Page) {
        out.fill(0);
        out[8..16].copy_from_slice(&MAGIC);
        put_u64(out, 16, geometry.id);
        put_u64(out, 24, geometry.pages);
        put_u64(out, 32, geometry.slots);
        put_u64(out, 40, geometry.log_blocks);
        put_u64(out, 48, self.generation);
        put_u32(out, 56, self.boot);
        put_u32(out, 60, self.base.map_or(0, |area| u32::from(area) + 1));
        put_u64(out, 64, self.base_generation);
        put_u64(out, 72, self.horizon.0);
        put_u32(out, 80, self.log_boot);
        put_u64(out, 88, self.log_end.0);
        let checksum = geometry.checksum(&out[4..]);
        put_u32(out, 0, checksum);
    }

    /// Decodes the superblock in a block. `None` if it is damaged or belongs to another store.
    pub fn decode(geometry: &Geometry, block: &Page) -> Option<Superblock> {
        let sound = get_u32(block, 0) == geometry.checksum(&block[4..])
            && block[8..16] == MAGIC
            && get_u64(block, 16) == geometry.id
            && get_u64(block, 24) == geometry.pages
            && get_u64(block, 32) == geometry.slots
            && get_u64(block, 40) == geometry.log_blocks;
        let base = match get_u32(block, 60) {
            0 => None,
            area @ 1..=2 => Some(area as u8 - 1),
            _ => return None,
        };
        let superblock = Superblock {
            generation: get_u64(block, 48),
            boot: get_u32(block, 56),
            base,
            base_generation: get_u64(block, 64),
            horizon: Lsn(get_u64(block, 72)),
            log_boot: get_u32(block, 80),
            log_end: Lsn(get_u64(block, 88)),
        };
        let placed = superblock.horizon <= superblock.log_end
            && superblock.horizon.offset() >= super::log_block::HEADER_BYTES
            && superblock.log_end.offset() >= super::log_block::HEADER_BYTES
            && superblock.log_end.block() <= NUMBER_MAX
            && superblock.log_end.block() - superblock.horizon.block() <= geometry.log_blocks
            && superblock.log_boot <= superblock.boot
            && superblock.boot < u32::MAX
            && superblock.generation < u64::MAX;
        (sound && placed).then_some(superblock)
    }

    /// Returns the newest of the copies that are sound.
    pub(super) fn newest(
        geometry: &Geometry,
        copies: &[Page; SUPERBLOCKS as usize],
    ) -> Option<Superblock> {
        let sound = copies.iter().filter_map(|copy| Superblock::decode(geometry, copy));
        sound.max_by_key(|superblock| superblock.generation)
    }
}

/// Returns the blocks of a new store of blank pages. They must be on the device before the store is
/// used. A log of zeros is empty.
pub fn format(geometry: &Geometry) -> Vec<(Block, Box<Page>)> {
    format_as(geometry, &Superblock::FIRST)
}

/// As [`format()`], for a store whose page `n` has a copy with the checksum `checksums[n]` in slot
/// `n`. Also returns the blocks of a base map, so there are many.
///
/// # Panics
/// If there is not one checksum a page.
pub fn format_filled(geometry: &Geometry, checksums: &[u32]) -> Vec<(Block, Box<Page>)> {
    assert_eq!(checksums.len() as u64, geometry.pages, "a checksum for each page");
    let map = PageMap::blank(geometry.pages);
    for (slot, &checksum) in (0..).zip(checksums) {
        map.set(PageId(u64::from(slot)), Mapped::Slot { slot, checksum });
    }
    let generation = Superblock::FIRST.generation;
    let first = Superblock { base: Some(0), base_generation: generation, ..Superblock::FIRST };
    let base = (0..geometry.base_blocks()).map(|index| {
        let mut block = Box::new([0; PAGE_BYTES]);
        map.encode(geometry, index, generation, &mut block);
        (geometry.base(0, index), block)
    });
    base.chain(format_as(geometry, &first)).collect()
}

fn format_as(geometry: &Geometry, first: &Superblock) -> Vec<(Block, Box<Page>)> {
    let mut page = Box::new([0; PAGE_BYTES]);
    first.encode(geometry, &mut page);
    let named = first.places(geometry);
    (0..SUPERBLOCKS)
        .map(|copy| geometry.superblock(copy))
        .map(|place| {
            let contents =
                if named.contains(&place) { page.clone() } else { Box::new([0; PAGE_BYTES]) };
            (place, contents)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry { id: 7, pages: 600, slots: 900, log_blocks: 16 };

    fn superblock(generation: u64) -> Superblock {
        Superblock { generation, boot: 3, base: Some(1), ..Superblock::FIRST }
    }

    #[test]
    fn a_generation_never_lies_over_the_one_before() {
        for generation in 1..9 {
            let these = superblock(generation).places(&GEOMETRY);
            let next = superblock(generation + 1).places(&GEOMETRY);
            assert!(these.iter().all(|place| !next.contains(place)));
        }
    }

    #[test]
    fn a_superblock_of_other_sizes_is_not_that_of_this_store() {
        let mut block = [0; PAGE_BYTES];
        for other in [
            Geometry { pages: 601, ..GEOMETRY },
            Geometry { slots: 901, ..GEOMETRY },
            Geometry { log_blocks: 17, ..GEOMETRY },
        ] {
            superblock(5).encode(&other, &mut block);
            assert_eq!(Superblock::decode(&other, &block), Some(superblock(5)));
            assert_eq!(Superblock::decode(&GEOMETRY, &block), None, "{other:?}");
        }
    }

    #[test]
    fn the_newest_sound_copy_of_this_store_counts() {
        let mut copies = [[0; PAGE_BYTES]; 4];
        assert_eq!(Superblock::newest(&GEOMETRY, &copies), None);
        superblock(5).encode(&GEOMETRY, &mut copies[2]);
        superblock(4).encode(&GEOMETRY, &mut copies[0]);
        superblock(9).encode(&Geometry { id: 8, ..GEOMETRY }, &mut copies[1]);
        assert_eq!(Superblock::newest(&GEOMETRY, &copies), Some(superblock(5)));
        copies[2][77] ^= 4;
        assert_eq!(Superblock::newest(&GEOMETRY, &copies), Some(superblock(4)));
    }
}
