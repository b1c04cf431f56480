//! Best-offset prefetching (Michaud, HPCA 2016). It tests many offsets against the recent past, one
//! at each access. It then fetches by the offset that would have been in time most often.

use std::cmp::Reverse;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::{Demand, Metrics, Prefetcher, Preset, ahead};
use crate::addr::PageId;

/// The numbers that differ between the presets.
#[derive(Clone, Copy)]
struct Rules {
    /// A learning phase ends after this many rounds over all offsets,
    rounds: u32,
    /// or at the end of a round where an offset reaches this score.
    score_max: u32,
    /// An offset is chosen from this score on,
    score_min: u32,
    /// and at most this many are chosen, the best first.
    chosen_max: usize,
    /// Which of equally good offsets is better.
    larger_wins: bool,
}

impl Rules {
    /// ROUNDMAX 100, SCOREMAX 31, BADSCORE 1, degree 1 (HPCA'16 Table 2). Among equally good
    /// offsets, the one tried first wins: it has had the score for longest.
    const ORIGINAL: Rules =
        Rules { rounds: 100, score_max: 31, score_min: 2, chosen_max: 1, larger_wins: false };

    /// As in the simulator of CXL-flash (ATC'23, "BO").
    const ATC23: Rules =
        Rules { rounds: 8, score_max: u32::MAX, score_min: 3, chosen_max: 16, larger_wins: true };
}

/// Tests one offset at each step. A step in `original` is a miss or the first use of a prefetched
/// page. In `atc23` it is a miss or any hit on a prefetched page.
pub(super) struct BestOffset {
    preset: Preset,
    rules: Rules,
    offsets: Box<[u64]>,
    scores: Box<[u32]>,
    /// Indices of offsets, to sort.
    ranking: Box<[u16]>,
    /// The index of the offset to test next.
    next: usize,
    round: u32,
    /// The offsets to fetch by. Empty while no offset is good enough.
    chosen: Vec<u64>,
    recent: Recent,
}

/// The pages that an offset is tested against.
enum Recent {
    /// The base addresses of prefetches that have arrived: these pages were fetched in time.
    Arrived(RecentRequests),
    /// The pages asked for, even if no prefetch could have arrived since.
    Asked(LastPages),
}

impl BestOffset {
    pub(super) fn new(preset: Preset) -> BestOffset {
        let (rules, offsets, recent): (_, Box<[u64]>, _) = match preset {
            Preset::Original => {
                let smooth = (1..=256).filter(|offset| is_product_of_2_3_5(*offset));
                (Rules::ORIGINAL, smooth.collect(), Recent::Arrived(RecentRequests::new()))
            }
            Preset::Atc23 => (Rules::ATC23, (1..=127).collect(), Recent::Asked(LastPages::new())),
        };
        let mut chosen = Vec::with_capacity(rules.chosen_max);
        if preset == Preset::Original {
            chosen.push(1);
        }
        BestOffset {
            preset,
            rules,
            scores: vec![0; offsets.len()].into(),
            ranking: (0..offsets.len() as u16).collect(),
            offsets,
            next: 0,
            round: 0,
            chosen,
            recent,
        }
    }

    /// Returns an upper bound for both presets. The history of pages is the larger one, with an
    /// index entry for each page.
    pub(super) fn memory_bytes() -> usize {
        const OFFSETS: usize = 128 * (size_of::<u64>() + size_of::<u32>() + size_of::<u16>());
        const HISTORY: usize = 2 * LastPages::LENGTH * size_of::<PageId>();
        const INDEX: usize = 4 * LastPages::LENGTH * (size_of::<(PageId, u32)>() + 1);
        size_of::<BestOffset>() + OFFSETS + HISTORY + INDEX
    }

    fn is_step(&self, demand: Demand) -> bool {
        match self.preset {
            Preset::Original => demand.is_step(self.preset),
            Preset::Atc23 => demand != Demand::Late,
        }
    }

    /// Tests the next offset for an access to `page`.
    fn learn(&mut self, page: PageId) {
        let base = ahead(page, -(self.offsets[self.next] as i64));
        let found = base.is_some_and(|base| match &self.recent {
            Recent::Arrived(requests) => requests.contains(base),
            Recent::Asked(pages) => pages.contains(base),
        });
        self.scores[self.next] += u32::from(found);
        self.next += 1;
        if self.next == self.offsets.len() {
            self.next = 0;
            self.round += 1;
            let score_max = self.rules.score_max;
            if self.round == self.rules.rounds || self.scores.iter().any(|&s| s >= score_max) {
                self.choose();
            }
        }
    }

