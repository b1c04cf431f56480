//! A failing device: the jobs that it ends, their errors, and that nothing in DRAM is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebbtide_core::{Memory, PAGE_BYTES, PageId, Time, Watch};
use ebbtide_engine::device::faulty::{Faults, Faulty};
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::device::uring::Uring;
use ebbtide_engine::device::{Completion, Device, Direction, Queue, Request};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, FlashMemory, JobError, Offer, Service, Timing};

use crate::common;
use crate::common::jobs::{Ended, Work, ends, job, run_jobs, word};
use crate::common::recorder::Recorder;
use crate::common::{WORDS_PER_PAGE, image, initial, small_cache};

const PAGES: u64 = 128;

fn faulty(faults: Faults) -> Arc<dyn Device> {
    Arc::new(Faulty::new(Ram::new(PAGES as usize, Latency::Looks(1), image), faults, 5))
}

#[test]
fn a_broken_page_ends_the_jobs_that_touch_it_and_no_other() {
    const BROKEN: u64 = 77;
    for cores in [1, 2] {
        let faults =
            Faults { broken_offset: Some(BROKEN * PAGE_BYTES as u64), ..Faults::default() };
        let options = small_cache(16, cores, 16, PAGES);
        let engine = Engine::over_device(faulty(faults), PAGES, &options).unwrap();
        // Job `n` walks four pages from `n` on.
        let walk = |number: u64| {
            job(move |memory| {
                for page in (number..number + 4).map(|page| page % PAGES) {
                    let loaded = memory.load::<u64>(word(page));
                    assert_eq!(loaded, initial(page * WORDS_PER_PAGE));
                }
            })
        };
        let ended = run_jobs(&engine, |_| (0..PAGES).map(walk).collect());
        for (number, result) in ended.into_iter().flat_map(|core| core.jobs) {
            let touches = (number..number + 4).contains(&(BROKEN as usize));
            match result {
                Ok(()) => assert!(!touches, "job {number} touched the broken page"),
                Err(JobError::Fault(fault)) => {
                    assert!(touches, "job {number} never touched the broken page");
                    assert_eq!(fault.page, PageId(BROKEN));
                    assert!(fault.reason.contains("cannot be read"), "{}", fault.reason);
                    assert!(!fault.writes_fail);
                }
                Err(message) => panic!("job {number}: {message}"),
            }
        }
        assert_eq!(engine.counters().snapshot().jobs_failed, 4 * cores as u64);
    }
}

/// The word that job `number` stores in its page.
fn stored(number: u64) -> u64 {
    !initial(number)
}

/// Stores into every page, a page a job, on an engine that cannot write. Some jobs find a frame,
/// and the others get an error. Then the successful stores are read back, twice.
fn nothing_stored_is_lost(engine: &Engine, cores: usize) {
    let share = PAGES / cores as u64;
    let pages = |core: usize| core as u64 * share..(core as u64 + 1) * share;
    let store = |page| job(move |memory| memory.store::<u64>(word(page), stored(page)));
    let ended = run_jobs(engine, |core| pages(core).map(store).collect());
    let mut kept: Vec<Vec<u64>> = Vec::new();
    let mut failed = 0;
    for (core, Ended { jobs, .. }) in ended.into_iter().enumerate() {
        kept.push(Vec::new());
        for (number, result) in jobs {
            let page = pages(core).start + number as u64;
            match result {
                Ok(()) => kept[core].push(page),
                Err(JobError::Fault(fault)) => {
                    assert_eq!(fault.page, PageId(page));
                    assert!(fault.reason.contains("writes to the device fail"), "{}", fault.reason);
                    assert!(fault.writes_fail);
                    failed += 1;
                }
                Err(message) => panic!("{message}"),
            }
        }
    }
    let kept_count: usize = kept.iter().map(Vec::len).sum();
    assert!(failed > 0, "{PAGES} changed pages cannot all be in {} frames", engine.budget().frames);
    assert!(kept_count >= engine.budget().frames / 2, "only {kept_count} pages were kept");

    let read = |page: u64| -> Work {
        job(move |memory| assert_eq!(memory.load::<u64>(word(page)), stored(page)))
    };
    for _ in 0..2 {
        let ended = run_jobs(engine, |core| kept[core].iter().copied().map(read).collect());
        ended.iter().for_each(|core| drop(core.order()));
    }
}

