//! Checkpoints, and the rest that recovery then redoes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebbtide_core::durability::Policy;
use ebbtide_core::{Memory, PAGE_BYTES};
use ebbtide_engine::device::uring::Uring;
use ebbtide_engine::{Engine, Jobs};

use super::{create, folder, options, reopen, start, word};
use crate::common;
use crate::common::recorder::Recorder;

#[test]
fn after_a_checkpoint_there_is_nothing_to_recover_but_what_came_later() {
    let folder = folder();
    let path = folder.path().join("store");
    for cores in [1, 2] {
        let jobs = start(&create(&path, 1 << 20), &options(cores, Policy::None));
        let commit = |pages: std::ops::Range<u64>| {
            let commits = pages.map(|page| {
                jobs.submit(move |memory| {
                    memory.transaction(|memory| memory.store(word(page), page + 1)).unwrap();
                })
            });
            commits.collect::<Vec<_>>().into_iter().for_each(|ticket| ticket.wait().unwrap());
        };
        for (first, later) in [(0, 0), (100, 0), (200, 3)] {
            commit(first..first + 100);
            assert_eq!(jobs.checkpoint(), Ok(true));
            // With nothing new.
            assert_eq!(jobs.checkpoint(), Ok(true));
            commit(first..first + later);
        }
        jobs.stop().unwrap();
        drop(reopened(&path, cores, 3));
        std::fs::remove_file(&path).unwrap();
    }
}

/// Opens the store again. It must find `transactions` transactions to redo, and all that was
/// committed.
fn reopened(path: &Path, cores: usize, transactions: u64) -> Jobs {
    let jobs = start(&reopen(path), &options(cores, Policy::None));
    assert_eq!(jobs.engine().recovered().unwrap().transactions, transactions);
    let read = jobs.submit(|memory| {
        (0..300).filter(|&page| memory.load::<u64>(word(page)) == page + 1).count()
    });
    assert_eq!(read.wait().unwrap(), 300);
    jobs
}

#[test]
fn a_checkpoint_writes_pages_and_leaves_them_in_dram() {
    let folder = folder();
    for cores in [1, 2] {
        let path = folder.path().join(format!("store of {cores}"));
        let jobs = start(&create(&path, 1 << 20), &options(cores, Policy::None));
        let store = jobs.submit(|memory| {
            let all = |memory: &mut ebbtide_engine::FlashMemory<'_>| {
                (0..40).for_each(|page| memory.store(word(page), page + 1));
            };
            memory.transaction(all).unwrap();
        });
        store.wait().unwrap();
        assert_eq!(jobs.checkpoint(), Ok(true));
        let before = jobs.engine().counters().snapshot();
        assert!(before.flash_writes >= 40);
        let read = jobs.submit(|memory| {
            (0..40).filter(|&page| memory.load::<u64>(word(page)) == page + 1).count()
        });
        assert_eq!(read.wait(), Ok(40));
        let after = jobs.engine().counters().snapshot();
        assert_eq!(after.misses, before.misses, "on {cores} cores");
        jobs.stop().unwrap();
    }
}

/// No job can use pages on their way.
#[test]
fn a_checkpoint_writes_no_more_pages_at_once_than_two_batches() {
    const BATCH: usize = 8;
    let folder = folder();
    let store = create(&folder.path().join("store"), 1 << 20);
    let drive = Uring::new(store.file()).unwrap();
    let blocks = store.file().metadata().unwrap().len() / PAGE_BYTES as u64;
    let device = Recorder::new(drive, blocks).taking_runs_of(1).holding_writes(200);
    let log = device.log();
    let mut options = options(1, Policy::None);
    options.tuning.batch_max = BATCH;
    let engine = Arc::new(Engine::over(&store, Arc::new(device), &options).unwrap());
    common::watch(&engine);
    let jobs = engine.start().unwrap();
    let change = |memory: &mut ebbtide_engine::FlashMemory<'_>| {
        (0..5 * BATCH as u64).for_each(|page| memory.store(word(page), page + 1));
    };
    jobs.submit(move |memory| memory.transaction(change).unwrap()).wait().unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let see_ended = ended.clone();
    let most = jobs.submit(move |memory| {
        let mut most = 0;
        while !see_ended.load(Ordering::SeqCst) {
            most = most.max(log.held());
            memory.yield_now();
        }
        most
    });
    assert_eq!(jobs.checkpoint(), Ok(true));
    ended.store(true, Ordering::SeqCst);
    assert_eq!(most.wait(), Ok(2 * BATCH));
}
