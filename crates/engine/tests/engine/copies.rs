//! A copy of a store in use is a store of its own, as of one moment, or there is no file at all.

use std::path::Path;
use std::sync::Arc;

use ebbtide_core::durability::Policy;
use ebbtide_core::{Addr, Memory, PageId, Stop, Watch};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{CopyError, Engine, FlashMemory, Options};

use crate::common;

const PAGES: u64 = 4096;

/// Pairs of words on pages far apart, which change together.
const PAIRS: u64 = 310;

/// Changes during each copy.
const CHANGES: u64 = 100;

/// Where the number of the last change is.
const LAST: Addr = PageId(2 * PAIRS).start();

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn create(path: &Path) -> Arc<Store> {
    let (path, tag) = (path.to_path_buf(), "copied".into());
    let new = NewStore { path, offset: 0, pages: PAGES, spare_pages: PAGES, tag, force: false };
    Arc::new(Store::create_persistent(&new, 1 << 20).unwrap())
}

fn options() -> Options {
    let mut options = Options { durability: Some(Policy::None), ..Options::new(4 << 20) };
    options.tuning.threads = Some(8);
    options
}

fn pair(number: u64) -> [Addr; 2] {
    [PageId(number).start(), PageId(number + PAIRS).start()]
}

fn set(memory: &mut FlashMemory<'_>, number: u64, value: u64, last: u64) {
    let stored = memory.transaction(|memory| {
        pair(number).into_iter().for_each(|at| memory.store(at, value));
        memory.store(LAST, last);
    });
    stored.expect("it commits");
}

#[test]
fn a_copy_made_under_load_is_what_was_there_at_one_moment() {
    let folder = folder();
    let engine = Arc::new(Engine::open(&create(&folder.path().join("store")), &options()).unwrap());
    common::watch(&engine);
    let jobs = engine.start().unwrap();
    for number in 0..PAIRS {
        jobs.submit(move |memory| set(memory, number, 1, 0)).wait().unwrap();
    }
    for round in 1..=3 {
        let path = folder.path().join(format!("copy{round}"));
        let first = (round - 1) * CHANGES;
        let copying = {
            let (engine, path) = (engine.clone(), path.clone());
            std::thread::spawn(move || engine.copy_to(&path, &Stop::new()))
        };
        // Every change has its own pages, so the changes that are there show where the copy ends.
        for change in first + 1..=first + CHANGES {
            let set = move |memory: &mut FlashMemory<'_>| set(memory, change, change + 1, change);
            jobs.submit(set).wait().unwrap();
        }
        copying.join().expect("no panic").expect("it is copied");
        let copy = Arc::new(Store::open(&path, 0, Access::Exclusive).unwrap());
        let found = copy.inspect(true, Watch::unattended()).unwrap().expect("it persists");
        assert!(found.is_sound(), "{found:?}");
        let opened = Arc::new(Engine::open(&copy, &options()).unwrap());
        common::watch(&opened);
        let copied = opened.start().unwrap();
        let last = copied.submit(|memory| memory.load::<u64>(LAST)).wait().unwrap();
        assert!((first..=first + CHANGES).contains(&last), "{last} in round {round}");
        for number in 0..PAIRS {
            let words = copied.submit(move |memory| pair(number).map(|at| memory.load::<u64>(at)));
            let value = if (1..=last).contains(&number) { number + 1 } else { 1 };
            assert_eq!(words.wait().unwrap(), [value; 2], "pair {number}, {last} in round {round}");
        }
        copied.stop().unwrap();
    }
    jobs.stop().unwrap();
}

#[test]
fn what_cannot_be_copied_leaves_no_file() {
    let folder = folder();
    let engine = Engine::open(&create(&folder.path().join("store")), &options()).unwrap();
    let there = folder.path().join("there");
    std::fs::write(&there, "mine").unwrap();
    let error = engine.copy_to(&there, &Stop::new()).unwrap_err().to_string();
    assert!(error.contains("is there already"), "{error}");
    assert_eq!(std::fs::read(&there).unwrap(), b"mine");
    let nowhere = folder.path().join("none/copy");
    assert!(matches!(engine.copy_to(&nowhere, &Stop::new()), Err(CopyError::Store(_))));
    engine.copy_to(&folder.path().join("copy"), &Stop::new()).expect("a failed copy lets go");
}

#[test]
fn a_copy_ends_while_all_pages_are_written_over_again_and_again() {
    let folder = folder();
    let path = folder.path().join("store");
    let (tag, spare_pages) = ("copied".into(), PAGES / 4);
    let new = NewStore { path, offset: 0, pages: PAGES, spare_pages, tag, force: false };
    let store = Arc::new(Store::create_persistent(&new, 1 << 20).unwrap());
    let engine = Arc::new(Engine::open(&store, &options()).unwrap());
    common::watch(&engine);
    let jobs = engine.start().unwrap();
    // Every word of a page is the round of its last write.
    let write = |page: u64, round: u64| {
        jobs.submit(move |memory| {
            let store = |memory: &mut FlashMemory<'_>| memory.store(PageId(page).start(), round);
            memory.transaction(store).expect("it commits");
        })
    };
    for page in 0..PAGES {
        write(page, 1).wait().unwrap();
    }
    let copy = folder.path().join("copy");
    let copying = {
        let (engine, copy) = (engine.clone(), copy.clone());
        std::thread::spawn(move || engine.copy_to(&copy, &Stop::new()))
    };
    let mut round = 1;
    while !copying.is_finished() {
        round += 1;
        let writes: Vec<_> = (0..PAGES).map(|page| write(page, round)).collect();
        writes.into_iter().for_each(|write| write.wait().unwrap());
    }
    copying.join().expect("no panic").expect("it is copied");
    jobs.stop().unwrap();
    let copy = Arc::new(Store::open(&copy, 0, Access::Exclusive).unwrap());
    let opened = Arc::new(Engine::open(&copy, &options()).unwrap());
    common::watch(&opened);
    let copied = opened.start().unwrap();
    let rounds = copied.submit(|memory| {
        (0..PAGES).map(|page| memory.load::<u64>(PageId(page).start())).collect::<Vec<_>>()
    });
    let rounds = rounds.wait().unwrap();
    let (first, last) = (rounds.iter().min().unwrap(), rounds.iter().max().unwrap());
    assert!((1..=round).contains(first) && last - first <= 1, "{first} to {last} of {round}");
    copied.stop().unwrap();
}
