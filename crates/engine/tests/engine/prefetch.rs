//! Pages fetched before a job asks for them, by hints and by prefetchers. The tests count reads and
//! hits. They check that a prefetched page that no job uses loses no data.

use std::sync::Arc;
use std::time::Duration;

use ebbtide_core::prefetch::PrefetcherKind;
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::{Addr, Hint, Memory, PAGE_BYTES};
use ebbtide_engine::device::faulty::{Faults, Faulty};
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::{Engine, JobError, Options, Snapshot};

use crate::common::jobs::{ends, job, run_alone, run_jobs, word};
use crate::common::recorder::{Log, Recorder};
use crate::common::{Plan, WORDS_PER_PAGE, image, initial, of_frames, run, small_cache};

const PAGES: u64 = 256;

fn recorded(latency: Latency, options: &Options) -> (Engine, Arc<Log>) {
    let device = Recorder::new(Ram::new(PAGES as usize, latency, image), PAGES);
    let log = device.log();
    (Engine::over_device(Arc::new(device), PAGES, options).unwrap(), log)
}

fn load(memory: &mut impl Memory, page: u64) {
    assert_eq!(memory.load::<u64>(word(page)), initial(page * WORDS_PER_PAGE));
}

/// Returns the counters of a job of a hint and two loads, on one core with frames to spare.
fn hinted(options: &Options, between: bool) -> (Snapshot, Arc<Log>) {
    let (engine, log) = recorded(Latency::Looks(1), options);
    let jobs = || {
        vec![job(move |memory| {
            // Nothing is fetched ahead before the core has frames.
            load(memory, 0);
            memory.hint(Hint::WillNeed(word(9)));
            if between {
                load(memory, 1);
            }
            load(memory, 9);
            load(memory, 9);
        })]
    };
    run_alone(&engine, jobs).order();
    (engine.counters().snapshot(), log)
}

#[test]
fn a_page_hinted_in_time_is_read_once_and_its_first_use_is_a_hit() {
    let (counted, log) = hinted(&small_cache(40, 1, 4, PAGES), true);
    assert_eq!((counted.accesses, counted.misses, counted.hits_under_miss), (4, 2, 0));
    assert_eq!((counted.fetched_ahead, counted.ahead_used, counted.ahead_late), (1, 1, 0));
    assert_eq!((log.reads(9), log.all_reads()), (1, 3));
}

#[test]
fn a_page_hinted_too_late_is_waited_for_and_not_read_again() {
    let (counted, log) = hinted(&small_cache(40, 1, 4, PAGES), false);
    assert_eq!((counted.accesses, counted.misses, counted.hits_under_miss), (3, 1, 1));
    assert_eq!((counted.fetched_ahead, counted.ahead_used, counted.ahead_late), (1, 1, 1));
    assert_eq!((log.reads(9), log.all_reads()), (1, 2));
}

#[test]
fn hints_are_left_alone_where_they_are_turned_off() {
    let mut options = small_cache(40, 1, 4, PAGES);
    options.tuning.hints = false;
    let (counted, _) = hinted(&options, true);
    assert_eq!((counted.misses, counted.fetched_ahead, counted.ahead_used), (3, 0, 0));
}

#[test]
fn hints_at_pages_that_are_there_or_nowhere_do_nothing() {
    let (engine, log) = recorded(Latency::Looks(1), &small_cache(40, 1, 4, PAGES));
    let jobs = || {
        vec![job(move |memory| {
            load(memory, 3);
            memory.hint(Hint::WillNeed(word(3)));
            memory.hint(Hint::WillNeed(word(PAGES)));
            memory.hint(Hint::WillNeed(Addr(u64::MAX)));
            memory.hint(Hint::DontNeed(word(3)));
            load(memory, 4);
        })]
    };
    run_alone(&engine, jobs).order();
    assert_eq!((engine.counters().snapshot().fetched_ahead, log.all_reads()), (0, 2));
}

#[test]
fn a_hint_at_a_broken_page_ends_nobody_and_its_use_does() {
    const BROKEN: u64 = 77;
    let faults = Faults { broken_offset: Some(BROKEN * PAGE_BYTES as u64), ..Faults::default() };
    let ram = Ram::new(PAGES as usize, Latency::Looks(1), image);
    let options = small_cache(40, 1, 1, PAGES);
    let engine =
        Engine::over_device(Arc::new(Faulty::new(ram, faults, 5)), PAGES, &options).unwrap();
    let jobs = || {
        let hints = job(|memory| {
            load(memory, 0);
            memory.hint(Hint::WillNeed(word(BROKEN)));
            (1..40).for_each(|page| load(memory, page));
        });
        vec![hints, job(|memory| load(memory, BROKEN))]
    };
    let ended = run_alone(&engine, jobs).jobs;
    assert!(matches!(ended[0], (0, Ok(()))), "{:?}", ended[0]);
    assert!(matches!(ended[1], (1, Err(JobError::Fault(_)))), "{:?}", ended[1]);
    assert_eq!(engine.counters().snapshot().fetched_ahead, 1);
}

