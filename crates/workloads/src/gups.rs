//! [`Gups`]: random updates of a large table, HPC Challenge's RandomAccess (FlatFlash, ASPLOS'19,
//! Fig. 9).

use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, Hint, LINE_BYTES, PAGE_BYTES, PageId};

use crate::keys::share;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Accesses, Corrupt, PageBytes, Workload};

/// Updates in a job.
const UPDATES: u64 = 64;

/// Processes of a run. As many as the cores that FlatFlash's experiment has (assumption).
const PROCESSES: u64 = 4;

/// The period of the stream.
const PERIOD: u64 = 1_317_624_576_693_539_401;

/// HPC Challenge's RandomAccess: a table of 2ⁿ words, `T[i] = i` at first. An update is
/// `T[a mod 2ⁿ] ^= a` with the next `a` of one endless stream. A run is 4·2ⁿ updates.
///
/// The processes of a run share the stream evenly: process `p` of `P` begins at `p·4·2ⁿ/P`, as
/// `HPCC_starts` has it. They take turns, so that job `n` belongs to process `n mod P` and makes
/// its next 64 updates. A job finds its place by jumping ahead. The rules allow a look-ahead of
/// 1,024 numbers; a job looks 64 ahead. Table and stream are defined by the benchmark and do not
/// depend on seed or skew.
///
/// The first jobs stand for the whole run, because a simulation runs only a part of it. Numbers
/// near positions like 0 or 2ᵏ have few bits set, and meet few pages. So the first job of a process
/// is a third into its share. Its last jobs wrap around to the beginning. [`GupsFromOne`] begins at
/// position 0.
///
/// Updates may collide. The rules allow one word in a hundred to be wrong. Here all words are
/// right, since an update is a compare-exchange. Its cost is negligible compared with a miss. It
/// makes [`wrong_words`](Gups::wrong_words) a test of the memory that detects a single lost update
/// or page.
///
/// Every update flips the low `n` bits of a word by the word's index, so they are the index or
/// zero. Every job checks this, which detects misplaced and damaged pages.
#[derive(Debug, Clone)]
pub struct Gups {
    index_bits: u32,
    work: u64,
    starts: Starts,
}

/// The places of jobs in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Starts {
    /// [`PROCESSES`] take turns, each from a third of its share on.
    FarApart,
    /// One process, from the beginning of the stream on.
    AtOne,
}

impl Gups {
    /// The share of wrong words that the rules of RandomAccess permit after a run.
    pub const WRONG_SHARE_MAX: f64 = 0.01;

    /// Returns the number of words of the table, a power of two.
    pub fn words(&self) -> u64 {
        1 << self.index_bits
    }

    /// Returns the number of jobs in a run of the benchmark: four updates per word.
    pub fn jobs_of_a_run(&self) -> u64 {
        4 * self.words() / UPDATES
    }

    /// Returns the 64 numbers that job `job` applies, in order.
    #[inline]
    pub fn job(&self, job: u64) -> impl Iterator<Item = u64> + use<> {
        // The first number, 1, is only the benchmark's start value. This wraps after 2⁵⁸ jobs.
        let mut number = Stream::at(self.place(job).wrapping_mul(UPDATES));
        (0..UPDATES).map(move |_| {
            number = number.next();
            number.0
        })
    }

    /// The place of job `job` in the stream, in jobs. Each run of the benchmark has every place
    /// once.
    #[inline]
    fn place(&self, job: u64) -> u64 {
        if self.starts == Starts::AtOne {
            return job;
        }
        let jobs = self.jobs_of_a_run();
        let (run, job, share) = (job / jobs, job % jobs, jobs / PROCESSES);
        let (process, turn) = (job % PROCESSES, job / PROCESSES);
        run * jobs + process * share + (turn + share / 3) % share
    }

    /// Returns the address of the word that `number` updates.
    #[inline]
    pub fn address(&self, number: u64) -> Addr {
        Addr((number & (self.words() - 1)) * 8)
    }

    /// Applies `number` in one atomic step.
    ///
    /// # Errors
    /// [`Corrupt`] when the word cannot be of this table. Nothing is then stored.
    #[inline]
    pub fn update<M: FullMemory>(&self, memory: &mut M, number: u64) -> Result<(), Corrupt> {
        let at = self.address(number);
        let mut seen = memory.load(at);
        loop {
            self.check(at, seen)?;
            match memory.compare_exchange(at, seen, seen ^ number) {
                Ok(_) => return Ok(()),
                Err(found) => seen = found,
            }
        }
    }

    /// Returns the number of words that are wrong after jobs `0..jobs`, by the benchmark's
    /// verification. It applies the updates again, which undoes them. Every word must then have its
    /// initial value.
    ///
    /// No job may run during the call. Corrupt words are counted and left as they are.
    pub fn wrong_words<M: FullMemory>(&self, memory: &mut M, jobs: u64) -> u64 {
        for number in (0..jobs).flat_map(|job| self.job(job)) {
            let at = self.address(number);
            let word: u64 = memory.load(at);
            memory.store(at, word ^ number);
        }
        let wrong = |index: &u64| memory.load::<u64>(Addr(index * 8)) != *index;
        (0..self.words()).filter(wrong).count() as u64
    }

