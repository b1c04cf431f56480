//! One core must not hold up another with a job that only hits, or only computes, during the other
//! core's misses. The busy job goes on until the other core is done. So the tests depend on the
//! order of events, and not on their duration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ebbtide_core::{Addr, Memory};
use ebbtide_engine::device::Device;
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::device::uring::Uring;
use ebbtide_engine::{Engine, FlashMemory, Options, Snapshot};
use ebbtide_structures::latch;

use crate::common;
use crate::common::file::page_file;
use crate::common::jobs::{Ended, Work, ends, job, run_jobs, word};
use crate::common::recorder::{Log, Recorder};
use crate::common::{WORDS_PER_PAGE, image, initial, small_cache};

const PAGES: u64 = 512;

/// Pages below this are core 0's, the others core 1's.
const SCANNED: u64 = 4;

const NEVER: Duration = Duration::from_secs(3600);

/// Where both cores are.
#[derive(Default)]
struct Progress {
    busy: AtomicBool,
    ended: AtomicU64,
}

impl Progress {
    /// Core 1's jobs begin once core 0 is busy.
    fn wait_until_busy(&self) {
        while !self.busy.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
    }

    fn note_end(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Computes, without any memory call, until `count` jobs of core 1 have ended. If this holds
    /// core 1 up, the engine hangs, and its watchdog prints the fibers that wait.
    fn compute_until(&self, count: u64) {
        self.busy.store(true, Ordering::SeqCst);
        while self.ended.load(Ordering::SeqCst) != count {
            std::hint::spin_loop();
        }
    }

    /// Reads the scanned pages until `count` jobs of core 1 have ended, as
    /// [`compute_until`](Progress::compute_until) computes.
    fn scan_until(&self, count: u64, memory: &mut FlashMemory<'_>) {
        self.busy.store(true, Ordering::SeqCst);
        for index in (0..SCANNED * WORDS_PER_PAGE).cycle() {
            if self.ended.load(Ordering::SeqCst) == count {
                return;
            }
            assert_eq!(memory.load::<u64>(Addr(index * 8)), initial(index));
        }
    }
}

/// Whether to use memory or io_uring on a file.
#[derive(Clone, Copy, Debug)]
enum Flash {
    Ram,
    File,
}

fn recorded(flash: Flash) -> (Arc<dyn Device>, Arc<Log>) {
    match flash {
        Flash::Ram => {
            let ram = Ram::new(PAGES as usize, Latency::Looks(2), image);
            let device = Recorder::new(ram, PAGES);
            let log = device.log();
            (Arc::new(device), log)
        }
        Flash::File => {
            let uring = Uring::new(page_file(PAGES, image)).unwrap();
            let device = Recorder::new(uring, PAGES);
            let log = device.log();
            (Arc::new(device), log)
        }
    }
}

fn options(frames: usize) -> Options {
    let mut options = small_cache(frames, 2, 8, PAGES);
    options.hold = Some(NEVER);
    options
}

/// A job of core 1 that checks the first word of `page`.
fn checks(progress: &Arc<Progress>, page: u64, expected: u64) -> Work {
    let progress = progress.clone();
    job(move |memory| {
        progress.wait_until_busy();
        assert_eq!(memory.load::<u64>(word(page)), expected);
        progress.note_end();
    })
}

fn initial_of(page: u64) -> u64 {
    initial(page * WORDS_PER_PAGE)
}

/// Runs core 0's jobs and, once one of them is busy, jobs of core 1 that check `pages`; all must
/// end well.
fn run_beside(
    flash: Flash,
    frames: usize,
    busy: impl Fn(&Arc<Progress>) -> Vec<Work> + Sync,
    pages: impl Fn() -> Vec<(u64, u64)> + Sync,
) -> (Snapshot, Arc<Log>) {
    let (device, log) = recorded(flash);
    let engine = Engine::over_device(device, PAGES, &options(frames)).unwrap();
    let progress = Arc::new(Progress::default());
    let jobs = |core| match core {
        0 => busy(&progress),
        _ => pages().into_iter().map(|(page, word)| checks(&progress, page, word)).collect(),
    };
    run_jobs(&engine, jobs).iter().for_each(|ended: &Ended| drop(ended.order()));
    (engine.counters().snapshot(), log)
}

/// Four times as many pages as there are frames.
fn many_pages() -> Vec<(u64, u64)> {
    (SCANNED..SCANNED + 4 * 64).map(|page| (page, initial_of(page))).collect()
}

fn a_scan_does_not_delay_misses(flash: Flash) {
    ends(move || {
        let count = many_pages().len() as u64;
        let scan = |progress: &Arc<Progress>| {
            let progress = progress.clone();
            vec![job(move |memory| {
                for page in 0..SCANNED {
                    memory.load::<u64>(word(page));
                }
                progress.scan_until(count, memory);
            })]
        };
        let (counted, log) = run_beside(flash, 64, scan, many_pages);
        assert_eq!(counted.jobs, count + 1);
        // The scan did nothing but hit, and core 1 nothing but miss. Where core 0's thread did not
        // run for long, its pages were given up and read again.
        let scanned: u64 = (0..SCANNED).map(|page| u64::from(log.reads(page))).sum();
        assert!(scanned <= count / 4, "{scanned} reads of {SCANNED} pages");
        assert_eq!(counted.misses, scanned + count);
    });
}

#[test]
fn a_long_scan_that_hits_does_not_delay_the_misses_of_another_core() {
    a_scan_does_not_delay_misses(Flash::Ram);
}

#[test]
fn nor_does_it_with_io_uring_on_a_file() {
    a_scan_does_not_delay_misses(Flash::File);
}

fn a_computing_job_does_not_delay_misses(flash: Flash) {
    ends(move || {
        let count = many_pages().len() as u64;
        let compute = |progress: &Arc<Progress>| {
            let progress = progress.clone();
            vec![job(move |memory| {
                memory.load::<u64>(word(0));
                progress.compute_until(count);
            })]
        };
        let (counted, _) = run_beside(flash, 64, compute, many_pages);
        // Every frame was needed several times over.
        assert_eq!(counted.misses, 1 + count);
    });
}

#[test]
fn a_job_that_computes_does_not_delay_the_misses_and_frames_of_another_core() {
    a_computing_job_does_not_delay_misses(Flash::Ram);
}

#[test]
fn nor_does_it_with_io_uring_on_a_file_while_computing() {
    a_computing_job_does_not_delay_misses(Flash::File);
}

/// Core 0 misses on page 0 and then computes; core 1 wants the same page. With `held`, the request
/// is not even handed over when core 0 begins to compute.
fn a_page_under_way_elsewhere_is_had(flash: Flash, held: bool) {
    ends(move || {
        let (device, log) = recorded(flash);
        let mut options = options(64);
        options.hold = Some(if held { NEVER } else { Duration::ZERO });
        let engine = Engine::over_device(device, PAGES, &options).unwrap();
        let progress = Arc::new(Progress::default());
        let jobs = |core| -> Vec<Work> {
            let progress = progress.clone();
            match core {
                0 => {
                    let log = log.clone();
                    let compute = move |_: &mut FlashMemory<'_>| {
                        assert_eq!(log.reads(0), 1, "the request is on its way");
                        assert_eq!(log.submissions().is_empty(), held);
                        progress.compute_until(1);
                    };
                    vec![common::jobs::loads(0), job(compute)]
                }
                _ => vec![checks(&progress, 0, initial_of(0))],
            }
        };
        run_jobs(&engine, jobs).iter().for_each(|ended| drop(ended.order()));
        let counted = engine.counters().snapshot();
        assert_eq!((log.reads(0), counted.misses), (1, 1));
        assert!(counted.helped > 0, "core 0 was busy: only help can have brought the page");
    });
}

