//! [`PlaneMap`]: where each logical page of a plane lies, with greedy victims and wear levelling.
//!
//! The map is by page. A logical page stays on its plane, and each write puts it into the next
//! place of the plane's open block. There is no time here: [`PlaneMap`] gives the work of a write
//! or a collection, and the device gives its duration.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use crate::aged::Aged;

/// A place for 4 KiB on a plane. A physical page has one or more.
type Slot = u32;

/// The content of a place that was programmed without data.
const PADDING: u32 = u32::MAX;

/// The layout that all planes of a device share.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub blocks: u32,
    pub pages_per_block: u32,
    /// 4 KiB places in a physical page.
    pub slots_per_page: u32,
    /// Collections start when at most this many physical pages are free.
    pub start_free_pages: u32,
    /// Host writes wait for collections when at most this many physical pages are free.
    pub hard_free_pages: u32,
    /// When the erasures of two blocks differ by more, a collection moves cold data.
    pub wear_spread: Option<u32>,
    pub aged: Aged,
}

impl Layout {
    pub(crate) fn slots_per_block(&self) -> u32 {
        self.pages_per_block * self.slots_per_page
    }

    pub(crate) fn slots(&self) -> u32 {
        self.blocks * self.slots_per_block()
    }

    /// The most logical pages of a plane. With them a collection always finds a block that gains a
    /// physical page, while two blocks are spare and one is open.
    pub(crate) fn logical_pages_max(blocks: u64, pages_per_block: u64, slots_per_page: u64) -> u64 {
        blocks.saturating_sub(3) * (pages_per_block - 1) * slots_per_page
    }
}

/// How urgently a plane needs a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// None is needed.
    None,
    /// Free pages are at the threshold.
    Soon,
    /// Free pages are at the hard limit. The plane writes nothing before a collection.
    Now,
}

/// The work of one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Collection {
    /// Physical pages read.
    pub reads: u32,
    /// Physical pages programmed.
    pub programs: u32,
    /// 4 KiB pages moved.
    pub moved: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Open,
    /// Written before the run. [`Aged`] gives its contents.
    Aged,
    Written,
}

/// Translation and blocks of one plane. It takes a dozen bytes a block and a few dozen a written
/// page.
#[derive(Debug, Clone)]
pub(crate) struct PlaneMap {
    /// Places of pages that were written since ageing.
    placed: FxHashMap<u32, Slot>,
    /// Pages programmed into each block since ageing, valid or not, by place.
    contents: FxHashMap<u32, Vec<u32>>,
    states: Vec<State>,
    /// Valid pages of each block.
    valid: Vec<u32>,
    erases: Vec<u32>,
    /// Free blocks, with the least erased first.
    free: BinaryHeap<Reverse<(u32, u32)>>,
    /// The block that is being written, with its contents.
    open: Option<(u32, Vec<u32>)>,
    free_pages: u32,
    valid_pages: u32,
    /// True if the last collection moved cold data to level wear.
    levelled: bool,
}

impl PlaneMap {
    /// The plane after ageing.
    pub(crate) fn new(layout: &Layout) -> PlaneMap {
        let Layout { blocks, aged, .. } = layout;
        let written = aged.blocks();
        let state = |block| if block < written { State::Aged } else { State::Free };
        let valid = |block| if block < written { aged.valid(block) } else { 0 };
        PlaneMap {
            placed: FxHashMap::default(),
            contents: FxHashMap::default(),
            states: (0..*blocks).map(state).collect(),
            valid: (0..*blocks).map(valid).collect(),
            erases: vec![0; *blocks as usize],
            free: (written..*blocks).map(|block| Reverse((0, block))).collect(),
            open: None,
            free_pages: (blocks - written) * layout.pages_per_block,
            valid_pages: aged.pages(),
            levelled: false,
        }
    }

    /// The plane after ageing, with `phase` of the writes done that lie between two collections,
    /// each of another page. Planes of a device that is written for long are each at a point of
    /// their own. A plane that has room before it needs a collection is left as it is.
    pub(crate) fn at_phase(layout: &Layout, phase: f64) -> PlaneMap {
        let mut map = PlaneMap::new(layout);
        let (pages, oldest) = (layout.aged.pages(), layout.aged.blocks().saturating_sub(1));
        if pages == 0 || map.urgency(layout) == Urgency::None {
            return map;
        }
        let kept = layout.aged.valid(oldest).div_ceil(layout.slots_per_page);
        let writes = (phase * f64::from(layout.pages_per_block - kept)) as u32;
        for write in 0..writes {
            if map.urgency(layout) >= Urgency::Soon && map.collect(layout).is_none() {
                break;
            }
            let first = write * layout.slots_per_page;
            map.program(layout, (first..first + layout.slots_per_page).map(|page| page % pages));
        }
        map.erases.fill(0);
        map.free = map.free.drain().map(|Reverse((_, block))| Reverse((0, block))).collect();
        map
    }

