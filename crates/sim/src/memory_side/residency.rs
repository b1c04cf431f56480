//! [`Residency`]: the frames of a cache and their pages, under a replacement policy of `core`.

use std::hint::black_box;

use ebbtide_core::replacement::{
    Admission, Frames, Geometry, PolicyKind, Position, Replacement, TOUCHES_MAX,
};
use ebbtide_core::{Archive, Bytes, FrameId, PAGE_BYTES, PageId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::counters::CacheCounters;
use crate::config::{Config, ConfigError, require};
use crate::hierarchy::PageTable;

/// A cache of pages: tags, dirty marks, and the replacement policy.
pub(super) struct Residency {
    geometry: Geometry,
    policy: Box<dyn Replacement>,
    every_hit: bool,
    /// The state of each frame in one word. A set of four is half a line of host memory.
    frames: Vec<Entry>,
    /// Frames by page, if sets are too large to search.
    index: Option<FxHashMap<PageId, FrameId>>,
    /// Frames whose pages were removed, by set. No list is empty.
    vacated: FxHashMap<usize, Vec<FrameId>>,
}

/// The state of a frame. It is the page plus one, or [`RESERVED`], or 0 if the frame was never
/// used. One bit tells whether the page is [dirty](DIRTY), and the bits between hold the number of
/// touches.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, bytemuck::Zeroable)]
struct Entry(u64);

const TOUCHES_SHIFT: u32 = 56;
const PAGE: u64 = (1 << TOUCHES_SHIFT) - 1;
const RESERVED: u64 = PAGE;
const TOUCH: u64 = 1 << TOUCHES_SHIFT;
const TOUCHES: u64 = 0x7f << TOUCHES_SHIFT;
const DIRTY: u64 = 1 << 63;

impl Entry {
    fn holds(self, page: PageId) -> bool {
        self.0 & PAGE == page.0 + 1
    }

    fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    fn touches(self) -> u8 {
        ((self.0 & TOUCHES) >> TOUCHES_SHIFT) as u8
    }
}

/// An evicted page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Victim {
    pub(super) page: PageId,
    pub(super) dirty: bool,
}

/// Sets with more ways are looked up by hash.
const SEARCHED_WAYS_MAX: usize = 32;

impl Residency {
    /// An empty cache of `config.dram_cache`'s size, ways and policy.
    ///
    /// # Errors
    /// When the number of sets is not a power of two, or the policy does not exist.
    pub(super) fn new(config: &Config) -> Result<Residency, ConfigError> {
        let kind = config.dram_cache.policy;
        Ok(Residency::of(Residency::geometry(config)?, kind, config))
    }

    /// The same cache under another policy. The cache reports hits to the policy as touches.
    ///
    /// # Errors
    /// When the number of sets is not a power of two.
    pub(super) fn with_policy(
        config: &Config,
        policy: impl FnOnce(Geometry) -> Box<dyn Replacement>,
    ) -> Result<Residency, ConfigError> {
        let geometry = Residency::geometry(config)?;
        Ok(Residency::empty(geometry, policy(geometry), false))
    }

    /// The same cache under `policy`. The policy is given only the pages that `admission` admits.
    ///
    /// # Errors
    /// When the number of sets is not a power of two.
    pub(super) fn admitting(
        config: &Config,
        policy: PolicyKind,
        admission: Admission,
    ) -> Result<Residency, ConfigError> {
        let (geometry, pages) = (Residency::geometry(config)?, Residency::pages(config));
        let replacement = admission.build(policy, geometry, pages, 1);
        Ok(Residency::empty(geometry, replacement, policy.needs_every_hit()))
    }

    fn geometry(config: &Config) -> Result<Geometry, ConfigError> {
        let dram_cache = &config.dram_cache;
        let frames = (dram_cache.size.0 / PAGE_BYTES as u64) as usize;
        let ways = if dram_cache.ways == 0 { frames } else { dram_cache.ways };
        let sets = frames.checked_div(ways).unwrap_or(0);
        let expected = format!("{ways} ways x a power of two of 4 KiB pages");
        let power = sets.is_power_of_two() && sets * ways == frames;
        require(power, "dram_cache.size", dram_cache.size, expected)?;
        Ok(Geometry { sets, ways })
    }

    /// An empty, fully associative cache of `size` under `policy`.
    pub(super) fn fully_associative(config: &Config, size: Bytes, policy: PolicyKind) -> Residency {
        let frames = (size.0 / PAGE_BYTES as u64) as usize;
        Residency::of(Geometry::fully_associative(frames), policy, config)
    }

