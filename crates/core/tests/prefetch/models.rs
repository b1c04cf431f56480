//! Every prefetcher against a plain model, on the same programs. The models are written from the
//! definitions and keep whole histories in lists.

use std::collections::{BTreeMap, BTreeSet};

use ebbtide_core::PageId;
use ebbtide_core::prefetch::{Demand, Metrics, Prefetcher, PrefetcherKind, Preset};
use proptest::prelude::*;

use crate::device::Device;

const PAGES: u64 = 600;

/// Runs a prefetcher and its model together. Both must want the same pages at every access.
struct Twins {
    one: Box<dyn Prefetcher>,
    other: Box<dyn Prefetcher>,
}

impl Prefetcher for Twins {
    fn demand(
        &mut self,
        page: PageId,
        demand: Demand,
        metrics: &Metrics,
        candidates: &mut Vec<PageId>,
    ) {
        self.one.demand(page, demand, metrics, candidates);
        let mut others = Vec::new();
        self.other.demand(page, demand, metrics, &mut others);
        assert_eq!(*candidates, others, "{page:?} {demand:?}");
    }

    fn arrived(&mut self, page: PageId, prefetched: bool) {
        self.one.arrived(page, prefetched);
        self.other.arrived(page, prefetched);
    }

    fn evicted(&mut self, metrics: &Metrics) {
        self.one.evicted(metrics);
        self.other.evicted(metrics);
    }
}

/// A part of a program: a number of accesses from a page on, with a step or at random.
#[derive(Clone, Debug)]
struct Part {
    start: u64,
    step: i64,
    random: bool,
    accesses: u64,
}

fn program() -> impl Strategy<Value = Vec<u64>> {
    let steps = prop_oneof![Just(1), Just(1), -3i64..=3, Just(17), Just(0)];
    let part = (0..PAGES, steps, prop::bool::weighted(0.2), 1u64..300)
        .prop_map(|(start, step, random, accesses)| Part { start, step, random, accesses });
    prop::collection::vec(part, 1..25).prop_map(|parts| {
        let page = |part: &Part, at: u64| match part.random {
            true => (part.start + at * at * 31 + at * 7) % PAGES,
            false => (part.start as i64 + part.step * at as i64).rem_euclid(PAGES as i64) as u64,
        };
        parts.iter().flat_map(|part| (0..part.accesses).map(move |at| page(part, at))).collect()
    })
}

/// The latency of a page, from none to longer than a program's part.
fn latency() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1u64..60, Just(400)]
}

fn agree(kind: PrefetcherKind, preset: Preset, model: impl Prefetcher + 'static, run: &Run) {
    let twins = Twins { one: kind.build(preset, PAGES), other: Box::new(model) };
    let (pages, frames, latency) = run;
    Device::new(Box::new(twins), PAGES, *frames, *latency).access_all(pages.iter().copied());
}

/// Accesses, frames of the cache, and the latency of the device.
type Run = (Vec<u64>, usize, u64);

fn run() -> impl Strategy<Value = Run> {
    (program(), 1usize..200, latency())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn best_offset_of_2016_scores_what_had_arrived(run in run()) {
        let model = OriginalBestOffset {
            recent: BTreeMap::new(), scores: Vec::new(), step: 0, offset: Some(1),
        };
        agree(PrefetcherKind::BestOffset, Preset::Original, model, &run);
    }

    #[test]
    fn best_offset_of_2023_scores_what_was_asked_for(run in run()) {
        let model = StudyBestOffset { asked: Vec::new(), scores: vec![0; 128], chosen: Vec::new() };
        agree(PrefetcherKind::BestOffset, Preset::Atc23, model, &run);
    }

    #[test]
    fn leap_of_2020_follows_the_majority(run in run()) {
        let model = OriginalLeap { faults: Vec::new(), trend: 0, uses: 0, window: 0 };
        agree(PrefetcherKind::Leap, Preset::Original, model, &run);
    }

    #[test]
    fn leap_of_2023_asks_for_a_majority_of_the_newest_step(run in run()) {
        let model = StudyLeap { steps: Vec::new(), last: 0, trend: 0, uses: 0, window: 0 };
        agree(PrefetcherKind::Leap, Preset::Atc23, model, &run);
    }

    #[test]
    fn feedback_of_2023_judges_all_pages_of_the_run(run in run()) {
        let model = StudyFeedback { level: 4, ..StudyFeedback::default() };
        agree(PrefetcherKind::FeedbackDirected, Preset::Atc23, model, &run);
    }

    /// There is no model: the same run must give the same counts, and its pages must exist.
    #[test]
    fn the_same_run_gives_the_same_counts(run in run()) {
        let (pages, frames, latency) = run;
        for kind in PrefetcherKind::ALL {
            for preset in Preset::ALL {
                let counts = || {
                    let prefetcher = kind.build(preset, PAGES);
                    let mut device = Device::new(prefetcher, PAGES, frames, latency);
                    *device.access_all(pages.iter().copied()).metrics()
                };
                let metrics = counts();
                prop_assert_eq!(metrics, counts());
                prop_assert!(metrics.late <= metrics.used && metrics.used <= metrics.issued);
                prop_assert!(metrics.polluted <= metrics.misses);
            }
        }
    }
}