    #[inline]
    fn check(&self, at: Addr, word: u64) -> Result<(), Corrupt> {
        let low = word & (self.words() - 1);
        if low != 0 && low != at.0 / 8 { Err(misplaced(at, word)) } else { Ok(()) }
    }
}

#[cold]
fn misplaced(at: Addr, word: u64) -> Corrupt {
    Corrupt(format!("the word at {at:?} is {word:#x}, which no updates make of {:#x}", at.0 / 8))
}

/// A number of RandomAccess's stream: the powers of x modulo x⁶⁴ + x² + x + 1 over GF(2). The bits
/// of a word are the coefficients of a polynomial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stream(u64);

impl Stream {
    /// The number at `position`: 1 at 0, then 2, 4, 8, …
    ///
    /// By repeated squaring, as in `HPCC_starts`. A square spreads the bits apart and is then
    /// reduced.
    fn at(position: u64) -> Stream {
        let position = position % PERIOD;
        let squarings = (u64::BITS - position.leading_zeros()).saturating_sub(6);
        let mut number = Stream(1 << (position >> squarings));
        for bit in (0..squarings).rev() {
            number = number.squared();
            if position >> bit & 1 == 1 {
                number = number.next();
            }
        }
        number
    }

    /// The number at the next position.
    #[inline]
    fn next(self) -> Stream {
        let carry = self.0 >> 63;
        Stream((self.0 << 1) ^ (carry * 7))
    }

    /// The number at twice the position.
    #[inline]
    fn squared(self) -> Stream {
        let (low, high) = (spread(self.0 as u32), spread((self.0 >> 32) as u32));
        // Reduces x⁶⁴ to x² + x + 1, and then again the terms that this moves beyond x⁶³.
        let beyond = high >> 63 ^ high >> 62;
        let folded = |part: u64| part ^ part << 1 ^ part << 2;
        Stream(low ^ folded(high) ^ folded(beyond))
    }
}

/// The bits of `half`, each followed by a zero.
#[inline]
fn spread(half: u32) -> u64 {
    let mut bits = u64::from(half);
    bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
    bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & 0x5555_5555_5555_5555
}

