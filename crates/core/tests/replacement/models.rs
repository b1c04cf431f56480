//! Every policy against a slow model of it, written from the definition, under hits, misses,
//! writes, pins, invalidations and evictions ahead of need.

use std::collections::VecDeque;

use ebbtide_core::replacement::{Frames, Geometry, PolicyKind, Replacement, TOUCHES_MAX};
use ebbtide_core::{FrameId, PageId};
use proptest::prelude::*;

use crate::cache::Cache;

pub(crate) const PAGES: u64 = 60;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Access { page: u64, write: bool },
    Pin(u64),
    UnpinAll,
    Invalidate(u64),
    Evict { set: usize },
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    // Half of the accesses go to a sixth of the pages, so that hits are common in a small cache.
    let page = || prop_oneof![0..PAGES, 0..PAGES / 6];
    prop_oneof![
        30 => (page(), any::<bool>()).prop_map(|(page, write)| Op::Access { page, write }),
        2 => page().prop_map(Op::Pin),
        1 => Just(Op::UnpinAll),
        1 => page().prop_map(Op::Invalidate),
        2 => (0usize..8).prop_map(|set| Op::Evict { set }),
    ]
}

pub(crate) fn geometry() -> impl Strategy<Value = Geometry> {
    prop_oneof![
        (1usize..40).prop_map(Geometry::fully_associative),
        (2usize..8, 1usize..6).prop_map(|(sets, ways)| Geometry { sets, ways }),
    ]
}

/// Runs `kind` and `model` side by side; they must give up the same frames. Every frame that is
/// left must then be given up too.
fn agree(kind: PolicyKind, model: Box<dyn Replacement>, geometry: Geometry, ops: &[Op]) {
    let one = Cache::new(kind, geometry, PAGES);
    behave_alike(one, Cache::with_policy(model, kind.needs_every_hit(), geometry), ops);
}

/// As [`agree`], of two caches of the same geometry.
pub(crate) fn behave_alike(mut one: Cache, mut other: Cache, ops: &[Op]) {
    let geometry = one.geometry;
    for op in ops {
        for cache in [&mut one, &mut other] {
            match *op {
                Op::Access { page, write } => {
                    cache.access(PageId(page), write);
                }
                Op::Pin(page) => {
                    if let Some(frame) = cache.frame_of(PageId(page)) {
                        cache.marks.pinned[frame.index()] = true;
                    }
                }
                Op::UnpinAll => cache.marks.pinned.fill(false),
                Op::Invalidate(page) => cache.invalidate(PageId(page)),
                Op::Evict { set } => {
                    cache.evict(set % geometry.sets);
                }
            }
        }
        assert_eq!(one.page_in, other.page_in, "after {op:?}");
    }
    for cache in [&mut one, &mut other] {
        cache.marks.pinned.fill(false);
        for set in 0..geometry.sets {
            while cache.evict(set).is_some() {}
        }
        assert!(cache.page_in.iter().all(Option::is_none));
    }
}

