//! A data file is trusted only when it is whole, clean and Ebbtide's own. No foreign data is
//! overwritten without force. The header is written twice around the image, because a half-written
//! file looks like a finished one. A crash, a full disk or Ctrl-C leaves such a file.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ebbtide_core::{PAGE_BYTES, PageId, Stop, Watch, crc32c};
use ebbtide_engine::store::{Access, NewStore, Store, StoreError};
use tempfile::TempDir;

const PAGES: u64 = 700;

/// Where the header keeps its version and its state, in bytes from the start of the store.
const VERSION_AT: u64 = 8;
const STATE_AT: u64 = 12;

/// A folder, and a store to be made in it.
fn place() -> (TempDir, NewStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    (
        folder,
        NewStore {
            path,
            offset: 0,
            pages: PAGES,
            spare_pages: 0,
            tag: "numbers".into(),
            force: false,
        },
    )
}

/// Every word of a page names the page and its place in it.
fn image(page: PageId, out: &mut [u8; PAGE_BYTES]) {
    for (number, word) in out.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(page.0 << 16 | number as u64).to_le_bytes());
    }
}

fn create(new: &NewStore) -> Result<Store, StoreError> {
    Store::create(new, &image, Watch::unattended())
}

/// A place whose store has been made and closed.
fn made() -> (TempDir, NewStore) {
    let (folder, new) = place();
    create(&new).expect("a store");
    (folder, new)
}

fn open(new: &NewStore) -> Result<Store, StoreError> {
    Store::open(&new.path, new.offset, Access::Exclusive)
}

fn overwrite(new: &NewStore, bytes: &[u8], at: u64) {
    let file = OpenOptions::new().write(true).open(&new.path).expect("the file");
    file.write_all_at(bytes, at).expect("written");
}

/// Both looking and creating must fail because of the contents of the place. Only force overwrites
/// them.
fn assert_kept_without_force(new: &NewStore, reason: &str) {
    let before = fs::read(&new.path).expect("the file");
    for error in [new.is_there().unwrap_err(), create(new).unwrap_err()] {
        let text = error.to_string();
        assert!(matches!(error, StoreError::Foreign { .. }) && error.is_input(), "{text}");
        assert!(text.contains(reason), "{text}");
        assert!(text.contains("--force would overwrite 3 MiB of it"), "{text}");
    }
    assert!(fs::read(&new.path).expect("the file") == before, "not a byte is touched");
    let forced = NewStore { force: true, ..new.clone() };
    assert!(!forced.is_there().expect("may be overwritten"));
    create(&forced).expect("overwritten");
    assert!(new.is_there().expect("a store"));
}

#[test]
fn every_page_holds_its_image_and_the_header_says_which() {
    let (_folder, new) = made();
    assert!(new.is_there().expect("readable"));
    let store = Store::open_clean(&new.path, 0, Access::SharedReadOnly).expect("a store");
    let header = store.header();
    assert_eq!((header.pages, header.tag.as_str(), header.clean), (PAGES, "numbers", true));
    assert_eq!((header.id, header.log_blocks), (0, 0), "the same image is the same file");
    let bytes = fs::read(&new.path).expect("the file");
    assert_eq!(bytes.len() as u64, new.bytes());
    let mut expected = [0; PAGE_BYTES];
    let pages = bytes[store.pages_offset() as usize..].chunks_exact(PAGE_BYTES);
    for (number, page) in pages.enumerate() {
        image(PageId(number as u64), &mut expected);
        assert!(page == expected, "page {number}");
    }
}

#[test]
fn the_header_says_dirty_from_before_the_first_page_until_all_are_written() {
    let (_folder, new) = place();
    let states = parking_lot::Mutex::new(Vec::new());
    let state = || fs::read(&new.path).expect("the file")[STATE_AT as usize];
    let looking = |page: PageId, out: &mut [u8; PAGE_BYTES]| {
        if page.0 == 0 {
            states.lock().push(state());
        }
        image(page, out);
    };
    let (stop, written) = (Stop::new(), |_: &str, _: f64| states.lock().push(state()));
    Store::create(&new, &looking, Watch::new(&written, &stop)).expect("a store");
    let during = states.into_inner();
    assert!(during.len() > 2 && during.iter().all(|&state| state == during[0]));
    assert_ne!(state(), during[0]);
}

