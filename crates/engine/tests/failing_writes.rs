//! Pages that cannot be written while the log can. Transactions are refused after a while, and
//! reads go on. The device is tried now and then, and everything goes on when it recovers.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use common::recorder::Recorder;
use ebbtide_core::durability::{Policy, TransactionError};
use ebbtide_core::{Addr, Memory, PAGE_BYTES, PageId, Watch};
use ebbtide_engine::device::Direction;
use ebbtide_engine::device::uring::Uring;
use ebbtide_engine::store::{NewStore, Store};
use ebbtide_engine::{Engine, FlashMemory, Jobs, Options};

const PAGES: u64 = 4096;

fn word(page: u64) -> Addr {
    PageId(page).start()
}

/// An engine whose writes of pages fail while the first is set, and are counted by the second.
fn start(path: &std::path::Path) -> (Jobs, Arc<AtomicBool>, Arc<AtomicU64>) {
    let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| common::image(page.index(), out);
    let (path, tag) = (path.to_path_buf(), "failing".into());
    let new = NewStore { path, offset: 0, pages: PAGES, spare_pages: PAGES / 4, tag, force: false };
    let store = Store::create_persistent_image(&new, 1 << 20, &image, Watch::unattended()).unwrap();
    let store = Arc::new(store);
    let (fails, tries) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (does, counts) = (fails.clone(), tries.clone());
    let blocks = store.file().metadata().unwrap().len() / PAGE_BYTES as u64;
    let device = Recorder::new(Uring::new(store.file()).unwrap(), blocks).failing(move |way| {
        let fails = way == Direction::Write && does.load(Ordering::SeqCst);
        counts.fetch_add(u64::from(fails), Ordering::SeqCst);
        fails
    });
    let mut options = Options { durability: Some(Policy::None), ..Options::new(4 << 20) };
    options.tuning.threads = Some(8);
    let engine = Arc::new(Engine::over(&store, Arc::new(device), &options).unwrap());
    common::watch(&engine);
    (engine.start().unwrap(), fails, tries)
}

/// Stores to pages, one after the other, until that is refused.
fn store_until_refused(jobs: &Jobs) -> TransactionError {
    let store = |memory: &mut FlashMemory<'_>| {
        for n in 0.. {
            let page = n * 7 % PAGES;
            let stored = memory.transaction(|memory| memory.store(word(page) + 8, n));
            if let Err(error) = stored {
                return error;
            }
        }
        unreachable!("the log is finite")
    };
    jobs.submit(store).wait().unwrap()
}

#[test]
fn transactions_are_refused_while_pages_cannot_be_written_and_reads_go_on() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (jobs, fails, tries) = start(&folder.path().join("store"));
    fails.store(true, Ordering::SeqCst);
    let began = Instant::now();
    let error = store_until_refused(&jobs);
    assert!(matches!(error, TransactionError::PagesFail { .. }), "{error}");
    assert!(error.to_string().contains("Input/output error"), "{error}");
    // Before it counts as failing some batches are on their way, and then it is tried a few times a
    // second.
    let most = 4_000 + 100 * began.elapsed().as_secs();
    assert!(tries.load(Ordering::SeqCst) < most, "{tries:?} in {:?}", began.elapsed());
    let progress = jobs.engine().progress().unwrap();
    assert_eq!((progress.refused, progress.ended), (Some(error.clone()), None));
    let refused =
        jobs.submit_commit(|memory| memory.transaction(|memory| memory.store(word(0), 1u64)));
    assert!(matches!(refused.wait().unwrap(), Err(TransactionError::PagesFail { .. })));
    assert!(matches!(jobs.checkpoint(), Err(TransactionError::PagesFail { .. })));
    let wrong = jobs.submit(|memory| {
        let expected = |page| common::initial(page * common::WORDS_PER_PAGE);
        (0..PAGES).find(|&page| memory.load::<u64>(word(page)) != expected(page))
    });
    assert_eq!(wrong.wait(), Ok(None), "every page can be read");
    fails.store(false, Ordering::SeqCst);
    while jobs.engine().progress().unwrap().refused.is_some() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let stored = jobs.submit(|memory| memory.transaction(|memory| memory.store(word(0), 1u64)));
    assert!(stored.wait().unwrap().is_ok());
    assert_eq!(jobs.checkpoint(), Ok(true));
    jobs.stop().unwrap();
}

#[test]
fn a_checkpoint_takes_no_longer_than_it_may() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (jobs, fails, _) = start(&folder.path().join("store"));
    fails.store(true, Ordering::SeqCst);
    let stored = jobs.submit(|memory| memory.transaction(|memory| memory.store(word(1), 1u64)));
    stored.wait().unwrap().unwrap();
    assert_eq!(jobs.checkpoint_within(std::time::Duration::from_millis(20)), Ok(false));
    fails.store(false, Ordering::SeqCst);
    assert_eq!(jobs.checkpoint(), Ok(true));
    jobs.stop().unwrap();
}

#[test]
fn an_engine_stops_while_pages_cannot_be_written() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (jobs, fails, _) = start(&folder.path().join("store"));
    fails.store(true, Ordering::SeqCst);
    // Too many for DRAM to keep as they are. Some may be refused.
    let store = jobs.submit(|memory| {
        for page in 0..600 {
            let _ = memory.transaction(|memory| memory.store(word(page) + 8, page));
        }
    });
    store.wait().unwrap();
    jobs.stop().unwrap();
}
