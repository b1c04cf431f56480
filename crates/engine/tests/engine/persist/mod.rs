//! Transactions on a persistent store: whole, in order, and there again after the store is opened.

mod bounds;
mod checkpoints;
mod damage;
mod durable;
mod isolation;
mod ranges;
mod recovery;

use std::path::Path;
use std::sync::Arc;

use ebbtide_core::durability::Policy;
use ebbtide_core::{Addr, PageId, Watch};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, Jobs, Options};

use crate::common;

const PAGES: u64 = 4096;

fn new_store(path: &Path) -> NewStore {
    let (path, tag) = (path.to_path_buf(), "persist".into());
    NewStore { path, offset: 0, pages: PAGES, spare_pages: PAGES / 4, tag, force: false }
}

/// A folder for one test, on a file system that is there after a process ends.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn create(path: &Path, log_bytes: u64) -> Arc<Store> {
    Arc::new(Store::create_persistent(&new_store(path), log_bytes).unwrap())
}

fn options(cores: usize, durability: Policy) -> Options {
    let mut options = Options { cores, durability: Some(durability), ..Options::new(4 << 20) };
    options.tuning.threads = Some(8);
    options
}

fn start(store: &Arc<Store>, options: &Options) -> Jobs {
    let engine = Arc::new(Engine::open(store, options).unwrap());
    common::watch(&engine);
    engine.start().unwrap()
}

fn reopen(path: &Path) -> Arc<Store> {
    Arc::new(Store::open(path, 0, Access::Exclusive).unwrap())
}

fn word(page: u64) -> Addr {
    PageId(page).start()
}

/// A new store whose pages are not zeros, and whose log has not been written.
fn with_image(path: &Path) -> Arc<Store> {
    let image = |page: PageId, out: &mut [u8; 4096]| common::image(page.index(), out);
    let new = new_store(path);
    Arc::new(Store::create_persistent_image(&new, 1 << 20, &image, Watch::unattended()).unwrap())
}
