//! Devices that are refused, with an error that names the expected kind.
//!
//! EBBTIDE_USED_DRIVES names drives that the system uses, and EBBTIDE_METADATA_DRIVE one whose
//! blocks carry metadata.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use ebbtide_core::{PAGE_BYTES, PageId, Watch};
use ebbtide_engine::device::Direction;
use ebbtide_engine::device::path::{self, DevicePath};
use ebbtide_engine::store::{NewStore, Store, StoreError};
use ebbtide_engine::{Engine, Options};

use super::common::file::page_file;
use super::common::image;
use super::{Driver, PAGES, has_polled_queues, open_drive, paths};

/// The drives that may be overwritten; none unless they are named.
fn drives() -> Vec<String> {
    let named = std::env::var("EBBTIDE_DRIVES").unwrap_or_default();
    named.split(',').filter(|drive| !drive.is_empty()).map(str::to_string).collect()
}

pub fn new_store(drive: &str, force: bool) -> NewStore {
    let (path, tag) = (drive.into(), "words".into());
    NewStore { path, offset: 0, pages: PAGES as u64, spare_pages: PAGES as u64, tag, force }
}

pub fn create(new: &NewStore) -> Result<Store, StoreError> {
    let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| image(page.index(), out);
    Store::create(new, &image, Watch::unattended())
}

#[test]
fn a_drive_that_holds_something_is_kept_without_force_and_is_polled_with_a_store() {
    for drive in drives() {
        let tested = paths(&drive, &open_drive(&drive)).swap_remove(0);
        let mut driver = Driver::new(&tested, 2, false, false);
        driver.fill(0, 0);
        driver.memory[0].0[1024 + 56..][..2].copy_from_slice(&[0x53, 0xef]);
        driver.transfer(Direction::Write, 0, &[0]);
        for error in [
            new_store(&drive, false).is_there().unwrap_err(),
            create(&new_store(&drive, false)).unwrap_err(),
        ] {
            assert!(error.to_string().contains("holds an ext2, ext3 or ext4"), "{error}");
        }
        driver.memory[1].0[1024 + 56] = 0;
        driver.transfer(Direction::Read, 0, &[1]);
        assert_eq!(driver.memory[1].0[1024 + 56], 0x53, "nothing was written");
        drop((driver, tested));

        let huge = NewStore { pages: 1 << 30, ..new_store(&drive, true) };
        let error = create(&huge).unwrap_err().to_string();
        assert!(error.contains("no space left: 4194307 MiB are needed"), "{error}");
        let store = Arc::new(create(&new_store(&drive, true)).unwrap());
        assert!(new_store(&drive, false).is_there().is_err(), "it is in use");
        let engine = Engine::open(&store, &Options::new(16 << 20)).unwrap();
        let polled = engine.device_name().contains("polled");
        assert_eq!(polled, has_polled_queues(&drive), "{}", engine.device_name());
        assert!(engine.has_network());
        drop((engine, store));
        assert!(new_store(&drive, false).is_there().unwrap());
    }
}

#[test]
fn a_drive_that_the_system_uses_is_refused_even_with_force() {
    let used = std::env::var("EBBTIDE_USED_DRIVES").unwrap_or_default();
    for drive in used.split(',').filter(|drive| !drive.is_empty()) {
        let error = create(&new_store(drive, true)).unwrap_err();
        assert!(matches!(error, StoreError::Mounted(_)), "{drive}: {error}");
    }
}

#[test]
fn passthrough_to_blocks_with_metadata_is_refused_with_the_format_that_was_expected() {
    let Ok(drive) = std::env::var("EBBTIDE_METADATA_DRIVE") else { return };
    let refused = path::open(open_drive(&drive), Some(DevicePath::Nvme)).err();
    let refused = refused.expect("it has metadata");
    assert!(refused.contains("carry 8 bytes of metadata; expected a format without"), "{refused}");
    // The kernel adds the metadata itself, or gives such a drive no blocks.
    match create(&new_store(&drive, true)) {
        Ok(store) => drop(Engine::open(&Arc::new(store), &Options::new(16 << 20)).unwrap()),
        Err(error) => assert!(matches!(error, StoreError::NoSpace { .. }), "{error}"),
    }
}

/// Runs `act` as a user who owns nothing, in all threads of this process.
fn as_nobody<T>(act: impl FnOnce() -> T) -> T {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: changes who this process is for the kernel, and nothing in memory.
    assert_eq!(unsafe { libc::seteuid(NOBODY) }, 0);
    let result = act();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::seteuid(0) }, 0);
    result
}

#[test]
fn who_may_not_use_a_drive_is_told_who_may() {
    for drive in drives() {
        let error = as_nobody(|| create(&new_store(&drive, true)).unwrap_err().to_string());
        assert!(error.contains("you may not read and write this drive; expected root"), "{error}");
        let Some(number) = drive.strip_prefix("/dev/nvme") else { continue };
        let permit = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&drive, permissions).unwrap();
        };
        permit(0o666);
        let (block, passthrough) = as_nobody(|| {
            let by = |way| path::open(open_drive(&drive), Some(way)).map(drop);
            (by(DevicePath::Block), by(DevicePath::Nvme))
        });
        permit(0o600);
        assert_eq!(block, Ok(()));
        let refused = passthrough.unwrap_err();
        let expected = format!("passthrough is refused here: /dev/ng{number}: Permission denied");
        assert!(refused.contains(&expected), "{refused}");
    }
}

#[test]
fn a_way_that_does_not_suit_what_is_there_is_refused_with_what_was_expected() {
    let file = page_file(1, image);
    for path in [DevicePath::Block, DevicePath::Nvme] {
        let refused = path::open(file.clone(), Some(path)).err().expect("it is a file");
        assert!(refused.contains("expects a block device"), "{refused}");
    }
}
