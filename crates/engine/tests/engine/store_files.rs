//! The file of an embedded store: where it is, who may read it, and what it needs.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use ebbtide_core::durability::SLOTS_MAX;
use ebbtide_core::{Bytes, Stop};
use ebbtide_engine::embedded::{Builder, Error, Store};
use ebbtide_engine::store::{Access, NewStore, Store as File};
use ebbtide_engine::{Engine, Options};

fn small(path: &Path) -> Builder {
    Store::builder(path).dram("8MiB").size("1MiB").durability("none")
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn a_store_that_grows_keeps_its_permissions_and_the_links_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let [real, link] = ["real", "link"].map(|name| folder.path().join(name));
    drop(small(&real).open().unwrap());
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real", &link).unwrap();
    let store = small(&link).open().unwrap();
    store.map("m").unwrap().insert("a", "1").unwrap();
    store.grow("2MiB").unwrap();
    drop(store);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(mode(&real), 0o600);
    let store = Store::builder(&real).dram("8MiB").size("2MiB").open().unwrap();
    assert_eq!(store.map("m").unwrap().get("a").unwrap().unwrap(), b"1");
}

#[test]
fn a_copy_has_the_permissions_of_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let [path, copy] = ["store", "copy"].map(|name| folder.path().join(name));
    drop(small(&path).open().unwrap());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let file = std::sync::Arc::new(File::open(&path, 0, Access::Exclusive).unwrap());
    let engine = Engine::open(&file, &Options::new(8 << 20)).unwrap();
    engine.copy_to(&copy, &Stop::new()).unwrap();
    assert_eq!(mode(&copy), 0o640);
}

#[test]
fn a_store_whose_file_is_gone_does_not_grow_and_stays_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = small(&path).open().unwrap();
    let map = store.map("m").unwrap();
    map.insert("a", "1").unwrap();
    std::fs::rename(&path, folder.path().join("moved")).unwrap();
    for _ in 0..2 {
        let error = store.grow("2MiB").unwrap_err().to_string();
        assert!(error.contains("no longer the file of the open store"), "{error}");
        assert_eq!(map.get("a").unwrap().unwrap(), b"1");
        // Another store in its place is not grown.
        drop(small(&path).open().unwrap());
    }
    std::fs::rename(folder.path().join("moved"), &path).unwrap();
    std::fs::write(folder.path().join("store.larger"), "a file of the user").unwrap();
    let error = store.grow("2MiB").unwrap_err().to_string();
    assert!(error.ends_with("holds something that is not an Ebbtide data file"), "{error}");
    assert_eq!(map.get("a").unwrap().unwrap(), b"1");
}

/// Makes a store by a path from the folder of the test, and grows it from another folder.
#[test]
#[ignore = "run by the next test, in a process of its own: it changes its folder"]
fn grows_from_another_folder() {
    let folder = std::path::PathBuf::from(std::env::var_os("FOLDER").unwrap());
    std::env::set_current_dir(&folder).unwrap();
    let store = small(Path::new("store")).open().unwrap();
    std::env::set_current_dir("..").unwrap();
    store.grow("2MiB").unwrap();
}

#[test]
fn a_store_grows_where_it_is_although_the_program_has_changed_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut test = std::process::Command::new(std::env::current_exe().unwrap());
    test.args(["--ignored", "--exact", "store_files::grows_from_another_folder"])
        .env("FOLDER", folder.path());
    assert!(test.output().unwrap().status.success());
    Store::builder(folder.path().join("store")).dram("8MiB").size("2MiB").open().unwrap();
}

#[test]
fn the_dram_that_an_error_asks_for_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    for (size, cores, dram) in [("1MiB", 1, "0"), ("1MiB", 3, "1MiB"), ("512MiB", 2, "3MiB")] {
        let path = folder.path().join("store");
        let builder = |dram: &str| Store::builder(&path).size(size).cores(cores).dram(dram);
        let error = builder(dram).open().unwrap_err().to_string();
        let given = dram.parse::<Bytes>().unwrap().0;
        assert!(error.starts_with(&format!("dram: a DRAM budget of {given} bytes")), "{error}");
        assert!(!path.exists(), "nothing was made");
        let needed = error.split("at least ").nth(1).and_then(|rest| rest.split(' ').next());
        let needed: u64 = needed.unwrap().parse().unwrap();
        let error = builder(&(needed - 1).to_string()).open().unwrap_err().to_string();
        assert!(error.contains(&format!("at least {needed} ")), "{error}");
        let store = builder(&needed.to_string()).durability("none").open().unwrap();
        let list = store.list::<Vec<u8>>("l").unwrap();
        let ordered = store.ordered_map("o").unwrap();
        list.extend((0..60).map(|n| vec![n; 2_500])).unwrap();
        (0..60u8).for_each(|n| _ = ordered.insert([n; 200], [n; 1_500]).unwrap());
        assert!(list.iter().map(Result::unwrap).eq((0..60).map(|n| vec![n; 2_500])));
        drop((store, list, ordered));
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_store_whose_making_was_cut_off_is_made_with_any_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (tag, spare_pages) = ("maps 2".to_string(), 100);
    let new =
        NewStore { path: path.clone(), offset: 0, pages: 500, spare_pages, tag, force: false };
    drop(File::create_persistent(&new, 4 << 20).unwrap());
    let store = small(&path).open().unwrap();
    store.map("m").unwrap().insert("a", "1").unwrap();
    drop(store);
    assert_eq!(small(&path).open().unwrap().map("m").unwrap().len().unwrap(), 1);
}

#[test]
fn a_store_that_could_not_be_opened_again_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (pages, spare_pages, tag) = (SLOTS_MAX - 10, 11, String::new());
    let new = NewStore { path: path.clone(), offset: 0, pages, spare_pages, tag, force: false };
    let error = File::create_persistent(&new, 4 << 20).unwrap_err().to_string();
    assert!(error.contains(&format!("expected at most {SLOTS_MAX}")), "{error}");
    assert!(!path.exists());
    let error = small(&path).size("3TiB").open().unwrap_err();
    assert!(matches!(error, Error::Option { option: "size", .. }), "{error}");
}
