//! The life of a miss, seen from outside: the reads of each job, the order of jobs that go on, and
//! sums of counters.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ebbtide_core::Memory;
use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::schedule::Discipline;
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::{Engine, Options};

use crate::common;
use crate::common::jobs::{Work, ends, job, loads, run_alone, run_jobs, word};
use crate::common::recorder::{Log, Recorder};
use crate::common::{Plan, image, initial, run, small_cache};

const PAGES: u64 = 256;

/// Far longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

fn recorded(latency: Latency) -> Recorder<Ram> {
    Recorder::new(Ram::new(PAGES as usize, latency, image), PAGES)
}

fn engine(device: Recorder<Ram>, options: &Options) -> (Engine, Arc<Log>) {
    let log = device.log();
    (Engine::over_device(Arc::new(device), PAGES, options).unwrap(), log)
}

#[test]
fn sixty_four_jobs_that_ask_for_one_page_read_it_once() {
    for cores in [1, 2] {
        let mut options = small_cache(40, cores, 64, PAGES);
        options.hold = Some(NEVER);
        let (engine, log) = engine(recorded(Latency::Looks(1000)), &options);
        run_jobs(&engine, |_| (0..64 / cores).map(|_| loads(9)).collect());
        let counted = engine.counters().snapshot();
        assert_eq!((log.reads(9), log.all_reads()), (1, 1));
        assert_eq!((counted.accesses, counted.misses, counted.jobs), (64, 1, 64));
        if cores == 1 {
            // All of them asked before the first request was handed over.
            assert_eq!((counted.hits, counted.hits_under_miss), (0, 63));
        }
    }
}

#[test]
fn a_page_being_written_back_is_revived_and_not_read_again() {
    let mut options = small_cache(8, 1, 2, PAGES);
    options.tuning.replacement = PolicyKind::Fifo;
    let options = common::of_frames(8, options, PAGES);
    let (engine, log) = engine(recorded(Latency::Looks(1)).holding_writes(1000), &options);
    let watched = log.clone();
    let scan = move || {
        let log = watched.clone();
        vec![job(move |memory| {
            memory.store::<u64>(word(0), 42);
            let mut page = 0;
            while log.writes(0) == 0 {
                page += 1;
                memory.load::<u64>(word(page));
            }
            // On its way out since a moment ago, and the device takes a thousand looks for it.
            assert_eq!(memory.load::<u64>(word(0)), 42);
        })]
    };
    run_alone(&engine, scan).order();
    assert_eq!((log.reads(0), log.writes(0)), (1, 1));
    let counted = engine.counters().snapshot();
    assert_eq!((counted.revived, counted.hits_under_miss), (1, 1));
}

/// Returns how many pages come back to jobs while they wait to be written, in a cache of `frames`
/// frames.
fn pages_that_come_back_unwritten(frames: usize) -> u64 {
    let mut options = small_cache(frames, 1, 40, PAGES);
    options.tuning.replacement = PolicyKind::Fifo;
    // So few pages are written at once that most victims wait.
    options.tuning.batch_max = 1;
    let options = common::of_frames(frames, options, PAGES);
    let (engine, log) = engine(recorded(Latency::Looks(1)).holding_writes(20), &options);
    run_alone(&engine, || {
        let store = |page| job(move |memory| memory.store::<u64>(word(page), page + 42));
        (0..60).map(store).collect()
    });
    let watched = log.clone();
    let work = move || {
        let log = watched.clone();
        let comes_back = job(move |memory| {
            for page in (0..60).filter(|&page| log.writes(page) == 0) {
                assert_eq!(memory.load::<u64>(word(page)), page + 42);
            }
        });
        // Each of these wants a frame, and nearly all pages in frames are changed.
        (100..130).map(loads).chain([comes_back]).collect()
    };
    run_alone(&engine, work).order();
    engine.counters().snapshot().revived_unwritten
}

#[test]
fn a_page_that_waits_to_be_written_comes_back_without_the_device() {
    // Whether pages wait when the job asks for them depends on how many were given up by then.
    let come_back: Vec<u64> = (60..72).map(pages_that_come_back_unwritten).collect();
    assert!(come_back.iter().filter(|count| **count > 0).count() > 1, "{come_back:?}");
}

