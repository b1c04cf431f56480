//! Simulates two ways to write changed pages. [`Placement`] writes them into the holes that other
//! pages have left. The other way is to write whole segments, which are cleaned first.
//!
//! `cargo bench -p ebbtide-core --bench cleaning`. LRU has 3% of the pages. Accesses are
//! Zipf 0.99, and pages of similar popularity lie anywhere. Victims leave 64 at a time. Cleaning
//! reads the live pages of the emptiest segment in one request and writes them with the next
//! victims. It runs while fewer than four segments are free.
//!
//! A request of n pages costs the kernel 2.75 + 0.2 n µs of CPU. That is a line through 3.0, 3.9
//! and 5.9 µs, which writes of 1, 4 and 16 pages took. These figures leave out the work of an
//! engine for a page that moves.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;

use ebbtide_core::Placement;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const PAGES: usize = 1 << 18;
const FRAMES: usize = PAGES * 3 / 100;
const BATCH: usize = 64;
const SEGMENT: usize = 64;
const ACCESSES: usize = 10_000_000;
/// Accesses before counting begins.
const WARM_UP: usize = 5_000_000;
const FREE_SEGMENTS_MIN: usize = 4;

/// What is counted after the warm-up.
#[derive(Default)]
struct Counts {
    misses: u64,
    written: u64,
    writes: u64,
    moved: u64,
    cleaned: u64,
    kernel_us: f64,
}

impl Counts {
    fn request(&mut self, pages: usize) {
        self.kernel_us += 2.75 + 0.2 * pages as f64;
    }

    fn write(&mut self, pages: usize) {
        self.written += pages as u64;
        self.writes += 1;
        self.request(pages);
    }
}

/// A way to write a batch of pages.
trait Writer {
    fn write(&mut self, batch: &[usize], counts: &mut Counts);
}

/// Writes into holes.
struct Holes {
    placement: Placement,
    slots: Vec<u32>,
}

impl Writer for Holes {
    fn write(&mut self, batch: &[usize], counts: &mut Counts) {
        batch.iter().for_each(|&page| self.placement.release(self.slots[page]));
        let mut left = batch;
        while !left.is_empty() {
            let run = self.placement.take_for(&vec![1; left.len()]).expect("there are spare slots");
            let (now, later) = left.split_at(run.count as usize);
            now.iter().zip(run.first..).for_each(|(&page, slot)| self.slots[page] = slot);
            counts.write(now.len());
            left = later;
        }
    }
}

/// Writes into whole segments.
struct Segments {
    /// By slot.
    pages: Vec<Option<usize>>,
    /// By page. `None` while it moves.
    slots: Vec<Option<usize>>,
    /// By segment.
    live: Vec<usize>,
    free: VecDeque<usize>,
    /// The slots of the open segment that are not written yet.
    open: Range<usize>,
    moving: BTreeSet<usize>,
}

impl Segments {
    fn new(slots: usize) -> Segments {
        let segments = slots / SEGMENT;
        Segments {
            pages: (0..slots).map(|slot| (slot < PAGES).then_some(slot)).collect(),
            slots: (0..PAGES).map(Some).collect(),
            live: (0..segments).map(|n| PAGES.saturating_sub(n * SEGMENT).min(SEGMENT)).collect(),
            free: (PAGES.div_ceil(SEGMENT)..segments).collect(),
            open: 0..0,
            moving: BTreeSet::new(),
        }
    }

    fn leave(&mut self, page: usize) {
        let Some(slot) = self.slots[page].take() else { return };
        self.pages[slot] = None;
        let segment = slot / SEGMENT;
        self.live[segment] -= 1;
        let is_open = !self.open.is_empty() && self.open.start / SEGMENT == segment;
        if self.live[segment] == 0 && !is_open {
            self.free.push_back(segment);
        }
    }

    fn clean(&mut self, counts: &mut Counts) {
        let open = (!self.open.is_empty()).then_some(self.open.start / SEGMENT);
        let full = (0..self.live.len()).filter(|&n| self.live[n] > 0 && Some(n) != open);
        let emptiest = full.min_by_key(|&segment| self.live[segment]).expect("some are in use");
        let slots = emptiest * SEGMENT..(emptiest + 1) * SEGMENT;
        let live: Vec<usize> = slots.filter(|&slot| self.pages[slot].is_some()).collect();
        counts.cleaned += 1;
        counts.request(live[live.len() - 1] + 1 - live[0]);
        for slot in live {
            let page = self.pages[slot].expect("it is live");
            self.moving.insert(page);
            self.leave(page);
        }
    }
}

