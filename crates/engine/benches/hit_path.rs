//! Cost of a hit: dependent loads of 8 and 64 bytes, and stores, over hot pages. Three ways are
//! compared: a plain pointer into DRAM (huge pages), `MappedMemory` and `FlashMemory`. For
//! `FlashMemory`, only the hot pages are resident. Its address space is 32 times as large as the
//! largest hot set. Target: `FlashMemory` at most 3, 6 and 12 ns over the plain pointer at 100,
//! 3,000 and 31,000 pages.
//!
//! The three take turns round by round, on one pinned thread. The table gives medians over the
//! rounds, the spread from the 10th to the 90th percentile, and the median of the differences
//! within each round. Run with `cargo bench -p ebbtide-engine --bench hit_path`; `quick` runs fewer
//! rounds.

mod nowhere;

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, Memory, PAGE_BYTES, Time};
use ebbtide_engine::{
    Engine, FlashMemory, JobError, MappedMemory, Offer, Options, Service, Timing, affinity,
};
use nowhere::Nowhere;

/// The hot sets, in pages.
const HOT_PAGES: [usize; 3] = [100, 3_000, 31_000];

/// One of this many pages of the address space may be hot.
const SPREAD: u64 = 32;

/// The address in a flash memory for `at` in the others. Hot pages lie anywhere between cold ones.
fn spread(at: u64) -> u64 {
    let (page, offset) = (at / PAGE_BYTES as u64, at % PAGE_BYTES as u64);
    let among = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59;
    (page * SPREAD + among % SPREAD) * PAGE_BYTES as u64 + offset
}

const LINES_PER_PAGE: usize = PAGE_BYTES / LINE_BYTES;

/// Accesses timed together.
const STEPS: u32 = 200_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// The word at an address is the next address.
    Word,
    /// The first word of the line at an address is the next address; all of the line is used.
    Line,
    /// As `Word`, and the word behind it is stored: the cost of the pair.
    Store,
}

const ACCESSES: [(&str, Access); 3] = [
    ("8-byte load", Access::Word),
    ("64-byte load", Access::Line),
    ("load + store", Access::Store),
];

/// A plain pointer into huge pages, without any check: the lower bound.
struct Plain {
    base: *mut u8,
}

impl Plain {
    /// Zeros, mapped until the process ends.
    fn new(pages: usize) -> Plain {
        const HUGE_PAGE_BYTES: usize = 2 << 20;
        let bytes = (pages * PAGE_BYTES).next_multiple_of(HUGE_PAGE_BYTES);
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let reserved = bytes + HUGE_PAGE_BYTES;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), reserved, access, kind, -1, 0) };
        assert!(start != libc::MAP_FAILED, "no memory");
        let start = start.cast::<u8>();
        // SAFETY: a mapping is longer by a huge page than what is used of it.
        let base = unsafe { start.add(start.align_offset(HUGE_PAGE_BYTES)) };
        // SAFETY: the range lies within the mapping; the advice changes no contents.
        unsafe { libc::madvise(base.cast(), bytes, libc::MADV_HUGEPAGE) };
        Plain { base }
    }

    #[inline(always)]
    fn at(&self, at: u64) -> *mut u64 {
        // SAFETY: the chain only holds addresses within the pages this was made of.
        unsafe { self.base.add(at as usize).cast() }
    }
}

/// Follows the chain through `memory` from `at`.
#[inline(never)]
fn chase<M: FullMemory>(memory: &mut M, access: Access, mut at: u64) -> u64 {
    match access {
        Access::Word => (0..STEPS).for_each(|_| at = memory.load(Addr(at))),
        Access::Line => (0..STEPS).for_each(|_| {
            let line: [u64; LINE_BYTES / 8] = memory.line(Addr(at));
            black_box(&line);
            at = line[0];
        }),
        Access::Store => (0..STEPS).for_each(|_| {
            let next = memory.load(Addr(at));
            memory.store(Addr(at + 8), next);
            at = next;
        }),
    }
    at
}

/// As [`chase`], without a `Memory`.
#[inline(never)]
fn chase_plain(memory: &Plain, access: Access, mut at: u64) -> u64 {
    // SAFETY: as in `Plain::at`; one thread uses these pages.
    unsafe {
        match access {
            Access::Word => (0..STEPS).for_each(|_| at = *memory.at(at)),
            Access::Line => (0..STEPS).for_each(|_| {
                let line = *memory.at(at).cast::<[u64; LINE_BYTES / 8]>();
                black_box(&line);
                at = line[0];
            }),
            Access::Store => (0..STEPS).for_each(|_| {
                let next = *memory.at(at);
                *memory.at(at + 8) = next;
                at = next;
            }),
        }
    }
    at
}