#[test]
#[ignore = "slow"]
fn a_device_that_takes_no_write_costs_frames_but_no_word() {
    for cores in [1, 2] {
        ends(move || {
            let faults = Faults { write_errors: 1.0, ..Faults::default() };
            let options = small_cache(32, cores, 16, PAGES);
            let engine = Engine::over_device(faulty(faults), PAGES, &options).unwrap();
            nothing_stored_is_lost(&engine, cores);
            assert!(engine.counters().snapshot().write_errors > 0);
        });
    }
}

#[test]
fn a_store_that_is_only_read_is_never_written_whatever_jobs_store() {
    ends(|| {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = directory.path().join("image");
        let new = NewStore {
            path: path.clone(),
            offset: 0,
            pages: PAGES,
            spare_pages: 0,
            tag: "words".into(),
            force: false,
        };
        let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| image(page.index(), out);
        drop(Store::create(&new, &image, Watch::unattended()).unwrap());
        let before = std::fs::read(&path).unwrap();

        let store = Arc::new(Store::open(&path, 0, Access::SharedReadOnly).unwrap());
        let options = small_cache(32, 1, 16, PAGES);
        let engine = Engine::open(&store, &options).unwrap();
        nothing_stored_is_lost(&engine, 1);
        drop((engine, store));
        assert!(std::fs::read(&path).unwrap() == before, "the file has changed");
        assert!(Store::open_clean(&path, 0, Access::SharedReadOnly).is_ok());
    });
}

#[test]
#[ignore = "slow"]
fn writes_that_come_to_work_again_free_the_frames() {
    /// Writes fail until this many were tried.
    const FAILING: u64 = 500;
    static TRIED: AtomicU64 = AtomicU64::new(0);
    ends(|| {
        let device = Recorder::new(Ram::new(PAGES as usize, Latency::Looks(1), image), PAGES);
        let device = device.failing(|direction| {
            direction == Direction::Write && TRIED.fetch_add(1, Ordering::SeqCst) < FAILING
        });
        let options = small_cache(16, 1, 8, PAGES);
        let engine = Engine::over_device(Arc::new(device), PAGES, &options).unwrap();
        let store = |page: u64| job(move |memory| memory.store::<u64>(word(page), stored(page)));
        for round in 0.. {
            let ended = run_jobs(&engine, |_| (0..PAGES).map(store).collect()).remove(0);
            let failed = ended.jobs.iter().filter(|(_, result)| result.is_err()).count();
            assert!(round > 0 || failed > 0, "no write has failed");
            if TRIED.load(Ordering::SeqCst) >= FAILING && failed == 0 {
                break;
            }
        }
        let read =
            |page: u64| job(move |memory| assert_eq!(memory.load::<u64>(word(page)), stored(page)));
        run_jobs(&engine, |_| (0..PAGES).map(read).collect()).remove(0).order();
    });
}

/// A folder with a new store in it.
fn new_store(spare_pages: u64) -> (tempfile::TempDir, Arc<Store>) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (path, tag) = (folder.path().join("store"), "words".into());
    let new = NewStore { path, offset: 0, pages: PAGES, spare_pages, tag, force: false };
    let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| image(page.index(), out);
    let store = Store::create(&new, &image, Watch::unattended()).unwrap();
    (folder, Arc::new(store))
}

#[test]
fn a_slot_that_cannot_be_written_fails_once_and_is_not_tried_again() {
    ends(|| {
        let (_folder, store) = new_store(PAGES / 2);
        // The third spare slot: pages that leave together are written there as one run.
        let bad = store.pages_offset() + (PAGES + 2) * PAGE_BYTES as u64;
        let device = BadPlace { inner: Uring::new(store.file()).unwrap(), at: bad };
        let options = small_cache(16, 1, 8, PAGES);
        let engine = Engine::over(&store, Arc::new(device), &options).unwrap();
        let store = |page: u64| job(move |memory| memory.store::<u64>(word(page), stored(page)));
        let read =
            |page: u64| job(move |memory| assert_eq!(memory.load::<u64>(word(page)), stored(page)));
        for _ in 0..20 {
            run_jobs(&engine, |_| (0..PAGES).map(store).collect()).remove(0).order();
        }
        run_jobs(&engine, |_| (0..PAGES).map(read).collect()).remove(0).order();
        let counted = engine.counters().snapshot();
        assert!(counted.flash_writes > 10 * PAGES, "{counted:?}");
        assert_eq!(counted.write_errors, 1, "{counted:?}");
    });
}

