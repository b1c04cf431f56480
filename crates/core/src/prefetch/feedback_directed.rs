//! Feedback-directed prefetching (Srinath et al., HPCA 2007): next-N-line with feedback. Its
//! length, distance and place in the cache follow from its accuracy, lateness and pollution.

use super::{Demand, Metrics, NextNLine, Prefetcher, Preset};
use crate::addr::PageId;
use crate::replacement::Position;

/// Degree and distance by level, from very conservative to very aggressive (HPCA'07 Table 1).
const LEVELS: [(u64, u64); 5] = [(1, 4), (1, 8), (2, 16), (4, 32), (4, 64)];

/// Accuracy is high from this share on, and low below `ACCURACY_LOW` (HPCA'07 §4).
const ACCURACY_HIGH: f64 = 0.75;
const ACCURACY_LOW: f64 = 0.40;

/// Prefetches count as late from this share of the used ones on (HPCA'07 §4).
const LATENESS: f64 = 0.01;

/// Useful pages evicted in an interval (HPCA'07 §4).
const INTERVAL: u64 = 8_192;

/// Runs of pages ahead, on the same occasions as [`NextNLine`]'s.
///
/// `original` changes its level at the end of an interval, and begins in the middle. `atc23`
/// changes it whenever it is consulted, and begins at the top.
///
/// In `original`, more pollution puts a page closer to the victim end of the cache (HPCA'07
/// §3.3.3). In `atc23`, prefetched pages enter as any other.
pub(super) struct FeedbackDirected {
    preset: Preset,
    level: usize,
    judge: Judge,
}

/// The evidence that changes the level.
enum Judge {
    Intervals { start: Metrics, average: Average },
    WholeRun(PagesSeen),
}

impl FeedbackDirected {
    pub(super) fn new(preset: Preset, pages: u64) -> FeedbackDirected {
        let (level, judge) = match preset {
            Preset::Original => {
                let (start, average) = (Metrics::default(), Average::default());
                (2, Judge::Intervals { start, average })
            }
            Preset::Atc23 => (LEVELS.len() - 1, Judge::WholeRun(PagesSeen::new(pages))),
        };
        FeedbackDirected { preset, level, judge }
    }

    pub(super) fn memory_bytes(preset: Preset, pages: u64) -> usize {
        let marks = if preset == Preset::Atc23 { pages as usize } else { 0 };
        size_of::<FeedbackDirected>() + marks
    }

    /// Changes the level by HPCA'07 Table 2.
    fn adjust(&mut self, verdict: Verdict) {
        let Verdict { accuracy, late, polluting } = verdict;
        let up = late && (accuracy >= ACCURACY_HIGH || (accuracy >= ACCURACY_LOW && !polluting));
        let down = polluting || (late && accuracy < ACCURACY_LOW);
        self.level = match (up, down) {
            (true, _) => (self.level + 1).min(LEVELS.len() - 1),
            (false, true) => self.level.saturating_sub(1),
            (false, false) => self.level,
        };
    }
}

impl Prefetcher for FeedbackDirected {
    fn demand(
        &mut self,
        page: PageId,
        demand: Demand,
        metrics: &Metrics,
        candidates: &mut Vec<PageId>,
    ) {
        if let Judge::WholeRun(seen) = &mut self.judge
            && let Some(verdict) = seen.demand(page, demand, metrics)
        {
            self.adjust(verdict);
        }
        let (degree, offset) = LEVELS[self.level];
        let run = NextNLine { degree, offset, preset: self.preset };
        run.step(page, demand, candidates);
    }

    fn arrived(&mut self, page: PageId, prefetched: bool) {
        if let Judge::WholeRun(seen) = &mut self.judge
            && prefetched
        {
            seen.arrived(page);
        }
    }

    fn position(&self) -> Position {
        match &self.judge {
            Judge::Intervals { average, .. } => average.position(),
            Judge::WholeRun(_) => Position::MostRecent,
        }
    }

    fn evicted(&mut self, metrics: &Metrics) {
        if let Judge::Intervals { start, average } = &mut self.judge {
            let during = metrics.since(start);
            if during.evicted_useful >= INTERVAL {
                average.end_interval(&during);
                *start = *metrics;
                let verdict = average.verdict();
                self.adjust(verdict);
            }
        }
    }
}