#[test]
fn how_much_of_an_image_is_written_is_told_up_to_the_whole() {
    let (_folder, new) = place();
    let told = parking_lot::Mutex::new(Vec::new());
    let (stop, tell) = (Stop::new(), |_: &str, share: f64| told.lock().push(share));
    Store::create(&new, &image, Watch::new(&tell, &stop)).expect("a store");
    let mut told = told.into_inner();
    told.sort_by(f64::total_cmp);
    assert!(told.len() > 1 && told[0] > 0.0 && told.is_sorted_by(|a, b| a < b), "{told:?}");
    assert_eq!(told.last(), Some(&1.0));
}

#[test]
fn a_cancelled_image_leaves_a_dirty_file_that_is_made_anew() {
    let (_folder, new) = place();
    let stop = Stop::new();
    stop.stop();
    let stopped = Store::create(&new, &image, Watch::new(&|_, _| (), &stop));
    assert!(matches!(&stopped, Err(error @ StoreError::Stopped(_)) if !error.is_input()));
    assert!(!open(&new).expect("a whole file").header().clean);
    let untrusted = Store::open_clean(&new.path, 0, Access::SharedReadOnly).unwrap_err();
    assert!(matches!(untrusted, StoreError::Dirty(_)), "{untrusted}");
    assert!(!new.is_there().expect("may be overwritten"));
    create(&new).expect("no force is needed");
    assert!(new.is_there().expect("a store"));
}

#[test]
fn a_store_that_jobs_will_change_is_dirty_from_then_on() {
    let (_folder, new) = made();
    let store = open(&new).expect("a store");
    store.mark_dirty().expect("written");
    drop(store);
    assert!(matches!(
        Store::open_clean(&new.path, 0, Access::Exclusive),
        Err(StoreError::Dirty(_))
    ));
    assert!(!new.is_there().expect("may be overwritten"));
}

#[test]
fn a_store_opened_for_reading_cannot_be_changed() {
    let (_folder, new) = made();
    let store = Store::open(&new.path, 0, Access::SharedReadOnly).expect("a store");
    assert!(matches!(store.mark_dirty(), Err(StoreError::ReadOnly(_))));
    drop(store);
    assert!(new.is_there().expect("still clean"));
}

#[test]
fn another_image_of_ours_is_replaced_unasked() {
    let (_folder, new) = made();
    let other = NewStore { pages: PAGES / 2, tag: "other".into(), ..new.clone() };
    assert!(!other.is_there().expect("may be overwritten"));
    create(&other).expect("a store");
    assert!(other.is_there().expect("a store") && !new.is_there().expect("another"));
}

#[test]
fn spare_places_lie_behind_the_pages_and_are_part_of_the_store() {
    let (_folder, new) = place();
    let new = NewStore { spare_pages: 300, ..new };
    create(&new).expect("made");
    assert!(new.is_there().expect("readable"));
    assert!(!NewStore { spare_pages: 0, ..new.clone() }.is_there().expect("readable"));
    let store = Store::open_clean(&new.path, 0, Access::SharedReadOnly).expect("a store");
    assert_eq!((store.header().pages, store.slots()), (PAGES, PAGES + 300));
    let bytes = fs::read(&new.path).expect("the file");
    assert_eq!(bytes.len() as u64, new.bytes());
    let mut last = [0; PAGE_BYTES];
    image(PageId(PAGES - 1), &mut last);
    let spare = bytes.len() - 300 * PAGE_BYTES;
    assert_eq!(bytes[spare - PAGE_BYTES..spare], last);
    assert!(bytes[spare..].iter().all(|&byte| byte == 0));
}

