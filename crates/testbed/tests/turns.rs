//! Threads that take turns. A seed repeats their order, and a panic of one ends all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use ebbtide_core::{Addr, Memory};
use ebbtide_testbed::{Shared, interleave, interleave_bursts};

/// Returns the order of accesses of three threads that make five each, as a string of thread
/// numbers.
fn order(seed: u64, words_a_turn: f64) -> String {
    let order = Mutex::new(String::new());
    interleave_bursts(&Shared::new(&[0]), 3, seed, words_a_turn, |thread, memory| {
        for _ in 0..5 {
            memory.load::<u64>(Addr(0));
            order.lock().unwrap().push_str(&thread.to_string());
        }
    });
    order.into_inner().unwrap()
}

#[test]
fn a_seed_gives_the_interleaving_that_it_always_gave() {
    let orders = [(7, 1.0), (8, 1.0), (7, 4.0)].map(|(seed, words)| order(seed, words));
    assert_eq!(orders, ["011100101022222", "000012222121101", "000111001222122"]);
}

#[test]
fn a_thread_that_waits_runs_when_it_is_woken_and_not_before() {
    for seed in 0..50 {
        let words = Shared::new(&[0]);
        let seen = interleave(&words, 2, seed, |thread, memory| {
            if thread == 1 {
                memory.store(Addr(0), 1u64);
                memory.wake(Addr(0));
                return 1;
            }
            let mut looks = 0;
            while memory.load::<u64>(Addr(0)) == 0 {
                memory.wait(Addr(0), 0);
                looks += 1;
            }
            looks
        });
        assert!(seen[0] <= 1, "seed {seed}: it looked {} times in vain", seen[0]);
    }
}

#[test]
#[should_panic(expected = "deadlock: [Waiting(")]
fn threads_that_all_wait_are_a_deadlock() {
    interleave(&Shared::new(&[0]), 2, 1, |_, memory| memory.wait(Addr(0), 0));
}

#[test]
fn the_panic_of_one_thread_ends_the_others_and_is_the_callers() {
    struct Counted<'a>(&'a AtomicU32);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = AtomicU32::new(0);
    let panic = catch_unwind(AssertUnwindSafe(|| {
        interleave(&Shared::new(&[0]), 3, 1, |thread, memory| {
            let _held = Counted(&dropped);
            for access in 0.. {
                memory.load::<u64>(Addr(0));
                if thread == 1 && access == 9 {
                    std::panic::resume_unwind(Box::new("the second thread"));
                }
            }
        });
    }));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"the second thread"));
    assert_eq!(dropped.load(Ordering::Relaxed), 3, "each thread is unwound");
    assert!(!std::thread::panicking());
}
