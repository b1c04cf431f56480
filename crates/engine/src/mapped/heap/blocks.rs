//! [`Blocks`]: which bytes of a heap are in use. It knows offsets only, and never touches the
//! bytes.

use super::runs::FreeRuns;
use super::small::{BadFree, CHUNK_BYTES, GRANULES, Shape, SmallBlocks};

/// A chunk is in the list of those with room once this many of its granules are free.
const ROOM: usize = GRANULES / 8;

/// A block of at most this many bytes stays where it is when it shrinks.
const SHRINKS_FROM: usize = 512;

/// What a chunk holds.
enum Chunk {
    Free,
    /// Blocks that are smaller than a chunk.
    Small(SmallBlocks),
    /// The first of so many chunks of one block.
    Large(u32),
    /// A later chunk of a block.
    Rest,
}

/// The blocks of a heap.
pub(super) struct Blocks {
    chunks: Vec<Chunk>,
    free: FreeRuns,
    /// The chunk that small blocks are taken from.
    open: Option<u32>,
    /// Other chunks with room for small blocks.
    with_room: Vec<u32>,
    /// Chunks so aligned that chunk 0 is this many chunks behind a multiple of every alignment.
    phase: u32,
    /// Bytes of DRAM for the notes of small blocks.
    note_bytes: usize,
}

impl Blocks {
    /// A heap of `chunks` chunks, all free. The first is chunk number `phase` of the address space.
    pub(super) fn new(chunks: u32, phase: u32) -> Blocks {
        Blocks {
            chunks: (0..chunks).map(|_| Chunk::Free).collect(),
            free: FreeRuns::new(chunks),
            open: None,
            with_room: Vec::new(),
            phase,
            note_bytes: 0,
        }
    }

