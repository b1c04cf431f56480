//! The request streams: synthetic ones, and the shipped traces by pages and by lines.

#[path = "held_out.rs"]
mod held_out;

use std::path::Path;

use ebbtide_core::{LINE_BYTES, PAGE_BYTES};
use ebbtide_trace::{Op, open};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64;
use rustc_hash::FxHashMap;

const ZIPF_EXPONENT: f64 = 0.99;

/// Default of the DRAM frames for a hundred pages of the address space.
const CACHE_PERCENT: usize = 3;

/// Elements a page of the streams whose requests are for elements.
const ELEMENTS_PER_PAGE: usize = 64;

/// The shipped traces.
const TRACES: [&str; 9] =
    ["sqlite", "sort", "xz", "perl", "pagerank", "redis", "components", "povray", "transformer"];

/// A stream of page requests, and the cache that it meets.
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) pages: usize,
    pub(crate) frames: usize,
    pub(crate) requests: Vec<u32>,
    /// Relative popularity of each page, where it does not change.
    pub(crate) popularity: Option<Vec<f64>>,
}

/// Whether the policies of this project were designed with a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Design,
    /// Held out of a design, and looked at since.
    LookedAt,
    /// Named here before its results were looked at, and not looked at until the design was done.
    HeldOut,
}

/// Makes one stream, or one at several sizes of the cache.
pub(crate) type Make = Box<dyn Fn() -> Vec<Stream>>;