    /// Ends a learning phase and chooses the offsets.
    fn choose(&mut self) {
        let (offsets, scores) = (&self.offsets, &self.scores);
        let larger_wins = self.rules.larger_wins;
        self.ranking.sort_unstable_by_key(|&number| {
            let tie = if larger_wins { Reverse(number) } else { Reverse(u16::MAX - number) };
            (Reverse(scores[usize::from(number)]), tie)
        });
        let best = self.ranking.iter().map(|&number| usize::from(number));
        let good = best.filter(|&number| scores[number] >= self.rules.score_min);
        self.chosen.clear();
        self.chosen.extend(good.take(self.rules.chosen_max).map(|number| offsets[number]));
        self.chosen.sort_unstable();
        self.scores.fill(0);
        self.round = 0;
    }
}

impl Prefetcher for BestOffset {
    fn demand(
        &mut self,
        page: PageId,
        demand: Demand,
        _metrics: &Metrics,
        candidates: &mut Vec<PageId>,
    ) {
        if !self.is_step(demand) {
            return;
        }
        self.learn(page);
        if let Recent::Asked(pages) = &mut self.recent {
            pages.push(page);
        }
        candidates.extend(self.chosen.iter().filter_map(|offset| ahead(page, *offset as i64)));
    }

    /// A prefetched page enters by the page it was fetched for. While nothing is prefetched, a
    /// missed page enters by its own number. Otherwise nothing could ever be learnt.
    fn arrived(&mut self, page: PageId, prefetched: bool) {
        if let Recent::Arrived(requests) = &mut self.recent {
            let base = match self.chosen.first() {
                Some(offset) if prefetched => ahead(page, -(*offset as i64)),
                Some(_) => None,
                None => Some(page),
            };
            base.into_iter().for_each(|base| requests.insert(base));
        }
    }
}

/// Returns true if `number` has no prime factors except 2, 3 and 5 (HPCA'16 §4.2).
fn is_product_of_2_3_5(number: u64) -> bool {
    let rest = [2, 3, 5].into_iter().fold(number, |mut rest, prime| {
        while rest.is_multiple_of(prime) {
            rest /= prime;
        }
        rest
    });
    rest == 1
}

/// The recent-requests table: direct-mapped, 256 tags of 12 bits (HPCA'16 §4.1, Table 2).
struct RecentRequests(Box<[u16]>);

impl RecentRequests {
    /// An empty place. No tag has all 16 bits set.
    const EMPTY: u16 = u16::MAX;

    fn new() -> RecentRequests {
        RecentRequests(vec![Self::EMPTY; 256].into())
    }

    /// The eight low bits and the next eight, folded; and the twelve above the low eight.
    fn place(page: PageId) -> (usize, u16) {
        let index = (page.0 ^ page.0 >> 8) & 0xff;
        (index as usize, (page.0 >> 8) as u16 & 0xfff)
    }

    fn contains(&self, page: PageId) -> bool {
        let (index, tag) = Self::place(page);
        self.0[index] == tag
    }

    fn insert(&mut self, page: PageId) {
        let (index, tag) = Self::place(page);
        self.0[index] = tag;
    }
}

/// The last 1,024 requested pages (CXL-flash's simulator, "BO"), with the count of each among them.
struct LastPages {
    order: VecDeque<PageId>,
    count: FxHashMap<PageId, u32>,
}

impl LastPages {
    const LENGTH: usize = 1_024;

    fn new() -> LastPages {
        LastPages {
            order: VecDeque::with_capacity(Self::LENGTH + 1),
            count: FxHashMap::with_capacity_and_hasher(2 * Self::LENGTH, Default::default()),
        }
    }

    fn contains(&self, page: PageId) -> bool {
        self.count.contains_key(&page)
    }

    fn push(&mut self, page: PageId) {
        if self.order.len() == Self::LENGTH {
            let oldest = self.order.pop_front().expect("it is full");
            let count = self.count.get_mut(&oldest).expect("it is counted");
            *count -= 1;
            if *count == 0 {
                self.count.remove(&oldest);
            }
        }
        self.order.push_back(page);
        *self.count.entry(page).or_insert(0) += 1;
    }
}
