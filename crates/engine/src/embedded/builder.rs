//! [`Builder`]: how a store is opened, or made.

use std::path::{Path, PathBuf};

use ebbtide_core::durability::Policy;
use ebbtide_core::{Bytes, PAGE_BYTES};
use ebbtide_structures::OrderedMap;

use super::error::Error;
use super::layout::Layout;
use super::limits::{FRAMES_MIN, KEY_PAGES_MIN, PAGES_MAX, TAG};
use super::shared::{Open, Shared};
use super::store::Store;
use crate::api::budget::Budget;
use crate::api::engine_error::EngineError;
use crate::api::options::Options;
use crate::store::{Access, Header, NewStore, Store as File, StoreError};

/// The defaults.
const SIZE: Bytes = Bytes(1 << 30);
const DRAM: Bytes = Bytes(64 << 20);
/// The order of the ordered maps takes this share of the size.
const ORDER_SHARE: u64 = 8;
/// The fewest pages of the order of the ordered maps.
const ORDER_PAGES_MIN: u64 = 8;

/// The log takes this share of the size, within bounds.
const LOG_SHARE: u64 = 16;
const LOG_BYTES: std::ops::RangeInclusive<u64> = 4 << 20..=1 << 30;

/// Options to open a [`Store`], or to make it if there is none. Only the path is required.
///
/// A size is a text such as `"20GiB"` or a number of bytes.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// use ebbtide::Store;
///
/// let store = Store::builder(&path).size("8MiB").dram("8MiB").durability("every:1s").open()?;
/// drop(store);
/// let error = Store::builder(&path).dram("8 pages").open().unwrap_err();
/// assert!(error.to_string().starts_with("dram: '8 pages' is not a size"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a store is opened by `open`"]
pub struct Builder {
    path: PathBuf,
    size: Option<String>,
    order: Option<String>,
    structures: Option<String>,
    dram: Option<String>,
    durability: Option<String>,
    cores: usize,
    replace: bool,
}

impl Store {
    /// Opens the store in the file or block device at `path`, or makes one.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder {
            path: path.as_ref().to_path_buf(),
            size: None,
            order: None,
            structures: None,
            dram: None,
            durability: None,
            cores: 1,
            replace: false,
        }
    }
}

impl Builder {
    /// Sets the room for keys and values, with their index. The default is 1 GiB. An existing store
    /// keeps its size until it [grows](Store::grow).
    ///
    /// The file takes about 1.5 times that, with the order, a quarter of spare places and the log.
    /// If the DRAM holds more than a quarter of the pages, up to half are spare. All of it is
    /// reserved on the disk when the store is made. So a disk that others fill cannot stop a store.
    /// Each 4 KiB takes 11 bytes of the DRAM budget. Begin with a small size and let the store
    /// grow.
    pub fn size(self, size: impl ToString) -> Builder {
        Builder { size: Some(size.to_string()), ..self }
    }

    /// Sets the room for the order of all ordered maps, in addition to `size`. The default is an
    /// eighth of `size`. An ordered map takes no key that finds no room there:
    /// [`Error::Full`](super::Error::Full).
    pub fn order(self, size: impl ToString) -> Builder {
        Builder { order: Some(size.to_string()), ..self }
    }

    /// Sets the room for typed structures, in addition to `size`. The default is none.
    pub fn structures(self, size: impl ToString) -> Builder {
        Builder { structures: Some(size.to_string()), ..self }
    }

    /// Sets the DRAM budget. The default is 64 MiB. It covers the cache, the states of pages,
    /// stacks and buffers. Values that calls take and return are not part of it.
    pub fn dram(self, budget: impl ToString) -> Builder {
        Builder { dram: Some(budget.to_string()), ..self }
    }

    /// Sets the number of cores that run jobs, each an OS thread. The default is one.
    pub fn cores(self, cores: usize) -> Builder {
        Builder { cores, ..self }
    }

    /// Sets when a change returns, as a text or a [`Policy`](ebbtide_core::durability::Policy).
    ///
    /// * `always`, the default: once the change survives a crash.
    /// * `every:TIME`, such as `every:1s`: at once. A crash loses the changes of at most that time.
    /// * `none`: at once. A crash loses what was not flushed yet. The log is flushed every second.
    pub fn durability(self, policy: impl ToString) -> Builder {
        Builder { durability: Some(policy.to_string()), ..self }
    }

    /// Replaces an existing store. Other files are never replaced.
    pub fn replace(self, replace: bool) -> Builder {
        Builder { replace, ..self }
    }