    fn of(geometry: Geometry, policy: PolicyKind, config: &Config) -> Residency {
        let replacement = policy.build(geometry, Residency::pages(config), 1);
        Residency::empty(geometry, replacement, policy.needs_every_hit())
    }

    /// Pages of the data and of its page table.
    fn pages(config: &Config) -> u64 {
        let pages = config.dataset.size.0.div_ceil(PAGE_BYTES as u64);
        PageTable::new(pages, config.tlb.walk_levels).end()
    }

    fn empty(geometry: Geometry, policy: Box<dyn Replacement>, every_hit: bool) -> Residency {
        Residency {
            geometry,
            policy,
            every_hit,
            // Zeroed memory from the host: `vec!` would write it.
            frames: bytemuck::zeroed_vec(geometry.frames()),
            index: (geometry.ways > SEARCHED_WAYS_MAX).then(FxHashMap::default),
            vacated: FxHashMap::default(),
        }
    }

    /// Saves the pages and the policy's state to `archive`, or restores them. Restoring needs a
    /// cache of the same size, ways and policy.
    pub(super) fn state(&mut self, archive: &mut Archive<'_>) {
        let is_new = archive.part(&mut self.frames);
        archive.part(&mut self.vacated);
        self.policy.state(archive);
        if let (true, Some(index)) = (is_new, &mut self.index) {
            let held = self.frames.iter().zip(0..).filter_map(|(entry, frame)| {
                let page = (entry.0 & PAGE).checked_sub(1).filter(|_| entry.0 & PAGE != RESERVED);
                Some((PageId(page?), FrameId(frame)))
            });
            *index = held.collect();
        }
    }

