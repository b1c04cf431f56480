//! [`SmallBlocks`]: the blocks of one chunk.
//!
//! Blocks of all sizes lie side by side in the order of their allocation. So what a program
//! allocates together, such as a node with its key and value, mostly shares a page and a miss.

use ebbtide_core::PAGE_BYTES;

/// Bytes of a chunk: the unit in which a heap divides its region.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// The unit of blocks.
const GRANULE_BYTES: usize = 32;

/// Granules of a chunk.
pub(super) const GRANULES: usize = CHUNK_BYTES / GRANULE_BYTES;

/// Blocks of more bytes take whole chunks.
pub(super) const SMALL_MAX: usize = 16 << 10;

/// Blocks of at most this many granules lie in one page.
const IN_PAGE_MAX: usize = PAGE_BYTES / GRANULE_BYTES / 4;

/// A bit for each granule of a chunk.
type Bits = [u64; GRANULES / 64];

/// Why a block cannot be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BadFree {
    /// No block begins there.
    NoBlock,
    /// The block is free.
    Freed,
}

/// The granules of a block, and those from whose multiples it may begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    granules: usize,
    align: usize,
}

impl Shape {
    /// The shape of a block of `bytes` bytes at multiples of `align`, a power of two. `None` if
    /// such a block takes whole chunks.
    pub(super) fn of(bytes: usize, align: usize) -> Option<Shape> {
        (bytes <= SMALL_MAX && align <= SMALL_MAX).then(|| Shape {
            granules: bytes.div_ceil(GRANULE_BYTES).max(1),
            align: align.div_ceil(GRANULE_BYTES),
        })
    }

    /// The first granule from `first` on where the block may begin.
    fn place(self, first: usize) -> usize {
        let at = first.next_multiple_of(self.align);
        let page = PAGE_BYTES / GRANULE_BYTES;
        if self.granules <= IN_PAGE_MAX && at % page + self.granules > page {
            return at.next_multiple_of(page.max(self.align));
        }
        at
    }
}

/// The blocks of a chunk.
pub(super) struct SmallBlocks {
    /// The first granules of the blocks in use. A block ends before the next one, a free granule or
    /// `end`.
    begins: Box<Bits>,
    /// The free granules before `end`, unless there is none.
    free: Option<Box<Bits>>,
    /// The granules from here on are free. The one before is not.
    end: u16,
    free_before_end: u16,
    /// No run of free granules before `end` is longer.
    longest: u16,
    /// Where the chunk is in the list of chunks with room.
    pub(super) listed_at: Option<u32>,
}

impl SmallBlocks {
    /// A chunk without blocks.
    pub(super) fn new() -> SmallBlocks {
        SmallBlocks {
            begins: Box::new([0; _]),
            free: None,
            end: 0,
            free_before_end: 0,
            longest: 0,
            listed_at: None,
        }
    }

    /// Bytes of DRAM, without the structure itself.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Bits>() * (1 + usize::from(self.free.is_some()))
    }

    /// Free granules.
    pub(super) fn free_granules(&self) -> usize {
        GRANULES - usize::from(self.end) + usize::from(self.free_before_end)
    }

    /// Takes a block. Returns its offset in the chunk.
    pub(super) fn allocate(&mut self, shape: Shape) -> Option<usize> {
        let end = usize::from(self.end);
        let at = shape.place(end);
        if at + shape.granules <= GRANULES {
            // What is skipped belongs to the block before, which is in use.
            if end == 0 && at > 0 {
                self.set_free(0, at);
            }
            self.end = (at + shape.granules) as u16;
            set(&mut self.begins, at, 1, true);
            return Some(at * GRANULE_BYTES);
        }
        if shape.granules > usize::from(self.longest) {
            return None;
        }
        let at = self.place_among_free(shape)?;
        let free = self.free.as_mut().expect("a run was found there");
        set(free, at, shape.granules, false);
        set(&mut self.begins, at, 1, true);
        self.free_before_end -= shape.granules as u16;
        if self.free_before_end == 0 {
            self.free = None;
        }
        Some(at * GRANULE_BYTES)
    }

    /// Finds a place for a block among the free granules before `end`.
    fn place_among_free(&mut self, shape: Shape) -> Option<usize> {
        let (mut first, mut longest) = (0, 0);
        let free = self.free.as_ref()?;
        while let Some(start) = next(free, first) {
            let end = next_clear(free, start);
            let at = shape.place(start);
            if at + shape.granules <= end {
                return Some(at);
            }
            longest = longest.max(end - start);
            first = end;
        }
        // Alignment may have been what was missing.
        if shape.align == 1 && shape.granules > IN_PAGE_MAX {
            self.longest = longest as u16;
        }
        None
    }

    /// Frees the block at an offset.
    pub(super) fn free(&mut self, offset: usize) -> Result<(), BadFree> {
        let (at, count) = self.block(offset).ok_or(match self.is_free(offset) {
            true => BadFree::Freed,
            false => BadFree::NoBlock,
        })?;
        set(&mut self.begins, at, 1, false);
        if at + count < usize::from(self.end) {
            self.set_free(at, count);
            return Ok(());
        }
        // The end moves before all free granules that lie there.
        self.end = at as u16;
        let Some(free) = &mut self.free else { return Ok(()) };
        let end = last_clear(free, at);
        set(free, end, at - end, false);
        self.end = end as u16;
        self.free_before_end -= (at - end) as u16;
        if self.free_before_end == 0 {
            self.free = None;
        }
        Ok(())
    }

    fn set_free(&mut self, at: usize, count: usize) {
        set(self.free.get_or_insert_with(|| Box::new([0; _])), at, count, true);
        self.free_before_end += count as u16;
        // The run may have grown together with others.
        self.longest = GRANULES as u16;
    }

    /// Bytes that the block at an offset holds, or `None` if no block in use begins there.
    pub(super) fn usable_bytes(&self, offset: usize) -> Option<usize> {
        self.block(offset).map(|(_, granules)| granules * GRANULE_BYTES)
    }

    /// The first granule and the number of granules of the block at an offset.
    fn block(&self, offset: usize) -> Option<(usize, usize)> {
        let at = offset / GRANULE_BYTES;
        if !offset.is_multiple_of(GRANULE_BYTES) || next(&self.begins, at) != Some(at) {
            return None;
        }
        let end = usize::from(self.end);
        let begin = next(&self.begins, at + 1).unwrap_or(end);
        let free = self.free.as_ref().and_then(|free| next(free, at)).unwrap_or(end);
        Some((at, begin.min(free) - at))
    }

    fn is_free(&self, offset: usize) -> bool {
        let at = offset / GRANULE_BYTES;
        at >= usize::from(self.end)
            || self.free.as_ref().is_some_and(|free| next(free, at) == Some(at))
    }
}