#[test]
fn a_file_cut_short_is_refused() {
    let (_folder, new) = made();
    let file = OpenOptions::new().write(true).open(&new.path).expect("the file");
    for length in [new.bytes() - 1, PAGE_BYTES as u64, 100] {
        file.set_len(length).expect("cut");
        let error = open(&new).unwrap_err();
        assert!(matches!(error, StoreError::Short { .. }) && error.is_input(), "{error}");
        assert!(error.to_string().contains(&format!("truncated: has {length} bytes, needs ")));
    }
    // It is no place for a new store either, and the error says what is wrong with it.
    let before = fs::read(&new.path).expect("the file");
    for error in [new.is_there().unwrap_err(), create(&new).unwrap_err()] {
        let text = error.to_string();
        assert!(text.ends_with("truncated: has 100 bytes, needs 4096"), "{text}");
    }
    assert!(fs::read(&new.path).expect("the file") == before, "not a byte is touched");
    create(&NewStore { force: true, ..new.clone() }).expect("overwritten");
    assert!(new.is_there().expect("a store"));
}

#[test]
fn a_header_that_rotted_is_refused() {
    let (_folder, new) = made();
    overwrite(&new, &[0xff], 1000);
    assert!(matches!(open(&new), Err(StoreError::Damaged(_))));
    assert_kept_without_force(&new, "header is damaged: its checksum does not match");
}

#[test]
fn a_header_that_claims_more_pages_than_a_file_can_have_is_refused() {
    let (_folder, new) = made();
    let huge = NewStore { pages: u64::MAX, ..new.clone() };
    let bytes = fs::read(&new.path).expect("the file");
    let mut header = bytes[..PAGE_BYTES].to_vec();
    header[16..24].copy_from_slice(&huge.pages.to_le_bytes());
    let checksum = crc32c(&header[..PAGE_BYTES - 4]);
    header[PAGE_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
    overwrite(&new, &header, 0);
    assert!(matches!(open(&new), Err(StoreError::Short { .. })));
}

#[test]
fn a_store_with_the_mark_of_a_file_system_in_it_is_a_store_all_the_same() {
    let (_folder, new) = made();
    // The mark of ext2, ext3 and ext4.
    overwrite(&new, &[0x53, 0xef], 1024 + 56);
    assert_kept_without_force(&new, "header is damaged: its checksum does not match");
}

#[test]
fn a_store_is_read_past_the_page_cache_and_not_handed_to_other_programs() {
    let (_folder, new) = made();
    let store = open(&new).expect("a store");
    let number = std::os::fd::AsRawFd::as_raw_fd(&store.file());
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).expect("it is open");
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:")).expect("its flags");
    let flags = i32::from_str_radix(flags.trim(), 8).expect("an octal number");
    let wanted = libc::O_DIRECT | libc::O_CLOEXEC;
    assert_eq!(flags & wanted, wanted);
}

#[test]
fn another_version_is_refused() {
    let (_folder, new) = made();
    overwrite(&new, &7u32.to_le_bytes(), VERSION_AT);
    assert!(matches!(open(&new), Err(StoreError::Version { found: 7, .. })));
    assert_kept_without_force(
        &new,
        "an Ebbtide data file of version 7, expected 2: create it again with this version",
    );
}

#[test]
fn a_file_of_somebody_elses_is_refused() {
    let (_folder, new) = place();
    fs::write(&new.path, "a letter").expect("written");
    assert!(matches!(open(&new), Err(StoreError::NotAStore(_))));
    assert_kept_without_force(&new, "holds something that is not an Ebbtide data file");
}

#[test]
fn a_file_that_only_begins_or_ends_with_zeros_is_somebody_elses() {
    // btrfs and others leave the first pages of a device empty, md its first MiB but for one page.
    const BYTES: u64 = 8 << 20;
    for at in [64 << 10, BYTES - 4096] {
        let (_folder, new) = place();
        fs::File::create(&new.path).and_then(|file| file.set_len(BYTES)).expect("a file");
        assert!(!new.is_there().expect("nothing is there yet"));
        overwrite(&new, b"_BHRfS_M", at);
        assert_kept_without_force(&new, "holds something that is not an Ebbtide data file");
    }
}

