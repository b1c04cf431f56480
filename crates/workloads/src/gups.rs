//! [`Gups`]: random updates of a great table, HPC Challenge's RandomAccess (FlatFlash, ASPLOS'19
//! Fig. 9; SPEC part D).

use ebbtide_core::{Addr, Hint, Memory, PAGE_BYTES, PageId};

use crate::keys::share;
use crate::shape::{Named, Shape};
use crate::{PageBytes, Workload, Wrong};

/// Updates in a job.
const UPDATES: u64 = 64;

/// After so many steps the stream repeats.
const PERIOD: u64 = 1_317_624_576_693_539_401;

/// HPC Challenge's RandomAccess: a table of 2ⁿ words, `T[i] = i` at first; an update is
/// `T[a mod 2ⁿ] ^= a` with the next `a` of one endless stream, and a run is 4·2ⁿ updates.
///
/// Job `n` makes updates `64·n` to `64·n + 63` of the stream; it finds its place in it as the
/// benchmark's processes do, by jumping ahead. It draws a number only when it applies it, far
/// within the look-ahead of 1,024 that the rules allow. Table and stream are the benchmark's own,
/// so neither seed nor skew changes anything.
///
/// Updates may collide. The rules allow one word in a hundred to be wrong; here none is, for an
/// update is a compare-exchange. Beside the miss it waits for that costs nothing, and it makes
/// [`wrong_words`](Gups::wrong_words) a test of the memory: a single lost update or page shows.
///
/// Every update of a word flips its low `n` bits by its own index. They are the index or zero
/// therefore, which every job checks: a misplaced or damaged page does not pass.
#[derive(Debug, Clone)]
pub struct Gups {
    index_bits: u32,
    work: u64,
}

impl Gups {
    /// The share of wrong words that the rules of RandomAccess permit after a run.
    pub const WRONG_SHARE_MAX: f64 = 0.01;

    /// How many words the table has.
    pub fn words(&self) -> u64 {
        1 << self.index_bits
    }

    /// How many jobs are a run of the benchmark: four updates a word.
    pub fn jobs_of_a_run(&self) -> u64 {
        4 * self.words() / UPDATES
    }

    /// The numbers that job `job` applies, in order.
    #[inline]
    pub fn job(&self, job: u64) -> impl Iterator<Item = u64> + use<> {
        // The first number of all, 1, is only where the benchmark starts from. (No one runs the
        // 2⁵⁸ jobs after which this wraps.)
        let mut number = Stream::at(job.wrapping_mul(UPDATES));
        (0..UPDATES).map(move |_| {
            number = number.next();
            number.0
        })
    }

    /// Where the word lies that `number` is applied to.
    #[inline]
    pub fn address(&self, number: u64) -> Addr {
        Addr((number & (self.words() - 1)) * 8)
    }

    /// Applies `number` in one atomic step.
    ///
    /// # Errors
    /// [`Wrong`] when the word cannot be of this table; then nothing is stored.
    #[inline]
    pub fn update<M: Memory>(&self, memory: &mut M, number: u64) -> Result<(), Wrong> {
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

    /// The benchmark's verification: applies the updates of jobs `0..jobs` again, which undoes
    /// them, and counts the words that are not as they were at first.
    ///
    /// Nothing else may run meanwhile. What it finds wrong it counts and leaves alone.
    pub fn wrong_words<M: Memory>(&self, memory: &mut M, jobs: u64) -> u64 {
        for number in (0..jobs).flat_map(|job| self.job(job)) {
            let at = self.address(number);
            let word: u64 = memory.load(at);
            memory.store(at, word ^ number);
        }
        let wrong = |index: &u64| memory.load::<u64>(Addr(index * 8)) != *index;
        (0..self.words()).filter(wrong).count() as u64
    }

    #[inline]
    fn check(&self, at: Addr, word: u64) -> Result<(), Wrong> {
        let low = word & (self.words() - 1);
        if low != 0 && low != at.0 / 8 { Err(misplaced(at, word)) } else { Ok(()) }
    }
}

#[cold]
fn misplaced(at: Addr, word: u64) -> Wrong {
    Wrong(format!("the word at {at:?} is {word:#x}, which no updates make of {:#x}", at.0 / 8))
}

/// A number of RandomAccess's stream: the powers of x modulo x⁶⁴ + x² + x + 1 over GF(2), a
/// polynomial's coefficients being the bits of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stream(u64);

impl Stream {
    /// The number at `position`: 1 at 0, then 2, 4, 8, …
    ///
    /// By squaring, as `HPCC_starts` does; a square spreads its bits apart and is reduced.
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
        // x⁶⁴ is x² + x + 1; what that pushes beyond x⁶³ once more, too.
        let beyond = high >> 63 ^ high >> 62;
        let folded = |part: u64| part ^ part << 1 ^ part << 2;
        Stream(low ^ folded(high) ^ folded(beyond))
    }
}

/// The bits of `half`, a zero after each.
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
        Gups { index_bits: (shape.dataset_bytes / 8).ilog2(), work: shape.work_instructions }
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
        assert!(page.start().0 < self.size_bytes(), "{page:?} of {}", self.size_bytes());
        for (index, bytes) in (page.start().0 / 8..).zip(out.as_chunks_mut::<8>().0) {
            *bytes = index.to_ne_bytes();
        }
    }

    fn run<M: Memory>(&self, job: u64, memory: &mut M) -> Result<(), Wrong> {
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

    fn writes(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
