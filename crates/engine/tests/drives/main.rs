//! A store on a drive is made only where the system does not use it, where it fits and where a page
//! is written whole. The drives are loop devices over files. A mistake here would overwrite a
//! user's disk, and no test with a regular file would notice it. File systems that reserve no room
//! are here as well.

#[path = "../common/mod.rs"]
mod common;
mod scratch;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::jobs::{job, run_alone};
use common::{image, initial, small_cache};
use ebbtide_core::{Memory, PAGE_BYTES, PageId, Watch};
use ebbtide_engine::Engine;
use ebbtide_engine::store::{Access, NewStore, Store, StoreError};
use scratch::{Ext2, LoopDevice, make_node};

const PAGES: u64 = 100;

fn new_store(path: &Path) -> NewStore {
    let (path, tag) = (path.to_path_buf(), "words".into());
    NewStore { path, offset: 0, pages: PAGES, spare_pages: 0, tag, force: false }
}

fn create(new: &NewStore) -> Result<Store, StoreError> {
    let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| image(page.index(), out);
    Store::create(new, &image, Watch::unattended())
}

/// Every page of the store holds its image.
fn assert_holds_image(new: &NewStore) {
    assert!(new.is_there().unwrap());
    let file = File::open(&new.path).unwrap();
    let (mut expected, mut found) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
    for page in 0..new.pages {
        image(page as usize, &mut expected);
        file.read_exact_at(&mut found, new.offset + (1 + page) * PAGE_BYTES as u64).unwrap();
        assert!(found == expected, "page {page}");
    }
}

#[test]
fn a_store_fills_a_drive_to_its_last_byte_and_one_that_does_not_fit_is_refused() {
    let bytes = new_store(Path::new("")).bytes();
    let Some(drive) = LoopDevice::new(bytes, 512) else { return };
    let new = new_store(drive.path());
    let larger = NewStore { pages: PAGES + 1, ..new.clone() };
    let error = create(&larger).unwrap_err();
    assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
    let mut start = [0xee; PAGE_BYTES];
    File::open(drive.path()).unwrap().read_exact_at(&mut start, 0).unwrap();
    assert_eq!(start, [0; PAGE_BYTES], "nothing was written");
    create(&new).unwrap();
    assert_holds_image(&new);
}

#[test]
fn an_engine_works_on_a_drive_and_readers_share_it() {
    let Some(drive) = LoopDevice::new(new_store(Path::new("")).bytes(), 4096) else { return };
    create(&new_store(drive.path())).unwrap();
    let open = || Arc::new(Store::open(drive.path(), 0, Access::SharedReadOnly).unwrap());
    for store in [open(), open()] {
        let engine = Engine::open(&store, &small_cache(8, 1, 4, PAGES)).unwrap();
        let read = || {
            job(|memory| {
                for page in (0..PAGES).map(PageId) {
                    assert_eq!(memory.load::<u64>(page.start()), initial(page.0 * 512));
                }
            })
        };
        run_alone(&engine, || vec![read()]).order();
    }
}

#[test]
fn a_drive_is_read_from_any_byte_by_its_path() {
    let Some(drive) = LoopDevice::new(new_store(Path::new("")).bytes(), 512) else { return };
    create(&new_store(drive.path())).unwrap();
    let (from, bytes) = (PAGE_BYTES as u64 + 24, 10 * PAGE_BYTES as u64);
    let options = small_cache(8, 1, 4, 11);
    let (engine, start) = Engine::open_file(drive.path(), from, bytes, &options).unwrap();
    let read = || job(move |memory| assert_eq!(memory.load::<u64>(start), initial(3)));
    run_alone(&engine, || vec![read()]).order();
}

#[test]
fn what_is_neither_a_file_nor_a_drive_is_not_read() {
    for path in ["/dev/null", "/proc"] {
        let refused = Engine::open_file(Path::new(path), 0, 1, &small_cache(4, 1, 1, 1)).err();
        let refused = refused.expect("it is no file").to_string();
        assert!(refused.contains("neither a file nor a block device"), "{path}: {refused}");
    }
}

/// Opens a drive as a mounted file system does. Between fork and exec, a program that another test
/// starts still has the drive open.
fn open_alone(drive: &Path) -> File {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match File::options().read(true).custom_flags(libc::O_EXCL).open(drive) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened.unwrap(),
        }
    }
}

#[test]
fn a_drive_that_the_system_uses_is_refused_with_force_as_well_but_its_store_may_be_used() {
    let Some(drive) = LoopDevice::new(new_store(Path::new("")).bytes(), 512) else { return };
    let new = new_store(drive.path());
    create(&new).unwrap();
    // So does a file system when it is mounted.
    let taken = open_alone(drive.path());
    let error = create(&NewStore { force: true, ..new.clone() }).unwrap_err();
    assert!(matches!(error, StoreError::Mounted(_)), "{error}");
    drop(Store::open_clean(drive.path(), 0, Access::Exclusive).unwrap());
    drop(taken);
    assert_holds_image(&new);
}

#[test]
fn a_drive_that_cannot_write_one_page_alone_is_refused() {
    let Some(drive) = LoopDevice::new(1 << 20, 8192) else { return };
    let error = create(&new_store(drive.path())).unwrap_err();
    assert!(error.to_string().contains("its blocks have 8192 bytes, expected 4096"), "{error}");
}

#[test]
fn a_drive_that_is_gone_is_told_from_a_file_that_cannot_be_opened() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("drive");
    // A number for experiments, which no driver has.
    let Some(()) = make_node(&path, 240, 255) else { return };
    let error = Store::open(&path, 0, Access::Exclusive).unwrap_err();
    assert!(matches!(error, StoreError::Gone(_)), "{error}");
}

#[test]
fn a_drive_that_may_not_be_opened_is_told_from_a_file_that_may_not() {
    let Some(mounted) = Ext2::mounted(4 << 20) else { return };
    let path = mounted.path().join("drive");
    let Some(()) = make_node(&path, 7, 0) else { return };
    let error = Store::open(&path, 0, Access::Exclusive).unwrap_err();
    assert!(matches!(error, StoreError::Forbidden(_)), "{error}");
    // Not even root may write to it.
    let error = Store::open(Path::new("/sys/kernel/notes"), 0, Access::Exclusive).unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error}");
}

#[test]
fn where_no_room_can_be_reserved_a_store_grows_and_what_lies_behind_it_stays() {
    let Some(mounted) = Ext2::mounted(8 << 20) else { return };
    let first = new_store(&mounted.path().join("stores"));
    drop(Store::create_blank(&first).unwrap());
    assert_eq!(fs::metadata(&first.path).unwrap().len(), first.bytes());
    drop(Store::open_clean(&first.path, 0, Access::Exclusive).unwrap());
    let second = NewStore { offset: first.bytes(), tag: "second".into(), ..first.clone() };
    create(&second).unwrap();
    create(&first).unwrap();
    assert_holds_image(&first);
    assert_holds_image(&second);
}