#[test]
fn a_page_whose_read_a_busy_core_has_not_handed_over_is_had() {
    a_page_under_way_elsewhere_is_had(Flash::Ram, true);
    a_page_under_way_elsewhere_is_had(Flash::File, true);
}

#[test]
fn a_page_that_a_busy_core_is_reading_is_had() {
    a_page_under_way_elsewhere_is_had(Flash::Ram, false);
    a_page_under_way_elsewhere_is_had(Flash::File, false);
}

#[test]
fn pages_that_a_busy_core_is_giving_up_or_writing_back_are_had_as_they_were_stored() {
    /// More than there are frames, so that many are on their way out at any moment.
    const STORED: u64 = 200;
    for flash in [Flash::Ram, Flash::File] {
        ends(move || {
            let stored = || (0..STORED).map(|page| (page, !initial_of(page)));
            let store = |progress: &Arc<Progress>| {
                let progress = progress.clone();
                vec![job(move |memory| {
                    stored().for_each(|(page, value)| memory.store::<u64>(word(page), value));
                    progress.compute_until(STORED);
                })]
            };
            // Newest first: the pages given up last are asked for before they are gone.
            let (counted, _) = run_beside(flash, 32, store, || stored().rev().collect());
            assert!(counted.evictions_dirty > 0);
        });
    }
}

#[test]
fn frames_that_a_busy_core_has_just_filled_can_be_had_by_another() {
    for flash in [Flash::Ram, Flash::File] {
        ends(move || {
            let count = many_pages().len() as u64;
            let busy = |progress: &Arc<Progress>| {
                // All of these pages arrive together. The job that goes on first then computes. The
                // pages of the others are installed but not used.
                let mut jobs: Vec<Work> = (PAGES - 7..PAGES).map(common::jobs::loads).collect();
                let progress = progress.clone();
                let compute = job(move |memory| {
                    memory.load::<u64>(word(0));
                    progress.compute_until(count);
                });
                jobs.insert(0, compute);
                jobs
            };
            let (counted, _) = run_beside(flash, 32, busy, many_pages);
            assert_eq!(counted.misses, 8 + count);
        });
    }
}

