//! Many jobs store to shared pages on several cores and check every word that they read.

use std::sync::atomic::Ordering;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{Fixture, PAGE, Words, fixture, small, works_here};

/// A lane's next word: it owns one in every `lanes` words, so that all lanes share all pages.
struct Lane {
    number: usize,
    lanes: usize,
    words: Words,
    /// The expected value of each of its words.
    model: Vec<u64>,
    random: Pcg64Mcg,
}

impl Lane {
    /// Makes `steps` accesses, of which `store_share` are stores. Prefers early words.
    fn run(&mut self, steps: usize, store_share: f64) {
        for _ in 0..steps {
            let most = self.random.random_range(1..=self.model.len());
            let index = self.random.random_range(0..most);
            let word = self.words.word(index * self.lanes + self.number);
            assert_eq!(word.load(Ordering::Relaxed), self.model[index], "word {index} is lost");
            if self.random.random_bool(store_share) {
                self.model[index] = self.random.random();
                word.store(self.model[index], Ordering::Relaxed);
            }
        }
    }
}

/// Runs `lanes_count` lanes on `cores` cores, `steps` accesses each in all.
fn soak(cores: usize, lanes: usize, steps: usize, store_share: f64) {
    let Fixture { store, _folder } = fixture(|builder| small(builder).dram("9MiB").cores(cores));
    let region = store.mapped("16MiB").expect("it fits");
    let words = Words::of(&region);
    let each = region.bytes() / 8 / lanes;
    let mut all: Vec<_> = (0..lanes)
        .map(|number| Lane {
            number,
            lanes,
            words,
            model: vec![0; each],
            random: Pcg64Mcg::seed_from_u64(number as u64),
        })
        .collect();
    const JOBS: usize = 20;
    for _ in 0..JOBS {
        let tickets: Vec<_> = all
            .drain(..)
            .map(|mut lane| {
                store.submit(move || {
                    lane.run(steps / JOBS, store_share);
                    lane
                })
            })
            .collect();
        all.extend(tickets.into_iter().map(|ticket| ticket.wait().expect("no store is lost")));
    }
    let counts = store.counts();
    assert!(counts.evictions > 2 * (region.bytes() / PAGE) as u64, "{counts:?}");
}

#[test]
fn no_store_is_lost_on_one_core() {
    if works_here() {
        soak(1, 16, 4_000, 0.5);
    }
}

#[test]
fn no_store_is_lost_on_two_cores() {
    if works_here() {
        soak(2, 16, 4_000, 0.5);
    }
}

#[test]
fn no_store_is_lost_on_four_cores_of_readers_and_few_writers() {
    if works_here() {
        soak(4, 32, 2_000, 0.1);
    }
}

#[test]
#[ignore = "takes hours: a thousand million accesses"]
fn no_store_is_lost_in_a_long_run() {
    if works_here() {
        for cores in 1..=4 {
            soak(cores, 32, 8_000_000, 0.5);
        }
    }
}
