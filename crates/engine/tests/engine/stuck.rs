//! Jobs that never end, and jobs that must not wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ebbtide_core::Memory;
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::{Does, Engine, EngineError};

use crate::common;
use crate::common::jobs::word;
use crate::common::small_cache;

const PAGES: u64 = 64;

fn engine(cores: usize, latency: Latency) -> Arc<Engine> {
    let device = Ram::new(PAGES as usize, latency, |_, page| page.fill(0));
    let options = small_cache(32, cores, 4, PAGES);
    let engine = Arc::new(Engine::over_device(Arc::new(device), PAGES, &options).unwrap());
    common::watch(&engine);
    engine
}

/// The first job lets others run until the second one is submitted. From then on it computes until
/// the second one has run, and only the other core can run that.
#[test]
fn a_job_does_not_wait_behind_one_that_computes_while_another_core_is_idle() {
    for _ in 0..20 {
        let jobs = engine(2, Latency::Looks(1)).start().unwrap();
        let [begun, submitted, ran] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        let (tell_begun, see_submitted, see_ran) = (begun.clone(), submitted.clone(), ran.clone());
        let computes = jobs.submit(move |memory| {
            memory.load::<u64>(word(1));
            tell_begun.store(true, Ordering::SeqCst);
            while !see_submitted.load(Ordering::SeqCst) {
                memory.yield_now();
            }
            while !see_ran.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        });
        while !begun.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let runs = jobs.submit(move |_| ran.store(true, Ordering::SeqCst));
        submitted.store(true, Ordering::SeqCst);
        runs.wait().unwrap();
        computes.wait().unwrap();
        jobs.stop().unwrap();
    }
}

#[test]
fn stopping_gives_up_on_jobs_that_never_end_and_names_them() {
    // Page 9 never comes.
    let engine = engine(2, Latency::Looks(u32::MAX));
    let jobs = engine.clone().start().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let (see_over, began) = (over.clone(), Arc::new(AtomicBool::new(false)));
    let tell_began = began.clone();
    let _computes = jobs.submit(move |_| {
        tell_began.store(true, Ordering::SeqCst);
        while !see_over.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    });
    while !began.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let _waits = jobs.submit(|memory| memory.load::<u64>(word(9)));
    let does = |wanted: fn(&Does) -> bool| {
        engine.long_jobs(Duration::ZERO).iter().any(|job| wanted(&job.does))
    };
    while !does(|does| matches!(does, Does::Runs(_)))
        || !does(|does| matches!(does, Does::WaitsForPage(page) if page.0 == 9))
    {
        std::thread::yield_now();
    }
    let error = jobs.stop_within(Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, EngineError::Stuck { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("waits for page 9") && said.contains("has run for"), "{said}");
    over.store(true, Ordering::SeqCst);
}

#[test]
fn stopping_waits_as_long_as_jobs_go_on_ending() {
    let jobs = engine(1, Latency::Looks(1)).start().unwrap();
    let tickets: Vec<_> =
        (0..4).map(|_| jobs.submit(|_| std::thread::sleep(Duration::from_millis(700)))).collect();
    jobs.stop_within(Duration::from_secs(2)).unwrap();
    assert!(tickets.into_iter().all(|ticket| ticket.wait() == Ok(())));
}