/// The evaluation of a prefetcher.
#[derive(Clone, Copy)]
struct Verdict {
    accuracy: f64,
    late: bool,
    polluting: bool,
}

/// The counts of all intervals. An interval weighs half as much as the next (HPCA'07 §3.2).
#[derive(Clone, Copy, Default)]
struct Average {
    issued: f64,
    used: f64,
    late: f64,
    misses: f64,
    polluted: f64,
}

impl Average {
    /// Pollution is high from this share of misses that prefetches caused on (HPCA'07 §4).
    const POLLUTION: f64 = 0.005;
    /// Shares of misses that prefetches caused. Below the first, pages enter in the middle of the
    /// order. From the second on, they enter as the next victims (HPCA'07 §4).
    const POSITIONS: [f64; 2] = [0.005, 0.25];

    fn end_interval(&mut self, during: &Metrics) {
        let weigh_in = |average: &mut f64, count: u64| *average = (*average + count as f64) / 2.0;
        weigh_in(&mut self.issued, during.issued);
        weigh_in(&mut self.used, during.used);
        weigh_in(&mut self.late, during.late);
        weigh_in(&mut self.misses, during.misses);
        weigh_in(&mut self.polluted, during.polluted);
    }

    fn verdict(&self) -> Verdict {
        Verdict {
            accuracy: share(self.used, self.issued),
            late: share(self.late, self.used) >= LATENESS,
            polluting: share(self.polluted, self.misses) >= Self::POLLUTION,
        }
    }

    fn position(&self) -> Position {
        let [low, high] = Self::POSITIONS;
        match share(self.polluted, self.misses) {
            pollution if pollution < low => Position::Middle,
            pollution if pollution < high => Position::LeastRecentQuarter,
            _ => Position::LeastRecent,
        }
    }
}

fn share(part: f64, of: f64) -> f64 {
    if of > 0.0 { part / of } else { 0.0 }
}

/// The pages that were ever prefetched, used and late. Each counts once. The simulator of the
/// CXL-flash study judges by these numbers.
struct PagesSeen {
    marks: Box<[u8]>,
    arrived: u64,
    used: u64,
    late: u64,
}

impl PagesSeen {
    const ARRIVED: u8 = 1;
    const USED: u8 = 2;
    const LATE: u8 = 4;
    /// A job waits for the page.
    const AWAITED: u8 = 8;

    /// Pollution is high from this share of misses that prefetches caused on (CXL-flash's
    /// simulator, "FD").
    const POLLUTION: f64 = 0.25;

    fn new(pages: u64) -> PagesSeen {
        let marks = vec![0; pages as usize].into_boxed_slice();
        PagesSeen { marks, arrived: 0, used: 0, late: 0 }
    }

    /// Counts a demand access. Returns a verdict if one is due and a prefetch has arrived.
    fn demand(&mut self, page: PageId, demand: Demand, metrics: &Metrics) -> Option<Verdict> {
        match demand {
            Demand::Late => {
                self.marks[page.index()] |= Self::AWAITED;
                return None;
            }
            Demand::FirstHit { .. } | Demand::Hit => self.use_page(page),
            Demand::Miss => {}
        }
        let share = |part: u64| part as f64 / self.arrived as f64;
        (self.arrived > 0).then(|| Verdict {
            accuracy: share(self.used),
            late: share(self.late) >= LATENESS,
            polluting: metrics.pollution() >= Self::POLLUTION,
        })
    }

    fn arrived(&mut self, page: PageId) {
        self.arrived += u64::from(self.mark(page, Self::ARRIVED));
        if self.marks[page.index()] & Self::AWAITED != 0 {
            self.marks[page.index()] &= !Self::AWAITED;
            self.late += u64::from(self.mark(page, Self::LATE));
            self.use_page(page);
        }
    }

    fn use_page(&mut self, page: PageId) {
        self.used += u64::from(self.mark(page, Self::USED));
    }

    /// Sets a mark. Returns true if it was not set.
    fn mark(&mut self, page: PageId, mark: u8) -> bool {
        let marks = &mut self.marks[page.index()];
        let new = *marks & mark == 0;
        *marks |= mark;
        new
    }
}