proptest! {
    #[test]
    fn fifo_gives_up_the_oldest(geometry in geometry(), ops in prop::collection::vec(op(), 1..400)) {
        let model = Ordered { geometry, order: Vec::new(), clean_first: 0 };
        agree(PolicyKind::Fifo, Box::new(model), geometry, &ops);
    }

    #[test]
    fn lru_gives_up_the_least_recent(
        geometry in geometry(),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let model = Ordered { geometry, order: Vec::new(), clean_first: 0 };
        agree(PolicyKind::Lru, Box::new(model), geometry, &ops);
    }

    #[test]
    fn cflru_gives_up_the_least_recent_clean_page_of_the_older_half(
        geometry in geometry(),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let model = Ordered { geometry, order: Vec::new(), clean_first: geometry.ways / 2 };
        agree(PolicyKind::Cflru, Box::new(model), geometry, &ops);
    }

    #[test]
    fn clock_passes_what_was_touched_since_the_hand_came_by(
        geometry in geometry(),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let rings = vec![(Vec::new(), 0); geometry.sets];
        agree(PolicyKind::Clock, Box::new(Rings { geometry, rings }), geometry, &ops);
    }

    #[test]
    fn s3_fifo_moves_between_three_queues(
        geometry in geometry(),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let sets = (0..geometry.sets).map(|_| ThreeQueues::default()).collect();
        agree(PolicyKind::S3Fifo, Box::new(S3 { geometry, sets }), geometry, &ops);
    }

    #[test]
    fn rrip_gives_up_the_first_frame_whose_prediction_is_distant(
        geometry in geometry(),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        for (kind, hit, miss) in [
            (PolicyKind::SrripHp, Hit::Forgets, Miss::Long),
            (PolicyKind::SrripFp, Hit::CountsDown, Miss::Long),
            (PolicyKind::Brrip, Hit::Forgets, Miss::SeldomLong),
            (PolicyKind::Drrip, Hit::Forgets, Miss::Duel),
        ] {
            let predictions = vec![None; geometry.frames()];
            let model = Predictions { geometry, hit, miss, predictions, seldom: 0, votes: 0 };
            agree(kind, Box::new(model), geometry, &ops);
        }
    }

    /// There is no model of it. Checked instead: only known, unpinned frames of the asked set go,
    /// and all of them go in the end. The same seed also takes the same decisions.
    #[test]
    fn random_is_a_function_of_its_seed(
        geometry in geometry(),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let twin = PolicyKind::Random.build(geometry, PAGES, 1);
        agree(PolicyKind::Random, twin, geometry, &ops);
    }

    /// As for random.
    #[test]
    fn mini_sim_gives_up_any_frame_it_may_and_no_other(
        geometry in geometry(),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let twin = PolicyKind::MiniSim.build(geometry, PAGES, 1);
        agree(PolicyKind::MiniSim, twin, geometry, &ops);
    }
}

/// FIFO; with [`touch`](Replacement::touch), LRU; with a clean-first region, CFLRU.
struct Ordered {
    geometry: Geometry,
    order: Vec<FrameId>,
    clean_first: usize,
}

impl Replacement for Ordered {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.order.push(frame);
    }

    fn touch(&mut self, frame: FrameId) {
        self.remove(frame);
        self.order.push(frame);
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let of_set = self.order.iter().copied().filter(|&frame| self.geometry.set_of(frame) == set);
        let of_set: Vec<FrameId> = of_set.collect();
        let region = &of_set[..self.clean_first.min(of_set.len())];
        let clean = region.iter().find(|&&f| !frames.is_pinned(f) && !frames.is_dirty(f));
        let victim = *clean.or_else(|| of_set.iter().find(|&&f| !frames.is_pinned(f)))?;
        self.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, frame: FrameId) {
        self.order.retain(|&known| known != frame);
    }
}

/// CLOCK as rings in arrays, each with the place of its hand.
struct Rings {
    geometry: Geometry,
    rings: Vec<(Vec<FrameId>, usize)>,
}

impl Replacement for Rings {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        let (ring, hand) = &mut self.rings[self.geometry.set_of(frame)];
        ring.insert(*hand, frame);
        *hand += 1;
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let (ring, hand) = &mut self.rings[set];
        for _ in 0..2 * ring.len() {
            *hand %= ring.len();
            let frame = ring[*hand];
            if !frames.is_pinned(frame) && frames.take_touches(frame) == 0 {
                ring.remove(*hand);
                return Some(frame);
            }
            *hand += 1;
        }
        None
    }

    fn remove(&mut self, frame: FrameId) {
        let (ring, hand) = &mut self.rings[self.geometry.set_of(frame)];
        let at = ring.iter().position(|&known| known == frame).expect("known");
        ring.remove(at);
        if at < *hand {
            *hand -= 1;
        }
    }
}

#[derive(Clone, Copy)]
enum Hit {
    Forgets,
    CountsDown,
}

#[derive(Clone, Copy, PartialEq)]
enum Miss {
    Long,
    SeldomLong,
    Duel,
}

/// RRIP that ages step by step.
struct Predictions {
    geometry: Geometry,
    hit: Hit,
    miss: Miss,
    predictions: Vec<Option<i32>>,
    seldom: u32,
    votes: i32,
}