#[test]
fn an_empty_file_is_used() {
    let (_folder, new) = place();
    fs::write(&new.path, "").expect("written");
    create(&new).expect("a store");
}

#[test]
fn one_user_at_a_time_may_write_and_many_may_read() {
    let (_folder, new) = made();
    let open = |access| Store::open(&new.path, 0, access);
    let reader = open(Access::SharedReadOnly).expect("a reader");
    let second = open(Access::SharedReadOnly).expect("another");
    assert!(matches!(open(Access::Exclusive), Err(StoreError::HasEngine(_))));
    assert!(new.is_there().expect("looking is reading"));
    drop((reader, second));
    let writer = open(Access::Exclusive).expect("a writer");
    for error in [open(Access::SharedReadOnly).unwrap_err(), create(&new).unwrap_err()] {
        assert!(matches!(error, StoreError::HasEngine(_)) && error.is_input(), "{error}");
        assert!(error.to_string().ends_with("in use by this process already"), "{error}");
    }
    drop(writer);
    assert!(new.is_there().expect("nothing has changed"));
}

#[test]
fn stores_share_a_file_each_behind_its_own_offset() {
    let (_folder, first) = made();
    let offset = first.bytes();
    let second = NewStore { offset, tag: "second".into(), ..first.clone() };
    let user = open(&first).expect("the first in use");
    create(&second).expect("locked for itself");
    user.mark_dirty().expect("written");
    let store = Store::open_clean(&second.path, offset, Access::Exclusive).expect("a store");
    assert_eq!(store.header().tag, "second");
    assert_eq!(store.pages_offset(), offset + PAGE_BYTES as u64);
    let bytes = fs::read(&second.path).expect("the file");
    let mut expected = [0; PAGE_BYTES];
    image(PageId(PAGES - 1), &mut expected);
    assert!(bytes.ends_with(&expected));
}

#[test]
fn what_is_too_large_leaves_no_file_behind() {
    let (_folder, new) = place();
    let huge = NewStore { pages: 1 << 50, ..new.clone() };
    let error = create(&huge).unwrap_err();
    assert!(matches!(error, StoreError::NoSpace { .. }) && error.is_input(), "{error}");
    assert!(!new.path.exists());
    create(&new).expect("a store");
    create(&huge).unwrap_err();
    assert_eq!(fs::metadata(&new.path).expect("the file").len(), new.bytes());
    assert!(new.is_there().expect("what was there is as it was"));
}

#[test]
fn a_file_system_in_the_place_is_told_by_its_name() {
    let (_folder, new) = place();
    let mut bytes = vec![0; 2 << 20];
    // The mark of ext2, ext3 and ext4.
    bytes[1024 + 56..][..2].copy_from_slice(&[0x53, 0xef]);
    fs::write(&new.path, bytes).expect("written");
    assert_kept_without_force(&new, "holds an ext2, ext3 or ext4 file system");
}

#[test]
fn a_folder_or_a_missing_one_is_no_place() {
    let (folder, new) = place();
    let at = |path: PathBuf| NewStore { path, ..new.clone() };
    let is_folder = at(folder.path().to_path_buf());
    for error in [is_folder.is_there().unwrap_err(), create(&is_folder).unwrap_err()] {
        assert!(matches!(error, StoreError::NotAFile(_)) && error.is_input(), "{error}");
    }
    // Not even root makes files there.
    let read_only = at("/proc/sys/kernel/data".into());
    let error = read_only.is_there().unwrap_err();
    assert!(matches!(error, StoreError::FolderReadOnly { .. }) && error.is_input(), "{error}");
    let missing = at(folder.path().join("missing/data"));
    let error = missing.is_there().unwrap_err();
    assert!(matches!(error, StoreError::NoFolder(_)) && error.is_input(), "{error}");
    let error = create(&missing).unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }) && error.is_input(), "{error}");
    assert!(!new.is_there().expect("nothing is there yet"));
    assert!(!new.path.exists(), "looking makes no file");
}