    /// The place of `page`, or `None` if it was never written.
    pub(crate) fn place(&self, layout: &Layout, page: u32) -> Option<Slot> {
        let aged = || {
            let (block, index) = layout.aged.place(page)?;
            Some(block * layout.slots_per_block() + index)
        };
        self.placed.get(&page).copied().or_else(aged)
    }

    /// Writes `pages` into the next physical page, which must hold them all.
    ///
    /// # Panics
    /// If the urgency is [`Urgency::Now`] and no block is free.
    pub(crate) fn program(&mut self, layout: &Layout, pages: impl IntoIterator<Item = u32>) {
        let (block, mut contents) = match self.open.take() {
            Some(open) => open,
            None => self.open_block(layout),
        };
        let first = contents.len() as u32;
        for page in pages {
            if let Some(old) = self.place(layout, page) {
                self.valid[(old / layout.slots_per_block()) as usize] -= 1;
                self.valid_pages -= 1;
            }
            self.placed.insert(page, block * layout.slots_per_block() + contents.len() as u32);
            contents.push(page);
            self.valid[block as usize] += 1;
            self.valid_pages += 1;
        }
        assert!(contents.len() as u32 - first <= layout.slots_per_page, "a page is overfull");
        contents.resize((first + layout.slots_per_page) as usize, PADDING);
        self.free_pages -= 1;
        if contents.len() as u32 == layout.slots_per_block() {
            self.states[block as usize] = State::Written;
            self.contents.insert(block, contents);
        } else {
            self.open = Some((block, contents));
        }
    }

    fn open_block(&mut self, layout: &Layout) -> (u32, Vec<u32>) {
        let Reverse((_, block)) = self.free.pop().expect("collections keep a block free");
        self.states[block as usize] = State::Open;
        (block, Vec::with_capacity(layout.slots_per_block() as usize))
    }

    /// How urgently the plane needs a collection.
    ///
    /// Valid data may leave too little room for a threshold. The threshold is at most half, and the
    /// hard limit at most a quarter, of the space without valid data.
    pub(crate) fn urgency(&self, layout: &Layout) -> Urgency {
        let spare = (layout.slots() - self.valid_pages) / layout.slots_per_page;
        let has_room = self.open.is_some() || self.free.len() > 1;
        if !has_room || self.free_pages <= layout.hard_free_pages.min(spare / 4) {
            Urgency::Now
        } else if self.free_pages <= layout.start_free_pages.min(spare / 2) {
            Urgency::Soon
        } else {
            Urgency::None
        }
    }

    /// Frees a block by moving its valid pages into the open block. The block is the one with the
    /// fewest valid pages, or a cold block that lags behind in wear. Returns `None` if that gains
    /// nothing.
    pub(crate) fn collect(&mut self, layout: &Layout) -> Option<Collection> {
        let lagging = self.lagging(layout);
        self.levelled = lagging.is_some();
        let victim = lagging.or_else(|| self.greedy(layout))?;
        let (pages, reads) = self.valid_in(layout, victim);
        for together in pages.chunks(layout.slots_per_page as usize) {
            self.program(layout, together.iter().copied());
        }
        self.erase(layout, victim);
        let programs = (pages.len() as u32).div_ceil(layout.slots_per_page);
        Some(Collection { reads, programs, moved: pages })
    }

    /// The block with the fewest valid pages, if its collection gains a physical page.
    fn greedy(&self, layout: &Layout) -> Option<u32> {
        let index = |block: u32| block as usize;
        let victim = self
            .closed()
            .min_by_key(|block| (self.valid[index(*block)], self.erases[index(*block)]))?;
        let kept = self.valid[index(victim)].div_ceil(layout.slots_per_page);
        (kept < layout.pages_per_block).then_some(victim)
    }

    /// The least erased block, if it lags behind in wear by more than the allowed spread.
    ///
    /// Its collection may gain nothing, so every other collection is greedy.
    fn lagging(&self, layout: &Layout) -> Option<u32> {
        let spread = layout.wear_spread?;
        if self.levelled {
            return None;
        }
        let most = *self.erases.iter().max()?;
        let coldest = self.closed().min_by_key(|block| self.erases[*block as usize])?;
        (most - self.erases[coldest as usize] > spread).then_some(coldest)
    }

