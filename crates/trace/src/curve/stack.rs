//! [`LruStack`]: pages in the order of their last use, and how deep each lies.

use std::iter;

use ebbtide_core::PageId;

use super::table::PageTable;

/// Bits that one count of the tree stands for: a line of memory.
const BLOCK_BITS: usize = 512;
const BLOCK_WORDS: usize = BLOCK_BITS / 64;

/// No page has so many times of use at once; also the mark of a page with no write outstanding.
pub(super) const NEVER: u32 = u32::MAX;

/// What an access to a page means for caches of all sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reuse {
    /// Distinct pages used since the page was last used, itself included: the least LRU cache that
    /// has it still. `None` if it is new.
    pub(super) distance: Option<u32>,
    /// Where this is a write and an earlier one was outstanding: the greatest distance since. In
    /// smaller caches the earlier write went to flash on its own.
    pub(super) rewrite: Option<u32>,
}

/// Pages in the order of their last use.
///
/// Every use gets the next number of a line of times, and the page's last one is struck out; how
/// many of the times after it are not struck out is its depth. A bit a time and a Fenwick tree over
/// blocks of bits count those (Bennett and Kruskal, IBM J. R&D 1975). When times run out, those not
/// struck out are numbered anew.
pub(super) struct LruStack {
    pages: PageTable,
    struck: Vec<u64>,
    /// Fenwick tree: times struck out, by block.
    blocks: Vec<u32>,
    struck_out: u32,
    next: u32,
}

/// When a page was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) last: u32,
    /// The greatest distance since the last write; [`NEVER`] without one.
    pub(super) since_write: u32,
}

impl LruStack {
    /// An empty stack.
    pub(super) fn new() -> LruStack {
        let mut stack = LruStack {
            pages: PageTable::new(),
            struck: Vec::new(),
            blocks: Vec::new(),
            struck_out: 0,
            next: 0,
        };
        stack.renumber();
        stack
    }

    /// Pages in it.
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// `page` is about to be used.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        self.pages.prefetch(page);
    }

    /// `page` is used.
    #[inline]
    pub(super) fn touch(&mut self, page: PageId, write: bool) -> Reuse {
        if self.next as usize == self.struck.len() * 64 {
            self.renumber();
        }
        let time = self.next;
        self.next += 1;
        let fresh = Uses { last: time, since_write: if write { 0 } else { NEVER } };
        let Some(uses) = self.pages.get_mut(page) else {
            assert!(self.pages.len() < (NEVER / 8) as usize, "too many pages for 32-bit times");
            self.pages.insert(page, fresh);
            return Reuse { distance: None, rewrite: None };
        };
        let before = std::mem::replace(uses, fresh);
        // The time just given out is the page's own.
        let distance = depth(&self.struck, &self.blocks, self.struck_out, time, before.last);
        let since_write = match before.since_write {
            NEVER => NEVER,
            most => most.max(distance),
        };
        if !write {
            uses.since_write = since_write;
        }
        self.strike(before.last);
        let rewrite = (write && since_write != NEVER).then_some(since_write);
        Reuse { distance: Some(distance), rewrite }
    }

    /// Forgets `page`.
    pub(super) fn forget(&mut self, page: PageId) {
        if let Some(uses) = self.pages.remove(page) {
            self.strike(uses.last);
        }
    }

    /// For every page with a write outstanding, the greatest distance since, if it were used now:
    /// caches smaller than that have written it back.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = u32> {
        let written = self.pages.values().filter(|uses| uses.since_write != NEVER);
        written.map(|uses| {
            let depth = depth(&self.struck, &self.blocks, self.struck_out, self.next, uses.last);
            depth.max(uses.since_write)
        })
    }

    fn strike(&mut self, time: u32) {
        self.struck[time as usize / 64] |= 1 << (time % 64);
        self.struck_out += 1;
        let mut block = time as usize / BLOCK_BITS + 1;
        while block <= self.blocks.len() {
            self.blocks[block - 1] += 1;
            block += block & block.wrapping_neg();
        }
    }

    /// Numbers the times in use from 0 on, with room for three times as many more.
    fn renumber(&mut self) {
        let LruStack { pages, struck, blocks, struck_out, next } = self;
        for uses in pages.values_mut() {
            uses.last -= struck_before(struck, blocks, uses.last);
        }
        *next = pages.len() as u32;
        *struck_out = 0;
        let times = (4 * pages.len()).next_multiple_of(BLOCK_BITS).max(8 * BLOCK_BITS);
        struck.clear();
        struck.resize(times / 64, 0);
        blocks.clear();
        blocks.resize(times / BLOCK_BITS, 0);
    }
}

/// Times from `last` to before `now` that are not struck out.
#[inline]
fn depth(struck: &[u64], blocks: &[u32], struck_out: u32, now: u32, last: u32) -> u32 {
    (now - last) - (struck_out - struck_before(struck, blocks, last))
}

/// Times below `time` that are struck out.
#[inline]
fn struck_before(struck: &[u64], blocks: &[u32], time: u32) -> u32 {
    let time = time as usize;
    let whole_blocks = time / BLOCK_BITS;
    let parents = |block: &usize| Some(block & (block - 1)).filter(|block| *block > 0);
    let nodes = iter::successors(Some(whole_blocks).filter(|block| *block > 0), parents);
    let in_blocks: u32 = nodes.map(|node| blocks[node - 1]).sum();
    let words = &struck[whole_blocks * BLOCK_WORDS..time / 64];
    let in_words: u32 = words.iter().map(|word| word.count_ones()).sum();
    let partial = struck.get(time / 64).map_or(0, |word| word & ((1 << (time % 64)) - 1));
    in_blocks + in_words + partial.count_ones()
}
