//! The library as a program uses it: threads submit jobs, and the outcome of a job reaches only its
//! ticket.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

use ebbtide_core::{Addr, FullMemory, Memory, PageId, Time};
use ebbtide_engine::device::faulty::{Faults, Faulty};
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::device::{Completion, Device, Queue, Request, Sleeper};
use ebbtide_engine::{Budget, Engine, EngineError, JobError, Jobs, Options};
use ebbtide_structures::latch;
use ebbtide_structures::{Map, Region, Vector};

use crate::common;

const PAGES: u64 = 256;

fn ram(latency: Latency) -> Ram {
    Ram::new(PAGES as usize, latency, |_, page| page.fill(0))
}

/// An engine of `cores` cores with four threads each, and a cache of `frames` frames.
fn engine(device: impl Device + 'static, cores: usize, frames: usize) -> Arc<Engine> {
    let mut options = Options::new(0);
    (options.cores, options.tuning.threads, options.stack_bytes) = (cores, Some(4), 128 << 10);
    if let Err(EngineError::BudgetTooSmall { needed_bytes, .. }) = Budget::divide(&options, PAGES) {
        options.dram_bytes = needed_bytes;
    }
    while Budget::divide(&options, PAGES).unwrap().frames < frames {
        options.dram_bytes += 1024;
    }
    let engine = Arc::new(Engine::over_device(Arc::new(device), PAGES, &options).unwrap());
    common::watch(&engine);
    engine
}

/// A device whose cores sleep until a wake-up, without a time limit. A lost wake-up stops a test
/// for ever.
struct SleepsSoundly(Ram);

struct SoundQueue {
    inner: Box<dyn Queue>,
    sleeper: Arc<SoundSleeper>,
}

#[derive(Default)]
struct SoundSleeper {
    under_way: AtomicUsize,
    woken: Mutex<bool>,
    news: Condvar,
}

impl Device for SleepsSoundly {
    fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(SoundQueue { inner: self.0.queue(depth)?, sleeper: Arc::default() }))
    }
    fn name(&self) -> &'static str {
        self.0.name()
    }
}

impl Queue for SoundQueue {
    fn push(&mut self, request: Request) {
        self.sleeper.under_way.fetch_add(1, Ordering::SeqCst);
        self.inner.push(request);
    }
    fn submit(&mut self) {
        self.inner.submit();
    }
    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.inner.reap(completions);
        self.sleeper.under_way.fetch_sub(completions.len() - before, Ordering::SeqCst);
    }
    fn unsubmitted(&self) -> usize {
        self.inner.unsubmitted()
    }
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
    fn sleeper(&self) -> Arc<dyn Sleeper> {
        self.sleeper.clone()
    }
}

impl Sleeper for SoundSleeper {
    fn sleep(&self, _at_most: Duration) {
        let mut woken = self.woken.lock().unwrap();
        // The device answers after a number of looks. While requests are under way, look again.
        while !*woken && self.under_way.load(Ordering::SeqCst) == 0 {
            woken = self.news.wait(woken).unwrap();
        }
        *woken = false;
    }
    fn wake(&self) {
        *self.woken.lock().unwrap() = true;
        self.news.notify_one();
    }
}

/// Submits a job that loads the word at `at`, and waits for it.
fn load(jobs: &Jobs, at: Addr) -> Result<u64, JobError> {
    jobs.submit(move |memory| memory.load::<u64>(at)).wait()
}