/// Best-offset as in HPCA'16: a table of the last base page for each place, and scores of all
/// offsets in a round.
struct OriginalBestOffset {
    recent: BTreeMap<u64, u64>,
    scores: Vec<u32>,
    step: usize,
    offset: Option<u64>,
}

impl OriginalBestOffset {
    fn offsets() -> Vec<u64> {
        let powers = |base: u64| (0..9).map(move |power| base.pow(power));
        let products = powers(2)
            .flat_map(|two| powers(3).map(move |three| two * three))
            .flat_map(|six| powers(5).map(move |five| six * five));
        let products: BTreeSet<u64> = products.filter(|product| *product <= 256).collect();
        assert_eq!(products.len(), 52);
        products.into_iter().collect()
    }

    fn place(page: u64) -> u64 {
        (page % 256) ^ (page / 256 % 256)
    }
}

impl Prefetcher for OriginalBestOffset {
    fn demand(&mut self, page: PageId, demand: Demand, _: &Metrics, out: &mut Vec<PageId>) {
        if matches!(demand, Demand::Hit | Demand::FirstHit { late: true }) {
            return;
        }
        let offsets = Self::offsets();
        let at = self.step % offsets.len();
        if at == 0 && self.step == 0 {
            self.scores = vec![0; offsets.len()];
        }
        if let Some(base) = page.0.checked_sub(offsets[at]) {
            // The tag is what is above the low eight bits, of which these programs have few.
            let found = self.recent.get(&Self::place(base)) == Some(&(base / 256));
            self.scores[at] += u32::from(found);
        }
        self.step += 1;
        let rounds = self.step / offsets.len();
        let best = *self.scores.iter().max().expect("there are offsets");
        if self.step.is_multiple_of(offsets.len()) && (best >= 31 || rounds == 100) {
            let first = self.scores.iter().position(|&score| score == best).expect("it is there");
            self.offset = (best > 1).then(|| offsets[first]);
            self.step = 0;
        }
        out.extend(self.offset.map(|offset| PageId(page.0 + offset)));
    }

    fn arrived(&mut self, page: PageId, prefetched: bool) {
        let base = match self.offset {
            None => Some(page.0),
            Some(offset) if prefetched => page.0.checked_sub(offset),
            Some(_) => None,
        };
        if let Some(base) = base {
            self.recent.insert(Self::place(base), base / 256);
        }
    }
}

/// Best-offset as in the CXL-flash study.
struct StudyBestOffset {
    asked: Vec<u64>,
    scores: Vec<u32>,
    chosen: Vec<u64>,
}

impl Prefetcher for StudyBestOffset {
    fn demand(&mut self, page: PageId, demand: Demand, _: &Metrics, out: &mut Vec<PageId>) {
        if demand == Demand::Late {
            return;
        }
        let offset = self.asked.len() as u64 % 127 + 1;
        let last = &self.asked[self.asked.len().saturating_sub(1024)..];
        if page.0 >= offset && last.contains(&(page.0 - offset)) {
            self.scores[offset as usize] += 1;
        }
        self.asked.push(page.0);
        if self.asked.len().is_multiple_of(8 * 127) {
            self.chosen.clear();
            for _ in 0..16 {
                let left = (1..128).filter(|offset| !self.chosen.contains(offset));
                // The last of equal ones.
                let best = left.max_by_key(|&offset| self.scores[offset as usize]).expect("left");
                if self.scores[best as usize] >= 3 {
                    self.chosen.push(best);
                }
            }
            self.chosen.sort_unstable();
            self.scores.fill(0);
        }
        out.extend(self.chosen.iter().map(|offset| PageId(page.0 + offset)));
    }
}

/// Leap as in ATC'20, with the history of all faults.
struct OriginalLeap {
    faults: Vec<u64>,
    trend: i64,
    uses: u64,
    window: u64,
}

impl OriginalLeap {
    /// Steps of the last `count` faults; before the first fault there are steps of none.
    fn steps(&self, count: usize) -> Vec<i64> {
        let mut steps: Vec<i64> =
            self.faults.windows(2).map(|pair| pair[1] as i64 - pair[0] as i64).collect();
        steps.reverse();
        steps.resize(count.max(steps.len()), 0);
        steps.truncate(count);
        steps
    }

    fn trend(&self) -> Option<i64> {
        [8, 16, 32].into_iter().find_map(|window| {
            let steps = self.steps(window);
            let more_than_half =
                |step: &&i64| steps.iter().filter(|other| other == step).count() > window / 2;
            steps.iter().find(more_than_half).copied().filter(|step| *step != 0)
        })
    }
}