/// Sets or clears the `count` bits from `first` on.
fn set(bits: &mut Bits, first: usize, count: usize, to: bool) {
    let (mut at, end) = (first, first + count);
    while at < end {
        let stop = end.min((at / 64 + 1) * 64);
        let mask = u64::MAX >> (64 - (stop - at)) << (at % 64);
        let word = &mut bits[at / 64];
        *word = if to { *word | mask } else { *word & !mask };
        at = stop;
    }
}

/// The first set bit from `first` on.
fn next(bits: &Bits, first: usize) -> Option<usize> {
    scan(first, |word| bits[word])
}

/// The first clear bit from `first` on, or the number of bits.
fn next_clear(bits: &Bits, first: usize) -> usize {
    scan(first, |word| !bits[word]).unwrap_or(GRANULES)
}

/// The start of the run of set bits that ends before `end`, or `end` if there is none.
fn last_clear(bits: &Bits, end: usize) -> usize {
    let is_set = |at: &usize| bits[at / 64] >> (at % 64) & 1 == 1;
    (0..end).rev().take_while(is_set).last().unwrap_or(end)
}

/// The first bit from `first` on that is set in the words of `word`.
fn scan(first: usize, word: impl Fn(usize) -> u64) -> Option<usize> {
    let mut at = first / 64;
    let mut left = match at < GRANULES / 64 {
        true => word(at) & u64::MAX << (first % 64),
        false => return None,
    };
    while left == 0 {
        at += 1;
        if at == GRANULES / 64 {
            return None;
        }
        left = word(at);
    }
    Some(at * 64 + left.trailing_zeros() as usize)
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    fn shape(bytes: usize) -> Shape {
        Shape::of(bytes, 1).expect("it is small")
    }

    #[test]
    fn what_is_allocated_together_shares_a_page() {
        let mut blocks = SmallBlocks::new();
        let pages: Vec<_> = (0..60)
            .map(|_| [96, 26, 401].map(|bytes| blocks.allocate(shape(bytes)).unwrap() / PAGE_BYTES))
            .collect();
        let apart = pages.iter().filter(|[node, key, value]| node != key || key != value).count();
        assert!(apart <= 60 / 7 + 1, "{apart} of 60 are in two pages");
        assert_eq!(blocks.free, None, "nothing is free between them");
    }

    #[test]
    fn a_block_of_up_to_a_quarter_of_a_page_lies_in_one() {
        let mut blocks = SmallBlocks::new();
        while let Some(at) = blocks.allocate(shape(1000)) {
            assert_eq!(at / PAGE_BYTES, (at + 999) / PAGE_BYTES);
        }
        assert!(blocks.free_granules() < GRANULES / 64);
    }

    #[test]
    fn room_between_blocks_is_used_again_and_the_last_of_them_gives_all_back() {
        let mut blocks = SmallBlocks::new();
        let taken: Vec<_> = std::iter::from_fn(|| blocks.allocate(shape(512))).collect();
        for at in taken.iter().step_by(2) {
            assert_eq!(blocks.free(*at), Ok(()));
        }
        assert_eq!(blocks.allocate(shape(520)), None, "no run is so long");
        let again: Vec<_> = std::iter::from_fn(|| blocks.allocate(shape(500))).collect();
        assert_eq!(again.len(), taken.len() / 2);
        let others = taken.iter().skip(1).step_by(2);
        for at in again.iter().chain(others) {
            assert_eq!(blocks.free(*at), Ok(()));
            assert_eq!(blocks.free(*at), Err(BadFree::Freed));
        }
        assert_eq!((blocks.free_granules(), blocks.end), (GRANULES, 0));
        assert_eq!(blocks.memory_bytes(), size_of::<Bits>());
    }
}
