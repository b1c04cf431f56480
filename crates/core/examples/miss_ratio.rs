//! The miss ratio of every replacement policy on synthetic request streams, beside exact LRU and an
//! oracle that pins the hottest pages, and what a decision costs.
//!
//!     cargo run --release -p ebbtide-core --example miss_ratio [POLICY]…

#[path = "../benches/touches/mod.rs"]
mod touches;

use std::time::{Duration, Instant};

use ebbtide_core::replacement::{Geometry, PolicyKind};
use ebbtide_core::{FrameId, PageId};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64;
use touches::Touches;

const ZIPF_EXPONENT: f64 = 0.99;

/// DRAM frames a hundred pages of the address space.
const CACHE_PERCENT: usize = 3;

/// Elements a page of the streams whose requests are for elements.
const ELEMENTS_PER_PAGE: usize = 64;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    // The cache is one set, which those that search sets are not made for.
    let all = PolicyKind::ALL.iter().copied();
    let mut kinds: Vec<PolicyKind> = all.filter(|kind| !kind.searches_set()).collect();
    if !wanted.is_empty() {
        kinds.clear();
        for name in &wanted {
            match name.parse::<PolicyKind>() {
                Ok(kind) => kinds.push(kind),
                Err(error) => {
                    eprintln!("{error}");
                    std::process::exit(2);
                }
            }
        }
    }
    for make in STREAMS {
        report(&make(), &kinds);
    }
}

/// Prints the table of one stream.
fn report(stream: &Stream, kinds: &[PolicyKind]) {
    let frames = stream.pages * CACHE_PERCENT / 100;
    println!("\n{}\n{} pages, {frames} frames", stream.name, stream.pages);
    println!("policy              all   / LRU   late   / LRU   ns per victim");
    let lru = simulate(PolicyKind::Lru, stream, frames);
    let show = |name: &str, outcome: &Outcome| {
        let (all, late) = (outcome.miss_ratio(), outcome.late_miss_ratio());
        let (all_to_lru, late_to_lru) = (all / lru.miss_ratio(), late / lru.late_miss_ratio());
        print!("{name:<16} {all:>6.4}  {all_to_lru:>6.3} {late:>6.4}  {late_to_lru:>6.3}");
        match outcome.victim_ns() {
            Some(ns) => println!("  {ns:>14.0}"),
            None => println!("               -"),
        }
    };
    for kind in kinds {
        show(kind.name(), &simulate(*kind, stream, frames));
    }
    if let Some(popularity) = &stream.popularity {
        show("(pinned oracle)", &pin_the_hottest(popularity, stream, frames));
    }
}

/// Misses of one policy on one stream. *Late* are those in the second half of the stream, when no
/// miss is left that only a warm cache would have spared.
#[derive(Default)]
struct Outcome {
    requests: usize,
    misses: usize,
    late_misses: usize,
    victims: usize,
    deciding: Duration,
}

impl Outcome {
    fn count_miss(&mut self, request: usize) {
        self.misses += 1;
        self.late_misses += usize::from(request >= self.requests / 2);
    }

    fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.requests as f64
    }

    fn late_miss_ratio(&self) -> f64 {
        self.late_misses as f64 / (self.requests - self.requests / 2) as f64
    }

    fn victim_ns(&self) -> Option<f64> {
        (self.victims > 0).then(|| self.deciding.as_nanos() as f64 / self.victims as f64)
    }
}

