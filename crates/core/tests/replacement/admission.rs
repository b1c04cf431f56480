//! Tests of admission to a policy: against a slow model, and by its effect on a program's misses.

use ebbtide_core::promotion::{Adaptive, Parameters, Reset};
use ebbtide_core::replacement::{Admission, Frames, Geometry, PolicyKind, Replacement};
use ebbtide_core::{FrameId, PageId};
use proptest::prelude::*;

use crate::cache::Cache;
use crate::models::{PAGES, behave_alike, geometry, op};

fn adaptive(kind: PolicyKind, geometry: Geometry, pages: u64) -> Cache {
    let policy = Admission::Adaptive.build(kind, geometry, pages, 1);
    Cache::with_policy(policy, kind.needs_every_hit(), geometry)
}

#[test]
fn always_is_the_policy_itself() {
    let geometry = Geometry::fully_associative(40);
    let pages = |at: u64| at * at % 97;
    let bare = Cache::new(PolicyKind::Clock, geometry, 97).misses((0..3_000).map(pages));
    let policy = Admission::Always.build(PolicyKind::Clock, geometry, 97, 1);
    let behind = Cache::with_policy(policy, false, geometry).misses((0..3_000).map(pages));
    assert_eq!(bare, behind);
    let bytes = Admission::Always.memory_bytes(PolicyKind::Clock, geometry, 97);
    assert_eq!(bytes, PolicyKind::Clock.memory_bytes(geometry, 97));
}

#[test]
fn a_page_accessed_seven_times_outlives_any_scan_and_one_accessed_less_does_not() {
    for (accesses, stays) in [(7, true), (6, false)] {
        let mut cache = adaptive(PolicyKind::Lru, Geometry::fully_associative(80), 100_000);
        cache.misses((0..accesses).map(|_| 0));
        cache.misses(1..10_000);
        assert_eq!(cache.frame_of(PageId(0)).is_some(), stays, "{accesses} accesses");
    }
}

#[test]
fn a_hot_set_in_a_queue_survives_a_scan_behind_admission_only() {
    let geometry = Geometry::fully_associative(100);
    let hot_misses = |mut cache: Cache| {
        let hot = |at: u64| at * 7 % 30;
        cache.misses((0..3_000).map(hot));
        (0..9_000).map(|at| cache.misses([100 + at]) + cache.misses([hot(at)])).sum::<usize>()
            - 9_000
    };
    let always = hot_misses(Cache::new(PolicyKind::Fifo, geometry, 10_000));
    let adaptive = hot_misses(adaptive(PolicyKind::Fifo, geometry, 10_000));
    assert!(adaptive * 20 < always, "{adaptive} and {always} misses");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn probation_is_a_queue_that_algorithm_1_promotes_from(
        geometry in geometry(),
        ops in prop::collection::vec(op(), 1..400),
        every_hit: bool,
    ) {
        let kind = if every_hit { PolicyKind::Lru } else { PolicyKind::Clock };
        let model = Model {
            geometry,
            every_hit,
            probation: Vec::new(),
            admitted: kind.build(geometry, PAGES, 1),
            promotion: Adaptive::new(geometry.frames(), Parameters::default(), Reset::Windowed),
        };
        let one = adaptive(kind, geometry, PAGES);
        let other = Cache::with_policy(Box::new(model), kind.needs_every_hit(), geometry);
        behave_alike(one, other, &ops);
    }
}

/// Pages on probation in one list, oldest first.
struct Model {
    geometry: Geometry,
    every_hit: bool,
    probation: Vec<(FrameId, PageId)>,
    admitted: Box<dyn Replacement>,
    promotion: Adaptive,
}

impl Model {
    fn is_promoted(&mut self, frame: FrameId, page: PageId, accesses: u8) -> bool {
        for _ in 0..accesses {
            if self.promotion.access(frame) {
                self.promotion.evict(frame);
                self.admitted.insert(frame, page);
                return true;
            }
        }
        false
    }

    fn victim_on_probation(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let of_set = |(frame, _): &(FrameId, PageId)| self.geometry.set_of(*frame) == set;
        let mut queue: Vec<(FrameId, PageId)> =
            self.probation.iter().copied().filter(of_set).collect();
        self.probation.retain(|entry| self.geometry.set_of(entry.0) != set);
        let mut victim = None;
        let turn = queue.len();
        for step in 0..2 * turn {
            if victim.is_some() || queue.is_empty() {
                break;
            }
            let (frame, page) = queue.remove(0);
            if frames.is_pinned(frame) {
                queue.push((frame, page));
                continue;
            }
            let touches = if self.every_hit { 0 } else { frames.take_touches(frame) };
            if self.is_promoted(frame, page, touches) {
                continue;
            }
            if touches > 0 && step < turn {
                queue.push((frame, page));
            } else {
                self.promotion.evict(frame);
                victim = Some(frame);
            }
        }
        self.probation.extend(queue);
        victim
    }
}

impl Replacement for Model {
    fn insert(&mut self, frame: FrameId, page: PageId) {
        if !self.is_promoted(frame, page, 1) {
            self.probation.push((frame, page));
        }
    }

    fn touch(&mut self, frame: FrameId) {
        let Some(at) = self.probation.iter().position(|(known, _)| *known == frame) else {
            return self.admitted.touch(frame);
        };
        let (_, page) = self.probation.remove(at);
        if !self.is_promoted(frame, page, 1) {
            self.probation.push((frame, page));
        }
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let of_set = |entry: &&(FrameId, PageId)| self.geometry.set_of(entry.0) == set;
        let count = self.probation.iter().filter(of_set).count();
        let share = (self.geometry.ways / 8).max(1);
        let first = if count >= share { self.victim_on_probation(set, frames) } else { None };
        first
            .or_else(|| self.admitted.victim(set, frames))
            .or_else(|| self.victim_on_probation(set, frames))
            .or_else(|| self.admitted.victim(set, frames))
    }

    fn remove(&mut self, frame: FrameId) {
        let on_probation = self.probation.iter().any(|(known, _)| *known == frame);
        self.probation.retain(|(known, _)| *known != frame);
        if on_probation { self.promotion.evict(frame) } else { self.admitted.remove(frame) }
    }
}

#[test]
fn names_are_found_and_misspelt_ones_offered_the_nearest() {
    for (name, admission) in Admission::ALL.map(|kind| (kind.name(), kind)) {
        assert_eq!((name.parse::<Admission>(), admission.name()), (Ok(admission), name));
    }
    let error = "adaptiv".parse::<Admission>().unwrap_err().to_string();
    assert_eq!(
        error,
        "unknown admission 'adaptiv'; did you mean 'adaptive'? (known: always, adaptive)"
    );
}