#[test]
fn threads_submit_jobs_on_a_map_and_a_vector_that_all_share() {
    for latency in [Latency::Looks(1), Latency::Time(Duration::from_micros(20))] {
        let engine = engine(ram(latency), 2, 24);
        let mut region = Region::new(Addr(0), PAGES * 4096);
        let map: Map<u64, [u64; 2]> = region.map(10_000).unwrap();
        let vector: Vector<[u64; 3]> = region.vector(2_000).unwrap();
        let jobs = engine.start().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let jobs = &jobs;
                scope.spawn(move || {
                    // Every thread has keys of its own, so it knows what they must hold.
                    let mut model = HashMap::new();
                    for step in 0..400u64 {
                        let (key, value) = (step * step % 97 * 3 + thread, [step, !step]);
                        let before = jobs.submit(move |memory| {
                            vector.update(memory, step % 5 * 399, |old| old.map(|word| word + 1));
                            if step % 4 == 3 {
                                map.remove(memory, key)
                            } else {
                                map.insert(memory, key, value).unwrap()
                            }
                        });
                        let expected = match step % 4 {
                            3 => model.remove(&key),
                            _ => model.insert(key, value),
                        };
                        assert_eq!(before.wait(), Ok(expected));
                    }
                    for (key, value) in model {
                        let found = jobs.submit(move |memory| map.get(memory, key)).wait();
                        assert_eq!(found, Ok(Some(value)));
                    }
                });
            }
        });
        for index in 0..5 {
            let counted = jobs.submit(move |memory| vector.get(memory, index * 399)).wait();
            assert_eq!(counted, Ok([3 * 80; 3]));
        }
        assert!(engine.counters().snapshot().evictions_dirty > 0, "the cache is too small for all");
        jobs.stop().unwrap();
    }
}

#[test]
fn counters_are_up_to_date_while_the_engine_runs() {
    let engine = engine(ram(Latency::Looks(0)), 1, 8);
    let jobs = engine.start().unwrap();
    for number in 1..=20 {
        assert_eq!(load(&jobs, PageId(number).start()), Ok(0));
        let counted = jobs.engine().counters().snapshot();
        assert_eq!((counted.jobs, counted.accesses, counted.misses), (number, number, number));
    }
    jobs.stop().unwrap();
}

#[test]
fn the_clock_of_an_engine_goes_on_from_when_it_was_made() {
    let engine = engine(ram(Latency::Looks(0)), 1, 8);
    let first = engine.now();
    assert!(first > Time::ZERO);
    let jobs = engine.start().unwrap();
    assert_eq!(load(&jobs, Addr(0)), Ok(0));
    assert!(engine.now() > first);
    jobs.stop().unwrap();
}

#[test]
fn a_device_error_is_that_jobs_result_and_later_jobs_work() {
    let broken = PageId(7);
    let faults = Faults { broken_offset: Some(broken.start().0), ..Faults::default() };
    let engine = engine(Faulty::new(ram(Latency::Looks(0)), faults, 1), 2, 16);
    let vector = Vector::<[u64; 8]>::at(Addr(0), 1000);
    let jobs = engine.start().unwrap();
    let update = |index| {
        let add = |old: [u64; 8]| old.map(|word| word + 1);
        jobs.submit(move |memory| vector.update(memory, index, add)).wait()
    };
    for round in 1..=3 {
        assert_eq!(update(0), Ok([round; 8]));
        match update(7 * 63) {
            Err(JobError::Fault(fault)) => assert_eq!(fault.page, broken),
            other => panic!("page {broken:?} gave {other:?}"),
        }
    }
    assert_eq!(engine.counters().snapshot().jobs_failed, 3);
    jobs.stop().unwrap();
}

#[test]
fn a_panic_is_that_jobs_result_and_frees_its_latch() {
    let engine = engine(ram(Latency::Looks(0)), 1, 16);
    let map = Map::<u64, u64>::at(Addr(0), 100);
    let jobs = engine.start().unwrap();
    let add = |bound| {
        jobs.submit(move |memory| {
            map.update(memory, 1, |old| {
                let new = old.unwrap_or(0) + 1;
                assert!(new <= bound, "more than {bound}");
                Some(new)
            })
        })
    };
    assert_eq!(add(1).wait(), Ok(Ok(None)));
    assert_eq!(add(1).wait(), Err(JobError::Panicked("more than 1".into())));
    assert_eq!(add(2).wait(), Ok(Ok(Some(1))));
    jobs.stop().unwrap();
}