fn simulate(kind: PolicyKind, stream: &Stream, frames: usize) -> Outcome {
    const ABSENT: u32 = u32::MAX;
    let mut policy = kind.build(Geometry::fully_associative(frames), stream.pages as u64, 1);
    let mut frame_of = vec![ABSENT; stream.pages];
    let mut page_of = Vec::with_capacity(frames);
    let mut touches = Touches::new(frames);
    let mut outcome = Outcome { requests: stream.requests.len(), ..Outcome::default() };
    for (request, &page) in stream.requests.iter().enumerate() {
        let frame = frame_of[page as usize];
        if frame != ABSENT {
            if kind.needs_every_hit() {
                policy.touch(FrameId(frame));
            }
            touches.hit(FrameId(frame));
            continue;
        }
        outcome.count_miss(request);
        let frame = if page_of.len() < frames {
            page_of.push(page);
            FrameId(page_of.len() as u32 - 1)
        } else {
            let start = Instant::now();
            let victim = policy.victim(0, &mut touches).expect("nothing is pinned");
            outcome.deciding += start.elapsed();
            outcome.victims += 1;
            frame_of[page_of[victim.index()] as usize] = ABSENT;
            page_of[victim.index()] = page;
            victim
        };
        frame_of[page as usize] = frame.0;
        touches.clear(frame);
        policy.insert(frame, PageId(u64::from(page)));
    }
    outcome
}

/// What misses when the `frames` most popular pages stay once read, and no other page ever does.
fn pin_the_hottest(popularity: &[f64], stream: &Stream, frames: usize) -> Outcome {
    let mut by_popularity: Vec<usize> = (0..stream.pages).collect();
    by_popularity.sort_unstable_by(|&a, &b| popularity[b].total_cmp(&popularity[a]));
    let mut is_hot = vec![false; stream.pages];
    for &page in &by_popularity[..frames] {
        is_hot[page] = true;
    }
    let mut is_cached = vec![false; stream.pages];
    let mut outcome = Outcome { requests: stream.requests.len(), ..Outcome::default() };
    for (request, &page) in stream.requests.iter().enumerate() {
        if !is_cached[page as usize] {
            outcome.count_miss(request);
            is_cached[page as usize] = is_hot[page as usize];
        }
    }
    outcome
}

/// A stream of page requests.
struct Stream {
    name: &'static str,
    pages: usize,
    requests: Vec<u32>,
    /// Relative popularity of each page, where it does not change.
    popularity: Option<Vec<f64>>,
}

const STREAMS: [fn() -> Stream; 9] = [
    stationary,
    consecutive_elements,
    scattered_elements,
    shifting,
    drifting,
    scan_mixed_in,
    scan_bursts,
    long_loop,
    small_cache,
];

/// Draws pages by Zipf's law; which page has which rank is a permutation, at first a random one.
struct ZipfPages {
    rank: Zipf<f64>,
    page_at: Vec<u32>,
    random: Pcg64,
}

impl ZipfPages {
    fn new(pages: usize) -> ZipfPages {
        let mut zipf = ZipfPages {
            rank: Zipf::new(pages as f64, ZIPF_EXPONENT).expect("valid parameters"),
            page_at: (0..pages as u32).collect(),
            random: Pcg64::seed_from_u64(7),
        };
        zipf.permute();
        zipf
    }

    fn permute(&mut self) {
        self.page_at.shuffle(&mut self.random);
    }

    fn draw(&mut self) -> u32 {
        let rank = self.rank.sample(&mut self.random) as usize - 1;
        self.page_at[rank]
    }

    fn popularity(&self) -> Vec<f64> {
        let mut popularity = vec![0.0; self.page_at.len()];
        for (rank, &page) in self.page_at.iter().enumerate() {
            popularity[page as usize] = zipf_weight(rank);
        }
        popularity
    }
}

fn zipf_weight(rank: usize) -> f64 {
    (rank as f64 + 1.0).powf(-ZIPF_EXPONENT)
}

fn stationary() -> Stream {
    let pages = 1_000_000;
    let mut zipf = ZipfPages::new(pages);
    Stream {
        name: "stationary Zipf",
        pages,
        requests: (0..6_000_000).map(|_| zipf.draw()).collect(),
        popularity: Some(zipf.popularity()),
    }
}

fn consecutive_elements() -> Stream {
    elements("Zipf over elements, a page holds 64 of consecutive rank", |element| element)
}