    /// Bytes of DRAM in use.
    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.len() * size_of::<Chunk>() + self.note_bytes
    }

    /// Takes a block of `bytes` bytes at a multiple of `align`. Returns its offset.
    pub(super) fn allocate(&mut self, bytes: usize, align: usize) -> Option<usize> {
        match Shape::of(bytes, align) {
            Some(shape) => self.allocate_small(shape),
            None => {
                let count = u32::try_from(bytes.max(1).div_ceil(CHUNK_BYTES)).ok()?;
                let align = u32::try_from(align.div_ceil(CHUNK_BYTES)).ok()?;
                let first = self.free.take(count, align.max(1), self.phase % align.max(1))?;
                self.set_large(first, count);
                Some(first as usize * CHUNK_BYTES)
            }
        }
    }

    fn set_large(&mut self, first: u32, count: u32) {
        let first = first as usize;
        self.chunks[first] = Chunk::Large(count);
        self.chunks[first + 1..first + count as usize].fill_with(|| Chunk::Rest);
    }

    /// Takes a small block: from the open chunk, one with room, a new one, or any.
    fn allocate_small(&mut self, shape: Shape) -> Option<usize> {
        let open = self.open;
        if let Some(at) = open.and_then(|open| self.take_small(open, shape)) {
            return Some(at);
        }
        self.open = None;
        let found = self.take_from_others(shape);
        open.into_iter().for_each(|closed| self.note_room(closed));
        found
    }

    /// Takes a small block from a chunk that is not open, and opens that one.
    fn take_from_others(&mut self, shape: Shape) -> Option<usize> {
        // A chunk whose room is in too small pieces comes back with its next free block.
        while let Some(&number) = self.with_room.last() {
            self.unlist(number);
            if let Some(at) = self.take_small(number, shape) {
                self.open = Some(number);
                return Some(at);
            }
        }
        if let Some(new) = self.free.take(1, 1, 0) {
            let blocks = SmallBlocks::new();
            self.note_bytes += blocks.memory_bytes();
            self.chunks[new as usize] = Chunk::Small(blocks);
            self.open = Some(new);
            return self.take_small(new, shape);
        }
        (0..self.chunks.len() as u32).find_map(|number| self.take_small(number, shape))
    }

    /// Takes a block from chunk `number` if that has small blocks and room.
    fn take_small(&mut self, number: u32, shape: Shape) -> Option<usize> {
        let Chunk::Small(blocks) = &mut self.chunks[number as usize] else { return None };
        let before = blocks.memory_bytes();
        let at = blocks.allocate(shape);
        self.note_bytes = self.note_bytes + blocks.memory_bytes() - before;
        Some(number as usize * CHUNK_BYTES + at?)
    }

    /// Frees the block at `offset`.
    pub(super) fn free(&mut self, offset: usize) -> Result<(), BadFree> {
        let number = offset / CHUNK_BYTES;
        match self.chunks.get_mut(number).ok_or(BadFree::NoBlock)? {
            Chunk::Free => Err(BadFree::Freed),
            Chunk::Rest => Err(BadFree::NoBlock),
            &mut Chunk::Large(count) => {
                if !offset.is_multiple_of(CHUNK_BYTES) {
                    return Err(BadFree::NoBlock);
                }
                self.chunks[number..number + count as usize].fill_with(|| Chunk::Free);
                self.free.put(number as u32, count);
                Ok(())
            }
            Chunk::Small(blocks) => {
                let before = blocks.memory_bytes();
                let freed = blocks.free(offset % CHUNK_BYTES);
                self.note_bytes = self.note_bytes + blocks.memory_bytes() - before;
                self.note_room(number as u32);
                freed
            }
        }
    }

    /// Lists chunk `number` if it has room. A chunk without blocks is free as a whole.
    fn note_room(&mut self, number: u32) {
        let Chunk::Small(blocks) = &mut self.chunks[number as usize] else { return };
        let free = blocks.free_granules();
        if free == GRANULES {
            self.note_bytes -= blocks.memory_bytes();
            self.unlist(number);
            self.open = self.open.filter(|open| *open != number);
            self.chunks[number as usize] = Chunk::Free;
            self.free.put(number, 1);
        } else if free >= ROOM && blocks.listed_at.is_none() && self.open != Some(number) {
            blocks.listed_at = Some(self.with_room.len() as u32);
            self.with_room.push(number);
        }
    }

    /// Takes chunk `number` off the list of those with room.
    fn unlist(&mut self, number: u32) {
        let Chunk::Small(blocks) = &mut self.chunks[number as usize] else { return };
        let Some(at) = blocks.listed_at.take() else { return };
        self.with_room.swap_remove(at as usize);
        if let Some(&moved) = self.with_room.get(at as usize)
            && let Chunk::Small(moved) = &mut self.chunks[moved as usize]
        {
            moved.listed_at = Some(at);
        }
    }

    /// The bytes that the block at `offset` holds, or `None` if no block in use begins there.
    pub(super) fn usable_bytes(&self, offset: usize) -> Option<usize> {
        match self.chunks.get(offset / CHUNK_BYTES)? {
            Chunk::Small(blocks) => blocks.usable_bytes(offset % CHUNK_BYTES),
            Chunk::Large(count) => {
                offset.is_multiple_of(CHUNK_BYTES).then_some(*count as usize * CHUNK_BYTES)
            }
            Chunk::Free | Chunk::Rest => None,
        }
    }

    /// Makes the block at `offset` hold `bytes` bytes without moving it, if that is possible.
    pub(super) fn resize(&mut self, offset: usize, bytes: usize) -> bool {
        let number = offset / CHUNK_BYTES;
        match self.chunks.get(number) {
            // A block that shrinks to less than half should move.
            Some(Chunk::Small(blocks)) => blocks
                .usable_bytes(offset % CHUNK_BYTES)
                .is_some_and(|usable| bytes <= usable && 2 * bytes.max(SHRINKS_FROM) > usable),
            Some(&Chunk::Large(count)) => {
                let wanted = bytes.div_ceil(CHUNK_BYTES) as u32;
                let first = number as u32;
                if bytes <= CHUNK_BYTES / 2 {
                    return false;
                }
                if wanted < count {
                    let rest = first + wanted..first + count;
                    self.chunks[rest.start as usize..rest.end as usize].fill_with(|| Chunk::Free);
                    self.free.put(rest.start, count - wanted);
                } else if wanted > count && !self.free.take_at(first + count, wanted - count) {
                    return false;
                }
                self.set_large(first, wanted);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const CHUNKS: u32 = 24;

    /// The block must not overlap another one.
    fn add(blocks: &mut BTreeMap<usize, usize>, at: usize, bytes: usize) {
        let end = at + bytes.max(1);
        assert!(end <= CHUNKS as usize * CHUNK_BYTES);
        assert!(blocks.range(..end).next_back().is_none_or(|(at_, b)| at_ + (*b).max(1) <= at));
        assert_eq!(blocks.insert(at, bytes), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn blocks_never_overlap_keep_their_alignment_and_all_space_comes_back(
            steps in prop::collection::vec((0..4u8, 0..200_000usize, 0..18u32, any::<prop::sample::Index>()), 1..300)
        ) {
            let (mut heap, mut model) = (Blocks::new(CHUNKS, 3), BTreeMap::new());
            for (kind, bytes, align, which) in steps {
                let bytes = if kind == 0 { bytes } else { bytes % 600 };
                let nth = (!model.is_empty()).then(|| *model.keys().nth(which.index(model.len())).unwrap());
                match (kind, nth) {
                    (3, Some(at)) => {
                        prop_assert_eq!(heap.free(at), Ok(()));
                        model.remove(&at);
                        prop_assert!(heap.free(at).is_err());
                    }
                    (2, Some(at)) => {
                        if heap.resize(at, bytes) {
                            model.remove(&at);
                            add(&mut model, at, bytes);
                            prop_assert!(heap.usable_bytes(at).unwrap() >= bytes);
                        }
                    }
                    _ => if let Some(at) = heap.allocate(bytes, 1 << align) {
                        prop_assert!((at + 3 * CHUNK_BYTES).is_multiple_of(1 << align));
                        add(&mut model, at, bytes);
                        prop_assert!(heap.usable_bytes(at).unwrap() >= bytes);
                    },
                }
            }
            for at in model.into_keys() {
                prop_assert_eq!(heap.free(at), Ok(()));
            }
            prop_assert_eq!(heap.note_bytes, 0);
            prop_assert_eq!((heap.open, heap.with_room.len()), (None, 0));
            prop_assert_eq!(heap.allocate(CHUNKS as usize * CHUNK_BYTES, 1), Some(0));
        }
    }

    /// Blocks of many sizes replace each other. The heap takes little more than what is in use.
    #[test]
    fn a_heap_of_changing_sizes_does_not_grow() {
        let mut heap = Blocks::new(400, 0);
        let (mut blocks, mut in_use, mut random) = (Vec::new(), 0, 7u64);
        for step in 0..200_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Sizes grow and shrink over time.
            let most = if step / 20_000 % 2 == 0 { 300 } else { 3_000 };
            let bytes = (random >> 20) as usize % most + 1;
            while in_use + bytes > 12 << 20 {
                let (at, bytes) = blocks.swap_remove((random >> 40) as usize % blocks.len());
                assert_eq!(heap.free(at), Ok(()));
                in_use -= bytes;
            }
            blocks.push((heap.allocate(bytes, 1).expect("there is room"), bytes));
            in_use += bytes;
        }
        let chunks = heap.chunks.iter().filter(|chunk| !matches!(chunk, Chunk::Free)).count();
        let share = (chunks * CHUNK_BYTES) as f64 / in_use as f64;
        assert!(share < 1.35, "{share} bytes for each byte in use");
    }

    #[test]
    fn what_is_no_block_cannot_be_freed() {
        let mut heap = Blocks::new(4, 0);
        let small = heap.allocate(100, 1).expect("room");
        let large = heap.allocate(100_000, 1).expect("room");
        for wrong in [small + 1, small + 16, large + 16, large + CHUNK_BYTES, 1 << 40] {
            assert!(heap.free(wrong).is_err(), "{wrong}");
            assert_eq!(heap.usable_bytes(wrong), None, "{wrong}");
        }
        assert_eq!(heap.free(small + 128), Err(BadFree::Freed));
        assert_eq!(heap.allocate(usize::MAX, 1), None);
        assert_eq!(heap.allocate(3 * CHUNK_BYTES, 1), None);
    }
}
