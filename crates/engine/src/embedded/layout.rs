//! [`Layout`]: how the address space of a store is divided, and the page that says so.
//!
//! ```text
//! page 0   | structures | keys and values | their order |
//! ```
//!
//! A store that grows gets new pages behind the keys and behind the order. So the order moves up,
//! and the structures keep their addresses. The first page still has the old layout then, until the
//! store is opened.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;

use ebbtide_core::durability::Gap;
use ebbtide_core::{Addr, Bytes, Memory, PAGE_BYTES, PageId};
use ebbtide_structures::OrderedMap;
use ebbtide_structures::keyspace::{HashSecret, Keyspace, NotKeyspace};

use super::error::Error;
use super::limits::PAGES_MAX;
use crate::core::flash_memory::FlashMemory;
use crate::store::StoreError;

/// The first word of the first page. The last byte is the version.
const MAGIC: u64 = u64::from_le_bytes(*b"EBBMAPS\x02");

/// Pages in front of the structures.
const OWN_PAGES: u64 = 1;

/// Pages of each part of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) structure_pages: u64,
    pub(super) key_pages: u64,
    pub(super) order_pages: u64,
}

impl Layout {
    pub(super) fn pages(&self) -> u64 {
        let parts = [self.structure_pages, self.key_pages, self.order_pages];
        parts.into_iter().fold(OWN_PAGES, u64::saturating_add)
    }

    /// The layout, if a store may have as many pages.
    pub(super) fn checked(self) -> Result<Layout, Error> {
        if self.pages() <= PAGES_MAX {
            return Ok(self);
        }
        let bytes = |pages: u64| Bytes(pages * PAGE_BYTES as u64);
        let [keys, order, structures, most] =
            [self.key_pages, self.order_pages, self.structure_pages, PAGES_MAX].map(bytes);
        let problem = format!(
            "{keys} with {order} for their order and {structures} for structures, expected at most \
             {most} together"
        );
        Err(Error::option("size", problem))
    }

    fn keys(&self) -> Addr {
        Addr((OWN_PAGES + self.structure_pages) * PAGE_BYTES as u64)
    }

    pub(super) fn order(&self) -> OrderedMap {
        let base = self.keys() + self.key_pages * PAGE_BYTES as u64;
        OrderedMap::at(base, self.order_pages)
    }

    /// Where typed structures begin, and the bytes for them.
    pub(super) fn structures(&self) -> (Addr, u64) {
        let page = PAGE_BYTES as u64;
        (Addr(OWN_PAGES * page), self.structure_pages * page)
    }

    /// Returns the layout with this many pages for keys. The order keeps its share.
    pub(super) fn with_keys(&self, key_pages: u64) -> Layout {
        let (keys, both) = (u128::from(self.key_pages), u128::from(self.growing_pages()));
        let growing = u128::from(key_pages) * both / keys;
        self.larger(OWN_PAGES + self.structure_pages + growing as u64)
    }

    /// Returns the layout of a store that has grown to `pages` pages. The shares of keys and order
    /// stay.
    fn larger(&self, pages: u64) -> Layout {
        let growing = pages - OWN_PAGES - self.structure_pages;
        let order = u128::from(self.order_pages) * u128::from(growing);
        let order_pages = (order / u128::from(self.growing_pages())) as u64;
        Layout { key_pages: growing - order_pages, order_pages, ..*self }
    }

    fn growing_pages(&self) -> u64 {
        self.key_pages + self.order_pages
    }

    /// The new pages for keys, when the store gets the layout `larger`.
    pub(super) fn gap(&self, larger: &Layout) -> Gap {
        let at = PageId(OWN_PAGES + self.structure_pages + self.key_pages);
        Gap { at, pages: larger.key_pages - self.key_pages }
    }

    /// The keys and the layout of the store in `memory`, and whether it is new. It is made by `new`
    /// if it is blank, and uses new pages if it has grown.
    pub(super) fn of(
        memory: &mut FlashMemory<'_>,
        path: &Path,
        new: Layout,
    ) -> Result<(Keyspace, Layout, bool), Error> {
        let damaged = |error| Error::Damaged { path: path.to_path_buf(), error };
        let pages = memory.size_bytes() / PAGE_BYTES as u64;
        let [magic, structure_pages, key_pages, order_pages]: [u64; 4] = memory.load(Addr(0));
        if magic == 0 && pages == new.pages() {
            let secret = new_secret();
            let format = |memory: &mut FlashMemory<'_>| {
                let keys = Keyspace::format(memory, new.keys(), new.key_pages, secret);
                new.store(memory);
                keys
            };
            let (keys, lsn) = memory.transaction(format)?;
            memory.durable(lsn)?;
            return Ok((keys, new, true));
        }
        if magic == 0 {
            return Err(StoreError::Unfinished(path.to_path_buf()).into());
        }
        let found = Layout { structure_pages, key_pages, order_pages };
        if magic != MAGIC || found.pages() > pages || key_pages == 0 {
            return Err(damaged(NotKeyspace::Other));
        }
        let keys = Keyspace::open(memory, found.keys()).map_err(damaged)?;
        let larger = found.larger(pages);
        let (keys, lsn) = memory.transaction(|memory| {
            if larger != found {
                larger.store(memory);
            }
            keys.updated(memory, larger.key_pages)
        })?;
        memory.durable(lsn)?;
        Ok((keys, larger, false))
    }

    fn store(&self, memory: &mut FlashMemory<'_>) {
        let Layout { structure_pages, key_pages, order_pages } = *self;
        memory.store(Addr(0), [MAGIC, structure_pages, key_pages, order_pages]);
    }
}

/// Returns a random secret, so that no client can choose keys that collide.
fn new_secret() -> HashSecret {
    let random = || RandomState::new().build_hasher().finish();
    HashSecret([random(), random()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_that_grows_is_known_from_its_pages_and_has_the_size_that_was_asked_for() {
        for (key_pages, order_pages) in [(64, 8), (1000, 8), (64, 1 << 30), (12_345, 1_543)] {
            let layout = Layout { structure_pages: 7, key_pages, order_pages };
            assert_eq!(layout.larger(layout.pages()), layout);
            for wanted in [key_pages, key_pages + 1, key_pages * 3 / 2, key_pages * 1000 + 1] {
                let larger = layout.with_keys(wanted);
                assert_eq!(larger.key_pages, wanted);
                assert!(larger.order_pages >= order_pages, "{layout:?} to {larger:?}");
                assert_eq!(layout.larger(larger.pages()), larger);
                assert_eq!(layout.gap(&larger).pages, wanted - key_pages);
            }
        }
    }
}