impl Writer for Segments {
    fn write(&mut self, batch: &[usize], counts: &mut Counts) {
        let mut pages = std::mem::take(&mut self.moving);
        counts.moved += pages.len() as u64;
        pages.extend(batch);
        let pages: Vec<usize> = pages.into_iter().collect();
        pages.iter().for_each(|&page| self.leave(page));
        let mut left = &pages[..];
        while !left.is_empty() {
            if self.open.is_empty() {
                let segment = self.free.pop_front().expect("segments are cleaned ahead of need");
                self.open = segment * SEGMENT..(segment + 1) * SEGMENT;
            }
            let (now, later) = left.split_at(left.len().min(self.open.len()));
            for (&page, slot) in now.iter().zip(self.open.by_ref()) {
                (self.slots[page], self.pages[slot]) = (Some(slot), Some(page));
                self.live[slot / SEGMENT] += 1;
            }
            counts.write(now.len());
            left = later;
        }
        while self.free.len() < FREE_SEGMENTS_MIN {
            self.clean(counts);
        }
    }
}

/// Pages in DRAM by the time of their last access.
#[derive(Default)]
struct Lru {
    order: BTreeMap<usize, usize>,
    used: HashMap<usize, usize>,
}

impl Lru {
    /// True if `page` was there.
    fn touch(&mut self, page: usize, now: usize) -> bool {
        let before = self.used.insert(page, now);
        if let Some(then) = before {
            self.order.remove(&then);
        }
        self.order.insert(now, page);
        before.is_some()
    }

    fn evict(&mut self) -> Option<usize> {
        if self.order.len() <= FRAMES {
            return None;
        }
        let (_, page) = self.order.pop_first()?;
        self.used.remove(&page);
        Some(page)
    }
}

fn run(writer: &mut dyn Writer) -> Counts {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut sum = 0.0;
    let chances = (1..=PAGES).map(|rank| {
        sum += (rank as f64).powf(-0.99);
        sum
    });
    let chances: Vec<f64> = chances.collect();
    let mut pages: Vec<usize> = (0..PAGES).collect();
    (1..PAGES).rev().for_each(|n| pages.swap(n, random.random_range(0..=n)));
    let (mut lru, mut batch, mut counts) = (Lru::default(), Vec::new(), Counts::default());
    for access in 0..ACCESSES {
        if access == WARM_UP {
            counts = Counts::default();
        }
        let chance = random.random_range(0.0..sum);
        let page = pages[chances.partition_point(|&c| c <= chance)];
        counts.misses += u64::from(!lru.touch(page, access));
        batch.extend(lru.evict());
        if batch.len() == BATCH {
            batch.sort_unstable();
            writer.write(&batch, &mut counts);
            batch.clear();
        }
    }
    counts
}

fn main() {
    println!("Every access changes its page.");
    for spare in [PAGES / 4, PAGES / 2, PAGES] {
        let slots = PAGES + spare;
        let placement = Placement::new(slots as u64, PAGES as u64);
        let mut holes = Holes { placement, slots: (0..PAGES as u32).collect() };
        let mut segments = Segments::new(slots);
        let ways: [(&str, &mut dyn Writer); 2] =
            [("holes", &mut holes), ("segments", &mut segments)];
        for (name, writer) in ways {
            let counts = run(writer);
            let a_miss = |count: u64| count as f64 / counts.misses as f64;
            println!(
                "{:.2} spare slots a page, {name:<8}: {:>5.2} pages a write; a miss: {:.2} pages \
                 written, {:.3} writes, {:.3} segments read, {:.2} us in the kernel",
                spare as f64 / PAGES as f64,
                counts.written as f64 / counts.writes as f64,
                a_miss(counts.written),
                a_miss(counts.writes),
                a_miss(counts.cleaned),
                counts.kernel_us / counts.misses as f64
            );
        }
    }
}