/// The addresses of one cycle through every line of `pages` pages, in random order.
fn cycle(pages: usize) -> Vec<u64> {
    let mut lines: Vec<u64> = (0..(pages * LINES_PER_PAGE) as u64).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for index in (1..lines.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        lines.swap(index, (random % (index as u64 + 1)) as usize);
    }
    lines.iter().map(|line| line * LINE_BYTES as u64).collect()
}

/// Writes the cycle into memory, which also makes its pages resident.
fn lay<M: Memory>(memory: &mut M, cycle: &[u64]) {
    for (index, &at) in cycle.iter().enumerate() {
        memory.store(Addr(at), cycle[(index + 1) % cycle.len()]);
    }
}

fn per_step_ns(body: impl FnOnce() -> u64) -> (f64, u64) {
    let start = Instant::now();
    let at = black_box(body());
    (start.elapsed().as_nanos() as f64 / f64::from(STEPS), at)
}

/// Nanoseconds a step in every round, by memory: plain, mapped, flash.
type Rounds = Vec<[f64; 3]>;

/// The value a `share` of the way up the sorted `values`.
fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

fn print_row(name: &str, pages: usize, rounds: &Rounds) {
    let column = |which: usize| {
        let at = |share| quantile(rounds.iter().map(|ns| ns[which]), share);
        format!("{:6.2} ({:.2}-{:.2})", at(0.5), at(0.1), at(0.9))
    };
    let over = |which: usize| quantile(rounds.iter().map(|ns| ns[which] - ns[0]), 0.5);
    println!(
        "{name:<13}{pages:>7}  {:<24}{:<24}{:<24}{:>+7.2}{:>+7.2}",
        column(0),
        column(1),
        column(2),
        over(1),
        over(2)
    );
}

/// The one job of this benchmark.
struct Measure {
    rounds: usize,
    started: Cell<bool>,
}

impl Measure {
    fn measure(
        &self,
        plain: &Plain,
        mapped: &mut MappedMemory,
        flash: &mut FlashMemory<'_>,
        pages: usize,
    ) {
        let cycle = cycle(pages);
        lay(flash, &cycle.iter().map(|&at| spread(at)).collect::<Vec<_>>());
        lay(mapped, &cycle);
        for (index, &at) in cycle.iter().enumerate() {
            // SAFETY: as in `Plain::at`; one thread uses these pages.
            unsafe { *plain.at(at) = cycle[(index + 1) % cycle.len()] };
        }
        for (name, access) in ACCESSES {
            let mut at = [cycle[0], cycle[0], spread(cycle[0])];
            let mut rounds = Rounds::new();
            for round in 0..self.rounds + 2 {
                let mut ns = [0.0; 3];
                // The ways take turns at going first.
                for turn in 0..3 {
                    let which = (round + turn) % 3;
                    (ns[which], at[which]) = per_step_ns(|| match which {
                        0 => chase_plain(plain, access, at[0]),
                        1 => chase(mapped, access, at[1]),
                        _ => chase(flash, access, at[2]),
                    });
                }
                // The first rounds warm the caches up.
                if round >= 2 {
                    rounds.push(ns);
                }
            }
            assert!(at[0] == at[1] && spread(at[1]) == at[2], "they walk the same way");
            print_row(name, pages, &rounds);
        }
    }
}

impl Service for Measure {
    type Job = ();

    fn next(&self, _now: Time) -> Offer<()> {
        if self.started.replace(true) { Offer::End } else { Offer::Job(()) }
    }

    fn run(&self, _job: &mut (), memory: &mut FlashMemory<'_>) {
        let pages = HOT_PAGES[HOT_PAGES.len() - 1];
        let plain = Plain::new(pages);
        let mut mapped = MappedMemory::dram(pages as u64, &|_, page| page.fill(0))
            .expect("there is memory for it");
        println!(
            "nanoseconds an access, median (10th-90th percentile) over {} rounds",
            self.rounds
        );
        println!(
            "{:<13}{:>7}  {:<24}{:<24}{:<24}{:>7}{:>7}",
            "access", "pages", "pointer", "MappedMemory", "FlashMemory", "+mapped", "+flash"
        );
        for pages in HOT_PAGES {
            self.measure(&plain, &mut mapped, memory, pages);
        }
    }

    fn done(&self, _job: (), result: Result<(), JobError>, _timing: Timing) {
        result.expect("a device of memory does not fail");
    }
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "quick");
    let pages = HOT_PAGES[HOT_PAGES.len() - 1];
    let mut options = Options::new((pages + 1_000) * PAGE_BYTES + (24 << 20));
    options.cpus = affinity::allowed().expect("the kernel says where we may run")[..1].to_vec();
    let engine = Engine::over_device(Arc::new(Nowhere), pages as u64 * SPREAD, &options)
        .expect("the engine fits its budget");
    assert!(engine.budget().frames > pages + 300, "everything hot is resident");
    let rounds = if quick { 7 } else { 41 };
    let measure = |_| Measure { rounds, started: Cell::new(false) };
    engine.run(measure, drop).expect("a core can be started");
}
