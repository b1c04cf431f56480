//! [`Residency`]: which page is in which frame, under a replacement policy of `core`.

use ebbtide_core::replacement::{Frames, Geometry, PolicyKind, Replacement, TOUCHES_MAX};
use ebbtide_core::{FrameId, PAGE_BYTES, PageId};
use rustc_hash::FxHashMap;

use super::Counters;
use crate::config::{Config, ConfigError, require};

/// A cache of pages: tags, dirty marks, and the policy that decides who goes.
pub(super) struct Residency {
    geometry: Geometry,
    policy: Box<dyn Replacement>,
    every_hit: bool,
    /// `page + 1` by frame; 0 while no page is installed.
    tags: Vec<u64>,
    /// By page, where a set is too large to be searched.
    index: Option<FxHashMap<PageId, FrameId>>,
    dirty: Vec<bool>,
    touches: Vec<u8>,
    /// Frames of each set that were ever used.
    used: Vec<u32>,
}

/// A page that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Victim {
    pub(super) page: PageId,
    pub(super) dirty: bool,
}

/// Sets of more ways are looked up by hash.
const SEARCHED_WAYS_MAX: usize = 32;

impl Residency {
    /// An empty cache of `config.dram_cache`'s size, ways and policy.
    ///
    /// # Errors
    /// When its sets are not a power of two, or the policy does not exist.
    pub(super) fn new(config: &Config) -> Result<Residency, ConfigError> {
        let dram_cache = &config.dram_cache;
        let frames = (dram_cache.size.0 / PAGE_BYTES as u64) as usize;
        let kind = PolicyKind::from_name(&dram_cache.policy)?;
        let ways = if dram_cache.ways == 0 { frames } else { dram_cache.ways };
        let sets = frames.checked_div(ways).unwrap_or(0);
        let expected = format!("{ways} ways x a power of two of 4 KiB pages");
        let power = sets.is_power_of_two() && sets * ways == frames;
        require(power, "dram_cache.size", dram_cache.size, expected)?;
        let geometry = Geometry { sets, ways };
        let pages = config.dataset.size.0.div_ceil(PAGE_BYTES as u64);
        Ok(Residency {
            geometry,
            policy: kind.build(geometry, pages + pages / 512 + 1, 1),
            every_hit: kind.needs_every_hit(),
            tags: vec![0; frames],
            index: (ways > SEARCHED_WAYS_MAX).then(FxHashMap::default),
            dirty: vec![false; frames],
            touches: vec![0; frames],
            used: vec![0; sets],
        })
    }

    pub(super) fn frames(&self) -> u64 {
        self.tags.len() as u64
    }

    #[inline]
    pub(super) fn find(&self, page: PageId) -> Option<FrameId> {
        if let Some(index) = &self.index {
            return index.get(&page).copied();
        }
        let first = self.set(page) * self.geometry.ways;
        let tags = &self.tags[first..first + self.geometry.ways];
        let way = tags.iter().position(|tag| *tag == page.0 + 1)?;
        Some(FrameId((first + way) as u32))
    }

    /// A hit on the page in `frame`.
    #[inline]
    pub(super) fn hit(&mut self, frame: FrameId, write: bool) {
        if write {
            self.dirty[frame.index()] = true;
        }
        if self.every_hit {
            self.policy.touch(frame);
        } else {
            let touches = &mut self.touches[frame.index()];
            *touches = (*touches + 1).min(TOUCHES_MAX);
        }
    }

    pub(super) fn mark_dirty(&mut self, frame: FrameId) {
        self.dirty[frame.index()] = true;
    }

    /// The page that would have to go for `page` is unknown before it goes; this says whether one
    /// must, because no frame of its set was left unused.
    pub(super) fn is_full(&self, page: PageId) -> bool {
        self.used[self.set(page)] as usize == self.geometry.ways
    }

    /// A frame for `page`, empty until it is [installed](Residency::install), and who had to go.
    /// `None` when every frame of its set waits for a page already.
    pub(super) fn reserve(&mut self, page: PageId) -> Option<(FrameId, Option<Victim>)> {
        let set = self.set(page);
        let used = &mut self.used[set];
        if (*used as usize) < self.geometry.ways {
            let frame = FrameId((set * self.geometry.ways) as u32 + *used);
            *used += 1;
            return Some((frame, None));
        }
        let mut marks = Marks { dirty: &self.dirty, touches: &mut self.touches };
        let frame = self.policy.victim(set, &mut marks)?;
        let page = PageId(std::mem::take(&mut self.tags[frame.index()]) - 1);
        if let Some(index) = &mut self.index {
            index.remove(&page);
        }
        Some((frame, Some(Victim { page, dirty: self.dirty[frame.index()] })))
    }

    /// `page` is in `frame`, which was reserved for it.
    pub(super) fn install(&mut self, frame: FrameId, page: PageId, dirty: bool) {
        assert_eq!(self.tags[frame.index()], 0, "{frame:?} was not reserved");
        self.tags[frame.index()] = page.0 + 1;
        self.dirty[frame.index()] = dirty;
        self.touches[frame.index()] = 0;
        if let Some(index) = &mut self.index {
            index.insert(page, frame);
        }
        self.policy.insert(frame, page);
    }

    /// An access in no time.
    pub(super) fn warm(&mut self, page: PageId, write: bool, counters: &mut Counters) {
        if let Some(frame) = self.find(page) {
            counters.hits += 1;
            return self.hit(frame, write);
        }
        counters.misses += 1;
        let (frame, victim) = self.reserve(page).expect("nothing is reserved in a warm-up");
        counters.evicted(victim);
        self.install(frame, page, write);
    }

    #[inline]
    pub(super) fn set(&self, page: PageId) -> usize {
        page.index() & (self.geometry.sets - 1)
    }
}

impl Counters {
    /// Counts a victim, if there is one.
    pub(super) fn evicted(&mut self, victim: Option<Victim>) {
        match victim {
            Some(Victim { dirty: true, .. }) => self.evictions_dirty += 1,
            Some(Victim { dirty: false, .. }) => self.evictions_clean += 1,
            None => {}
        }
    }
}

/// A plain LRU cache of all of a machine's frames, to which the work of a job is calibrated.
pub struct PlainLru {
    residency: Residency,
    counters: Counters,
}

impl PlainLru {
    /// An empty one of `config.dram_cache.size`, fully associative.
    ///
    /// # Errors
    /// When that is not a whole number of pages.
    pub fn new(config: &Config) -> Result<PlainLru, ConfigError> {
        let mut config = config.clone();
        config.dram_cache.ways = 0;
        config.dram_cache.policy = PolicyKind::Lru.name().to_string();
        Ok(PlainLru { residency: Residency::new(&config)?, counters: Counters::default() })
    }

    /// A job touches `page`.
    #[inline]
    pub fn access(&mut self, page: PageId) {
        self.residency.warm(page, false, &mut self.counters);
    }

    /// Frames of the cache.
    pub fn frames(&self) -> u64 {
        self.residency.frames()
    }

    /// What was counted since it was last taken.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes what was counted.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }
}

struct Marks<'a> {
    dirty: &'a [bool],
    touches: &'a mut [u8],
}

impl Frames for Marks<'_> {
    fn take_touches(&mut self, frame: FrameId) -> u8 {
        std::mem::take(&mut self.touches[frame.index()])
    }

    fn is_dirty(&self, frame: FrameId) -> bool {
        self.dirty[frame.index()]
    }

    fn is_pinned(&self, _frame: FrameId) -> bool {
        false
    }
}