    pub(super) fn frames(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Loads the state of `page`'s set into the host's caches. The host serves many such loads in
    /// parallel, but accesses would wait for them one by one.
    #[inline]
    pub(super) fn expect(&self, page: PageId) {
        let set = self.set(page);
        black_box(self.frames[set * self.geometry.ways]);
        self.policy.expect(set);
    }

    #[inline]
    pub(super) fn find(&self, page: PageId) -> Option<FrameId> {
        if let Some(index) = &self.index {
            return index.get(&page).copied();
        }
        let first = self.set(page) * self.geometry.ways;
        let ways = &self.frames[first..first + self.geometry.ways];
        // Compares all ways, which is faster than a mispredicted branch.
        let held = ways.iter().enumerate().filter(|(_, entry)| entry.holds(page));
        let way = held.fold(None, |_, (way, _)| Some(way))?;
        Some(FrameId((first + way) as u32))
    }

    /// Records a hit on the page in `frame`.
    #[inline]
    pub(super) fn hit(&mut self, frame: FrameId, write: bool) {
        let entry = &mut self.frames[frame.index()];
        if write {
            entry.0 |= DIRTY;
        }
        if self.every_hit {
            self.policy.touch(frame);
        } else if entry.touches() < TOUCHES_MAX {
            entry.0 += TOUCH;
        }
    }

    pub(super) fn mark_dirty(&mut self, frame: FrameId) {
        self.frames[frame.index()].0 |= DIRTY;
    }

    /// Marks `page` as dirty, if it is present. Returns whether it is.
    pub(super) fn mark(&mut self, page: PageId) -> bool {
        let frame = self.find(page);
        frame.inspect(|frame| self.frames[frame.index()].0 |= DIRTY).is_some()
    }

    /// Marks `page` as clean. Returns whether it was present and dirty.
    pub(super) fn clean(&mut self, page: PageId) -> bool {
        let Some(frame) = self.find(page) else { return false };
        let entry = &mut self.frames[frame.index()];
        let was_dirty = entry.is_dirty();
        entry.0 &= !DIRTY;
        was_dirty
    }

    /// All dirty pages.
    pub(super) fn dirty(&self) -> impl Iterator<Item = PageId> {
        let dirty = self.frames.iter().filter(|entry| entry.is_dirty());
        dirty.map(|entry| PageId((entry.0 & PAGE) - 1))
    }

    /// Whether a page must be evicted for `page`, because its set has no unused frame. The victim
    /// is unknown until its eviction.
    pub(super) fn is_full(&self, page: PageId) -> bool {
        // Frames of a set are used in order.
        let set = self.set(page);
        let last = (set + 1) * self.geometry.ways - 1;
        self.frames[last] != Entry(0) && !self.vacated.contains_key(&set)
    }

    /// Reserves a frame for `page`. The frame is empty until the page is
    /// [installed](Residency::install). Returns the frame and the victim, or `None` if every frame
    /// of the set is already reserved.
    pub(super) fn reserve(&mut self, page: PageId) -> Option<(FrameId, Option<Victim>)> {
        let set = self.set(page);
        if let Some(frame) = self.take_vacated(set) {
            return Some((frame, None));
        }
        if !self.is_full(page) {
            let first = set * self.geometry.ways;
            let ways = &self.frames[first..first + self.geometry.ways];
            let unused = first + ways.partition_point(|entry| *entry != Entry(0));
            self.frames[unused] = Entry(RESERVED);
            return Some((FrameId(unused as u32), None));
        }
        let frame = self.policy.victim(set, &mut Marks(&mut self.frames))?;
        let entry = std::mem::replace(&mut self.frames[frame.index()], Entry(RESERVED));
        let page = PageId((entry.0 & PAGE) - 1);
        if let Some(index) = &mut self.index {
            index.remove(&page);
        }
        Some((frame, Some(Victim { page, dirty: entry.is_dirty() })))
    }

    /// Puts `page` into `frame`, which was reserved for it.
    pub(super) fn install(&mut self, frame: FrameId, page: PageId, dirty: bool) {
        self.occupy(frame, page, dirty);
        self.policy.insert(frame, page);
        self.policy.look_around(&mut Marks(&mut self.frames));
    }

    /// The same for a page that was not accessed yet.
    pub(super) fn install_ahead(&mut self, frame: FrameId, page: PageId, at: Position) {
        self.occupy(frame, page, false);
        self.policy.insert_ahead(frame, page, at);
        self.policy.look_around(&mut Marks(&mut self.frames));
    }

    fn occupy(&mut self, frame: FrameId, page: PageId, dirty: bool) {
        let entry = &mut self.frames[frame.index()];
        assert!(*entry == Entry(RESERVED), "{frame:?} was not reserved");
        *entry = Entry((page.0 + 1) | if dirty { DIRTY } else { 0 });
        if let Some(index) = &mut self.index {
            index.insert(page, frame);
        }
    }

    /// Removes `page`. Returns its frame, and whether it was dirty, or `None` if it is absent.
    pub(super) fn remove(&mut self, page: PageId) -> Option<(FrameId, bool)> {
        let frame = self.find(page)?;
        let entry = std::mem::replace(&mut self.frames[frame.index()], Entry(RESERVED));
        if let Some(index) = &mut self.index {
            index.remove(&page);
        }
        self.policy.remove(frame);
        self.vacated.entry(self.geometry.set_of(frame)).or_default().push(frame);
        Some((frame, entry.is_dirty()))
    }

    fn take_vacated(&mut self, set: usize) -> Option<FrameId> {
        let frames = self.vacated.get_mut(&set)?;
        let frame = frames.pop();
        if frames.is_empty() {
            self.vacated.remove(&set);
        }
        frame
    }

    /// Puts `page`, which is absent, into a frame at once. Returns the frame and the victim.
    pub(super) fn bring(&mut self, page: PageId, dirty: bool) -> (FrameId, Option<Victim>) {
        let (frame, victim) = self.reserve(page).expect("a warm-up reserves no frame for long");
        self.install(frame, page, dirty);
        (frame, victim)
    }

    /// An access that takes no time.
    pub(super) fn warm(&mut self, page: PageId, write: bool, counters: &mut CacheCounters) {
        if let Some(frame) = self.find(page) {
            counters.hits += 1;
            return self.hit(frame, write);
        }
        counters.misses += 1;
        counters.evicted(self.bring(page, write).1);
    }

    #[inline]
    pub(super) fn set(&self, page: PageId) -> usize {
        page.index() & (self.geometry.sets - 1)
    }
}

impl CacheCounters {
    /// Counts the eviction of `victim`, if there is one.
    pub(super) fn evicted(&mut self, victim: Option<Victim>) {
        match victim {
            Some(Victim { dirty: true, .. }) => self.evictions_dirty += 1,
            Some(Victim { dirty: false, .. }) => self.evictions_clean += 1,
            None => {}
        }
    }
}

struct Marks<'a>(&'a mut [Entry]);

impl Frames for Marks<'_> {
    fn take_touches(&mut self, frame: FrameId) -> u8 {
        let entry = &mut self.0[frame.index()];
        let touches = entry.touches();
        entry.0 &= !TOUCHES;
        touches
    }

    fn is_dirty(&self, frame: FrameId) -> bool {
        self.0[frame.index()].is_dirty()
    }

    fn is_pinned(&self, _frame: FrameId) -> bool {
        false
    }
}
