//! [`UseTimes`]: increasing times, of which some are deleted, with fast counts of the rest.

use std::iter;

/// Bits for each count of the tree: a line of memory.
const BLOCK_BITS: usize = 512;
const BLOCK_WORDS: usize = BLOCK_BITS / 64;

/// Times that are allocated in increasing order and deleted later.
///
/// Counts the remaining times from any time on, with one bit a time and a Fenwick tree over blocks
/// of bits (Bennett and Kruskal, IBM Journal of Research and Development, 1975). When all numbers
/// are used, the remaining times are renumbered.
pub(super) struct UseTimes {
    struck: Vec<u64>,
    /// A Fenwick tree of the number of deleted times in each block.
    blocks: Vec<u32>,
    struck_out: u32,
    next: u32,
}

impl UseTimes {
    /// No times yet.
    pub(super) fn new() -> UseTimes {
        let mut times = UseTimes { struck: Vec::new(), blocks: Vec::new(), struck_out: 0, next: 0 };
        times.restart();
        times
    }

    /// Their memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&self.struck[..]) + size_of_val(&self.blocks[..])
    }

    /// Whether [`restart`](UseTimes::restart) must come before the next time.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.next as usize == self.struck.len() * 64
    }

    /// The next time.
    #[inline]
    pub(super) fn now(&self) -> u32 {
        self.next
    }

    /// Allocates the next time.
    #[inline]
    pub(super) fn give(&mut self) -> u32 {
        debug_assert!(!self.is_full());
        self.next += 1;
        self.next - 1
    }

    /// Deletes `time`.
    #[inline]
    pub(super) fn strike(&mut self, time: u32) {
        self.struck[time as usize / 64] |= 1 << (time % 64);
        self.struck_out += 1;
        let mut block = time as usize / BLOCK_BITS + 1;
        while block <= self.blocks.len() {
            self.blocks[block - 1] += 1;
            block += block & block.wrapping_neg();
        }
    }

    /// The number of times left from `time` on.
    #[inline]
    pub(super) fn since(&self, time: u32) -> u32 {
        (self.next - time) - (self.struck_out - self.struck_before(time))
    }

    /// The number of times left before `time`, which is its number after
    /// [`restart`](UseTimes::restart).
    #[inline]
    pub(super) fn before(&self, time: u32) -> u32 {
        time - self.struck_before(time)
    }

    /// Renumbers the times that are left from 0 on, with room for three times as many more. The
    /// caller has replaced each time it keeps by the number of times [`before`](UseTimes::before)
    /// it.
    pub(super) fn restart(&mut self) {
        self.next -= self.struck_out;
        self.struck_out = 0;
        let room = (4 * self.next as usize).next_multiple_of(BLOCK_BITS).max(8 * BLOCK_BITS);
        self.struck.clear();
        self.struck.resize(room / 64, 0);
        self.blocks.clear();
        self.blocks.resize(room / BLOCK_BITS, 0);
    }

    /// The number of deleted times below `time`.
    #[inline]
    fn struck_before(&self, time: u32) -> u32 {
        let time = time as usize;
        let whole_blocks = time / BLOCK_BITS;
        let parents = |block: &usize| Some(block & (block - 1)).filter(|block| *block > 0);
        let nodes = iter::successors(Some(whole_blocks).filter(|block| *block > 0), parents);
        let in_blocks: u32 = nodes.map(|node| self.blocks[node - 1]).sum();
        let words = &self.struck[whole_blocks * BLOCK_WORDS..time / 64];
        let in_words: u32 = words.iter().map(|word| word.count_ones()).sum();
        let partial = self.struck.get(time / 64).map_or(0, |word| word & ((1 << (time % 64)) - 1));
        in_blocks + in_words + partial.count_ones()
    }
}