/// All streams by name. Synthetic ones have a `scale`th of the pages and requests.
pub(crate) fn all(scale: usize) -> Vec<(&'static str, Use, Make)> {
    let mut all: Vec<(&'static str, Use, Make)> = Vec::new();
    let mut add = |name, purpose, make: Box<dyn Fn(usize) -> Vec<Stream>>| {
        all.push((name, purpose, Box::new(move || make(scale))));
    };
    let one = |make: fn(usize) -> Stream| Box::new(move |scale| vec![make(scale)]);
    add("stationary", Use::Design, one(stationary));
    add("consecutive", Use::Design, one(consecutive_elements));
    add("scattered", Use::Design, one(scattered_elements));
    add("shifting", Use::Design, one(shifting));
    add("drifting", Use::Design, one(drifting));
    add("scan-mixed-in", Use::Design, one(scan_mixed_in));
    add("scan-bursts", Use::Design, one(scan_bursts));
    add("small", Use::Design, one(|_| small_cache()));
    add("shifting-tenth", Use::Design, one(shifting_tenth));
    add("zipf-and-loop", Use::Design, one(zipf_and_loop));
    add("loop", Use::Design, Box::new(|scale| looped(scale, &[3, 10, 25, 50, 75, 90, 95])));
    for name in ["sqlite", "sort", "xz", "perl"] {
        let make = move |_| traced(name, PAGE_BYTES, &[10, 30, 50, 70, 90]);
        add(name, Use::Design, Box::new(make));
    }
    add("perl-lines", Use::Design, Box::new(|_| traced("perl", LINE_BYTES, &[10, 30, 50, 70, 90])));

    add("zipf-0.7", Use::LookedAt, Box::new(|scale| skewed(scale, 0.7, &[3, 20])));
    add("zipf-0.9", Use::LookedAt, Box::new(|scale| skewed(scale, 0.9, &[1, 10])));
    add("zipf-1.2", Use::LookedAt, Box::new(|scale| skewed(scale, 1.2, &[1, 5])));
    add("two-sets", Use::LookedAt, one(two_working_sets));
    add("loop-and-scan", Use::LookedAt, one(loop_and_scan));
    add("stack-model", Use::LookedAt, one(stack_model));
    add("growing", Use::LookedAt, one(growing));
    for name in ["sqlite", "sort", "xz", "perl"] {
        let make = move |_| traced(name, PAGE_BYTES, &[5, 20, 40, 60, 80]);
        add(name, Use::LookedAt, Box::new(make));
    }
    for (title, name) in [("sqlite-lines", "sqlite"), ("sort-lines", "sort"), ("xz-lines", "xz")] {
        let make = move |_| traced(name, LINE_BYTES, &[10, 30, 60]);
        add(title, Use::LookedAt, Box::new(make));
    }
    let make = move |_| traced("pagerank", PAGE_BYTES, &[10, 30, 50, 70, 90]);
    add("pagerank", Use::LookedAt, Box::new(make));
    let make = move |_| traced("pagerank", LINE_BYTES, &[10, 30, 60]);
    add("pagerank", Use::LookedAt, Box::new(make));

    add("zipf-0.8", Use::LookedAt, Box::new(|scale| skewed(scale, 0.8, &[2, 15])));
    add("zipf-1.1", Use::LookedAt, Box::new(|scale| skewed(scale, 1.1, &[1, 8])));
    add("two-loops", Use::LookedAt, one(two_loops));
    add("steeper-stack-model", Use::LookedAt, one(steeper_stack_model));
    add("growing-slowly", Use::LookedAt, one(growing_slowly));
    for name in ["sqlite", "sort", "xz", "perl"] {
        let make = move |_| traced(name, PAGE_BYTES, &[7, 15, 25, 35, 45, 55, 65, 75]);
        add(name, Use::LookedAt, Box::new(make));
        let make = move |_| traced(name, LINE_BYTES, &[5, 20, 40, 55, 75]);
        add(name, Use::LookedAt, Box::new(make));
    }

    for name in ["redis", "components", "povray", "transformer"] {
        let make = move |_| traced(name, PAGE_BYTES, &[10, 30, 50, 70, 90]);
        add(name, Use::LookedAt, Box::new(make));
        let make = move |_| traced(name, LINE_BYTES, &[10, 30, 60]);
        add(name, Use::LookedAt, Box::new(make));
    }

    add("zipf-0.85", Use::LookedAt, Box::new(|scale| skewed(scale, 0.85, &[4, 12])));
    add("zipf-1.05", Use::LookedAt, Box::new(|scale| skewed(scale, 1.05, &[2, 6])));
    add("other-loops", Use::LookedAt, Box::new(|scale| looped(scale, &[15, 35, 60, 85])));
    add("another-stack-model", Use::LookedAt, one(another_stack_model));
    add("growing-fast", Use::LookedAt, one(growing_fast));
    for name in TRACES {
        let make = move |_| traced(name, PAGE_BYTES, &[12, 22, 37, 62, 85]);
        add(name, Use::LookedAt, Box::new(make));
        let make = move |_| traced(name, LINE_BYTES, &[15, 45, 70]);
        add(name, Use::LookedAt, Box::new(make));
    }

    for program in held_out::PROGRAMS {
        let make = move |scale| held_out::at_all_sizes(program, scale);
        add(program.0, Use::HeldOut, Box::new(make));
    }
    all
}

/// Draws pages by Zipf's law; which page has which rank is a permutation, at first a random one.
struct ZipfPages {
    rank: Zipf<f64>,
    page_at: Vec<u32>,
    random: Pcg64,
}

impl ZipfPages {
    fn new(pages: usize) -> ZipfPages {
        ZipfPages::of_exponent(pages, ZIPF_EXPONENT)
    }

    fn of_exponent(pages: usize, exponent: f64) -> ZipfPages {
        let mut zipf = ZipfPages {
            rank: Zipf::new(pages as f64, exponent).expect("valid parameters"),
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

fn stream(name: impl Into<String>, pages: usize, frames: usize, requests: Vec<u32>) -> Stream {
    Stream { name: name.into(), pages, frames: frames.max(1), requests, popularity: None }
}

fn percent(pages: usize, percent: usize) -> usize {
    pages * percent / 100
}

fn stationary(scale: usize) -> Stream {
    let pages = 1_000_000 / scale;
    let mut zipf = ZipfPages::new(pages);
    let requests = (0..6_000_000 / scale).map(|_| zipf.draw()).collect();
    let stream = stream("stationary Zipf", pages, percent(pages, CACHE_PERCENT), requests);
    Stream { popularity: Some(zipf.popularity()), ..stream }
}

fn consecutive_elements(scale: usize) -> Stream {
    let name = "Zipf over elements, a page holds 64 of consecutive rank";
    elements(scale, name, |element, _| element)
}

fn scattered_elements(scale: usize) -> Stream {
    elements(scale, "Zipf over elements, a page holds any 64", |element, count| {
        // A permutation of a power of two of elements: odd multiplications and a shift, each
        // invertible.
        let mask = count - 1;
        let mixed = element.wrapping_mul(0x9e37_79b1) & mask;
        let mixed = mixed ^ (mixed >> 13);
        mixed.wrapping_mul(0x85eb_ca6b) & mask
    })
}

/// Requests for elements. The element of rank `r` of `n` lies in place `place_of(r, n)`.
fn elements(scale: usize, name: &'static str, place_of: fn(usize, usize) -> usize) -> Stream {
    let pages = ((1 << 19) / scale).next_power_of_two();
    let count = pages * ELEMENTS_PER_PAGE;
    let page_of = |rank: usize| place_of(rank, count) / ELEMENTS_PER_PAGE;
    let mut popularity = vec![0.0; pages];
    for rank in 0..count {
        popularity[page_of(rank)] += zipf_weight(rank);
    }
    let zipf = Zipf::new(count as f64, ZIPF_EXPONENT).expect("valid parameters");
    let mut random = Pcg64::seed_from_u64(7);
    let mut draw = || page_of(zipf.sample(&mut random) as usize - 1) as u32;
    let requests = (0..6_000_000 / scale).map(|_| draw()).collect();
    let stream = stream(name, pages, percent(pages, CACHE_PERCENT), requests);
    Stream { popularity: Some(popularity), ..stream }
}

fn shifting(scale: usize) -> Stream {
    let name = "Zipf, every page takes another rank twelve times";
    shifting_at(name, 1_000_000 / scale, 3, 500_000 / scale)
}

fn shifting_tenth(scale: usize) -> Stream {
    let name = "the same, a tenth of the pages cached";
    shifting_at(name, 200_000 / scale, 10, 300_000 / scale)
}

fn shifting_at(name: &'static str, pages: usize, cached: usize, period: usize) -> Stream {
    let mut zipf = ZipfPages::new(pages);
    let mut requests = Vec::with_capacity(12 * period);
    for _ in 0..12 {
        zipf.permute();
        requests.extend((0..period).map(|_| zipf.draw()));
    }
    stream(name, pages, percent(pages, cached), requests)
}

fn drifting(scale: usize) -> Stream {
    let pages = 1_000_000 / scale;
    let mut zipf = ZipfPages::new(pages);
    let mut requests = Vec::with_capacity(6_000_000 / scale);
    for _ in 0..120 {
        for _ in 0..pages / 100 {
            let (one, other) =
                (zipf.random.random_range(0..pages), zipf.random.random_range(0..pages));
            zipf.page_at.swap(one, other);
        }
        requests.extend((0..50_000 / scale).map(|_| zipf.draw()));
    }
    let name = "Zipf, 2% of the pages trade ranks 120 times";
    stream(name, pages, percent(pages, CACHE_PERCENT), requests)
}

fn scan_mixed_in(scale: usize) -> Stream {
    let pages = 1_000_000 / scale;
    let mut zipf = ZipfPages::new(pages);
    let requests = (0..6_000_000 / scale)
        .map(|at| if at % 4 == 3 { (at / 4 % pages) as u32 } else { zipf.draw() })
        .collect();
    let name = "Zipf, every fourth request from a scan over all pages";
    let stream = stream(name, pages, percent(pages, CACHE_PERCENT), requests);
    Stream { popularity: Some(zipf.popularity()), ..stream }
}

fn scan_bursts(scale: usize) -> Stream {
    let pages = 200_000 / scale;
    let mut zipf = ZipfPages::new(pages);
    let mut requests = Vec::with_capacity(30 * pages);
    for _ in 0..10 {
        requests.extend((0..2 * pages).map(|_| zipf.draw()));
        requests.extend(0..pages as u32);
    }
    let name = "Zipf, a scan over all pages now and then";
    let stream = stream(name, pages, percent(pages, CACHE_PERCENT), requests);
    Stream { popularity: Some(zipf.popularity()), ..stream }
}

fn zipf_and_loop(scale: usize) -> Stream {
    let (pages, length) = (200_000 / scale, 30_000 / scale);
    let mut zipf = ZipfPages::new(pages);
    let page = |at: usize, zipf: &mut ZipfPages| match at % 3 {
        0 => (pages + at / 3 % length) as u32,
        _ => zipf.draw(),
    };
    let requests = (0..3_000_000 / scale).map(|at| page(at, &mut zipf)).collect();
    let name = "Zipf, every third request from a loop over 15% more pages";
    stream(name, pages + length, percent(pages, 5), requests)
}

fn looped(scale: usize, cached: &[usize]) -> Vec<Stream> {
    let pages = 50_000 / scale;
    let requests: Vec<u32> = (0..20 * pages).map(|at| (at % pages) as u32).collect();
    let at = |&cached: &usize| {
        let name = format!("a loop, {cached}% of it cached");
        stream(name, pages, percent(pages, cached), requests.clone())
    };
    cached.iter().map(at).collect()
}

fn small_cache() -> Stream {
    let pages = 1_000;
    let mut zipf = ZipfPages::new(pages);
    let requests = (0..500_000).map(|_| zipf.draw()).collect();
    let name = "stationary Zipf, a small cache";
    let stream = stream(name, pages, percent(pages, CACHE_PERCENT), requests);
    Stream { popularity: Some(zipf.popularity()), ..stream }
}

/// Zipf's law with another exponent.
fn skewed(scale: usize, exponent: f64, cached: &[usize]) -> Vec<Stream> {
    let pages = 400_000 / scale;
    let mut zipf = ZipfPages::of_exponent(pages, exponent);
    let requests: Vec<u32> = (0..3_000_000 / scale).map(|_| zipf.draw()).collect();
    let at = |&cached: &usize| {
        let name = format!("Zipf {exponent}, {cached}% cached");
        stream(name, pages, percent(pages, cached), requests.clone())
    };
    cached.iter().map(at).collect()
}

/// Two programs that take turns, each over pages of its own.
fn two_working_sets(scale: usize) -> Stream {
    let pages = 100_000 / scale;
    let mut sets = [ZipfPages::of_exponent(pages, 0.8), ZipfPages::of_exponent(pages, 0.8)];
    sets[1].permute();
    let mut requests = Vec::new();
    for turn in 0..20 {
        let zipf = &mut sets[turn % 2];
        let first = (turn % 2 * pages) as u32;
        requests.extend((0..150_000 / scale).map(|_| first + zipf.draw()));
    }
    stream("two Zipf sets in turns", 2 * pages, pages / 5, requests)
}

/// A loop that does not fit, and between its requests a scan that never comes back.
fn loop_and_scan(scale: usize) -> Stream {
    let (pages, length) = (1_000_000 / scale, 20_000 / scale);
    let page = |at: usize| if at % 3 == 2 { length + at / 3 } else { (at - at / 3) % length };
    let requests = (0..3 * (pages - length)).map(|at| page(at) as u32).take(2_000_000 / scale);
    stream("a loop and a scan", pages, length * 7 / 10, requests.collect())
}

fn stack_model(scale: usize) -> Stream {
    by_stack_distance("an LRU stack model", 21, -1.4, 1_500, scale)
}

fn another_stack_model(scale: usize) -> Stream {
    by_stack_distance("an LRU stack model of distances between", 41, -1.6, 2_500, scale)
}

fn steeper_stack_model(scale: usize) -> Stream {
    by_stack_distance("an LRU stack model of longer distances", 31, -1.8, 4_000, scale)
}

/// Requests by their distance in an LRU stack (Mattson et al., IBM Systems Journal 1970): the kind
/// of stream for which LRU is best. Distances follow a power law, and one in 50 pages is new.
fn by_stack_distance(
    name: &'static str,
    seed: u64,
    power: f64,
    frames: usize,
    scale: usize,
) -> Stream {
    let count = 1_500_000 / scale;
    let mut random = Pcg64::seed_from_u64(seed);
    let mut stack: Vec<u32> = Vec::new();
    let mut requests = Vec::with_capacity(count);
    for _ in 0..count {
        let distance = (random.random_range(0.0..1.0f64).powf(power)) as usize;
        let page = match stack.len().checked_sub(distance) {
            Some(at) if random.random_range(0..50) > 0 => stack.remove(at),
            _ => {
                let new = stack.len() as u32;
                // The stack keeps every page, so its length counts them.
                if stack.len() >= 30_000 { stack.remove(0) } else { new }
            }
        };
        stack.push(page);
        requests.push(page);
    }
    stream(name, 30_000, frames, requests)
}

/// Two loops in turns: one that fits, and one twice as large as the cache.
fn two_loops(scale: usize) -> Stream {
    let frames = 20_000 / scale;
    let mut requests = Vec::new();
    for _ in 0..6 {
        requests.extend((0..5 * frames).map(|at| (at % (frames * 3 / 4)) as u32));
        requests.extend((0..10 * frames).map(|at| (frames + at % (2 * frames)) as u32));
    }
    stream("a loop that fits and one that does not, in turns", 3 * frames, frames, requests)
}

fn growing(scale: usize) -> Stream {
    newest_most_popular("new pages are the most popular", 22, 10, 0.9, scale)
}

fn growing_slowly(scale: usize) -> Stream {
    newest_most_popular("new pages are the most popular, and fewer are new", 32, 25, 0.75, scale)
}

fn growing_fast(scale: usize) -> Stream {
    newest_most_popular("new pages are the most popular, and more are new", 42, 5, 0.8, scale)
}

/// A working set that grows by one page in `every` requests. Newer pages are more popular.
fn newest_most_popular(
    name: &'static str,
    seed: u64,
    every: usize,
    exponent: f64,
    scale: usize,
) -> Stream {
    let count = 2_000_000 / scale;
    let mut random = Pcg64::seed_from_u64(seed);
    let age = Zipf::new(100_000.0, exponent).expect("valid parameters");
    let page = |at: usize| (at / every).saturating_sub(age.sample(&mut random) as usize - 1) as u32;
    let requests = (0..count).map(page).collect();
    stream(name, count / every + 1, 10_000 / scale, requests)
}

/// The shipped trace `name` in units of `unit` bytes, with caches of `cached` percent of the units
/// that it touches.
fn traced(name: &str, unit: usize, cached: &[usize]) -> Vec<Stream> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../traces/{name}.ebt"));
    let mut source = open(&path).expect("a trace that is shipped");
    let (mut ids, mut requests, mut batch) = (FxHashMap::default(), Vec::new(), Vec::new());
    while source.fill(&mut batch).expect("a trace that is whole") {
        for access in batch.iter().filter(|access| access.op != Op::Hint) {
            let first = access.address.0 / unit as u64;
            let last = (access.address.0 + u64::from(access.bytes.max(1)) - 1) / unit as u64;
            for id in first..=last {
                let next = ids.len() as u32;
                requests.push(*ids.entry(id).or_insert(next));
            }
        }
    }
    let pages = ids.len();
    let units = if unit == PAGE_BYTES { "pages" } else { "lines" };
    let at = |&cached: &usize| {
        let name = format!("{name} by {units}, {cached}% cached");
        stream(name, pages, percent(pages, cached), requests.clone())
    };
    cached.iter().map(at).collect()
}