#[test]
fn a_value_that_panics_when_nobody_wants_it_harms_nobody() {
    struct Sore;
    impl Drop for Sore {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let engine = engine(ram(Latency::Looks(0)), 1, 16);
    let jobs = engine.start().unwrap();
    let (go, start) = channel::<()>();
    let ticket = jobs.submit(move |_| {
        start.recv().unwrap();
        Sore
    });
    drop(ticket);
    go.send(()).unwrap();
    assert_eq!(load(&jobs, Addr(0)), Ok(0));
    jobs.stop().unwrap();
}

#[test]
fn stop_and_drop_finish_what_was_submitted() {
    for stops in [true, false] {
        let engine = engine(ram(Latency::Looks(3)), 2, 16);
        // More than once: the engine can be started again.
        for round in 1..=2 {
            let jobs = engine.start().unwrap();
            let store = |page: u64| {
                let at = PageId(page % 50).start() + page / 50 * 8;
                jobs.submit(move |memory| memory.store(at, page * round))
            };
            let tickets: Vec<_> = (0..200).map(store).collect();
            if stops {
                jobs.stop().unwrap()
            } else {
                drop(jobs)
            }
            for ticket in tickets {
                assert_eq!(ticket.wait_for(Duration::ZERO).ok(), Some(Ok(())), "it has ended");
            }
            assert_eq!(engine.counters().snapshot().jobs, 200 * round);
        }
    }
}

#[test]
fn the_queue_is_bounded_and_submit_waits_for_room() {
    let engine = engine(ram(Latency::Looks(0)), 1, 16);
    let jobs = engine.start().unwrap();
    let (running, runs) = channel();
    let (go, wait) = channel::<()>();
    let held_up = jobs.submit(move |_| {
        running.send(()).unwrap();
        wait.recv().unwrap();
    });
    runs.recv().unwrap();
    // The core is held up: as many jobs wait as it has threads.
    let mut queued: Vec<_> = (0..4).map(|n| jobs.try_submit(move |_| n).ok().unwrap()).collect();
    assert!(jobs.try_submit(|_| 9).is_err());
    assert!(queued.pop().unwrap().wait_for(Duration::ZERO).is_err(), "it cannot have run");
    std::thread::scope(|scope| {
        let jobs = &jobs;
        let submit = |n| scope.spawn(move || jobs.submit(move |_| n).wait());
        let blocked: Vec<_> = (0..3).map(submit).collect();
        go.send(()).unwrap();
        for (n, thread) in blocked.into_iter().enumerate() {
            assert_eq!(thread.join().unwrap(), Ok(n));
        }
    });
    assert_eq!(held_up.wait(), Ok(()));
    for (n, ticket) in queued.into_iter().enumerate() {
        assert_eq!(ticket.wait(), Ok(n));
    }
    jobs.stop().unwrap();
}

#[test]
fn a_job_that_would_wait_for_a_job_is_told_off() {
    let engine = engine(ram(Latency::Looks(0)), 1, 16);
    let jobs = Arc::new(engine.start().unwrap());
    let more = jobs.clone();
    let ticket = jobs.submit(move |_| more.submit(|_| 1).wait());
    let Err(JobError::Panicked(message)) = ticket.wait() else { panic!("it waited") };
    assert!(message.contains("inside a job"), "{message}");
    // Without waiting it may.
    let more = jobs.clone();
    let inner = jobs.submit(move |_| more.try_submit(|_| 1).ok()).wait().unwrap();
    assert_eq!(inner.unwrap().wait(), Ok(1));
}

#[test]
fn every_core_that_sleeps_is_roused_for_its_share() {
    let engine = engine(SleepsSoundly(ram(Latency::Looks(0))), 2, 64);
    let jobs = engine.start().unwrap();
    for _ in 0..100 {
        // The jobs hold up their cores until both run: one core alone would stop here for ever.
        let both = Arc::new(Barrier::new(2));
        let tickets: Vec<_> = (0..2)
            .map(|_| {
                let both = both.clone();
                jobs.submit(move |_| {
                    both.wait();
                })
            })
            .collect();
        for ticket in tickets {
            assert_eq!(ticket.wait(), Ok(()));
        }
    }
    jobs.stop().unwrap();
}

#[test]
fn a_job_that_waits_for_a_latch_of_another_core_is_woken_in_its_sleep() {
    const HELD_AND_WAITED_FOR: u64 = 3;
    let (latch_at, gate, shared) = (Addr(0), Addr(4096), Addr(64));
    let engine = engine(SleepsSoundly(ram(Latency::Looks(0))), 2, 64);
    let jobs = engine.start().unwrap();
    for round in 1..=20u64 {
        // Both jobs hold up their cores until the other has come so far: they are on two cores.
        let (held, meets) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let (is_held, met) = (held.clone(), meets.clone());
        let holder = jobs.submit(move |memory| {
            met.wait();
            latch::write(memory, latch_at, |memory| {
                is_held.wait();
                while memory.load::<u64>(gate) != round {
                    memory.wait(gate, round - 1);
                }
                memory.store(shared, round);
            });
        });
        let waiter = jobs.submit(move |memory| {
            meets.wait();
            held.wait();
            latch::write(memory, latch_at, |memory| memory.load::<u64>(shared))
        });
        while load(&jobs, latch_at).unwrap() & HELD_AND_WAITED_FOR != HELD_AND_WAITED_FOR {}
        let opened = jobs.submit(move |memory| {
            memory.store(gate, round);
            memory.wake(gate);
        });
        assert_eq!(opened.wait(), Ok(()));
        assert_eq!(waiter.wait(), Ok(round));
        assert_eq!(holder.wait(), Ok(()));
    }
    jobs.stop().unwrap();
}

/// A panic whose payload panics when it is dropped, and whose second payload does as well.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::panic::panic_any(Bomb(self.0 - 1));
        }
    }
}