#[test]
fn a_long_tag_and_an_offset_within_a_page_are_refused_and_nothing_is_made() {
    let (_folder, new) = place();
    let long = NewStore { tag: "x".repeat(2000), ..new.clone() };
    let unaligned = NewStore { offset: 100, ..new.clone() };
    for (new, reason) in [
        (&long, "a store's tag has 2000 bytes, expected at most 1024"),
        (&unaligned, "a store begins 100 bytes into its file, expected a multiple of 4096"),
    ] {
        for error in [create(new).unwrap_err(), new.is_there().unwrap_err()] {
            assert!(error.to_string() == reason && error.is_input(), "{error}");
        }
    }
    assert!(!new.path.exists());
    let error = open(&unaligned).unwrap_err();
    assert!(matches!(error, StoreError::Unaligned(100)), "{error}");
}

#[test]
fn the_longest_tag_is_kept() {
    let (_folder, new) = place();
    let new = NewStore { tag: "x".repeat(1024), ..new };
    assert_eq!(create(&new).expect("a store").header().tag, new.tag);
}

/// A ring of the kernel may keep the file open for a while.
#[test]
fn a_store_is_free_once_it_is_dropped_while_its_file_is_still_open() {
    let (_folder, new) = made();
    let store = open(&new).expect("a store");
    let file = store.file();
    drop(store);
    open(&new).expect("nobody has it");
    drop(file);
}

#[test]
fn the_smallest_persistent_store_is_made_and_a_smaller_one_refused_with_the_bound() {
    let page_bytes = PAGE_BYTES as u64;
    let least = ebbtide_core::durability::LOG_BLOCKS_MIN * page_bytes;
    let (_folder, new) = place();
    let new = NewStore { spare_pages: 1, ..new };
    let none = NewStore { spare_pages: 0, ..new.clone() };
    for (new, log_bytes) in [(&new, least - page_bytes), (&none, least), (&none, 0)] {
        let error = Store::create_persistent(new, log_bytes).unwrap_err();
        let StoreError::TooSmall { log_bytes_min, spare_pages, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((log_bytes_min, spare_pages), (least, new.spare_pages));
    }
    assert!(!new.path.exists());
    let first = Store::create_persistent(&new, least).expect("the smallest").header();
    assert_eq!((first.log_blocks * page_bytes, first.spare_pages), (least, 1));
    let forced = NewStore { force: true, ..new.clone() };
    let second = Store::create_persistent(&forced, least).expect("in its place").header();
    assert_ne!(first.id, second.id, "a store is told from all others");
    assert_eq!(open(&new).expect("a store").header(), second);
}

#[test]
fn a_persistent_store_that_cannot_be_made_leaves_no_file_behind_and_none_of_somebody_elses_goes() {
    let (_folder, new) = place();
    let new = NewStore { pages: 1 << 50, spare_pages: 1, ..new };
    Store::create_persistent(&new, 1 << 20).unwrap_err();
    assert!(!new.path.exists());
    fs::write(&new.path, "a letter").expect("written");
    Store::create_persistent(&new, 1 << 20).unwrap_err();
    assert_eq!(fs::read(&new.path).expect("it is there"), b"a letter");
}

#[test]
fn what_a_persistent_store_takes_up_is_known_before_it_is_made() {
    let (_folder, new) = place();
    let new = NewStore { spare_pages: 50, ..new };
    let expected_bytes = new.persistent_bytes(1 << 20);
    Store::create_persistent(&new, 1 << 20).expect("a store");
    assert_eq!(fs::metadata(&new.path).expect("the file").len(), expected_bytes);
}

#[test]
fn a_file_system_without_direct_io_is_refused_with_what_would_do() {
    let error = Store::open(Path::new("/proc/self/comm"), 0, Access::Exclusive).unwrap_err();
    assert!(matches!(error, StoreError::NoDirectIo(_)) && error.is_input(), "{error}");
}
