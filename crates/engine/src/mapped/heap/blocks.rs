//! [`Blocks`]: which bytes of a heap are in use. It knows offsets only, and never touches the
//! bytes.

use super::classes::{CHUNK_BYTES, CLASSES, Class};
use super::runs::FreeRuns;

/// What a chunk holds.
enum Chunk {
    Free,
    /// Blocks of one class.
    Small(Slab),
    /// The first of so many chunks of one block.
    Large(u32),
    /// A later chunk of a block.
    Rest,
}

/// A chunk of blocks of one class.
struct Slab {
    class: Class,
    /// A set bit for each block in use.
    used: Box<[u64]>,
    free: u32,
    /// Where the chunk is in the list of chunks of its class with free blocks.
    listed_at: Option<u32>,
}

/// Why a block cannot be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BadFree {
    /// No block begins there.
    NoBlock,
    /// The block is free.
    Freed,
}

/// The blocks of a heap.
pub(super) struct Blocks {
    chunks: Vec<Chunk>,
    free: FreeRuns,
    /// By class: chunks with free blocks.
    with_room: [Vec<u32>; CLASSES],
    /// Chunks so aligned that chunk 0 is this many chunks behind a multiple of every alignment.
    phase: u32,
    /// Bytes of DRAM for slabs.
    slab_bytes: usize,
}

impl Blocks {
    /// A heap of `chunks` chunks, all free. The first is chunk number `phase` of the address space.
    pub(super) fn new(chunks: u32, phase: u32) -> Blocks {
        Blocks {
            chunks: (0..chunks).map(|_| Chunk::Free).collect(),
            free: FreeRuns::new(chunks),
            with_room: std::array::from_fn(|_| Vec::new()),
            phase,
            slab_bytes: 0,
        }
    }

    /// Bytes of DRAM in use.
    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.len() * size_of::<Chunk>() + self.slab_bytes
    }

    /// Takes a block of `bytes` bytes at a multiple of `align`. Returns its offset.
    pub(super) fn allocate(&mut self, bytes: usize, align: usize) -> Option<usize> {
        match Class::of(bytes, align) {
            Some(class) => self.allocate_small(class),
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

    fn allocate_small(&mut self, class: Class) -> Option<usize> {
        let number = match self.with_room[class.index()].last() {
            Some(&number) => number,
            None => self.new_slab(class)?,
        };
        let Chunk::Small(slab) = &mut self.chunks[number as usize] else {
            unreachable!("chunk {number} is in a list of small blocks");
        };
        let word = slab.used.iter().position(|word| *word != u64::MAX).expect("a free block");
        let bit = slab.used[word].trailing_ones();
        slab.used[word] |= 1 << bit;
        slab.free -= 1;
        if slab.free == 0 {
            slab.listed_at = None;
            self.with_room[class.index()].pop();
        }
        Some(number as usize * CHUNK_BYTES + (word * 64 + bit as usize) * class.bytes())
    }

    fn new_slab(&mut self, class: Class) -> Option<u32> {
        let number = self.free.take(1, 1, 0)?;
        let blocks = class.blocks();
        let mut used = vec![0u64; blocks.div_ceil(64)].into_boxed_slice();
        if !blocks.is_multiple_of(64) {
            // There are no blocks behind the last one.
            used[blocks / 64] = u64::MAX << (blocks % 64);
        }
        self.slab_bytes += size_of_val(&*used);
        let list = &mut self.with_room[class.index()];
        let listed_at = Some(list.len() as u32);
        list.push(number);
        let slab = Slab { class, used, free: blocks as u32, listed_at };
        self.chunks[number as usize] = Chunk::Small(slab);
        Some(number)
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
            Chunk::Small(slab) => {
                let within = offset % CHUNK_BYTES;
                let block = within / slab.class.bytes();
                if !within.is_multiple_of(slab.class.bytes()) || block >= slab.class.blocks() {
                    return Err(BadFree::NoBlock);
                }
                let bit = 1 << (block % 64);
                if slab.used[block / 64] & bit == 0 {
                    return Err(BadFree::Freed);
                }
                slab.used[block / 64] &= !bit;
                slab.free += 1;
                self.note_room(number as u32);
                Ok(())
            }
        }
    }

    /// A block of chunk `number` was freed: the chunk joins its list, or is free as a whole.
    fn note_room(&mut self, number: u32) {
        let Chunk::Small(slab) = &mut self.chunks[number as usize] else { return };
        let list = &mut self.with_room[slab.class.index()];
        if slab.free as usize == slab.class.blocks() {
            let at = slab.listed_at.take();
            self.slab_bytes -= size_of_val(&*slab.used);
            if let Some(at) = at {
                list.swap_remove(at as usize);
                if let Some(&moved) = list.get(at as usize)
                    && let Chunk::Small(moved) = &mut self.chunks[moved as usize]
                {
                    moved.listed_at = Some(at);
                }
            }
            self.chunks[number as usize] = Chunk::Free;
            self.free.put(number, 1);
        } else if slab.listed_at.is_none() {
            slab.listed_at = Some(list.len() as u32);
            list.push(number);
        }
    }

    /// The bytes that the block at `offset` holds, or `None` if no block in use begins there.
    pub(super) fn usable_bytes(&self, offset: usize) -> Option<usize> {
        match self.chunks.get(offset / CHUNK_BYTES)? {
            Chunk::Small(slab) => {
                let (within, bytes) = (offset % CHUNK_BYTES, slab.class.bytes());
                let (word, bit) = (within / bytes / 64, within / bytes % 64);
                let used = slab.used.get(word)? >> bit & 1 == 1;
                let is_block = within.is_multiple_of(bytes) && within / bytes < slab.class.blocks();
                (is_block && used).then_some(bytes)
            }
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
            Some(Chunk::Small(slab)) => {
                bytes <= slab.class.bytes() && 2 * bytes.max(16) > slab.class.bytes()
            }
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
            prop_assert_eq!(heap.slab_bytes, 0);
            prop_assert_eq!(heap.allocate(CHUNKS as usize * CHUNK_BYTES, 1), Some(0));
        }
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
        assert_eq!(heap.free(small + 112), Err(BadFree::Freed));
        assert_eq!(heap.allocate(usize::MAX, 1), None);
        assert_eq!(heap.allocate(3 * CHUNK_BYTES, 1), None);
    }
}