#[test]
fn every_job_ends_in_a_cache_of_a_few_frames_and_every_page_read_is_used() {
    for (cores, frames) in [(1, 4), (1, 5), (2, 8), (2, 9)] {
        ends(move || {
            let mut options = small_cache(frames, cores, 64, PAGES);
            options.hold = Some(Duration::ZERO);
            let (engine, log) = engine(recorded(Latency::Looks(2)), &options);
            // No two jobs share a page, and no job comes back to one. A page that was evicted
            // before its job had used it would have to be read again.
            let share = PAGES / cores as u64;
            let jobs = |core: usize| -> Vec<Work> {
                let first = core as u64 * share;
                let per_job = 4;
                (first..first + share)
                    .step_by(per_job)
                    .map(|page| {
                        job(move |memory| {
                            for page in page..page + per_job as u64 {
                                let index = page * common::WORDS_PER_PAGE;
                                assert_eq!(memory.load::<u64>(word(page)), initial(index));
                            }
                        })
                    })
                    .collect()
            };
            run_jobs(&engine, jobs).iter().for_each(|core| drop(core.order()));
            assert!((0..PAGES).all(|page| log.reads(page) == 1));
            let counted = engine.counters().snapshot();
            assert_eq!((counted.accesses, counted.misses), (PAGES, PAGES));
        });
    }
}

/// Runs a job that misses, then `count` jobs that hit page 0, which is resident already. Returns
/// the numbers of the jobs in the order of their ends. The missing one is number 0.
fn order_of_a_miss_among_hits(discipline: Discipline, count: usize) -> Vec<usize> {
    let mut options = small_cache(40, 1, 4, PAGES);
    options.tuning.scheduler = discipline;
    options.hold = Some(Duration::ZERO);
    let (engine, _) = engine(recorded(Latency::Looks(3)), &options);
    run_alone(&engine, || vec![loads(0)]).order();
    let jobs = || std::iter::once(loads(1)).chain((0..count).map(|_| loads(0))).collect();
    run_alone(&engine, jobs).order()
}

#[test]
fn by_priority_a_job_whose_page_has_arrived_goes_before_endless_new_ones() {
    let order = order_of_a_miss_among_hits(Discipline::Priority, 10_000);
    let turn = order.iter().position(|&number| number == 0).unwrap();
    // A turn to hand it over, three looks, and one to be told.
    assert!((1..=6).contains(&turn), "it ended in turn {turn}");
}

#[test]
fn by_fifo_new_jobs_go_first_while_a_thread_is_free() {
    let order = order_of_a_miss_among_hits(Discipline::Fifo, 1_000);
    assert_eq!(order.last(), Some(&0));
}

#[test]
fn as_many_jobs_are_under_way_as_there_are_threads_and_never_more() {
    for discipline in [Discipline::Priority, Discipline::Fifo] {
        let mut options = small_cache(40, 1, 5, PAGES);
        options.tuning.scheduler = discipline;
        let (engine, _) = engine(recorded(Latency::Looks(50)), &options);
        let ended = run_alone(&engine, || (0..PAGES).map(loads).collect());
        assert_eq!(ended.under_way_max, 5);
        assert_eq!(ended.order().into_iter().collect::<BTreeSet<_>>().len(), PAGES as usize);
    }
}

#[test]
fn a_lone_miss_is_handed_over_at_once_however_long_requests_may_be_held() {
    ends(|| {
        let mut options = small_cache(40, 1, 4, PAGES);
        options.hold = Some(NEVER);
        let (engine, log) = engine(recorded(Latency::Looks(1)), &options);
        let chain = || {
            vec![job(|memory| {
                (0..100).for_each(|page| {
                    memory.load::<u64>(word(page));
                })
            })]
        };
        run_alone(&engine, chain).order();
        assert_eq!(log.all_reads(), 100);
        assert_eq!(log.submissions().iter().max(), Some(&1));
    });
}

#[test]
fn a_busy_core_hands_many_requests_over_together() {
    let mut options = small_cache(120, 1, 64, PAGES);
    options.hold = Some(NEVER);
    let (engine, log) = engine(recorded(Latency::Looks(4)), &options);
    let jobs = || (0..4 * PAGES).map(|number| loads(number * 7 % PAGES)).collect();
    run_alone(&engine, jobs).order();
    let submissions = log.submissions();
    let together = log.all_reads() as f64 / submissions.len() as f64;
    assert!(
        together >= options.tuning.batch_max as f64 / 2.0,
        "{together} at once: {submissions:?}"
    );
    assert!(
        submissions.iter().all(|&count| count <= 2 * options.tuning.batch_max),
        "{submissions:?}"
    );
}

