//! The thread that writes the log survives every action of a program. When it or a core dies, or
//! the log fails, all that wait for the log get an error.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ebbtide_core::durability::{Block, Disk, DiskError, Fault, Page, Policy, TransactionError};
use ebbtide_core::{Addr, Memory, PageId, Span, Time};
use ebbtide_engine::device::uring::Uring;
use ebbtide_engine::store::{NewStore, Store};
use ebbtide_engine::{
    Engine, FlashMemory, JobError, Jobs, LogDisk, Offer, Options, Service, Timing,
};

const WORKS: u8 = 0;
const FAILS: u8 = 1;
const PANICS: u8 = 2;

/// A disk whose flushes succeed, fail or panic, as the test sets it.
struct Flushes(LogDisk, Arc<AtomicU8>);

impl Disk for Flushes {
    fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError> {
        self.0.read_block(block, into)
    }
    fn write_block(&mut self, block: Block, page: &Page) -> Result<(), DiskError> {
        self.0.write_block(block, page)
    }
    fn flush(&mut self) -> Result<(), DiskError> {
        match self.1.load(Ordering::SeqCst) {
            WORKS => self.0.flush(),
            FAILS => Err(DiskError {
                doing: "flush".into(),
                reason: "on purpose".into(),
                fault: Fault::Device,
            }),
            _ => panic!("on purpose"),
        }
    }
}

fn engine(path: &Path) -> (Arc<Engine>, Arc<AtomicU8>) {
    engine_of(path, 64, Policy::Always)
}

/// An engine over `pages` pages and as many spare ones.
fn engine_of(path: &Path, pages: u64, policy: Policy) -> (Arc<Engine>, Arc<AtomicU8>) {
    let (path, tag) = (path.to_path_buf(), "log".into());
    let new = NewStore { path, offset: 0, pages, spare_pages: pages, tag, force: false };
    let store = Arc::new(Store::create_persistent(&new, 1 << 20).unwrap());
    let does = Arc::new(AtomicU8::new(WORKS));
    let around = |disk: LogDisk| -> LogDisk { Box::new(Flushes(disk, does.clone())) };
    let device = Arc::new(Uring::new(store.file()).unwrap());
    let options = Options { durability: Some(policy), ..Options::new(4 << 20) };
    let engine = Arc::new(Engine::over_disks(&store, device, &around, &options).unwrap());
    common::watch(&engine);
    (engine, does)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Commits a word. Returns `value` once that is durable.
fn commit<T: Send + 'static>(
    jobs: &Jobs,
    value: T,
) -> ebbtide_engine::Ticket<Result<T, TransactionError>> {
    jobs.submit_commit(|memory| {
        let ((), lsn) = memory.transaction(|memory| memory.store(Addr(0), 1u64))?;
        Ok((value, lsn))
    })
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[test]
fn a_value_that_panics_when_it_is_dropped_ends_no_log() {
    let folder = folder();
    let (engine, _) = engine(&folder.path().join("store"));
    let jobs = engine.start().unwrap();
    for _ in 0..20 {
        // Its ticket goes before the transaction is durable, mostly.
        drop(commit(&jobs, Bomb));
        assert_eq!(commit(&jobs, 7).wait(), Ok(Ok(7)));
    }
    jobs.stop().unwrap();
}

#[test]
fn every_page_can_be_read_after_the_log_has_ended() {
    const PAGES: u64 = 4096;
    let folder = folder();
    let every_second = Policy::Every(Span::from_us(1_000_000));
    let (engine, does) = engine_of(&folder.path().join("store"), PAGES, every_second);
    let jobs = engine.start().unwrap();
    let word = |page: u64| PageId(page).start();
    // Many more pages than a core keeps frames free.
    let stored = jobs.submit(move |memory| {
        (0..256).all(|page| memory.transaction(|memory| memory.store(word(page), page)).is_ok())
    });
    assert_eq!(stored.wait(), Ok(true));
    does.store(FAILS, Ordering::SeqCst);
    while jobs.engine().progress().unwrap().ended.is_none() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let wrong = jobs.submit(move |memory| {
        let expected = |page| if page < 256 { page } else { 0 };
        (0..PAGES).find(|&page| memory.load::<u64>(word(page)) != expected(page))
    });
    assert_eq!(wrong.wait(), Ok(None));
    jobs.stop().unwrap();
}

/// All that waits for a log that has ended learns that its transaction did not become durable.
fn all_learn_that_it_ended(does_now: u8, reason: &str) {
    let folder = folder();
    let (engine, does) = engine(&folder.path().join("store"));
    let jobs = engine.clone().start().unwrap();
    assert_eq!(commit(&jobs, 7).wait(), Ok(Ok(7)));
    does.store(does_now, Ordering::SeqCst);
    let ended = |error: &TransactionError| {
        matches!(error, TransactionError::WritingEnded { .. }) && error.to_string().contains(reason)
    };
    let tickets: Vec<_> = (0..4).map(|n| commit(&jobs, n)).collect();
    let with_bomb = commit(&jobs, Bomb);
    let waits = jobs.submit(|memory: &mut FlashMemory<'_>| {
        let ((), lsn) = memory.transaction(|memory| memory.store(Addr(8), 1u64))?;
        memory.durable(lsn)
    });
    for ticket in tickets {
        let error = ticket.wait().unwrap().unwrap_err();
        assert!(ended(&error), "{error}");
    }
    // Its job may run after the log has ended. The value then drops in the job, which panics.
    assert!(!matches!(with_bomb.wait(), Ok(Ok(_))));
    let error = waits.wait().unwrap().unwrap_err();
    assert!(ended(&error), "{error}");
    let later = commit(&jobs, 7).wait().unwrap().unwrap_err();
    assert!(ended(&later), "{later}");
    assert_eq!(jobs.submit(|memory| memory.load::<u64>(Addr(0))).wait(), Ok(1), "reads go on");
    jobs.stop().unwrap();
}

#[test]
fn tickets_and_jobs_learn_that_the_log_has_failed() {
    all_learn_that_it_ended(FAILS, "on purpose");
}

#[test]
fn tickets_and_jobs_learn_that_the_thread_of_the_log_has_died() {
    all_learn_that_it_ended(PANICS, "the thread that writes the log has died");
}

/// A core with a bug: it panics between two jobs.
struct Dies;

impl Service for Dies {
    type Job = ();
    fn next(&self, _now: Time) -> Offer<()> {
        Offer::Job(())
    }
    fn run(&self, (): &mut (), memory: &mut FlashMemory<'_>) {
        memory.transaction(|memory| memory.store(Addr(0), 1u64)).unwrap();
    }
    fn done(&self, (): (), _result: Result<(), JobError>, _timing: Timing) {
        panic!("on purpose");
    }
}

#[test]
fn the_death_of_a_core_ends_writing() {
    let folder = folder();
    let (engine, _) = engine(&folder.path().join("store"));
    let run = std::panic::AssertUnwindSafe(|| engine.run(|_| Dies, drop).map(drop));
    assert!(std::panic::catch_unwind(run).is_err());
    let error = engine.progress().unwrap().ended.unwrap();
    assert!(error.to_string().contains("the thread of core 0 has died"), "{error}");
    let jobs = engine.start().unwrap();
    assert_eq!(commit(&jobs, 7).wait().unwrap(), Err(error));
    jobs.stop().unwrap();
}