impl Prefetcher for OriginalLeap {
    fn demand(&mut self, page: PageId, demand: Demand, _: &Metrics, out: &mut Vec<PageId>) {
        match demand {
            Demand::Hit | Demand::FirstHit { late: true } => return,
            Demand::Late | Demand::FirstHit { late: false } => self.uses += 1,
            Demand::Miss => {}
        }
        self.faults.push(page.0);
        if demand != Demand::Miss {
            return;
        }
        let mut window = if self.uses > 0 {
            let mut power = 1;
            while power < self.uses + 1 {
                power *= 2;
            }
            power.min(8)
        } else {
            u64::from(self.trend != 0 && self.steps(1)[0] == self.trend)
        };
        window = window.max(self.window / 2);
        let (found, before) = (self.trend(), self.trend);
        let offsets: Vec<i64> = match found {
            Some(trend) => (1..=window as i64).map(|number| number * trend).collect(),
            None => {
                (1..).flat_map(|far| [far * before, -far * before]).take(window as usize).collect()
            }
        };
        self.trend = found.unwrap_or(before);
        (self.uses, self.window) = (0, window);
        let pages = offsets.into_iter().filter_map(|offset| page.0.checked_add_signed(offset));
        out.extend(pages.map(PageId));
    }
}

/// Leap as in the CXL-flash study.
struct StudyLeap {
    steps: Vec<i64>,
    last: u64,
    trend: i64,
    uses: u64,
    window: u64,
}

impl Prefetcher for StudyLeap {
    fn demand(&mut self, page: PageId, demand: Demand, _: &Metrics, out: &mut Vec<PageId>) {
        match demand {
            Demand::Late => return,
            Demand::FirstHit { .. } | Demand::Hit => {
                self.uses += 1;
                return;
            }
            Demand::Miss => {}
        }
        let first = self.steps.is_empty();
        self.steps.push(if first { 0 } else { page.0 as i64 - self.last as i64 });
        self.last = page.0;
        if self.steps.len() > 39 {
            self.steps.remove(0);
        }
        let length = self.steps.len();
        let newest = self.steps[length - 1];
        let mut found = 0;
        let mut window = length / 8;
        while found == 0 && window <= length {
            let votes =
                self.steps[length - window..].iter().filter(|step| **step == newest).count();
            if votes > window / 2 {
                found = newest;
            }
            window = 2 * window + 1;
        }
        let wanted = match self.uses {
            0 => 1,
            uses => 2u64.pow(((uses + 1) as f64).log2().ceil() as u32),
        };
        self.window = wanted.min(16).max(self.window / 2);
        self.uses = 0;
        for number in 1..=self.window as i64 {
            let offset = if found == 0 { number + self.trend } else { number * found };
            out.extend(page.0.checked_add_signed(offset).map(PageId));
        }
        if found != 0 {
            self.trend = found;
        }
    }
}

/// Feedback-directed as in the CXL-flash study, with sets of pages.
#[derive(Default)]
struct StudyFeedback {
    level: usize,
    arrived: BTreeSet<PageId>,
    used: BTreeSet<PageId>,
    late: BTreeSet<PageId>,
    awaited: BTreeSet<PageId>,
}

impl Prefetcher for StudyFeedback {
    fn demand(&mut self, page: PageId, demand: Demand, metrics: &Metrics, out: &mut Vec<PageId>) {
        if demand == Demand::Late {
            self.awaited.insert(page);
            return;
        }
        if demand != Demand::Miss {
            self.used.insert(page);
        }
        if !self.arrived.is_empty() {
            let accuracy = self.used.len() as f64 / self.arrived.len() as f64;
            let late = self.late.len() as f64 / self.arrived.len() as f64 >= 0.01;
            let dirty = metrics.polluted as f64 / metrics.misses as f64 >= 0.25;
            // HPCA'07 Table 2, row by row.
            let change = match (accuracy >= 0.75, accuracy >= 0.4, late, dirty) {
                (true, _, true, _) => 1,
                (true, _, false, false) => 0,
                (true, _, false, true) => -1,
                (false, true, true, false) => 1,
                (false, true, true, true) => -1,
                (false, true, false, false) => 0,
                (false, true, false, true) => -1,
                (false, false, true, _) => -1,
                (false, false, false, false) => 0,
                (false, false, false, true) => -1,
            };
            self.level = (self.level as i32 + change).clamp(0, 4) as usize;
        }
        if demand != Demand::Hit {
            let (degree, distance) = [(1, 4), (1, 8), (2, 16), (4, 32), (4, 64)][self.level];
            out.extend((1..=degree).map(|number| PageId(page.0 + distance + number)));
        }
    }

    fn arrived(&mut self, page: PageId, prefetched: bool) {
        if prefetched {
            self.arrived.insert(page);
        }
        if self.awaited.remove(&page) {
            self.late.insert(page);
            self.used.insert(page);
        }
    }
}
