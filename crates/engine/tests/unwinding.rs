//! A job that unwinds must not let others run before it has ended. They would find their thread
//! unwinding, and a panic of theirs would end the process. A part that ends the process here runs
//! in a process of its own: this same test binary, selected by its environment.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;

use common::jobs::{job, loads, run_alone, word};
use common::{image, small_cache};
use ebbtide_core::Memory;
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::{Engine, FlashMemory, JobError};

const PAGES: u64 = 64;
const ASKED: &str = "EBBTIDE_TEST_UNWINDING";

fn engine(stack_bytes: usize) -> Engine {
    let device = Ram::new(PAGES as usize, Latency::Looks(1), image);
    let mut options = small_cache(16, 1, 4, PAGES);
    options.stack_bytes = stack_bytes;
    Engine::over_device(Arc::new(device), PAGES, &options).unwrap()
}

/// Loads a page when it is dropped.
struct Loads<'a, 'b>(&'a mut FlashMemory<'b>, u64);

impl Drop for Loads<'_, '_> {
    fn drop(&mut self) {
        self.0.load::<u64>(word(self.1));
    }
}

fn unwinds_over(page: u64) -> common::jobs::Work {
    job(move |memory| {
        memory.load::<u64>(word(1));
        let _loads = Loads(memory, page);
        panic!("on purpose");
    })
}

/// Not a test on its own: misses while it unwinds.
#[test]
fn misses_while_unwinding() {
    if std::env::var(ASKED).is_ok_and(|asked| asked == "misses_while_unwinding") {
        run_alone(&engine(64 << 10), || vec![unwinds_over(9)]);
    }
}

/// Not a test on its own: a job runs off its stack.
#[test]
fn overflows() {
    #[inline(never)]
    fn descend(memory: &mut FlashMemory<'_>, depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 100]);
        if depth == 1 << 40 {
            return 0;
        }
        memory.load::<u64>(word(depth % PAGES)) ^ descend(memory, depth + 1) ^ frame[3]
    }
    if std::env::var(ASKED).is_ok_and(|asked| asked == "overflows") {
        let overflow = || {
            job(|memory| {
                std::hint::black_box(descend(memory, 0));
            })
        };
        run_alone(&engine(32 << 10), || vec![loads(1), loads(2), overflow()]);
    }
}

fn again(test: &str) -> (Option<i32>, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ASKED, test)
        .output()
        .unwrap();
    (output.status.signal(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_miss_while_a_job_unwinds_is_refused_with_the_reason() {
    let (signal, said) = again("misses_while_unwinding");
    assert_eq!(signal, Some(libc::SIGABRT), "{said}");
    assert!(said.contains("a job that unwinds cannot wait"), "{said}");
}

#[test]
fn a_hit_while_a_job_unwinds_is_as_good_as_any() {
    let ended = run_alone(&engine(64 << 10), || vec![unwinds_over(1), loads(2)]);
    assert_eq!(ended.jobs[0], (0, Err(JobError::Panicked("on purpose".into()))));
    assert_eq!(ended.jobs[1], (1, Ok(())));
}

#[test]
fn a_stack_overflow_names_the_job_and_the_core() {
    let (signal, said) = again("overflows");
    assert_eq!(signal, Some(libc::SIGABRT), "{said}");
    let line =
        "stack overflow: job 3 of thread 'ebbtide-core-0' needs more than its stack of 32 KiB";
    assert!(said.contains(line), "{said}");
}
