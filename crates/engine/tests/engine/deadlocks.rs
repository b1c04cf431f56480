//! Jobs that wait for a job that can never start get an error, and no other jobs do. An engine
//! whose jobs all wait comes to an end. Jobs that will be woken soon do not count as stuck.

use std::sync::Arc;

use ebbtide_core::{Addr, Memory};
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::{Engine, FlashMemory, JobError, Ticket};

use crate::common::jobs::{ends, job, run_jobs, word};
use crate::common::{small_cache, watched};

const PAGES: u64 = 64;
const THREADS: usize = 4;

fn engine(cores: usize, threads: usize) -> Arc<Engine> {
    let device = Ram::new(PAGES as usize, Latency::Looks(1), |_, page| page.fill(0));
    let options = small_cache(32, cores, threads, PAGES);
    Arc::new(Engine::over_device(Arc::new(device), PAGES, &options).unwrap())
}

fn wait_for_gate(memory: &mut FlashMemory<'_>, gate: Addr) {
    while memory.load::<u64>(gate) == 0 {
        memory.wait(gate, 0);
    }
}

fn open_gate(memory: &mut FlashMemory<'_>, gate: Addr) {
    memory.store::<u64>(gate, 1);
    memory.wake(gate);
}

fn is_deadlock(result: &Result<(), JobError>) -> bool {
    matches!(result, Err(JobError::Deadlock(_)))
}

#[test]
fn jobs_on_every_thread_that_wait_for_one_that_cannot_start_are_told() {
    for cores in [1, 2] {
        ends(move || {
            let engine = engine(cores, THREADS);
            watched(&engine, || {
                let jobs = engine.start().unwrap();
                let threads = cores * THREADS;
                let wait = |_| jobs.submit(|memory| wait_for_gate(memory, word(1)));
                let waiting: Vec<Ticket<()>> = (0..threads).map(wait).collect();
                let opened = jobs.submit(|memory| open_gate(memory, word(1)));
                let results: Vec<_> = waiting.into_iter().map(Ticket::wait).collect();
                assert_eq!(opened.wait(), Ok(()));
                // One that gives up makes room for the job that all wait for.
                assert_eq!(
                    results.iter().filter(|result| is_deadlock(result)).count(),
                    1,
                    "{results:?}"
                );
                assert_eq!(results.iter().filter(|result| result.is_ok()).count(), threads - 1);
                let error = results.iter().find_map(|result| result.as_ref().err()).unwrap();
                let said = format!("all {threads} jobs under way wait on words");
                assert!(error.to_string().contains(&said), "{error}");
                assert!(error.to_string().contains("the word at 0x1000"), "{error}");
                jobs.stop().unwrap();
            });
        });
    }
}

#[test]
fn stopping_ends_jobs_that_wait_for_what_nobody_will_do() {
    for cores in [1, 2] {
        ends(move || {
            let engine = engine(cores, THREADS);
            watched(&engine, || {
                let jobs = engine.start().unwrap();
                let wait = |_| jobs.submit(|memory| wait_for_gate(memory, word(1)));
                let waiting: Vec<Ticket<()>> = (0..2).map(wait).collect();
                jobs.stop().unwrap();
                assert!(waiting.into_iter().map(Ticket::wait).all(|result| is_deadlock(&result)));
            });
        });
    }
}

#[test]
fn jobs_that_wait_while_a_thread_is_free_are_left_alone() {
    for cores in [1, 2] {
        ends(move || {
            let engine = engine(cores, THREADS);
            watched(&engine, || {
                let jobs = engine.start().unwrap();
                let wait = |_| jobs.submit(|memory| wait_for_gate(memory, word(1)));
                let waiting: Vec<Ticket<()>> = (0..cores * THREADS - 1).map(wait).collect();
                // The cores have gone to sleep over them, and looked again, several times.
                let before = engine.counters().snapshot().sleeps;
                while engine.counters().snapshot().sleeps < before + 50 {
                    std::hint::spin_loop();
                }
                assert_eq!(jobs.submit(|memory| open_gate(memory, word(1))).wait(), Ok(()));
                assert!(waiting.into_iter().map(Ticket::wait).all(|result| result == Ok(())));
                jobs.stop().unwrap();
            });
        });
    }
}

/// Each core has one thread with one job, and the jobs take turns. Each job is nearly always
/// asleep, and no thread is ever free.
#[test]
fn jobs_that_take_turns_across_cores_are_never_taken_for_stuck() {
    const TURNS: u64 = 3_000;
    ends(|| {
        let engine = engine(2, 1);
        let take_turns = |core: usize| {
            vec![job(move |memory| {
                for turn in (core as u64..2 * TURNS).step_by(2) {
                    loop {
                        let seen = memory.load::<u64>(word(1));
                        if seen == turn {
                            break;
                        }
                        memory.wait(word(1), seen);
                    }
                    memory.store(word(1), turn + 1);
                    memory.wake(word(1));
                }
            })]
        };
        run_jobs(&engine, take_turns).iter().for_each(|core| drop(core.order()));
    });
}
