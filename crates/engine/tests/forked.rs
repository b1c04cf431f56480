//! A forked child has none of its parent's threads: it may drop an engine and its jobs, and the
//! parent goes on with both.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use common::watched;
use ebbtide_core::{Addr, Memory};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, EngineError, Jobs, Options};

fn options() -> Options {
    Options::new(4 << 20)
}

/// Runs `body` in a forked child. Returns true if it has ended well.
fn ends_well_in_a_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child does nothing but `body`, and ends without a look at what its parent has.
    match unsafe { libc::fork() } {
        0 => {
            let well = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
            // SAFETY: it ends the child at once.
            unsafe { libc::_exit(if well { 0 } else { 1 }) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the child is this process's, and `status` outlives the call.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(waited, child);
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn new_at(folder: &tempfile::TempDir) -> NewStore {
    let (path, tag) = (folder.path().join("store"), String::new());
    NewStore { path, offset: 0, pages: 64, spare_pages: 256, tag, force: false }
}

fn commit(jobs: &Jobs, value: u64) {
    let stored =
        jobs.submit_commit(move |memory| memory.transaction(|memory| memory.store(Addr(0), value)));
    watched(jobs, || stored.wait().unwrap().unwrap());
}

#[test]
fn a_child_drops_an_engine_and_its_jobs_and_the_parent_goes_on() {
    let folder = folder();
    let store = Arc::new(Store::create_persistent(&new_at(&folder), 1 << 20).unwrap());
    let jobs = Arc::new(Engine::open(&store, &options()).unwrap()).start().unwrap();
    commit(&jobs, 7);
    let mut jobs = Some(jobs);
    assert!(ends_well_in_a_child(|| {
        drop(jobs.take());
        true
    }));
    assert!(ends_well_in_a_child(|| {
        let stopped = jobs.take().unwrap().stop();
        matches!(stopped, Err(EngineError::Forked(_)))
    }));
    let jobs = jobs.unwrap();
    commit(&jobs, 8);
    jobs.stop().unwrap();
}

#[test]
fn a_child_drops_a_durable_engine_that_does_not_run_and_its_store_stays_locked() {
    let folder = folder();
    let new = new_at(&folder);
    let store = Arc::new(Store::create_persistent(&new, 1 << 20).unwrap());
    let mut engine = Some(Engine::open(&store, &options()).unwrap());
    let mut store = Some(store);
    assert!(ends_well_in_a_child(|| {
        drop((engine.take(), store.take()));
        true
    }));
    assert!(Store::open(&new.path, 0, Access::SharedReadOnly).is_err());
    drop((engine, store));
    Store::open(&new.path, 0, Access::Exclusive).unwrap();
}