#[test]
fn a_run_of_pages_that_fails_is_one_failure_and_its_good_slots_are_used() {
    ends(|| {
        let (_folder, store) = new_store(PAGES / 2);
        let bad = store.pages_offset() + (PAGES + 2) * PAGE_BYTES as u64;
        let device = BadPlace { inner: Uring::new(store.file()).unwrap(), at: bad };
        // Everything that is evicted leaves in runs of more pages than failures are borne in a row.
        let mut options = small_cache(256, 1, 8, 2 * PAGES);
        options.tuning.batch_max = 64;
        let options = common::of_frames(100, options, PAGES);
        let engine = Engine::over(&store, Arc::new(device), &options).unwrap();
        let store = |page: u64| job(move |memory| memory.store::<u64>(word(page), stored(page)));
        run_jobs(&engine, |_| (0..PAGES).map(store).collect()).remove(0).order();
        let counted = engine.counters().snapshot();
        assert_eq!((counted.write_errors, counted.jobs_failed), (1, 0), "{counted:?}");
    });
}

#[test]
fn a_file_cut_short_under_a_running_engine_is_an_error_also_when_it_has_grown_again() {
    ends(|| {
        let (_folder, store) = new_store(0);
        let whole = store.file().metadata().unwrap().len();
        let options = small_cache(16, 1, 8, PAGES);
        let engine = Engine::open(&store, &options).unwrap();
        let all = || (0..PAGES).map(common::jobs::loads).collect();
        run_jobs(&engine, |_| all()).remove(0).order();

        store.file().set_len(whole / 2).unwrap();
        store.file().set_len(whole).unwrap();
        let load = |page: u64| {
            job(move |memory| {
                assert_eq!(memory.load::<u64>(word(page)), initial(page * WORDS_PER_PAGE));
            })
        };
        let ended = run_jobs(&engine, |_| (0..PAGES).map(load).collect()).remove(0);
        let mut failed = 0;
        for (number, result) in ended.jobs {
            match result {
                Ok(()) => {}
                Err(JobError::Fault(fault)) => {
                    assert!(fault.reason.contains("cut short"), "{}", fault.reason);
                    failed += 1;
                }
                Err(message) => panic!("page {number}: {message}"),
            }
        }
        assert!(failed >= PAGES / 2 - 16, "only {failed} of {PAGES} pages could not be read");
    });
}

/// A device that cannot write one place, alone or among others.
struct BadPlace<D> {
    inner: D,
    at: u64,
}

struct BadPlaceQueue {
    inner: Box<dyn Queue>,
    at: u64,
    failing: Vec<Completion>,
}

impl<D: Device> Device for BadPlace<D> {
    fn queue(&self, depth: usize) -> std::io::Result<Box<dyn Queue>> {
        let inner = self.inner.queue(depth)?;
        Ok(Box::new(BadPlaceQueue { inner, at: self.at, failing: Vec::new() }))
    }
    fn name(&self) -> &'static str {
        self.inner.name()
    }
}

impl Queue for BadPlaceQueue {
    fn push(&mut self, request: Request) {
        let place = request.offset()..request.offset() + request.bytes() as u64;
        if request.direction() == Direction::Write && place.contains(&self.at) {
            let result = Err(std::io::Error::from_raw_os_error(libc::EIO));
            self.failing.push(Completion { token: request.token(), result });
        } else {
            self.inner.push(request);
        }
    }
    fn submit(&mut self) {
        self.inner.submit();
    }
    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.failing);
        self.inner.reap(completions);
    }
    fn unsubmitted(&self) -> usize {
        self.inner.unsubmitted()
    }
    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.failing.len()
    }
    fn sleeper(&self) -> Arc<dyn ebbtide_engine::device::Sleeper> {
        self.inner.sleeper()
    }
}

#[test]
fn a_file_that_ends_too_early_is_an_error_and_not_a_page_of_zeros() {
    let file = common::file::page_file(PAGES / 2, image);
    let device = Arc::new(Uring::new(file).unwrap());
    let options = small_cache(16, 1, 8, PAGES);
    let engine = Engine::over_device(device, PAGES, &options).unwrap();
    let ended = run_jobs(&engine, |_| (0..PAGES).map(common::jobs::loads).collect()).remove(0);
    for (number, result) in ended.jobs {
        match result {
            Ok(()) => assert!((number as u64) < PAGES / 2),
            Err(JobError::Fault(fault)) => {
                assert!(number as u64 >= PAGES / 2);
                assert!(fault.reason.contains("moved 0 of 4096 bytes"), "{}", fault.reason);
            }
            Err(message) => panic!("{message}"),
        }
    }
}

