//! Damaged pages and superblocks, and files that were cut short.

use ebbtide_core::Memory;
use ebbtide_core::durability::Policy;
use ebbtide_engine::store::{Access, Store, StoreError};
use ebbtide_engine::{Engine, EngineError, Jobs};

use super::{PAGES, create, folder, options, reopen, start, with_image, word};
use crate::common;

#[test]
fn a_damaged_page_is_a_named_error_and_the_rest_is_there() {
    let folder = folder();
    let path = folder.path().join("store");
    let store = create(&path, 1 << 20);
    let slots = store.pages_offset();
    let jobs = start(&store, &options(1, Policy::None));
    let fill = |jobs: &Jobs, value: u64| {
        for page in 0..PAGES {
            let store = move |memory: &mut ebbtide_engine::FlashMemory<'_>| {
                memory.transaction(|memory| memory.store(word(page), value + page)).unwrap();
            };
            jobs.submit(store).wait().unwrap();
        }
    };
    fill(&jobs, 1);
    jobs.stop().unwrap();
    drop(store);
    // After this every page is in its slot.
    start(&reopen(&path), &options(1, Policy::None)).stop().unwrap();
    {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        // Every place of a copy of page 500, an old one or the last.
        let mut first = [0; 8];
        for slot in 0..PAGES + PAGES / 4 {
            file.read_exact_at(&mut first, slots + slot * 4096).unwrap();
            if u64::from_le_bytes(first) == 501 {
                file.write_all_at(&[0xff; 16], slots + slot * 4096 + 2000).unwrap();
            }
        }
    }
    let jobs = start(&reopen(&path), &options(1, Policy::None));
    let mut damaged = 0;
    for page in 0..PAGES {
        match jobs.submit(move |memory| memory.load::<u64>(word(page))).wait() {
            Ok(value) => assert_eq!(value, 1 + page),
            Err(error) => {
                damaged += 1;
                assert!(error.to_string().starts_with("page 500: "), "{error}");
            }
        }
    }
    assert_eq!(damaged, 1);
}

/// Loads the first word of every page. Returns the errors. No word may be wrong.
fn unreadable(jobs: &Jobs) -> Vec<String> {
    let load = |page: u64| jobs.submit(move |memory| memory.load::<u64>(word(page))).wait();
    let check = |page: u64| match load(page) {
        Ok(found) => {
            assert_eq!(found, common::initial(page * common::WORDS_PER_PAGE), "page {page}");
            None
        }
        Err(error) => Some(error.to_string()),
    };
    (0..PAGES).filter_map(check).collect()
}

/// A reserved, unwritten log does not count as cut off, even when the file needs fewer blocks.
#[test]
fn a_store_whose_file_loses_only_what_lies_behind_it_is_read_on() {
    let folder = folder();
    let path = folder.path().join("store");
    let store = with_image(&path);
    let file = store.file();
    let end = file.metadata().unwrap().len();
    std::fs::write(folder.path().join("behind"), vec![7; 1 << 20]).unwrap();
    let mut behind = std::fs::File::open(folder.path().join("behind")).unwrap();
    let mut longer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    std::io::copy(&mut behind, &mut longer).unwrap();
    longer.sync_all().unwrap();
    let jobs = start(&store, &options(1, Policy::None));
    file.set_len(end).unwrap();
    assert_eq!(unreadable(&jobs).first(), None);
    jobs.stop().unwrap();
}

#[test]
fn a_store_cut_short_under_an_engine_gives_errors_and_no_zeros_also_when_it_has_grown_again() {
    let folder = folder();
    let store = with_image(&folder.path().join("store"));
    let file = store.file();
    let end = file.metadata().unwrap().len();
    let jobs = start(&store, &options(1, Policy::None));
    file.set_len(end / 2).unwrap();
    file.set_len(end).unwrap();
    let unreadable = unreadable(&jobs);
    assert!(unreadable.len() > 100 && unreadable.len() < PAGES as usize, "{}", unreadable.len());
    assert!(unreadable.iter().all(|error| error.contains("is not what was written there")));
}

#[test]
fn either_superblock_of_a_new_store_is_enough() {
    use std::os::unix::fs::FileExt;
    let folder = folder();
    for kept in 1..3 {
        let path = folder.path().join(format!("store{kept}"));
        drop(create(&path, 1 << 20));
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[9; 4096], (3 - kept) * 4096).unwrap();
        let jobs = start(&reopen(&path), &options(1, Policy::None));
        assert_eq!(jobs.submit(|memory| memory.load::<u64>(word(3))).wait(), Ok(0));
    }
}

#[test]
fn a_damaged_superblock_or_another_version_is_refused_with_what_is_wrong() {
    use std::os::unix::fs::FileExt;
    let folder = folder();
    let path = folder.path().join("store");
    drop(create(&path, 1 << 20));
    let damage = |offset: u64, bytes: &[u8]| {
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(bytes, offset).unwrap();
    };
    (1..5).for_each(|block| damage(block * 4096 + 50, &[9]));
    let error = Engine::open(&reopen(&path), &options(1, Policy::None)).map(drop).unwrap_err();
    assert!(matches!(error, EngineError::Store(StoreError::Recovery(_))), "{error}");
    damage(8, &1u32.to_le_bytes());
    let error = Store::open(&path, 0, Access::Exclusive).unwrap_err();
    assert!(error.to_string().contains("version 1, expected 2"), "{error}");
}
