//! `ebbtide store` on a persistent store, whole and damaged.

mod common;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use common::{ebbtide, folder};
use ebbtide_core::{Addr, Memory, PageId};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, Options, embedded};

const PAGES: u64 = 256;

/// Makes a store with a slot for page 7, which begins with 77.
fn make(path: &Path) {
    let (path, tag) = (path.to_path_buf(), "shop".into());
    let new = NewStore { path, offset: 0, pages: PAGES, spare_pages: 64, tag, force: false };
    let store = Arc::new(Store::create_persistent(&new, 1 << 20).unwrap());
    let start = |store: &Arc<Store>| {
        Arc::new(Engine::open(store, &Options::new(8 << 20)).unwrap()).start().unwrap()
    };
    let jobs = start(&store);
    let store_word = |memory: &mut ebbtide_engine::FlashMemory<'_>| {
        memory.transaction(|memory| memory.store(PageId(7).start(), 77u64)).unwrap();
    };
    jobs.submit(store_word).wait().unwrap();
    jobs.stop().unwrap();
    drop(store);
    // Recovery writes the page.
    let store = Arc::new(Store::open(&new.path, 0, Access::Exclusive).unwrap());
    let jobs = start(&store);
    let word = jobs.submit(|memory| memory.load::<u64>(Addr(7 * 4096))).wait().unwrap();
    assert_eq!(word, 77);
    jobs.stop().unwrap();
}

#[test]
fn a_store_is_described_checked_and_its_damage_named() {
    let folder = folder();
    let path = folder.path().join("data");
    make(&path);
    let run = |what: &str| {
        let output = ebbtide(folder.path(), &["store", what, "data"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run("info");
    assert!(
        text.contains("image              shop") && text.contains("opened             2 times"),
        "{text}"
    );
    assert!(text.contains("pages written      1"), "{text}");
    assert!(run("check").contains("checksums          all right"));
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut word = [0; 8];
    let slot = (0..file.metadata().unwrap().len() / 4096).rev().find(|block| {
        file.read_exact_at(&mut word, block * 4096).unwrap();
        u64::from_le_bytes(word) == 77
    });
    file.write_all_at(&[1], slot.unwrap() * 4096 + 100).unwrap();
    let output = ebbtide(folder.path(), &["store", "check", "data"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "ebbtide: data: damaged\n");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("persist page 7 at 0x7000"), "{text}");
}

#[test]
fn a_store_that_is_not_in_use_grows_with_all_that_it_has() {
    let folder = folder();
    let path = folder.path().join("data");
    make(&path);
    let grow = |size: &str| ebbtide(folder.path(), &["store", "grow", "data", size]).output();
    let output = grow("2MiB").unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "data: 2MiB\n");
    let store = Arc::new(Store::open(&path, 0, Access::Exclusive).unwrap());
    assert_eq!((store.header().pages, store.header().spare_pages), (2 * PAGES, 128));
    let engine = Arc::new(Engine::open(&store, &Options::new(8 << 20)).unwrap());
    let jobs = engine.start().unwrap();
    let word = jobs.submit(|memory| memory.load::<u64>(PageId(7).start())).wait().unwrap();
    assert_eq!(word, 77);
    jobs.stop().unwrap();
    drop((engine, store));
    let output = grow("1MiB").unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "ebbtide: data: has 512 pages, expected more than that and not 256\n");

    let maps = || embedded::Store::builder(folder.path().join("data")).dram("8MiB");
    fs::remove_file(&path).unwrap();
    let map = maps().size("1MiB").open().unwrap().map("m").unwrap();
    map.insert("key", [1; 200_000]).unwrap();
    drop(map);
    assert!(grow("4MiB").unwrap().status.success());
    let store = maps().size("4MiB").open().unwrap();
    assert_eq!(store.map("m").unwrap().get("key").unwrap().unwrap(), [1; 200_000]);
}
