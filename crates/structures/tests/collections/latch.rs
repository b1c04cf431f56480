//! A page that fails ends the job that needs it. Only a latch that cannot be released stays held.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbtide_core::{Addr, Memory};
use ebbtide_structures::latch;

use ebbtide_testbed::{Plain, catch_fault};

use crate::interleave;

const ONE: Addr = Addr(0);
const OTHER: Addr = Addr(4096);
const HELD: u64 = 1;
const WAITED: u64 = 2;

fn held(memory: &Plain, latch: Addr) -> bool {
    memory.words[latch.0 as usize / 8] & HELD != 0
}

#[test]
fn a_release_whose_page_fails_for_a_while_is_tried_again() {
    for failures in 1..8 {
        let mut memory = Plain::zeroed(8192);
        let result = catch_fault(|| {
            let memory = &mut memory;
            latch::write(memory, ONE, |memory| {
                memory.failing = memory.accesses..memory.accesses + failures;
            });
        });
        assert_eq!(result, Ok(()), "{failures} failures");
        assert!(!held(&memory, ONE));
    }
}

#[test]
fn a_release_that_keeps_failing_ends_the_job_and_wakes_who_waits() {
    let mut memory = Plain::zeroed(8192);
    let result = catch_fault(|| {
        let memory = &mut memory;
        latch::write(memory, ONE, |memory| {
            memory.words[0] |= WAITED;
            memory.failing = memory.accesses..u64::MAX;
        });
    });
    assert_eq!(result.unwrap_err().page, ONE.page());
    assert_eq!(memory.woken, [ONE], "waiters look again and meet the same fault");
    assert!(memory.accesses < 20, "the attempts are bounded");
}

#[test]
fn the_first_fault_is_the_one_a_job_is_told() {
    let mut memory = Plain::zeroed(8192);
    let result = catch_fault(|| {
        let memory = &mut memory;
        latch::write(memory, ONE, |memory| {
            memory.failing = memory.accesses..u64::MAX;
            memory.load::<u64>(OTHER);
        });
    });
    assert_eq!(result.unwrap_err().page, OTHER.page());
}

#[test]
fn of_two_latches_the_one_whose_page_is_there_is_released() {
    // The latch taken last is released first: it fails, the other does not.
    let mut memory = Plain::zeroed(8192);
    let result = catch_fault(|| {
        let memory = &mut memory;
        latch::write_two(memory, OTHER, ONE, |memory| {
            memory.failing = memory.accesses..memory.accesses + 8;
        });
    });
    assert_eq!(result.unwrap_err().page, OTHER.page());
    assert!(held(&memory, OTHER) && !held(&memory, ONE));
}

#[test]
fn a_fault_at_any_access_of_a_latched_job_leaves_both_latches_free() {
    let job = |memory: &mut Plain| {
        latch::write_two(memory, ONE, OTHER, |memory| {
            memory.store(ONE + 64, 1u64);
            memory.store(OTHER + 64, 1u64);
        });
    };
    for failing in 0..12 {
        let mut memory = Plain::zeroed(8192);
        memory.failing = failing..failing + 1;
        let _ = catch_fault(|| job(&mut memory));
        memory.failing = 0..0;
        assert!(!held(&memory, ONE) && !held(&memory, OTHER), "a fault at access {failing}");
        assert_eq!(catch_fault(|| job(&mut memory)), Ok(()));
    }
}

#[test]
fn a_panic_that_is_no_fault_is_not_tried_again() {
    let mut memory = Plain::zeroed(64);
    let result = catch_unwind(AssertUnwindSafe(|| {
        latch::write(&mut memory, ONE, |_| std::panic::resume_unwind(Box::new("boom")))
    }));
    assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "boom");
    assert!(!held(&memory, ONE));
}

/// The end of the caller's stack.
#[inline(never)]
fn stack_pointer() -> usize {
    let here = 0u8;
    (&raw const here).addr()
}

#[test]
fn a_job_with_many_latches_needs_the_stack_of_one() {
    let outside = stack_pointer();
    let depth_bytes = |latches: &[Addr]| {
        latch::write_all(&mut Plain::zeroed(8192), latches, |_| outside.abs_diff(stack_pointer()))
    };
    let sixteen: Vec<Addr> = (0..16).map(|number| ONE + number * 64).collect();
    assert_eq!(depth_bytes(&sixteen), depth_bytes(&sixteen[..1]));
}

#[test]
fn a_reader_ends_however_often_others_write() {
    for seed in 0..20 {
        let mut memory = Plain::zeroed(4096);
        let words: Vec<Addr> = (1..200).map(|word| ONE + word * 8).collect();
        let runs = interleave(&mut memory, 2, 2 * seed + 1, |thread, memory| {
            let mut runs = 0;
            if thread == 1 {
                latch::read(memory, ONE, |memory| {
                    runs += 1;
                    words.iter().for_each(|&at| assert!(memory.load::<u64>(at) < 2_000));
                });
            } else {
                for write in 0..2_000u64 {
                    latch::write(memory, ONE, |memory| memory.store(ONE + 8, write));
                }
            }
            runs
        });
        assert!((1..10).contains(&runs[1]), "seed {seed}: {} runs", runs[1]);
    }
}
