//! A finished store that survives crashes is replaced only by force. A store whose making was cut
//! off holds nothing, and is made anew.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ebbtide_core::{Addr, Memory, PAGE_BYTES, PageId, Watch};
use ebbtide_engine::store::{Access, NewStore, Store, StoreError};
use ebbtide_engine::{Engine, EngineError, Options, embedded};
use tempfile::TempDir;

use crate::common::watched;

const PAGES: u64 = 256;
const LOG_BYTES: u64 = 1 << 20;

/// The variables for another process: its activity, and its file.
const OTHER_DOES: &str = "EBBTIDE_TEST_OTHER_DOES";
const OTHER_PATH: &str = "EBBTIDE_TEST_OTHER_PATH";

/// A folder, and a store to be made in it.
fn place() -> (TempDir, NewStore) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let new = new_at(&folder.path().join("store"));
    (folder, new)
}

fn new_at(path: &Path) -> NewStore {
    let (path, tag) = (path.to_path_buf(), "kept".into());
    NewStore { path, offset: 0, pages: PAGES, spare_pages: PAGES, tag, force: false }
}

/// A place with a store that survives crashes.
fn made() -> (TempDir, NewStore) {
    let (folder, new) = place();
    Store::create_persistent(&new, LOG_BYTES).unwrap();
    (folder, new)
}

fn numbers(page: PageId, out: &mut [u8; PAGE_BYTES]) {
    out.fill(page.0 as u8);
}

/// All ways to make a store in the place of `new`.
fn all_ways(new: &NewStore) -> [Result<Store, StoreError>; 4] {
    let watch = Watch::unattended();
    [
        Store::create(new, &numbers, watch),
        Store::create_blank(new),
        Store::create_persistent(new, LOG_BYTES),
        Store::create_persistent_image(new, LOG_BYTES, &numbers, watch),
    ]
}

/// Asserts that the error reports a store with a log.
fn assert_has_log(error: &StoreError) {
    let is_foreign = matches!(error, StoreError::Foreign { found, .. }
        if matches!(**found, StoreError::HasLog { .. }));
    assert!(is_foreign && error.is_input(), "{error}");
    let text = error.to_string();
    assert!(text.contains("holds a store that survives crashes, 'kept'; --force would"), "{text}");
}

#[test]
fn a_store_with_a_log_is_replaced_only_by_force() {
    let (_folder, new) = made();
    let before = fs::read(&new.path).unwrap();
    let smaller = NewStore { pages: 2, spare_pages: 1, ..new.clone() };
    for new in [&new, &smaller] {
        all_ways(new).into_iter().for_each(|made| assert_has_log(&made.unwrap_err()));
        assert_has_log(&new.is_there().unwrap_err());
        assert!(!new.is_free().unwrap());
    }
    assert!(fs::read(&new.path).unwrap() == before, "not a byte is touched");
    let forced = NewStore { force: true, ..new.clone() };
    assert!(!forced.is_there().unwrap());
    Store::create(&forced, &numbers, Watch::unattended()).unwrap();
    // It has no log now.
    Store::create_blank(&new).unwrap();
}

#[test]
fn a_new_store_over_a_part_of_one_with_a_log_is_refused() {
    let (_folder, new) = made();
    let page = PAGE_BYTES as u64;
    // Within it.
    let within = NewStore { offset: 9 * page, pages: 1, spare_pages: 1, ..new.clone() };
    all_ways(&within).into_iter().for_each(|made| assert_has_log(&made.unwrap_err()));
    // Over the second of two stores that lie one after the other.
    let (_folder, first) = place();
    Store::create_blank(&first).unwrap();
    let second = NewStore { offset: first.bytes(), ..first.clone() };
    Store::create_persistent(&second, LOG_BYTES).unwrap();
    let longer = NewStore { pages: PAGES + 1, ..first.clone() };
    all_ways(&longer).into_iter().for_each(|made| assert_has_log(&made.unwrap_err()));
    // Beside it.
    Store::create_blank(&first).unwrap();
    let third = second.offset + second.persistent_bytes(LOG_BYTES);
    Store::create_blank(&NewStore { offset: third, ..first.clone() }).unwrap();
    drop(Store::open(&second.path, second.offset, Access::Exclusive).unwrap());
}