#[test]
fn a_panic_payload_that_panics_when_dropped_ends_its_job_alone() {
    let engine = engine(ram(Latency::Looks(0)), 1, 16);
    let jobs = engine.start().unwrap();
    for depth in 1..4 {
        let result = jobs.submit(move |_| std::panic::panic_any(Bomb(depth))).wait();
        let result: Result<(), JobError> =
            result.map(|never: std::convert::Infallible| match never {});
        assert_eq!(result, Err(JobError::Panicked("without a message".into())));
        assert_eq!(load(&jobs, Addr(0)), Ok(0));
    }
    jobs.stop().unwrap();
}

#[test]
fn a_value_whose_drop_panics_with_such_a_payload_harms_nobody() {
    let engine = engine(ram(Latency::Looks(0)), 1, 16);
    let jobs = engine.start().unwrap();
    let (go, start) = channel::<()>();
    let early = jobs.submit(move |_| {
        start.recv().unwrap();
        Bomb(3)
    });
    drop(early);
    go.send(()).unwrap();
    let late = jobs.submit(|_| Bomb(3));
    // The one core has ended the jobs that came before.
    assert_eq!(load(&jobs, Addr(0)), Ok(0));
    drop(late);
    assert_eq!(load(&jobs, Addr(0)), Ok(0));
    jobs.stop().unwrap();
}

/// Each instruction waits for the one before, so that no CPU executes more than one in a cycle.
#[test]
fn work_takes_as_long_as_so_many_instructions_take_at_least() {
    const INSTRUCTIONS: u64 = 8_000_000;
    const CYCLES_PER_US_MAX: u64 = 20_000;
    let jobs = engine(ram(Latency::Looks(1)), 1, 16).start().unwrap();
    let took = jobs.submit(|memory| {
        let begun = Instant::now();
        memory.work(INSTRUCTIONS);
        begun.elapsed()
    });
    let least = Duration::from_micros(INSTRUCTIONS / 2 / CYCLES_PER_US_MAX);
    assert!(took.wait().unwrap() >= least);
}
