//! Leap (Al Maruf and Chowdhury, USENIX ATC 2020). It follows the majority among the last steps
//! from fault to fault. The more prefetches are used, the further ahead it fetches.

use super::{Demand, Metrics, Prefetcher, Preset, ahead};
use crate::addr::PageId;

/// The numbers that differ between the presets.
#[derive(Clone, Copy)]
struct Rules {
    /// Steps remembered.
    history: usize,
    /// The first window is the history divided by this.
    split: usize,
    /// The most pages fetched at a time.
    pages_max: u64,
}

impl Rules {
    /// H = 32 and at most 8 pages (ATC'20 §4). The first window is a quarter, as in the authors'
    /// kernel.
    const ORIGINAL: Rules = Rules { history: 32, split: 4, pages_max: 8 };
    /// As in the simulator of CXL-flash (ATC'23, "LP").
    const ATC23: Rules = Rules { history: 39, split: 8, pages_max: 16 };
}

/// At a miss, fetches the pages that continue the trend of the last steps. Without a trend it
/// fetches pages around the missed one.
///
/// `original` counts every miss and every first use of a prefetched page as a step. These are the
/// faults of a kernel. `atc23` counts only misses. Its majority vote never counts a vote, so the
/// candidate is always the newest step, which is tested as any other.
pub(super) struct Leap {
    preset: Preset,
    rules: Rules,
    last: Option<PageId>,
    /// The last steps, in a ring. The steps before the first are 0.
    steps: Box<[i64]>,
    newest: usize,
    /// The number of steps so far.
    made: usize,
    /// The last trend found; 0 before the first.
    trend: i64,
    /// Uses of prefetched pages since pages were last fetched.
    uses: u64,
    /// Pages fetched last time.
    window: u64,
}

impl Leap {
    pub(super) fn new(preset: Preset) -> Leap {
        let rules = match preset {
            Preset::Original => Rules::ORIGINAL,
            Preset::Atc23 => Rules::ATC23,
        };
        Leap {
            preset,
            rules,
            last: None,
            steps: vec![0; rules.history].into(),
            newest: 0,
            made: 0,
            trend: 0,
            uses: 0,
            window: 0,
        }
    }

    pub(super) fn memory_bytes() -> usize {
        size_of::<Leap>() + Rules::ATC23.history * size_of::<i64>()
    }

    /// Records the step to `page`. The first page makes no step.
    fn remember(&mut self, page: PageId) {
        let step = self.last.map_or(0, |last| page.0.wrapping_sub(last.0) as i64);
        self.newest = (self.newest + 1) % self.rules.history;
        self.steps[self.newest] = step;
        self.made = (self.made + 1).min(self.rules.history);
        self.last = Some(page);
    }

    /// The last `count` steps, the newest first.
    fn newest(&self, count: usize) -> impl Iterator<Item = i64> {
        let (before, after) = self.steps.split_at(self.newest + 1);
        before.iter().rev().chain(after.iter().rev()).take(count).copied()
    }

    /// Returns the step that most of the newest steps share, in the smallest window that has such a
    /// majority.
    fn find_trend(&self) -> Option<i64> {
        let (mut window, most) = match self.preset {
            Preset::Original => (self.rules.history / self.rules.split, self.rules.history),
            Preset::Atc23 => (self.made / self.rules.split, self.made),
        };
        while window <= most {
            let candidate = match self.preset {
                Preset::Original => majority_candidate(self.newest(window)),
                Preset::Atc23 => self.steps[self.newest],
            };
            let count = self.newest(window).filter(|step| *step == candidate).count();
            if candidate != 0 && count > window / 2 {
                return Some(candidate);
            }
            window = 2 * window + usize::from(self.preset == Preset::Atc23);
        }
        None
    }

    /// Returns how many pages to fetch now.
    fn size_window(&mut self) -> u64 {
        let follows = self.trend != 0 && self.steps[self.newest] == self.trend;
        let wanted = match (self.uses, self.preset) {
            (0, Preset::Original) => u64::from(follows),
            (0, Preset::Atc23) => 1,
            (uses, _) => (uses + 1).next_power_of_two(),
        };
        self.window = wanted.min(self.rules.pages_max).max(self.window / 2);
        self.uses = 0;
        self.window
    }

    fn fetch(&mut self, page: PageId, candidates: &mut Vec<PageId>) {
        let (found, last_trend, count) = (self.find_trend(), self.trend, self.size_window() as i64);
        self.trend = found.unwrap_or(last_trend);
        let distance = |number: i64| match (found, self.preset) {
            (Some(trend), _) => number.wrapping_mul(trend),
            (None, Preset::Original) => around(number).wrapping_mul(last_trend),
            (None, Preset::Atc23) => last_trend.wrapping_add(number),
        };
        candidates.extend((1..=count).filter_map(|number| ahead(page, distance(number))));
    }
}

impl Prefetcher for Leap {
    fn demand(
        &mut self,
        page: PageId,
        demand: Demand,
        _metrics: &Metrics,
        candidates: &mut Vec<PageId>,
    ) {
        let missed = demand == Demand::Miss;
        let (is_step, is_use) = match self.preset {
            Preset::Original => (missed || demand.is_first_use(), demand.is_first_use()),
            Preset::Atc23 => (missed, !missed && demand != Demand::Late),
        };
        self.uses += u64::from(is_use);
        if is_step {
            self.remember(page);
        }
        if missed {
            self.fetch(page, candidates);
        }
    }
}

/// Boyer and Moore's majority vote. Returns the step that more than half of `steps` are, if there
/// is one.
fn majority_candidate(steps: impl Iterator<Item = i64>) -> i64 {
    let vote = |(candidate, votes), step| match (votes, step == candidate) {
        (0, _) => (step, 1u32),
        (votes, true) => (candidate, votes + 1),
        (votes, false) => (candidate, votes - 1),
    };
    steps.fold((0, 0), vote).0
}

/// Returns the distance of a number: one step ahead, one back, two ahead, two back, …
fn around(number: i64) -> i64 {
    if number % 2 == 1 { number / 2 + 1 } else { -number / 2 }
}
