//! Cost of a miss with a clean victim, in extend memory and in a persist part.

use std::collections::VecDeque;
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use ebbtide_core::durability::Geometry;
use ebbtide_core::{Memory, PAGE_BYTES, PageId};
use ebbtide_engine::FlashMemory;

use crate::mode::{Mode, PAGES};
use crate::spread::Spread;

const ROUND: Duration = Duration::from_secs(1);
const WINDOW: usize = 64;
const PAGES_A_JOB: u64 = 16;

/// Runs `job` with growing numbers until `until` returns true.
fn run(
    mode: &Mode,
    mut next: u64,
    until: impl Fn(u64) -> bool,
    job: fn(&mut FlashMemory<'_>, u64),
) -> Result<u64, Box<dyn Error>> {
    let mut tickets = VecDeque::new();
    while !until(next) || !tickets.is_empty() {
        while tickets.len() < WINDOW && !until(next) {
            let n = next;
            next += 1;
            tickets.push_back(mode.jobs.submit(move |memory| job(memory, n)));
        }
        if let Some(ticket) = tickets.pop_front() {
            ticket.wait()?;
        }
    }
    Ok(next)
}

/// Stores to pages, so that each has a copy on flash.
fn fill(memory: &mut FlashMemory<'_>, n: u64) {
    let filled = memory.transaction(|memory| {
        for page in n * PAGES_A_JOB..(n + 1) * PAGES_A_JOB {
            memory.store(PageId(page % PAGES).start() + 4088, page);
        }
    });
    filled.expect("the device works");
}

fn read(memory: &mut FlashMemory<'_>, n: u64) {
    for page in n * PAGES_A_JOB..(n + 1) * PAGES_A_JOB {
        let page = PageId(page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
        black_box(memory.load::<u64>(PageId(page.0 % PAGES).start()));
    }
}

/// Runs a round of reads. Returns the microseconds that the core was busy for each miss.
fn round(mode: &Mode, next: &mut u64) -> Result<f64, Box<dyn Error>> {
    let counters = || mode.jobs.engine().counters().snapshot();
    let (before, began) = (counters(), Instant::now());
    *next = run(mode, *next, |_| began.elapsed() >= ROUND, read)?;
    let (after, taken) = (counters(), began.elapsed());
    let busy_ns = taken.as_nanos() as u64 - (after.idle_ns - before.idle_ns);
    Ok(busy_ns as f64 * 1e-3 / (after.misses - before.misses).max(1) as f64)
}

/// Microseconds of the checksum of a page that is in no cache of the core.
fn checksum_us() -> f64 {
    let geometry = Geometry { id: 1, pages: 1, slots: 2, log_blocks: 16 };
    let pages = vec![7u8; 64 << 20];
    let began = Instant::now();
    let sum =
        pages.chunks_exact(PAGE_BYTES).map(|page| geometry.checksum(page)).fold(0, |a, b| a ^ b);
    black_box(sum);
    began.elapsed().as_secs_f64() * 1e6 / (pages.len() / PAGE_BYTES) as f64
}

/// Measures and prints them, for the first two modes.
pub fn measure(modes: &mut [Mode], rounds: usize) -> Result<(), Box<dyn Error>> {
    let [extend, persist, ..] = modes else { return Ok(()) };
    let mut next = [0; 2];
    for (mode, next) in [&*extend, persist].iter().zip(&mut next) {
        run(mode, 0, |n| n * PAGES_A_JOB >= PAGES, fill)?;
        // The pages that are still to be written go.
        *next = run(mode, 0, |n| n * PAGES_A_JOB >= PAGES / 4, read)?;
    }
    let (mut both, mut checksums) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..rounds {
        both[0].push(round(extend, &mut next[0])?);
        both[1].push(round(persist, &mut next[1])?);
        checksums.push(checksum_us());
    }
    let more = Spread::of(both[1].iter().zip(&both[0]).map(|(persist, extend)| persist - extend));
    let of = |figures: &Vec<f64>| Spread::of(figures.iter().copied()).hundredths();
    println!();
    println!("busy us a clean miss: extend {}, persist {}", of(&both[0]), of(&both[1]));
    println!(
        "more in the persist part: {}, of which a checksum {}",
        more.hundredths(),
        of(&checksums)
    );
    Ok(())
}
