//! Streams that were named before any policy had run on them: eight programs at five sizes each.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64;

use super::{Stream, percent, stream};

/// Sizes of the cache in percent of the pages.
const CACHED: [usize; 5] = [5, 15, 30, 50, 75];

/// Names, each with the function that makes the number of pages and the requests.
type Program = (&'static str, fn(usize) -> (usize, Vec<u32>));

/// All programs, by the name of the stream.
pub(super) const PROGRAMS: [Program; 8] = [
    ("back-and-forth", back_and_forth),
    ("nested-loop-join", nested_loop_join),
    ("tenants", tenants),
    ("phases", phases),
    ("hash-join", hash_join),
    ("builds", builds),
    ("small-loops", small_loops),
    ("index-and-ranges", index_and_ranges),
];

/// The requests of a program with each size of the cache.
pub(super) fn at_all_sizes((name, make): Program, scale: usize) -> Vec<Stream> {
    let (pages, requests) = make(scale);
    let at = |cached: usize| {
        let name = format!("{name}, {cached}% cached");
        stream(name, pages, percent(pages, cached), requests.clone())
    };
    CACHED.map(at).into()
}

/// Draws ranks from 0 by Zipf's law.
fn zipf(pages: usize, exponent: f64) -> impl Fn(&mut Pcg64) -> u32 {
    let law = Zipf::new(pages as f64, exponent).expect("valid parameters");
    move |random| law.sample(random) as u32 - 1
}

/// A scan over all pages, up and down in turns. One request in ten is for a popular page.
fn back_and_forth(scale: usize) -> (usize, Vec<u32>) {
    let pages = 40_000 / scale;
    let (mut random, popular) = (Pcg64::seed_from_u64(101), zipf(pages, 0.9));
    let mut requests = Vec::new();
    for round in 0..14 {
        for at in 0..pages as u32 {
            requests.push(if round % 2 == 0 { at } else { pages as u32 - 1 - at });
            if at % 10 == 0 {
                requests.push(popular(&mut random));
            }
        }
    }
    (pages, requests)
}

/// A join that scans its inner table for every block of its outer one, with pages of an index.
fn nested_loop_join(scale: usize) -> (usize, Vec<u32>) {
    let (inner, outer, index) = (20_000 / scale, 8_000 / scale, 2_000 / scale);
    let (mut random, nodes) = (Pcg64::seed_from_u64(102), zipf(index, 1.0));
    let mut requests = Vec::new();
    for block in 0..20 {
        requests.extend((0..outer / 20).map(|at| (inner + block * outer / 20 + at) as u32));
        for at in 0..inner as u32 {
            requests.push(at);
            if at % 8 == 0 {
                requests.push((inner + outer) as u32 + nodes(&mut random));
            }
        }
    }
    (inner + outer + index, requests)
}

/// Four tenants with habits of their own: a loop, a skew, recent pages, and a scan. Each is the
/// busiest for a while.
fn tenants(scale: usize) -> (usize, Vec<u32>) {
    let own = 15_000 / scale;
    let (mut random, skewed) = (Pcg64::seed_from_u64(103), zipf(own, 0.95));
    let (mut looped, mut scanned, mut newest) = (0, 0, 0);
    let mut requests = Vec::new();
    for turn in 0..600_000 / scale {
        let busiest = turn * 12 * scale / 600_000 % 4;
        let tenant =
            if random.random_range(0..2) == 0 { busiest } else { random.random_range(0..4) };
        let page = match tenant {
            0 => {
                looped = (looped + 1) % (own / 3);
                looped
            }
            1 => skewed(&mut random) as usize,
            2 => {
                newest += usize::from(random.random_range(0..6) == 0);
                let back = random.random_range(0.0..1.0f64).powi(4) * own as f64 / 2.0;
                (newest + own - back as usize) % own
            }
            _ => {
                scanned = (scanned + 1) % own;
                scanned
            }
        };
        requests.push((tenant * own + page) as u32);
    }
    (4 * own, requests)
}

/// Phases of three kinds, twelve in all: a skew, a loop, and uniform requests for a part.
fn phases(scale: usize) -> (usize, Vec<u32>) {
    let pages = 40_000 / scale;
    let (mut random, skewed) = (Pcg64::seed_from_u64(104), zipf(pages, 1.0));
    let mut requests = Vec::new();
    for phase in 0..12 {
        let first = phase * pages / 17;
        for at in 0..60_000 / scale {
            requests.push(match phase % 3 {
                0 => (skewed(&mut random) as usize * 7 + first) % pages,
                1 => (first + at % (pages / 4)) % pages,
                _ => (first + random.random_range(0..pages / 3)) % pages,
            } as u32);
        }
    }
    (pages, requests)
}

/// Hash joins: both tables are divided into partitions, and then each partition is built and
/// probed at random. The tables are read in order.
fn hash_join(scale: usize) -> (usize, Vec<u32>) {
    const PARTITIONS: usize = 32;
    const ROWS_A_PAGE: usize = 8;
    let table = 12_800 / scale / PARTITIONS * PARTITIONS;
    let own = table / PARTITIONS;
    let mut random = Pcg64::seed_from_u64(105);
    let mut requests = Vec::new();
    for _ in 0..4 {
        for row in 0..table * ROWS_A_PAGE {
            requests.push((row / ROWS_A_PAGE) as u32);
            let partition = random.random_range(0..PARTITIONS);
            let filled = row / PARTITIONS / ROWS_A_PAGE;
            requests.push((table + partition * own + filled.min(own - 1)) as u32);
        }
        for partition in 0..PARTITIONS {
            let first = table + partition * own;
            requests.extend((0..own).map(|at| (first + at) as u32));
            requests.extend((0..4 * own).map(|_| (first + random.random_range(0..own)) as u32));
        }
    }
    (2 * table, requests)
}

/// Three builds of a project: each file reads its own pages, headers with a skew, and the compiler;
/// a linker reads all objects.
fn builds(scale: usize) -> (usize, Vec<u32>) {
    let (files, headers, compiler) = (1_500 / scale, 4_000 / scale, 2_000 / scale);
    let (source, object) = (4, 6);
    let mut random = Pcg64::seed_from_u64(106);
    let (header, code) = (zipf(headers, 0.8), zipf(compiler, 0.7));
    let sources = headers + compiler;
    let objects = sources + files * source;
    let mut requests = Vec::new();
    for _ in 0..3 {
        for file in 0..files {
            for part in 0..source {
                requests.push((sources + file * source + part) as u32);
                requests.extend((0..12).map(|_| header(&mut random)));
                requests.extend((0..12).map(|_| headers as u32 + code(&mut random)));
            }
            requests.extend((0..object).map(|part| (objects + file * object + part) as u32));
        }
        requests.extend((0..files * object).map(|at| (objects + at) as u32));
        requests.extend((0..files * object).map(|at| (objects + at) as u32));
    }
    (objects + files * object, requests)
}

/// Loops of some length at some place, each repeated some times.
fn small_loops(scale: usize) -> (usize, Vec<u32>) {
    let pages = 30_000 / scale;
    let mut random = Pcg64::seed_from_u64(107);
    let mut requests = Vec::new();
    while requests.len() < 600_000 / scale {
        let length = (random.random_range(0.0..1.0f64).powi(3) * pages as f64 / 2.0) as usize + 20;
        let (first, rounds) = (random.random_range(0..pages - length), random.random_range(2..20));
        let all = (0..rounds * length).map(|at| (first + at % length) as u32);
        requests.extend(all.take(100_000 / scale));
    }
    (pages, requests)
}

/// Look-ups in a tree of three levels by a skew, ranges of leaves, and new leaves at its right end.
fn index_and_ranges(scale: usize) -> (usize, Vec<u32>) {
    let (leaves, inner) = (36_000 / scale, 300);
    let mut random = Pcg64::seed_from_u64(108);
    let by_rank = zipf(leaves / 2, 0.85);
    let mut last = leaves / 2;
    let mut requests = Vec::new();
    while requests.len() < 600_000 / scale {
        last = (last + usize::from(random.random_range(0..8) == 0)).min(leaves - 1);
        let leaf = match random.random_range(0..10) {
            0 => last,
            _ => by_rank(&mut random) as usize * 7_919 % last,
        };
        requests.extend([0, 1 + (leaf * (inner - 1) / leaves) as u32]);
        let count = if random.random_range(0..20) == 0 { 60 } else { 1 };
        requests.extend((leaf..(leaf + count).min(last + 1)).map(|leaf| (inner + leaf) as u32));
    }
    (inner + leaves, requests)
}