#[test]
fn a_scan_finds_most_of_its_pages_fetched_ahead_and_reads_each_once() {
    for kind in PrefetcherKind::ALL {
        let mut options = small_cache(128, 1, 4, PAGES);
        // A policy that gives up new pages first might give up what is ahead of the scan.
        (options.tuning.prefetch, options.tuning.replacement) = (kind, PolicyKind::Fifo);
        let options = of_frames(128, options, PAGES);
        let (engine, log) = recorded(Latency::Looks(1), &options);
        let jobs = || vec![job(|memory| (0..PAGES).for_each(|page| load(memory, page)))];
        run_alone(&engine, jobs).order();
        let counted = engine.counters().snapshot();
        assert!((0..PAGES).all(|page| log.reads(page) == 1), "{kind}");
        let spared = if kind == PrefetcherKind::None { 0 } else { PAGES / 3 };
        assert!(counted.misses <= PAGES - spared, "{kind}: {} misses", counted.misses);
        assert_eq!(counted.misses + counted.fetched_ahead, PAGES, "{kind}");
        assert_eq!(counted.ahead_used, counted.fetched_ahead, "{kind}");
    }
}

#[test]
fn every_word_is_what_was_stored_whatever_is_fetched_ahead_and_whoever_is_admitted() {
    for prefetcher in PrefetcherKind::ALL {
        for admission in Admission::ALL {
            for (cores, frames) in [(1, 24), (2, 40)] {
                ends(move || {
                    let mut options = small_cache(frames, cores, 16, PAGES);
                    options.hold = Some(Duration::ZERO);
                    options.tuning.replacement = PolicyKind::Clock;
                    (options.tuning.prefetch, options.tuning.admission) = (prefetcher, admission);
                    let options = of_frames(frames, options, PAGES);
                    let plan = Plan {
                        pages: PAGES,
                        cores: cores as u64,
                        lanes_per_core: 16,
                        jobs_per_lane: 20,
                        steps_per_job: 30,
                        write_share: 0.3,
                        seed: 11,
                    };
                    let faults = Faults { delays: 0.2, read_errors: 0.01, ..Faults::default() };
                    let ram = Ram::new(PAGES as usize, Latency::Looks(2), image);
                    let device = Arc::new(Faulty::new(ram, faults, 7));
                    let (engine, _) = run(device, &plan, &options);
                    let counted = engine.counters().snapshot();
                    assert!(counted.ahead_used <= counted.fetched_ahead);
                });
            }
        }
    }
}

#[test]
fn cores_that_use_what_others_fetched_ahead_read_nothing_twice() {
    ends(|| {
        let mut options = small_cache(256, 2, 8, PAGES);
        options.tuning.prefetch = PrefetcherKind::NextNLine;
        options.tuning.replacement = PolicyKind::Fifo;
        let options = of_frames(256, options, PAGES);
        let (engine, log) = recorded(Latency::Looks(2), &options);
        let scan = |_: usize| vec![job(|memory| (0..128).for_each(|page| load(memory, page)))];
        run_jobs(&engine, scan).iter().for_each(|core| drop(core.order()));
        assert!((0..128).all(|page| log.reads(page) == 1));
        let counted = engine.counters().snapshot();
        assert_eq!(counted.misses + counted.fetched_ahead, log.all_reads());
        assert_eq!(counted.misses + counted.ahead_used, 128);
    });
}

#[test]
fn no_more_pages_are_under_way_ahead_of_demand_than_may_be() {
    let mut options = small_cache(64, 1, 4, PAGES);
    options.tuning.batch_max = 1;
    let options = of_frames(200, options, PAGES);
    // Two frames are free at once, and so no more pages may come than that.
    assert_eq!(options.ahead_max(), 8);
    let (engine, log) = recorded(Latency::Looks(1), &options);
    let told = log.clone();
    let jobs = || {
        let log = told.clone();
        vec![job(move |memory| {
            (0..4).for_each(|page| load(memory, page));
            let before = log.all_reads();
            (9..19).for_each(|page| memory.hint(Hint::WillNeed(word(page))));
            assert_eq!(log.all_reads() - before, 2);
        })]
    };
    run_alone(&engine, jobs).order();
    assert_eq!(engine.counters().snapshot().fetched_ahead, 2);
}

#[test]
fn a_miss_on_a_page_that_made_room_for_a_fetched_one_is_counted() {
    let mut options = small_cache(32, 1, 1, PAGES);
    options.tuning.prefetch = PrefetcherKind::NextNLine;
    options.tuning.replacement = PolicyKind::Fifo;
    let options = of_frames(32, options, PAGES);
    let (engine, _) = recorded(Latency::Looks(1), &options);
    // These fit, but not together with the unused pages that are fetched behind each of them.
    let round = || (0..24).map(|number| job(move |memory| load(memory, number * 5))).collect();
    run_alone(&engine, round).order();
    assert_eq!(engine.counters().snapshot().polluted, 0, "nothing was used twice yet");
    for _ in 0..3 {
        run_alone(&engine, round).order();
    }
    let counted = engine.counters().snapshot();
    assert!(counted.fetched_ahead > 0);
    assert!((1..=counted.misses).contains(&counted.polluted), "{counted:?}");
}
