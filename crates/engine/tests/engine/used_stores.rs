//! An engine that has written to a store has moved its pages, and only it knows their places. A
//! second engine would read other pages' bytes without an error. So it is refused, also while the
//! first one is open.

use std::process::Command;
use std::sync::Arc;

use ebbtide_core::durability::Policy;
use ebbtide_core::{Memory, PAGE_BYTES, PageId, Span, Watch};
use ebbtide_engine::store::{Access, NewStore, Store, StoreError};
use ebbtide_engine::{Engine, EngineError, MappedMemory, Options};
use tempfile::TempDir;

use crate::common::jobs::{job, loads, run_alone, word};
use crate::common::{WORDS_PER_PAGE, image, initial, small_cache};

const PAGES: u64 = 128;

/// A folder, and a store to be made in it.
fn place() -> (TempDir, NewStore) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (path, spare_pages, tag) = (folder.path().join("store"), PAGES / 2, "words".into());
    (folder, NewStore { path, offset: 0, pages: PAGES, spare_pages, tag, force: false })
}

fn create(new: &NewStore) -> Arc<Store> {
    let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| image(page.index(), out);
    Arc::new(Store::create(new, &image, Watch::unattended()).unwrap())
}

fn reopen(new: &NewStore, access: Access) -> Arc<Store> {
    Arc::new(Store::open(&new.path, 0, access).unwrap())
}

fn options() -> Options {
    small_cache(16, 1, 8, PAGES)
}

/// Changes every page, so that most leave DRAM and are written back.
fn change_all(engine: &Engine) {
    let store = |page| job(move |memory| memory.store::<u64>(word(page), !page));
    run_alone(engine, || (0..PAGES).map(store).collect()).order();
    assert!(engine.counters().snapshot().flash_writes > 0);
}

fn check_all(engine: &Engine) {
    let load = |page: u64| {
        job(move |memory| {
            assert_eq!(memory.load::<u64>(word(page)), initial(page * WORDS_PER_PAGE));
        })
    };
    run_alone(engine, || (0..PAGES).map(load).collect()).order();
}

fn refused(store: &Arc<Store>) -> StoreError {
    match Engine::open(store, &options()) {
        Err(EngineError::Store(error)) => error,
        Err(error) => panic!("refused for another reason: {error}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn a_store_that_an_engine_has_changed_is_refused_until_it_is_created_anew() {
    let (_folder, new) = place();
    let store = create(&new);
    let engine = Engine::open(&store, &options()).unwrap();
    change_all(&engine);
    drop(engine);
    let error = refused(&store);
    assert!(matches!(error, StoreError::Dirty(_)), "{error}");
    assert!(error.to_string().contains("create it again"), "{error}");
    drop(store);
    for access in [Access::Exclusive, Access::SharedReadOnly] {
        let error = refused(&reopen(&new, access));
        assert!(matches!(error, StoreError::Dirty(_)), "{error}");
    }
    check_all(&Engine::open(&create(&new), &options()).unwrap());
}

#[test]
fn a_store_that_an_engine_only_read_is_opened_again() {
    let (_folder, new) = place();
    let store = create(&new);
    for _ in 0..2 {
        check_all(&Engine::open(&store, &options()).unwrap());
    }
    drop(store);
    check_all(&Engine::open(&reopen(&new, Access::Exclusive), &options()).unwrap());
}

#[test]
fn a_store_marked_as_dirty_is_refused() {
    let (_folder, new) = place();
    let store = create(&new);
    store.mark_dirty().unwrap();
    assert!(matches!(refused(&store), StoreError::Dirty(_)));
    drop(store);
    assert!(matches!(refused(&reopen(&new, Access::Exclusive)), StoreError::Dirty(_)));
}

#[test]
fn a_store_has_one_engine_at_a_time() {
    let (_folder, new) = place();
    let store = create(&new);
    let first = Engine::open(&store, &options()).unwrap();
    let error = refused(&store);
    assert!(matches!(error, StoreError::HasEngine(_)), "{error}");
    check_all(&first);
    drop(first);
    // Also an engine that could not be made gives the store back.
    assert!(Engine::open(&store, &Options::new(0)).is_err());
    check_all(&Engine::open(&store, &options()).unwrap());
}

#[test]
fn a_store_without_a_log_is_not_said_to_be_durable() {
    let (_folder, new) = place();
    let store = create(&new);
    for policy in [Policy::Always, Policy::Every(Span::from_us(1))] {
        let durable = Options { durability: Some(policy), ..options() };
        let error = Engine::open(&store, &durable).expect_err("it has no log");
        assert!(matches!(error, EngineError::NotDurable(found) if found == policy), "{error}");
    }
    for durability in [None, Some(Policy::None)] {
        check_all(&Engine::open(&store, &Options { durability, ..options() }).unwrap());
    }
}

#[test]
fn a_mapping_of_a_store_that_is_open_for_reading_leaves_its_file_alone() {
    let (_folder, new) = place();
    drop(create(&new));
    let before = std::fs::read(&new.path).unwrap();
    let shared = reopen(&new, Access::SharedReadOnly);
    let mut memory = MappedMemory::paged(&shared).unwrap();
    memory.store::<u64>(word(3), 7);
    assert_eq!([3, 4].map(|page| memory.load::<u64>(word(page))), [7, initial(4 * WORDS_PER_PAGE)]);
    drop((memory, shared));
    assert!(std::fs::read(&new.path).unwrap() == before);
    let own = reopen(&new, Access::Exclusive);
    MappedMemory::paged(&own).unwrap().store::<u64>(word(3), 7);
    assert!(std::fs::read(&new.path).unwrap() != before);
}

#[test]
fn a_store_with_a_log_is_not_mapped() {
    let (_folder, new) = place();
    let store = Store::create_persistent(&new, 1 << 20).unwrap();
    let error = MappedMemory::paged(&store).err().expect("it has a log");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn engines_that_never_write_share_a_store() {
    let (_folder, new) = place();
    drop(create(&new));
    let store = reopen(&new, Access::SharedReadOnly);
    let first = Engine::open(&store, &options()).unwrap();
    let second = Engine::open(&store, &options()).unwrap();
    check_all(&first);
    check_all(&second);
}

const OTHER_PROCESS: &str = "EBBTIDE_TEST_STORE_IN_USE";

/// Not a test on its own: the body of the other process.
#[test]
fn the_other_process() {
    let Ok(path) = std::env::var(OTHER_PROCESS) else { return };
    for access in [Access::Exclusive, Access::SharedReadOnly] {
        let error = Store::open(path.as_ref(), 0, access).unwrap_err();
        assert!(matches!(error, StoreError::InUse(_)), "{error}");
    }
}

#[test]
fn a_store_in_use_is_refused_to_another_process_for_as_long_as_the_engine_lives() {
    let (_folder, new) = place();
    // The engine alone keeps the store open.
    let engine = Engine::open(&create(&new), &options()).unwrap();
    run_alone(&engine, || vec![loads(0)]).order();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "used_stores::the_other_process", "--nocapture"])
        .env(OTHER_PROCESS, &new.path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    drop(engine);
    drop(reopen(&new, Access::Exclusive));
}