    /// Blocks that are full.
    fn closed(&self) -> impl Iterator<Item = u32> {
        let closed = |(block, state): (u32, &State)| {
            matches!(state, State::Aged | State::Written).then_some(block)
        };
        (0..).zip(&self.states).filter_map(closed)
    }

    /// The valid pages of `block`, and the number of physical pages that hold them.
    fn valid_in(&self, layout: &Layout, block: u32) -> (Vec<u32>, u32) {
        let first = block * layout.slots_per_block();
        let mut pages = Vec::with_capacity(self.valid[block as usize] as usize);
        let (mut reads, mut last) = (0, None);
        let mut take = |index: u32, page: u32| {
            pages.push(page);
            if last.replace(index / layout.slots_per_page) != Some(index / layout.slots_per_page) {
                reads += 1;
            }
        };
        match self.contents.get(&block) {
            Some(contents) => {
                for (index, page) in (0..).zip(contents) {
                    if self.placed.get(page) == Some(&(first + index)) {
                        take(index, *page);
                    }
                }
            }
            None => {
                for index in 0..layout.aged.valid(block) {
                    let page = layout.aged.page_at(block, index);
                    if !self.placed.contains_key(&page) {
                        take(index, page);
                    }
                }
            }
        }
        debug_assert_eq!(pages.len() as u32, self.valid[block as usize]);
        (pages, reads)
    }

    fn erase(&mut self, layout: &Layout, block: u32) {
        assert_eq!(self.valid[block as usize], 0, "block {block} still holds data");
        self.contents.remove(&block);
        self.states[block as usize] = State::Free;
        self.erases[block as usize] += 1;
        self.free.push(Reverse((self.erases[block as usize], block)));
        self.free_pages += layout.pages_per_block;
    }

