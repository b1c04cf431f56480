//! Stacks are small, so programs will overflow one, or panic on one. An overflow must name its job,
//! and a panic with a backtrace must be an ordinary panic.
//!
//! Code that ends the process runs in a process of its own: the binary of this file, told so by its
//! environment.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Output};

use ebbtide_fiber::{Fiber, STACK_BYTES_MAX, StackPool};

const STACK_BYTES: usize = 16 * 1024;

fn again(test: &str, environment: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("EBBTIDE_FIBER_TEST", test)
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn asked_for(test: &str) -> bool {
    std::env::var("EBBTIDE_FIBER_TEST").is_ok_and(|asked| asked == test)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[inline(never)]
fn descend(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == 0 { frame[0] } else { descend(depth - 1) + frame[1] }
}

/// Helper process, not a test: overflows the second of three stacks.
#[test]
fn overflows() {
    if !asked_for("overflows") {
        return;
    }
    let run = || {
        let mut pool = StackPool::new(3, STACK_BYTES).unwrap();
        let _first = pool.take().unwrap();
        let stack = pool.take().unwrap();
        let label = stack.label();
        let mut fiber: Fiber<(), ()> = Fiber::new(stack, |_, ()| {
            black_box(descend(1_000_000));
        });
        label.set_job(4711);
        fiber.resume(());
    };
    std::thread::Builder::new().name("a-core".into()).spawn(run).unwrap().join().unwrap();
}

#[test]
fn an_overflow_says_what_it_was_and_in_which_job() {
    use std::os::unix::process::ExitStatusExt;
    let output = again("overflows", &[]);
    let said = said(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    let line = "ebbtide: stack overflow: job 4711 of thread 'a-core' needs more than its stack of \
                16 KiB\n";
    assert!(said.contains(line), "{said}");
}

/// Helper process, not a test: steps far over the end of the second of three stacks.
#[test]
fn steps_over_the_end() {
    if !asked_for("steps_over_the_end") {
        return;
    }
    let mut pool = StackPool::new(3, STACK_BYTES).unwrap();
    let _first = pool.take().unwrap();
    let mut fiber: Fiber<(), ()> = Fiber::new(pool.take().unwrap(), |_, ()| {
        let mut local = 0u8;
        let below = (&raw mut local).wrapping_sub(STACK_BYTES + 60 * 1024);
        // SAFETY: it is not safe. It is what a large frame without stack probes does.
        unsafe { black_box(below).write_volatile(1) };
    });
    fiber.resume(());
}

#[test]
fn a_step_of_60_kib_over_the_end_of_a_stack_meets_its_guard_and_no_other_stack() {
    use std::os::unix::process::ExitStatusExt;
    let output = again("steps_over_the_end", &[]);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", said(&output));
    assert!(said(&output).contains("stack overflow"), "{}", said(&output));
}

/// Helper process, not a test: dereferences an unmapped address.
#[test]
fn faults_elsewhere() {
    if !asked_for("faults_elsewhere") {
        return;
    }
    let _pool = StackPool::new(3, STACK_BYTES).unwrap();
    // SAFETY: it is not safe. It is what a bug in other code does.
    black_box(unsafe { black_box(std::ptr::dangling::<u64>()).read_volatile() });
}

#[test]
fn a_fault_elsewhere_is_not_taken_for_an_overflow() {
    use std::os::unix::process::ExitStatusExt;
    let output = again("faults_elsewhere", &[]);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    assert!(!said(&output).contains("stack overflow"), "{}", said(&output));
}

/// Helper process, not a test: panics on a small stack where backtraces are printed.
#[test]
fn panics_with_a_backtrace() {
    if !asked_for("panics_with_a_backtrace") {
        return;
    }
    let mut pool = StackPool::new(1, STACK_BYTES).unwrap();
    let mut fiber: Fiber<(), ()> = Fiber::new(pool.take().unwrap(), |suspend, ()| {
        suspend.suspend(());
        panic!("number {}", black_box(4711));
    });
    assert_eq!(fiber.resume(()), Some(()));
    let ended = catch_unwind(AssertUnwindSafe(|| fiber.resume(())));
    assert_eq!(*ended.unwrap_err().downcast::<String>().unwrap(), "number 4711");
}

#[test]
fn a_panic_on_a_small_stack_prints_its_backtrace_and_is_caught() {
    let output = again("panics_with_a_backtrace", &[("RUST_BACKTRACE", "full")]);
    let said = said(&output);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert!(said.contains("number 4711") && said.contains("stack backtrace"), "{said}");
    assert!(said.contains("panics_with_a_backtrace"), "{said}");
}

#[test]
fn the_most_that_was_used_of_any_stack_is_measured() {
    let mut pool = StackPool::new(2, 64 * 1024).unwrap();
    assert_eq!(pool.used_bytes_max(), 0);
    let mut used = Vec::new();
    for depth in [1, 20, 5] {
        let mut fiber: Fiber<(), ()> = Fiber::new(pool.take().unwrap(), move |_, ()| {
            black_box(descend(depth));
        });
        fiber.resume(());
        pool.put(fiber.into_stack());
        used.push(pool.used_bytes_max());
    }
    assert!(used[0] >= 1024 && used[1] >= used[0] + 19 * 512, "{used:?}");
    assert!(used[1] == used[2] && used[2] < 64 * 1024, "{used:?}");
}

#[test]
fn a_stack_of_absurd_size_is_an_error() {
    for bytes in [usize::MAX, usize::MAX / 2, STACK_BYTES_MAX + 1] {
        assert!(StackPool::new(1, bytes).is_err());
    }
    assert!(StackPool::new(usize::MAX / 4096, STACK_BYTES).is_err());
}