fn scattered_elements() -> Stream {
    elements("Zipf over elements, a page holds any 64", |element| {
        // A permutation of 2^25 elements: odd multiplications and a shift, each invertible.
        let mask = (1 << 25) - 1;
        let mixed = element.wrapping_mul(0x9e37_79b1) & mask;
        let mixed = mixed ^ (mixed >> 13);
        mixed.wrapping_mul(0x85eb_ca6b) & mask
    })
}

/// Requests for elements, of which the one of rank `r` lies in place `place_of(r)`.
fn elements(name: &'static str, place_of: fn(usize) -> usize) -> Stream {
    let pages = 1 << 19;
    let count = pages * ELEMENTS_PER_PAGE;
    let page_of = |rank: usize| place_of(rank) / ELEMENTS_PER_PAGE;
    let mut popularity = vec![0.0; pages];
    for rank in 0..count {
        popularity[page_of(rank)] += zipf_weight(rank);
    }
    let zipf = Zipf::new(count as f64, ZIPF_EXPONENT).expect("valid parameters");
    let mut random = Pcg64::seed_from_u64(7);
    let mut draw = || page_of(zipf.sample(&mut random) as usize - 1) as u32;
    let requests = (0..6_000_000).map(|_| draw()).collect();
    Stream { name, pages, requests, popularity: Some(popularity) }
}

fn shifting() -> Stream {
    let pages = 1_000_000;
    let mut zipf = ZipfPages::new(pages);
    let mut requests = Vec::with_capacity(6_000_000);
    for _ in 0..12 {
        zipf.permute();
        requests.extend((0..500_000).map(|_| zipf.draw()));
    }
    Stream {
        name: "Zipf, every page takes another rank every 500,000 requests",
        pages,
        requests,
        popularity: None,
    }
}

fn drifting() -> Stream {
    let pages = 1_000_000;
    let mut zipf = ZipfPages::new(pages);
    let mut requests = Vec::with_capacity(6_000_000);
    for _ in 0..120 {
        for _ in 0..pages / 100 {
            let (one, other) =
                (zipf.random.random_range(0..pages), zipf.random.random_range(0..pages));
            zipf.page_at.swap(one, other);
        }
        requests.extend((0..50_000).map(|_| zipf.draw()));
    }
    Stream {
        name: "Zipf, 2% of the pages trade ranks every 50,000 requests",
        pages,
        requests,
        popularity: None,
    }
}

fn scan_mixed_in() -> Stream {
    let pages = 1_000_000;
    let mut zipf = ZipfPages::new(pages);
    let requests = (0..6_000_000u32)
        .map(|at| if at % 4 == 3 { (at / 4) % pages as u32 } else { zipf.draw() })
        .collect();
    Stream {
        name: "Zipf, every fourth request from a scan over all pages",
        pages,
        requests,
        popularity: Some(zipf.popularity()),
    }
}

fn scan_bursts() -> Stream {
    let pages = 200_000;
    let mut zipf = ZipfPages::new(pages);
    let mut requests = Vec::with_capacity(6_000_000);
    for _ in 0..10 {
        requests.extend((0..400_000).map(|_| zipf.draw()));
        requests.extend(0..pages as u32);
    }
    Stream {
        name: "Zipf, a scan over all pages after every 400,000 requests",
        pages,
        requests,
        popularity: Some(zipf.popularity()),
    }
}

fn long_loop() -> Stream {
    let pages = 200_000;
    Stream {
        name: "a loop over all pages",
        pages,
        requests: (0..2_000_000u32).map(|at| at % pages as u32).collect(),
        popularity: Some(vec![1.0; pages]),
    }
}

fn small_cache() -> Stream {
    let pages = 1_000;
    let mut zipf = ZipfPages::new(pages);
    Stream {
        name: "stationary Zipf, a small cache",
        pages,
        requests: (0..500_000).map(|_| zipf.draw()).collect(),
        popularity: Some(zipf.popularity()),
    }
}
