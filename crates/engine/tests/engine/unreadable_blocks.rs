//! A block that the device cannot read counts as damaged, at any place: it does not keep the rest
//! of a store away. If the record of a clean close is gone, that is reported.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ebbtide_core::durability::{
    Block, Disk, DiskError, Fault, Geometry, Page, RecoveryError, SUPERBLOCKS,
};
use ebbtide_core::{Addr, Memory, PAGE_BYTES, PageId, Watch};
use ebbtide_engine::device::threads::Threads;
use ebbtide_engine::store::{Access, NewStore, Store, StoreError};
use ebbtide_engine::{Engine, EngineError, Jobs, LogDisk, Options};
use tempfile::TempDir;

use crate::common::watched;

const PAGES: u64 = 600;
const LOG_BLOCKS: u64 = 16;

/// A disk whose reads of one block fail.
struct Unreadable(LogDisk, Block);

impl Disk for Unreadable {
    fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError> {
        if block == self.1 {
            let (doing, reason) = ("read".into(), "injected".into());
            return Err(DiskError { doing, reason, fault: Fault::Block });
        }
        self.0.read_block(block, into)
    }

    fn write_block(&mut self, block: Block, page: &Page) -> Result<(), DiskError> {
        self.0.write_block(block, page)
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.0.flush()
    }
}

fn options() -> Options {
    Options::new(4 << 20)
}

/// Returns a folder with a store. A transaction stored to every page, and a checkpoint brought all
/// pages to their places. Then the first page was stored to again.
fn used() -> (TempDir, Geometry) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (path, tag) = (folder.path().join("used"), "blocks".into());
    let new = NewStore { path, offset: 0, pages: PAGES, spare_pages: PAGES, tag, force: false };
    let store = Arc::new(Store::create_persistent(&new, LOG_BLOCKS * PAGE_BYTES as u64).unwrap());
    let geometry = store.header().persist().unwrap();
    let jobs = Arc::new(Engine::open(&store, &options()).unwrap()).start().unwrap();
    watched(&jobs, || {
        (0..PAGES).for_each(|page| commit(&jobs, page, page + 1));
        assert_eq!(jobs.checkpoint(), Ok(true));
        commit(&jobs, 0, 1);
    });
    (folder, geometry)
}

fn commit(jobs: &Jobs, page: u64, value: u64) {
    let stored = jobs.submit_commit(move |memory| {
        memory.transaction(|memory| memory.store(PageId(page).start(), value))
    });
    stored.wait().unwrap().unwrap();
}

/// Opens a copy of the store in `folder` after `damage` has worked on it, on a disk that cannot
/// read `block`.
fn open(
    folder: &TempDir,
    block: Option<Block>,
    damage: &dyn Fn(&fs::File),
) -> Result<Jobs, EngineError> {
    let path = folder.path().join("copy");
    fs::copy(folder.path().join("used"), &path).unwrap();
    damage(&fs::File::options().write(true).open(&path).unwrap());
    let store = Arc::new(Store::open(&path, 0, Access::Exclusive)?);
    let device = Arc::new(Threads::new(store.file(), 2));
    let around = |disk: LogDisk| -> LogDisk {
        match block {
            Some(block) => Box::new(Unreadable(disk, block)),
            None => disk,
        }
    };
    let engine = Engine::over_disks(&store, device, &around, &options())?;
    Arc::new(engine).start()
}

/// Returns how many pages hold their committed contents. The others must return errors.
fn sound_pages(jobs: &Jobs) -> usize {
    let is_sound = |page: u64| {
        let word = jobs.submit(move |memory| memory.load::<u64>(PageId(page).start())).wait();
        word.is_ok_and(|word| {
            assert_eq!(word, page + 1, "page {page}");
            true
        })
    };
    watched(jobs, || (0..PAGES).filter(|&page| is_sound(page)).count())
}

/// The places of the newest superblock's log: where the last block lies, and how many there are.
fn log_of(path: &Path) -> (u64, u64) {
    let store = Store::open(path, 0, Access::SharedReadOnly).unwrap();
    let found = store.inspect(true, Watch::unattended()).unwrap().unwrap();
    assert!(found.is_sound(), "{found:?}");
    (found.superblock.log_end.0 / PAGE_BYTES as u64 - 1, found.log_blocks)
}

#[test]
fn one_unreadable_block_loses_no_more_than_one_that_is_damaged() {
    let (folder, geometry) = used();
    let all = PAGES as usize;
    for copy in 0..SUPERBLOCKS {
        let jobs = open(&folder, Some(geometry.superblock(copy)), &|_| ()).unwrap();
        assert_eq!(sound_pages(&jobs), all);
        let notices = jobs.engine().notices();
        let said = notices.iter().any(|notice| notice.contains("the device cannot read 1 blocks"));
        assert!(said, "{notices:?}");
    }
    let (last, count) = log_of(&folder.path().join("used"));
    let in_use: Vec<Block> = (0..count).map(|back| geometry.log(last - back)).collect();
    for block in (0..LOG_BLOCKS).map(|number| geometry.log(number)) {
        match open(&folder, Some(block), &|_| ()) {
            Ok(jobs) => {
                assert!(!in_use.contains(&block), "{block:?}");
                assert_eq!(sound_pages(&jobs), all);
            }
            Err(EngineError::Store(StoreError::Recovery(RecoveryError::DamagedLog { .. }))) => {
                assert!(in_use.contains(&block), "{block:?}");
            }
            Err(error) => panic!("{block:?}: {error}"),
        }
    }
    // The pages of a block of the map are lost, but for the one that the log has.
    let lost: Vec<usize> = [0, 1]
        .into_iter()
        .flat_map(|area| (0..geometry.base_blocks()).map(move |index| geometry.base(area, index)))
        .map(|block| all - sound_pages(&open(&folder, Some(block), &|_| ()).unwrap()))
        .collect();
    assert!(lost.iter().filter(|&&lost| lost == 0).count() == 2, "one map is in use: {lost:?}");
    assert!(lost.iter().all(|&lost| lost <= 510), "{lost:?}");
}

#[test]
fn damage_to_any_block_of_the_log_of_a_store_that_was_closed_is_reported() {
    let (folder, geometry) = used();
    let (last, count) = log_of(&folder.path().join("used"));
    assert!(count > 0);
    for number in (last + 1 - count)..=last {
        let at = (1 + geometry.log(number).0) * PAGE_BYTES as u64;
        let error = open(&folder, None, &|file| file.write_all_at(&[0xa5; 9], at + 1000).unwrap());
        let Err(EngineError::Store(StoreError::Recovery(error))) = error else {
            panic!("block {number} of the log was not missed");
        };
        assert!(matches!(error, RecoveryError::DamagedLog { .. }), "{error}");
    }
    let jobs = open(&folder, None, &|_| ()).unwrap();
    let word = jobs.submit(|memory| memory.load::<u64>(Addr(0))).wait().unwrap();
    assert_eq!(word, 1);
}
