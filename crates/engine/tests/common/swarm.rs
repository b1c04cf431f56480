//! Swarm testing (Groce et al., ISSTA 2012). Every run draws all its choices from a seed, so that
//! rare combinations come up. The same seed draws the same choices.

use std::sync::Arc;
use std::time::Duration;

use ebbtide_core::prefetch::PrefetcherKind;
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::schedule::Discipline;
use ebbtide_core::{Addr, Hint, Memory, PAGE_BYTES, PageId};
use ebbtide_engine::device::faulty::{Faults, Faulty};
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::{Engine, FlashMemory, JobError, Options, check_replacement};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::jobs::{Work, job, run_jobs};
use super::{WORDS_PER_PAGE, image, initial, of_frames};

const PAGES: u64 = 256;
const WORDS: u64 = PAGES * WORDS_PER_PAGE;

/// The choices of one run.
#[derive(Clone, Debug)]
pub struct Choices {
    seed: u64,
    options: Options,
    frames: usize,
    latency: Latency,
    faults: Faults,
    lanes_per_core: u64,
    steps: u32,
    store_share: f64,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    pub accesses: u64,
    /// Jobs that a device error ended.
    pub failed: u64,
}

impl Choices {
    /// The choices of `seed`.
    pub fn draw(seed: u64) -> Choices {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let policies: Vec<PolicyKind> =
            PolicyKind::ALL.into_iter().filter(|kind| check_replacement(*kind).is_ok()).collect();
        let mut options = Options::new(0);
        options.cores = random.random_range(1..=3);
        options.stack_bytes = 64 << 10;
        let holds_us = [None, Some(0), Some(50), Some(1000), Some(1_000_000)];
        options.hold = holds_us[random.random_range(0..5)].map(Duration::from_micros);
        let tuning = &mut options.tuning;
        tuning.replacement = policies[random.random_range(0..policies.len())];
        tuning.prefetch = PrefetcherKind::ALL[random.random_range(0..PrefetcherKind::ALL.len())];
        tuning.admission = Admission::ALL[random.random_range(0..Admission::ALL.len())];
        tuning.scheduler = Discipline::ALL[random.random_range(0..Discipline::ALL.len())];
        tuning.policy_parts = Some(1 << random.random_range(0..3));
        tuning.hints = random.random();
        tuning.threads = Some(random.random_range(1..=32));
        tuning.batch_max = random.random_range(1..=64);
        let mut share = |most: f64| if random.random_bool(0.3) { most } else { 0.0 };
        let faults = Faults {
            read_errors: share(0.2),
            write_errors: share(0.2),
            short: share(0.2),
            delays: share(0.3),
            broken_offset: None,
        };
        let frames = random.random_range(4 * options.cores..200);
        Choices {
            seed,
            frames,
            options: of_frames(frames, options, PAGES),
            latency: Latency::Looks(random.random_range(0..4)),
            faults,
            lanes_per_core: random.random_range(1..=24),
            steps: random.random_range(50..400),
            store_share: [0.0, 0.05, 0.3, 0.9][random.random_range(0..4)],
        }
    }

    /// Runs jobs that check every word they read. Panics, after it has printed the choices, when
    /// one is wrong.
    pub fn run(&self) -> Outcome {
        let ram = Ram::new(PAGES as usize, self.latency, image);
        let device = Arc::new(Faulty::new(ram, self.faults, self.seed));
        let engine = Engine::over_device(device, PAGES, &self.options).unwrap();
        let lanes = self.options.cores as u64 * self.lanes_per_core;
        let ended = run_jobs(&engine, |core| {
            let first = core as u64 * self.lanes_per_core;
            (first..first + self.lanes_per_core).map(|lane| self.lane(lane, lanes)).collect()
        });
        let mut failed = 0;
        for (number, result) in ended.into_iter().flat_map(|core| core.jobs) {
            match result {
                Ok(()) => {}
                Err(JobError::Fault(_)) if self.may_fail() => failed += 1,
                Err(error) => panic!("lane {number}: {error}; {self:#?}"),
            }
        }
        Outcome { accesses: engine.counters().snapshot().accesses, failed }
    }

    fn may_fail(&self) -> bool {
        self.faults.read_errors + self.faults.write_errors + self.faults.short > 0.0
    }

    /// A job that owns one word in every `lanes` words: all jobs share all pages, and no word.
    fn lane(&self, lane: u64, lanes: u64) -> Work {
        let (steps, store_share, seed) = (self.steps, self.store_share, self.seed);
        job(move |memory| {
            let mut random = Pcg64Mcg::seed_from_u64(seed ^ (lane + 1) << 32);
            let owned = |index: u64| index * lanes + lane;
            let mut model: Vec<u64> =
                (0..(WORDS - lane).div_ceil(lanes)).map(|index| initial(owned(index))).collect();
            for _ in 0..steps {
                let index = random.random_range(0..model.len());
                let at = Addr(owned(index as u64) * 8);
                if random.random_bool(store_share) {
                    change(memory, at, &mut model[index], &mut random);
                } else {
                    check(memory, at, model[index], &mut random);
                }
            }
            for (index, expected) in model.into_iter().enumerate() {
                assert_eq!(memory.load::<u64>(Addr(owned(index as u64) * 8)), expected);
            }
        })
    }
}

/// Changes the word at `at` in a drawn way.
fn change(memory: &mut FlashMemory<'_>, at: Addr, word: &mut u64, random: &mut Pcg64Mcg) {
    let new = random.random();
    match random.random_range(0..4) {
        0 => memory.store(at, new),
        1 => assert_eq!(memory.compare_exchange(at, *word, new), Ok(*word)),
        2 => memory.write_bytes(at, &new.to_le_bytes()),
        _ => {
            // All but the first byte.
            memory.write_bytes(at + 1, &new.to_le_bytes()[1..]);
            *word = new & !0xff | *word & 0xff;
            return;
        }
    }
    *word = new;
}

/// Checks the word at `at` in a drawn way.
fn check(memory: &mut FlashMemory<'_>, at: Addr, word: u64, random: &mut Pcg64Mcg) {
    let found = match random.random_range(0..8) {
        0 => memory.compare_exchange(at, !word, 0).unwrap_err(),
        1 => {
            let mut bytes = vec![0; random.random_range(8..3 * PAGE_BYTES)];
            let end = (at.0 as usize + bytes.len()).min(PAGES as usize * PAGE_BYTES);
            bytes.truncate(end - at.0 as usize);
            memory.read_bytes(at, &mut bytes);
            u64::from_le_bytes(bytes[..8].try_into().unwrap())
        }
        2 => memory.page(at.page()).load(at.page_offset()),
        3 => {
            memory.hint(Hint::WillNeed(PageId(random.random_range(0..PAGES)).start()));
            memory.load(at)
        }
        4 => {
            memory.hint(Hint::DontNeed(PageId(random.random_range(0..PAGES)).start()));
            memory.load(at)
        }
        5 => {
            memory.yield_now();
            memory.load(at)
        }
        _ => memory.load(at),
    };
    assert_eq!(found, word, "the word at {at:?}");
}