#[test]
fn requests_wait_for_company_no_longer_than_they_may() {
    // The job that computes on gives the core back only when the other has its page.
    let mut options = small_cache(40, 1, 2, PAGES);
    options.hold = Some(Duration::ZERO);
    options.tuning.batch_max = 64;
    let (engine, _) = engine(recorded(Latency::Looks(1)), &options);
    let jobs = || {
        let arrived = Rc::new(Cell::new(false));
        let tell = arrived.clone();
        let miss = job(move |memory| {
            memory.load::<u64>(word(1));
            tell.set(true);
        });
        let mut all = vec![miss];
        all.extend((0..50).map(|_| loads(0)));
        all.push(job(move |_| assert!(arrived.get(), "its request was held back")));
        all
    };
    run_alone(&engine, || vec![loads(0)]).order();
    run_alone(&engine, jobs).order();
}

#[test]
fn what_is_counted_adds_up() {
    for (cores, frames) in [(1, 8), (1, 100), (2, 16), (2, 200)] {
        let plan = Plan {
            pages: PAGES,
            cores: cores as u64,
            lanes_per_core: 16,
            jobs_per_lane: 20,
            steps_per_job: 50,
            write_share: 0.3,
            seed: 11,
        };
        let device = recorded(Latency::Looks(2));
        let log = device.log();
        let options = small_cache(frames, cores, 16, PAGES);
        let (engine, failed) = run(Arc::new(device), &plan, &options);
        let counted = engine.counters().snapshot();
        assert_eq!(failed, 0);
        assert_eq!(counted.accesses, counted.hits + counted.misses + counted.hits_under_miss);
        assert_eq!(counted.accesses, cores as u64 * 16 * 20 * 50);
        assert_eq!(counted.jobs, cores as u64 * 16 * 20);
        assert_eq!(counted.flash_reads, counted.misses, "every miss reads once");
        assert_eq!(counted.flash_reads, log.all_reads());
        assert_eq!(counted.write_requests, log.all_writes());
        let written = counted.evictions_dirty - counted.revived_unwritten;
        assert_eq!(counted.flash_writes, written, "every changed page that left is written");
        assert_eq!(engine.counters().flash_read_ns().len(), counted.flash_reads);
        // Pages that came in and neither left nor are leaving hold a frame.
        let left = counted.evictions_clean + counted.evictions_dirty - counted.revived;
        let resident = counted.flash_reads.checked_sub(left).expect("a page left that never came");
        assert!(resident <= frames as u64, "{resident} pages in {frames} frames");
        assert!(resident >= frames as u64 / 2, "{resident} pages in {frames} frames");
        let errors = [counted.retries, counted.read_errors, counted.write_errors];
        assert_eq!(errors, [0; 3]);
    }
}

#[test]
fn a_page_stays_as_long_as_jobs_come_back_to_it_and_goes_when_none_does() {
    let mut options = small_cache(16, 1, 1, PAGES);
    options.tuning.replacement = PolicyKind::Clock;
    let options = common::of_frames(16, options, PAGES);
    let (engine, log) = engine(recorded(Latency::Looks(1)), &options);
    let half = PAGES / 2;
    let visits = || (1..half).flat_map(|page| [loads(0), loads(page)]).collect();
    run_alone(&engine, visits).order();
    assert_eq!(log.reads(0), 1, "it was hit between all misses");
    let others = || (half..PAGES).map(loads).chain([loads(0)]).collect();
    run_alone(&engine, others).order();
    assert_eq!(log.reads(0), 2, "nobody came back to it");
}

#[test]
fn the_frames_that_the_last_jobs_of_a_run_have_used_serve_the_next_run() {
    ends(|| {
        let (engine, log) = engine(recorded(Latency::Looks(1)), &small_cache(8, 1, 1, PAGES));
        for page in 0..PAGES {
            run_alone(&engine, || vec![loads(page)]);
        }
        assert_eq!(log.all_reads(), PAGES);
    });
}