impl Replacement for Predictions {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        // These geometries have so few sets that every second one leads, if there is a second.
        let set = self.geometry.set_of(frame);
        let (sets, pairs) = (self.geometry.sets, self.geometry.sets / 2);
        let mut long = self.miss == Miss::Long;
        if self.miss == Miss::Duel && sets == 1 {
            long = true;
        } else if self.miss == Miss::Duel {
            let every = sets / pairs;
            long = match set % every {
                0 => {
                    self.votes += 1;
                    true
                }
                1 => {
                    self.votes -= 1;
                    false
                }
                _ => self.votes <= 0,
            };
        }
        if !long {
            self.seldom += 1;
            long = self.seldom.is_multiple_of(32);
        }
        self.predictions[frame.index()] = Some(if long { 2 } else { 3 });
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let ways = self.geometry.ways;
        let of_set: Vec<usize> =
            (set * ways..(set + 1) * ways).filter(|&at| self.predictions[at].is_some()).collect();
        for &at in &of_set {
            for _ in 0..frames.take_touches(FrameId(at as u32)) {
                self.predictions[at] = self.predictions[at].map(|prediction| match self.hit {
                    Hit::Forgets => 0,
                    Hit::CountsDown => 0.max(prediction - 1),
                });
            }
        }
        if of_set.iter().all(|&at| frames.is_pinned(FrameId(at as u32))) {
            return None;
        }
        loop {
            for &at in &of_set {
                let frame = FrameId(at as u32);
                if self.predictions[at] == Some(3) && !frames.is_pinned(frame) {
                    self.predictions[at] = None;
                    return Some(frame);
                }
            }
            for &at in &of_set {
                self.predictions[at] = self.predictions[at].map(|prediction| 3.min(prediction + 1));
            }
        }
    }

    fn remove(&mut self, frame: FrameId) {
        self.predictions[frame.index()] = None;
    }
}

/// The queues of one set, and every page ever given up from the small one: `None` since it
/// returned.
#[derive(Clone, Default)]
struct ThreeQueues {
    small: VecDeque<(FrameId, PageId)>,
    main: VecDeque<(FrameId, PageId, u8)>,
    given_up: Vec<Option<PageId>>,
}

struct S3 {
    geometry: Geometry,
    sets: Vec<ThreeQueues>,
}

impl ThreeQueues {
    fn victim_from_small(&mut self, frames: &mut dyn Frames) -> Option<FrameId> {
        for _ in 0..self.small.len() {
            let (frame, page) = self.small.pop_front()?;
            if frames.is_pinned(frame) {
                self.small.push_back((frame, page));
            } else if frames.take_touches(frame) > 1 {
                self.main.push_back((frame, page, 0));
            } else {
                self.given_up.push(Some(page));
                return Some(frame);
            }
        }
        None
    }

    fn victim_from_main(&mut self, frames: &mut dyn Frames) -> Option<FrameId> {
        if self.main.iter().all(|&(frame, ..)| frames.is_pinned(frame)) {
            return None;
        }
        loop {
            let (frame, page, lives) = self.main.pop_front()?;
            if frames.is_pinned(frame) {
                self.main.push_back((frame, page, lives));
                continue;
            }
            match (lives + frames.take_touches(frame)).min(TOUCHES_MAX) {
                0 => return Some(frame),
                lives => self.main.push_back((frame, page, lives - 1)),
            }
        }
    }
}

impl Replacement for S3 {
    fn insert(&mut self, frame: FrameId, page: PageId) {
        let ways = self.geometry.ways;
        let queues = &mut self.sets[self.geometry.set_of(frame)];
        let ghosts = ways - (ways / 10).max(1);
        let oldest = queues.given_up.len().saturating_sub(ghosts);
        let is_ghost = queues.given_up[oldest..].contains(&Some(page));
        for entry in queues.given_up.iter_mut().filter(|entry| **entry == Some(page)) {
            *entry = None;
        }
        if is_ghost {
            queues.main.push_back((frame, page, 0));
        } else {
            queues.small.push_back((frame, page));
        }
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let small_target = (self.geometry.ways / 10).max(1);
        let queues = &mut self.sets[set];
        let small_is_full = queues.small.len() >= small_target;
        let first = if small_is_full { queues.victim_from_small(frames) } else { None };
        first
            .or_else(|| queues.victim_from_main(frames))
            .or_else(|| queues.victim_from_small(frames))
            .or_else(|| queues.victim_from_main(frames))
    }

    fn remove(&mut self, frame: FrameId) {
        let queues = &mut self.sets[self.geometry.set_of(frame)];
        queues.small.retain(|&(known, _)| known != frame);
        queues.main.retain(|&(known, ..)| known != frame);
    }
}