fn refused(store: &Arc<Store>) -> StoreError {
    match Engine::open(store, &Options::new(4 << 20)) {
        Err(EngineError::Store(error)) => error,
        Err(error) => panic!("refused for another reason: {error}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn a_store_with_a_log_that_is_open_for_reading_has_no_engine_and_is_not_written() {
    let (_folder, new) = made();
    let before = fs::read(&new.path).unwrap();
    let store = Arc::new(Store::open(&new.path, 0, Access::SharedReadOnly).unwrap());
    for _ in 0..2 {
        let error = refused(&store);
        assert!(matches!(error, StoreError::SharedLog(_)) && error.is_input(), "{error}");
    }
    assert!(store.mark_dirty().is_err());
    let written = store.file().write_all_at(&[7; PAGE_BYTES], 0).unwrap_err();
    assert_eq!(written.raw_os_error(), Some(libc::EBADF), "the kernel refuses it as well");
    assert!(store.inspect(true, Watch::unattended()).unwrap().is_some());
    assert!(fs::read(&new.path).unwrap() == before, "not a byte is touched");
}

/// A store with a word in it that was acknowledged.
fn write_word(path: &Path) {
    let store = Arc::new(Store::open(path, 0, Access::Exclusive).unwrap());
    let jobs = Arc::new(Engine::open(&store, &Options::new(4 << 20)).unwrap()).start().unwrap();
    let stored =
        jobs.submit_commit(|memory| memory.transaction(|memory| memory.store(Addr(8), 7u64)));
    watched(&jobs, || stored.wait().unwrap().unwrap());
}

/// Returns the possible files after the making of a store with a log was cut off. They are nothing,
/// zeros, a header alone, a torn header, and everything but the last write.
fn cut_off(new: &NewStore) -> Vec<Vec<u8>> {
    let whole = fs::read(&new.path).unwrap();
    let mut all = whole.clone();
    // The header says dirty, with a valid checksum.
    all[12] = 2;
    let checksum = ebbtide_core::crc32c(&all[..PAGE_BYTES - 4]);
    all[PAGE_BYTES - 4..PAGE_BYTES].copy_from_slice(&checksum.to_le_bytes());
    let mut header = vec![0; whole.len()];
    header[..PAGE_BYTES].copy_from_slice(&all[..PAGE_BYTES]);
    let mut torn = header.clone();
    torn[512..PAGE_BYTES].fill(0);
    vec![Vec::new(), vec![0; whole.len()], header, torn, all]
}

#[test]
fn a_store_whose_making_was_cut_off_anywhere_is_made_anew_without_force() {
    let (_folder, new) = made();
    for left in cut_off(&new) {
        fs::write(&new.path, &left).unwrap();
        for access in [Access::Exclusive, Access::SharedReadOnly] {
            let error = Store::open(&new.path, 0, access).unwrap_err();
            assert!(error.is_input(), "{error}");
        }
        assert!(new.is_free().unwrap() && !new.is_there().unwrap());
        drop(Store::create_persistent(&new, LOG_BYTES).unwrap());
        assert!(!new.is_free().unwrap());
        write_word(&new.path);
    }
}

#[test]
fn an_unfinished_store_says_so() {
    let (_folder, new) = made();
    let unfinished = cut_off(&new).pop().unwrap();
    fs::write(&new.path, unfinished).unwrap();
    let error = Store::open(&new.path, 0, Access::Exclusive).unwrap_err();
    assert!(matches!(error, StoreError::Unfinished(_)), "{error}");
    assert!(error.to_string().contains("making was cut off"), "{error}");
}

#[test]
fn a_library_store_whose_making_was_cut_off_is_made_anew() {
    let (_folder, new) = place();
    let open = || embedded::Store::builder(&new.path).size("1MiB").dram("4MiB").open();
    drop(open().unwrap());
    for left in cut_off(&new) {
        fs::write(&new.path, left).unwrap();
        assert!(open().unwrap().names().unwrap().is_empty());
    }
}

/// Not a test on its own: the body of another process.
#[test]
fn other() {
    let (Ok(does), Some(path)) = (std::env::var(OTHER_DOES), std::env::var_os(OTHER_PATH)) else {
        return;
    };
    let new = new_at(Path::new(&path));
    match does.as_str() {
        // Is killed while it writes the image.
        "dies" => {
            let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| {
                numbers(page, out);
                if page.0 == PAGES / 2 {
                    // SAFETY: it ends this process.
                    unsafe { libc::raise(libc::SIGKILL) };
                }
            };
            let _ = Store::create_persistent_image(&new, LOG_BYTES, &image, Watch::unattended());
            unreachable!("it was killed");
        }
        // Keeps the store open for longer than a second after it has said that it is ending.
        "lingers" => {
            let _store = Store::open(&new.path, 0, Access::Exclusive).unwrap();
            println!("ending");
            std::io::stdout().flush().unwrap();
            std::thread::sleep(Duration::from_millis(1800));
        }
        _ => unreachable!("it does one of these"),
    }
}

fn start_other(does: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kept_stores::other", "--nocapture"])
        .env(OTHER_DOES, does)
        .env(OTHER_PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_store_whose_maker_was_killed_is_made_anew() {
    let (_folder, new) = place();
    assert!(!start_other("dies", &new.path).wait().unwrap().success());
    let error = Store::open(&new.path, 0, Access::Exclusive).unwrap_err();
    assert!(matches!(error, StoreError::Unfinished(_)), "{error}");
    Store::create_persistent(&new, LOG_BYTES).unwrap();
}

#[test]
fn a_store_that_another_process_takes_its_time_to_give_up_is_waited_for() {
    let (_folder, new) = made();
    let mut other = start_other("lingers", &new.path);
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.ends_with("ending")));
    drop(Store::open(&new.path, 0, Access::Exclusive).unwrap());
    other.wait().unwrap();
}

#[test]
fn a_maker_that_finds_the_file_locked_leaves_it_there() {
    let (_folder, new) = place();
    // Another has made the file, and is about to fill it.
    let path = new.path.clone();
    let holder = Store::create_blank(&new).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    let error = Store::create_persistent(&new, LOG_BYTES).unwrap_err();
    assert!(matches!(error, StoreError::HasEngine(_)), "{error}");
    assert!(path.exists());
    drop(holder);
}