impl Named for Gups {
    const NAME: &'static str = "gups";
    const DESCRIPTION: &'static str = "updates random words of a table of 2^n words";
    const MIX: &'static str = "64 updates: 64 words read and written";
    const SOURCE: &'static str = "HPC Challenge RandomAccess, as in FlatFlash (ASPLOS'19) Fig. 9";
    /// One page.
    const MIN_BYTES: u64 = PAGE_BYTES as u64;

    fn with_shape(shape: &Shape) -> Gups {
        let index_bits = (shape.dataset_bytes / 8).ilog2();
        Gups { index_bits, work: shape.work_instructions, starts: Starts::FarApart }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for Gups {
    fn size_bytes(&self) -> u64 {
        8 * self.words()
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        assert!(page.start().0 < self.size_bytes(), "{page:?} of {}", self.size_bytes());
        let bytes = lines.start * LINE_BYTES..lines.end * LINE_BYTES;
        let first = (page.start().0 + bytes.start as u64) / 8;
        for (index, bytes) in (first..).zip(out[bytes].as_chunks_mut::<8>().0) {
            *bytes = index.to_ne_bytes();
        }
        lines
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        // The benchmark allows a process to know 1,024 updates ahead.
        for number in self.job(job) {
            memory.hint(Hint::WillNeed(self.address(number)));
        }
        for (part, number) in (0..).zip(self.job(job)) {
            memory.work(share(self.work, part, UPDATES));
            self.update(memory, number)?;
        }
        Ok(())
    }

    fn accesses(&self, job: u64, accesses: &mut Accesses) -> bool {
        self.job(job).for_each(|number| accesses.exchange(self.address(number)));
        true
    }

    fn writes(&self) -> bool {
        true
    }
}

/// [`Gups`] by one process from the beginning of the stream. Its first numbers have few bits set,
/// so that its first jobs meet few pages, and these often.
#[derive(Debug, Clone)]
pub struct GupsFromOne(Gups);

impl Named for GupsFromOne {
    const NAME: &'static str = "gups-from-one";
    const DESCRIPTION: &'static str = "gups by one process, from the sparse start of its stream";
    const MIX: &'static str = Gups::MIX;
    const SOURCE: &'static str = "HPC Challenge RandomAccess, by one process";
    const MIN_BYTES: u64 = Gups::MIN_BYTES;

    fn with_shape(shape: &Shape) -> GupsFromOne {
        GupsFromOne(Gups { starts: Starts::AtOne, ..Gups::with_shape(shape) })
    }

    fn set_work(&mut self, instructions: u64) {
        self.0.set_work(instructions);
    }
}

impl Workload for GupsFromOne {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.0.image(page, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        self.0.image_lines(page, lines, out)
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        self.0.run(job, memory)
    }

    fn accesses(&self, job: u64, accesses: &mut Accesses) -> bool {
        self.0.accesses(job, accesses)
    }

    fn writes(&self) -> bool {
        self.0.writes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A run over a table of `bytes`.
    fn gups(bytes: u64) -> Gups {
        Gups::with_shape(&Shape { dataset_bytes: bytes, ..Shape::default() })
    }

    #[test]
    fn a_run_has_every_place_of_the_stream_once_and_its_processes_are_far_apart() {
        for bytes in [4096, 1 << 15, 1 << 20] {
            let gups = gups(bytes);
            let jobs = gups.jobs_of_a_run();
            let mut places: Vec<u64> = (0..jobs).map(|job| gups.place(job)).collect();
            let share = jobs / PROCESSES;
            let starts: Vec<u64> = (0..PROCESSES).map(|p| p * share + share / 3).collect();
            assert_eq!(places[..PROCESSES as usize], starts);
            places.sort_unstable();
            assert!(places.into_iter().eq(0..jobs));
            assert_eq!(gups.place(jobs), jobs + share / 3, "the second run");
        }
    }

    /// The share of hits of a plain LRU cache of a sixteenth of 512 MiB, the ratio of FlatFlash's
    /// experiment, once it is full.
    fn lru_hits(gups: &Gups) -> f64 {
        let (capacity, jobs) = ((gups.words() / 512 / 16) as usize, 4_000);
        // A page hits if fewer than `capacity` other pages came after its last access.
        let mut last = std::collections::HashMap::new();
        let mut order = std::collections::VecDeque::new();
        let (mut now, mut hits, mut counted) = (0_u64, 0, 0);
        for number in (0..jobs).flat_map(|job| gups.job(job)) {
            let page = gups.address(number).page();
            now += 1;
            let hit = last.insert(page, now).is_some();
            order.push_back((page, now));
            if now > jobs * UPDATES / 2 {
                (hits, counted) = (hits + u64::from(hit), counted + 1);
            }
            while last.len() > capacity {
                let (oldest, at) = order.pop_front().expect("every page is in the order");
                if last.get(&oldest) == Some(&at) {
                    last.remove(&oldest);
                }
            }
        }
        hits as f64 / counted as f64
    }

    #[test]
    fn the_first_jobs_hit_as_often_as_uniform_ones_except_at_the_sparse_start() {
        let far_apart = gups(512 << 20);
        let at_one = Gups { starts: Starts::AtOne, ..far_apart.clone() };
        let [far_apart, at_one] = [far_apart, at_one].map(|gups| lru_hits(&gups));
        assert!((0.058..0.068).contains(&far_apart), "{far_apart}: a sixteenth is 0.0625");
        assert!(at_one > 0.12, "{at_one}");
    }

    #[test]
    fn the_stream_begins_as_the_benchmark_says() {
        let numbers: Vec<u64> = (0..68).map(|position| Stream::at(position).0).collect();
        let doubled: Vec<u64> = (0..64).map(|bit| 1 << bit).collect();
        assert_eq!(numbers[..64], doubled);
        // The 65th step drops a set top bit for the first time.
        assert_eq!(numbers[64..], [7, 14, 28, 56]);
    }

    /// x to the power `exponent`, which [`Stream::at`] would reduce by the period first.
    fn power(exponent: u64) -> Stream {
        (0..64).rev().fold(Stream(1), |number, bit| {
            let squared = number.squared();
            if exponent >> bit & 1 == 1 { squared.next() } else { squared }
        })
    }

    #[test]
    fn the_stream_has_the_period_it_is_known_for_and_no_shorter_one() {
        assert_eq!(power(PERIOD), Stream(1));
        let primes = [7, 73, 127, 337, 92_737, 649_657];
        assert_eq!(primes.iter().product::<u64>(), PERIOD);
        for prime in primes {
            assert_ne!(power(PERIOD / prime), Stream(1), "{prime}");
        }
    }

    proptest! {
        #[test]
        fn jumping_ahead_gives_what_stepping_gives(position in 0..PERIOD, steps in 1u64..500) {
            let stepped = (0..steps).fold(Stream::at(position), |number, _| number.next());
            prop_assert_eq!(stepped, Stream::at(position + steps));
        }

        #[test]
        fn a_square_is_the_product_of_a_number_with_itself(number: u64) {
            // The school method, bit by bit.
            let product = (0..64).rev().fold(Stream(0), |sum, bit| {
                Stream(sum.next().0 ^ ((number >> bit & 1) * number))
            });
            prop_assert_eq!(Stream(number).squared(), product);
        }
    }
}