#[test]
fn frames_that_a_busy_core_keeps_from_the_policy_are_had_by_who_needs_them() {
    ends(|| {
        let (device, log) = recorded(Flash::Ram);
        let mut options = options(32);
        options.hold = Some(Duration::ZERO);
        let engine = Engine::over_device(device, PAGES, &options).unwrap();
        run_jobs(&engine, |core| if core == 0 { vec![common::jobs::loads(0)] } else { vec![] });
        let count = many_pages().len() as u64;
        let progress = Arc::new(Progress::default());
        let jobs = |core| -> Vec<Work> {
            if core == 1 {
                let all = many_pages().into_iter();
                return all.map(|(page, word)| checks(&progress, page, word)).collect();
            }
            // Never idle, core 0 fills one frame after the other until none is left to fill, ...
            let among_hits = |page| {
                std::iter::once(common::jobs::loads(page))
                    .chain((0..8).map(|_| common::jobs::loads(0)))
            };
            let mut jobs: Vec<Work> = (PAGES - 29..PAGES).flat_map(among_hits).collect();
            // ... and then computes.
            let (progress, log) = (progress.clone(), log.clone());
            jobs.push(job(move |_| {
                assert_eq!(log.all_reads(), 30);
                progress.compute_until(count);
            }));
            jobs
        };
        run_jobs(&engine, jobs).iter().for_each(|ended| drop(ended.order()));
    });
}

/// An engine whose sleeping cores are only woken by calls, with its first four pages resident.
fn deeply_sleeping() -> Engine {
    let ram = Ram::new(PAGES as usize, Latency::Looks(1), image);
    let device = Recorder::new(ram, PAGES).sleeping_deeply();
    Engine::over_device(Arc::new(device), PAGES, &options(64)).unwrap()
}

/// Goes on once a core of `engine` has gone to sleep once more than `before`.
fn until_a_core_sleeps(engine: &Engine, before: u64) {
    while engine.counters().snapshot().sleeps == before {
        std::hint::spin_loop();
    }
}

#[test]
fn a_sleeping_core_is_woken_by_a_latch_that_another_core_releases() {
    ends(|| {
        let engine = Arc::new(deeply_sleeping());
        // A page of zeros would do as well: this word becomes a free latch.
        let free = |memory: &mut FlashMemory<'_>| memory.store::<u64>(word(0), 0);
        let held = Arc::new(AtomicBool::new(false));
        let freed = Arc::new(AtomicBool::new(false));
        let jobs = |core| -> Vec<Work> {
            let (engine, held, freed) = (engine.clone(), held.clone(), freed.clone());
            match core {
                0 => vec![job(move |memory| {
                    free(memory);
                    let before = engine.counters().snapshot().sleeps;
                    latch::write(memory, word(0), |_| {
                        held.store(true, Ordering::SeqCst);
                        until_a_core_sleeps(&engine, before);
                        freed.store(true, Ordering::SeqCst);
                    });
                })],
                _ => vec![job(move |memory| {
                    while !held.load(Ordering::SeqCst) {
                        std::hint::spin_loop();
                    }
                    latch::write(memory, word(0), |_| assert!(freed.load(Ordering::SeqCst)));
                })],
            }
        };
        run_jobs(&engine, jobs).iter().for_each(|ended| drop(ended.order()));
    });
}

#[test]
fn a_sleeping_core_is_woken_by_a_page_that_another_core_brings() {
    ends(|| {
        let engine = Arc::new(deeply_sleeping());
        let asked = Arc::new(AtomicBool::new(false));
        let jobs = |core| -> Vec<Work> {
            let (engine, asked) = (engine.clone(), asked.clone());
            match core {
                // The page is asked for by the first job and cannot come before the second ends.
                0 => vec![
                    common::jobs::loads(0),
                    job(move |_| {
                        let before = engine.counters().snapshot().sleeps;
                        asked.store(true, Ordering::SeqCst);
                        until_a_core_sleeps(&engine, before);
                    }),
                ],
                _ => vec![job(move |memory| {
                    while !asked.load(Ordering::SeqCst) {
                        std::hint::spin_loop();
                    }
                    assert_eq!(memory.load::<u64>(word(0)), initial_of(0));
                })],
            }
        };
        run_jobs(&engine, jobs).iter().for_each(|ended| drop(ended.order()));
        assert_eq!(engine.counters().snapshot().misses, 1);
    });
}