    /// Opens the store and recovers it. Makes one if there is no file, or
    /// [`replace`](Builder::replace) is set.
    ///
    /// # Errors
    /// [`Error`]: of an option, with its name; or the file holds something else or is in use.
    pub fn open(mut self) -> Result<Store, Error> {
        // It stays the same if the program changes its folder.
        self.path =
            std::path::absolute(&self.path).map_err(|error| Error::option("path", error))?;
        let layout = self.layout()?;
        let dram = size_of("dram", self.dram.as_deref(), DRAM)?;
        let mut options = Options::new(usize::try_from(dram.0).unwrap_or(usize::MAX));
        options.cores = self.cores;
        let policy = self.durability.as_deref().map(str::parse::<Policy>).transpose();
        options.durability = policy.map_err(|error| Error::option("durability", error))?;
        let start = |replace| Open::start(self.file(layout, &options, replace)?, &options, layout);
        let open = match start(self.replace) {
            // It was made with other sizes, and a crash came before the layout.
            Err(Error::Engine(EngineError::Store(StoreError::Unfinished(_)))) => start(true)?,
            open => open?,
        };
        self.check(open.layout, layout)?;
        Ok(Store::new(Shared::new(&self.path, options, open)))
    }

    /// How a new store is divided.
    fn layout(&self) -> Result<Layout, Error> {
        let pages = |size: Bytes| size.0.div_ceil(PAGE_BYTES as u64);
        let size = size_of("size", self.size.as_deref(), SIZE)?;
        let order = Bytes((size.0 / ORDER_SHARE).max(ORDER_PAGES_MIN * PAGE_BYTES as u64));
        let order = size_of("order", self.order.as_deref(), order)?;
        let structures = size_of("structures", self.structures.as_deref(), Bytes(0))?;
        for (option, size, least) in [
            ("size", size, KEY_PAGES_MIN),
            ("order", order, ORDER_PAGES_MIN),
            ("structures", structures, 0),
        ] {
            if !(least..=PAGES_MAX).contains(&pages(size)) {
                let bytes = |pages: u64| Bytes(pages * PAGE_BYTES as u64);
                let (least, most) = (bytes(least), bytes(PAGES_MAX));
                return Err(Error::option(option, format!("{size}, expected {least} to {most}")));
            }
        }
        let [key_pages, order_pages, structure_pages] = [size, order, structures].map(pages);
        Layout { key_pages, order_pages, structure_pages }.checked()
    }

    /// The file that is there, or a new one.
    fn file(&self, layout: Layout, options: &Options, replace: bool) -> Result<File, Error> {
        let (path, tag) = (self.path.clone(), TAG.to_string());
        let pages = layout.pages();
        let new = NewStore { path, offset: 0, pages, spare_pages: 0, tag, force: replace };
        if !new.is_free()? {
            let found = File::open(&self.path, 0, Access::Exclusive)?;
            let tag = found.header().tag;
            if !replace {
                if tag != TAG {
                    let path = self.path.clone();
                    return Err(Error::Other { path, found: tag });
                }
                frames_of(options, &found.header())?;
                return Ok(found);
            }
        }
        let bytes = pages * PAGE_BYTES as u64;
        let log_bytes = (bytes / LOG_SHARE).clamp(*LOG_BYTES.start(), *LOG_BYTES.end());
        let new = NewStore { spare_pages: pages / 4, ..new };
        let frames = frames_of(options, &new.persistent_header(log_bytes))?;
        let new = NewStore { spare_pages: spare_pages(pages, frames), ..new };
        Ok(File::create_persistent(&new, log_bytes)?)
    }

    /// Refuses given sizes that differ from the store's.
    fn check(&self, found: Layout, given: Layout) -> Result<(), Error> {
        for (option, text, found, given) in [
            ("size", &self.size, found.key_pages, given.key_pages),
            ("order", &self.order, found.order_pages, given.order_pages),
            ("structures", &self.structures, found.structure_pages, given.structure_pages),
        ] {
            if let Some(text) = text
                && found != given
            {
                let found = Bytes(found * PAGE_BYTES as u64);
                let problem = format!("{text}, expected {found}, which the store has, or none");
                return Err(Error::option(option, problem));
            }
        }
        Ok(())
    }
}

/// The frames that the budget of `options` has for the store with this header.
pub(super) fn frames_of(options: &Options, header: &Header) -> Result<usize, Error> {
    let budget = Budget::of_store(options, header, FRAMES_MIN);
    Ok(budget.map_err(Error::of_engine)?.frames)
}

/// The spare pages of a store of `pages` pages, for a cache of `frames` frames.
pub(super) fn spare_pages(pages: u64, frames: usize) -> u64 {
    (pages / 4).max((frames as u64).min(pages / 2))
}

/// True if `header` is that of a store which a [`Builder`] has made.
pub fn is_of(header: &Header) -> bool {
    header.tag == TAG
}

pub(super) fn size_of(
    option: &'static str,
    text: Option<&str>,
    usual: Bytes,
) -> Result<Bytes, Error> {
    let parsed = text.map(str::parse).transpose();
    parsed.map(|size| size.unwrap_or(usual)).map_err(|error| Error::option(option, error))
}

/// The room that the order of ordered maps takes for `keys` keys of up to 56 bytes that come in any
/// order.
pub fn order_bytes_for(keys: u64) -> u64 {
    // Pages are less full when keys come in any order: 2.3 times as many.
    OrderedMap::bytes(OrderedMap::pages_for(keys).saturating_mul(23).div_ceil(10))
}