    /// Erasures of each block.
    pub(crate) fn erases(&self) -> &[u32] {
        &self.erases
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Ten blocks of four physical pages; ageing wrote five of them.
    fn layout(slots_per_page: u32, aged_pages: u32, wear_spread: Option<u32>) -> Layout {
        let (blocks, pages_per_block) = (10, 4);
        Layout {
            blocks,
            pages_per_block,
            slots_per_page,
            start_free_pages: 8,
            hard_free_pages: 4,
            wear_spread,
            aged: Aged::new(aged_pages, 5, pages_per_block * slots_per_page),
        }
    }

    fn logical_pages(layout: &Layout) -> u32 {
        let Layout { blocks, pages_per_block, slots_per_page, .. } = layout;
        Layout::logical_pages_max(
            (*blocks).into(),
            (*pages_per_block).into(),
            (*slots_per_page).into(),
        ) as u32
    }

    /// Every page's place, page by page: the obvious table.
    type Table = BTreeMap<u32, Slot>;

    fn table(map: &PlaneMap, layout: &Layout) -> Table {
        let pages = 0..logical_pages(layout);
        pages.filter_map(|page| Some((page, map.place(layout, page)?))).collect()
    }

    /// Whether every page has one place of its own, and all counts agree with the places.
    fn check(map: &PlaneMap, layout: &Layout) -> Result<(), String> {
        let mut found: Vec<BTreeMap<Slot, u32>> = vec![BTreeMap::new(); layout.blocks as usize];
        for (page, slot) in table(map, layout) {
            let block = (slot / layout.slots_per_block()) as usize;
            if let Some(other) = found[block].insert(slot, page) {
                return Err(format!("pages {page} and {other} share a place"));
            }
        }
        let mut free_pages = 0;
        for (block, pages) in (0..).zip(&found) {
            let valid = map.valid[block as usize] as usize;
            if valid != pages.len() {
                return Err(format!("block {block} counts {valid} valid pages of {}", pages.len()));
            }
            match map.states[block as usize] {
                State::Free if valid > 0 => return Err(format!("free block {block} holds data")),
                State::Free => free_pages += layout.pages_per_block,
                State::Open => {
                    let taken = map.open.as_ref().map_or(0, |(_, contents)| contents.len() as u32);
                    free_pages += layout.pages_per_block - taken / layout.slots_per_page;
                }
                State::Aged | State::Written => {
                    let (to_move, _) = map.valid_in(layout, block);
                    if !to_move.iter().eq(pages.values()) {
                        return Err(format!("block {block} would move {to_move:?}"));
                    }
                }
            }
        }
        let valid: usize = found.iter().map(BTreeMap::len).sum();
        if (map.free_pages, map.valid_pages as usize) != (free_pages, valid) {
            return Err(format!("{} free, {} valid pages", map.free_pages, map.valid_pages));
        }
        Ok(())
    }

    /// Collects as a device does: when there must be room, or anyhow.
    fn make_room(map: &mut PlaneMap, layout: &Layout) {
        while map.urgency(layout) == Urgency::Now && map.collect(layout).is_some() {}
    }

    proptest! {
        #[test]
        fn each_page_has_one_valid_place_whatever_is_written(
            slots_per_page in 1u32..4,
            aged_share in 0.0f64..=1.0,
            wear_spread in prop::option::of(1u32..4),
            steps in prop::collection::vec(
                (prop::collection::vec(any::<prop::sample::Index>(), 1..4), 0u8..8), 1..150,
            ),
        ) {
            let aged_pages = (f64::from(20 * slots_per_page) * aged_share) as u32;
            let layout = layout(slots_per_page, aged_pages, wear_spread);
            let mut map = PlaneMap::new(&layout);
            prop_assert_eq!(check(&map, &layout), Ok(()));
            for (pages, collect) in steps {
                let before = table(&map, &layout);
                make_room(&mut map, &layout);
                if collect == 0 && map.free.len() > 1 {
                    map.collect(&layout);
                }
                prop_assert!(before.keys().eq(table(&map, &layout).keys()), "collections lose nothing");

                let before = table(&map, &layout);
                let count = logical_pages(&layout) as usize;
                let pages: Vec<u32> = pages.iter().map(|page| page.index(count) as u32).collect();
                let pages = &pages[..pages.len().min(slots_per_page as usize)];
                map.program(&layout, pages.iter().copied());
                prop_assert_eq!(check(&map, &layout), Ok(()));
                for (page, slot) in table(&map, &layout) {
                    let stayed = before.get(&page) == Some(&slot);
                    prop_assert_eq!(stayed, !pages.contains(&page), "only what is written moves");
                }
            }
        }
    }

    #[test]
    fn the_check_notices_lost_pages_and_wrong_counts() {
        let layout = layout(2, 20, None);
        let mut map = PlaneMap::new(&layout);
        map.program(&layout, [0, 1]);
        assert_eq!(check(&map, &layout), Ok(()));
        let spoil = |spoil: &dyn Fn(&mut PlaneMap)| {
            let mut map = PlaneMap::new(&layout);
            map.program(&layout, [0, 1]);
            spoil(&mut map);
            check(&map, &layout)
        };
        assert!(spoil(&|map| map.valid[0] += 1).is_err());
        assert!(spoil(&|map| map.free_pages += 1).is_err());
        assert!(spoil(&|map| assert!(map.placed.remove(&0).is_some())).is_err());
        assert!(spoil(&|map| map.placed.extend([(7, map.placed[&0])])).is_err());
    }

    #[test]
    fn the_victim_has_the_fewest_valid_pages() {
        let layout = layout(1, 10, None);
        let mut map = PlaneMap::new(&layout);
        let fewest = *map.valid[..5].iter().min().unwrap();
        let collection = map.collect(&layout).unwrap();
        assert_eq!((collection.reads, collection.programs), (fewest, fewest));
        assert_eq!(collection.moved.len() as u32, fewest);
    }

    #[test]
    fn pages_that_share_a_physical_page_are_read_once_and_packed() {
        let layout = layout(3, 15, None);
        let mut map = PlaneMap::new(&layout);
        // The oldest block holds few pages at its start.
        let valid = map.valid[4];
        let collection = map.collect(&layout).unwrap();
        assert_eq!(collection.moved.len() as u32, valid);
        assert_eq!((collection.reads, collection.programs), (valid.div_ceil(3), valid.div_ceil(3)));
    }

    #[test]
    fn free_blocks_are_used_in_the_order_of_their_wear() {
        let layout = layout(1, 0, None);
        let mut map = PlaneMap::new(&layout);
        for page in (0..8).cycle().take(4_000) {
            make_room(&mut map, &layout);
            map.program(&layout, [page]);
        }
        let (least, most) = (map.erases.iter().min().unwrap(), map.erases.iter().max().unwrap());
        assert!(*least > 50 && most - least <= 2, "{:?}", map.erases);
    }

    #[test]
    fn static_wear_levelling_moves_data_that_are_never_written() {
        let spread = |wear_spread| {
            let layout = layout(1, 20, wear_spread);
            let mut map = PlaneMap::new(&layout);
            // Only the first three pages are ever written; the others sit in their blocks.
            for page in (0..3).cycle().take(4_000) {
                make_room(&mut map, &layout);
                map.program(&layout, [page]);
                check(&map, &layout).unwrap();
            }
            map.erases.iter().max().unwrap() - map.erases.iter().min().unwrap()
        };
        assert!(spread(None) > 100, "{}", spread(None));
        assert!(spread(Some(5)) <= 10, "{}", spread(Some(5)));
    }
}