/// A service that panics as soon as writes are under way.
struct Panics(Arc<common::recorder::Log>, std::cell::Cell<u64>);

impl Service for Panics {
    type Job = u64;

    fn next(&self, _now: Time) -> Offer<u64> {
        self.1.set(self.1.get() + 1);
        Offer::Job(self.1.get() % PAGES)
    }

    fn run(&self, page: &mut u64, memory: &mut FlashMemory<'_>) {
        memory.store::<u64>(word(*page), stored(*page));
    }

    fn done(&self, _page: u64, _result: Result<(), JobError>, _timing: Timing) {
        if self.0.all_writes() > 0 {
            std::panic::resume_unwind(Box::new("the service gives up"));
        }
    }
}

/// The device may still move pages when an engine goes: their memory must not go first.
#[test]
fn an_engine_dropped_with_requests_under_way_waits_for_them() {
    ends(|| {
        let ram = Ram::new(PAGES as usize, Latency::Looks(0), image);
        let device = Recorder::new(ram, PAGES).holding_writes(1_000_000);
        let log = device.log();
        let options = small_cache(16, 1, 8, PAGES);
        let engine = Engine::over_device(Arc::new(device), PAGES, &options).unwrap();
        let panics = |_: usize| Panics(log.clone(), Default::default());
        let run = || common::watched(&engine, || engine.run(panics, drop).map(drop));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
        drop(engine);

        let file = common::file::page_file(PAGES, image);
        for _ in 0..20 {
            let device = Recorder::new(Uring::new(file.clone()).unwrap(), PAGES);
            let log = device.log();
            let engine = Engine::over_device(Arc::new(device), PAGES, &options).unwrap();
            let panics = |_: usize| Panics(log.clone(), Default::default());
            let run = || common::watched(&engine, || engine.run(panics, drop).map(drop));
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
        }
    });
}

#[test]
fn a_request_is_tried_eight_times_before_its_error_counts() {
    const ATTEMPTS: u64 = 8;
    for failing in [ATTEMPTS - 1, ATTEMPTS] {
        let tried = AtomicU64::new(0);
        let device = Recorder::new(Ram::new(PAGES as usize, Latency::Looks(1), image), PAGES)
            .failing(move |_| tried.fetch_add(1, Ordering::SeqCst) < failing);
        let log = device.log();
        let options = small_cache(16, 1, 8, PAGES);
        let engine = Engine::over_device(Arc::new(device), PAGES, &options).unwrap();
        let ended = run_jobs(&engine, |_| vec![common::jobs::loads(3)]).remove(0);
        assert_eq!(ended.jobs[0].1.is_ok(), failing < ATTEMPTS);
        let counted = engine.counters().snapshot();
        let errors = u64::from(failing == ATTEMPTS);
        assert_eq!((counted.retries, counted.read_errors), (ATTEMPTS - 1, errors));
        assert_eq!(u64::from(log.reads(3)), ATTEMPTS);
    }
}

#[test]
fn an_engine_comes_to_rest_when_all_that_it_writes_has_reached_the_device() {
    for cores in [1, 2] {
        let ram = Ram::new(PAGES as usize, Latency::Looks(1), image);
        let device = Recorder::new(ram, PAGES).holding_writes(20);
        let log = device.log();
        let options = small_cache(16, cores, 8, PAGES);
        let engine = Engine::over_device(Arc::new(device), PAGES, &options).unwrap();
        let store = |page| job(move |memory| memory.store::<u64>(word(page), stored(page)));
        run_jobs(&engine, |_| (0..PAGES).map(store).collect());
        assert!(log.all_writes() > 0);
        assert_eq!(log.held(), 0);
    }
}

#[test]
fn an_engine_says_who_waits_for_which_page() {
    let device = Ram::new(PAGES as usize, Latency::Looks(1), image);
    let options = small_cache(16, 1, 8, PAGES);
    let engine = Arc::new(Engine::over_device(Arc::new(device), PAGES, &options).unwrap());
    let told = engine.clone();
    let jobs = |_| {
        let told = told.clone();
        let look = job(move |_| {
            let text = format!("{told:?}");
            let waits = "pages_waited_for: [(PageId(9), [fiber 0 of core 0])]";
            assert!(text.contains(waits), "{text}");
        });
        vec![common::jobs::loads(9), look]
    };
    run_jobs(&engine, jobs).remove(0).order();
}
