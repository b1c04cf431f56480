//! [`UseTimes`]: a line of times of use, and how many of them still count.

use std::iter;

/// Bits that one count of the tree stands for: a line of memory.
const BLOCK_BITS: usize = 512;
const BLOCK_WORDS: usize = BLOCK_BITS / 64;

/// UseTimes, given out one after the other and later struck out.
///
/// A bit a time and a Fenwick tree over blocks of bits tell how many count from any on (Bennett and
/// Kruskal, IBM J. R&D 1975). When there are no more, those that count are numbered anew.
pub(super) struct UseTimes {
    struck: Vec<u64>,
    /// Fenwick tree: times struck out, by block.
    blocks: Vec<u32>,
    struck_out: u32,
    next: u32,
}

impl UseTimes {
    /// Nothing given out yet.
    pub(super) fn new() -> UseTimes {
        let mut times = UseTimes { struck: Vec::new(), blocks: Vec::new(), struck_out: 0, next: 0 };
        times.restart();
        times
    }

    /// What they take.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&self.struck[..]) + size_of_val(&self.blocks[..])
    }

    /// Whether no more can be given out before [`restart`](UseTimes::restart).
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.next as usize == self.struck.len() * 64
    }

    /// The time that will be given out next.
    #[inline]
    pub(super) fn now(&self) -> u32 {
        self.next
    }

    /// Gives out a time, which counts until it is struck out.
    #[inline]
    pub(super) fn give(&mut self) -> u32 {
        debug_assert!(!self.is_full());
        self.next += 1;
        self.next - 1
    }

    /// `time` counts no more.
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

    /// How many count of the times from `time` on.
    #[inline]
    pub(super) fn since(&self, time: u32) -> u32 {
        (self.next - time) - (self.struck_out - self.struck_before(time))
    }

    /// How many count of those before `time`: its number from [`restart`](UseTimes::restart) on.
    #[inline]
    pub(super) fn before(&self, time: u32) -> u32 {
        time - self.struck_before(time)
    }

    /// Numbers the times that count from 0 on, with room for three times as many more. Whoever
    /// keeps times has replaced each by [`before`](UseTimes::before) it.
    pub(super) fn restart(&mut self) {
        self.next -= self.struck_out;
        self.struck_out = 0;
        let room = (4 * self.next as usize).next_multiple_of(BLOCK_BITS).max(8 * BLOCK_BITS);
        self.struck.clear();
        self.struck.resize(room / 64, 0);
        self.blocks.clear();
        self.blocks.resize(room / BLOCK_BITS, 0);
    }

    /// UseTimes below `time` that are struck out.
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
