//! [`Region`]: an allocator of address ranges for structures.

use thiserror::Error;

use super::{BTree, Map, PAGE, Vector, check_base};
use crate::row::Row;
use ebbtide_core::Addr;
use ebbtide_core::Value;

/// A part of the address space, handed out from its start to its end.
///
/// The same requests in the same order return the same addresses, so a program that is started
/// again finds its data by repeating them. Ranges are never freed.
#[derive(Debug, Clone)]
pub struct Region {
    next: Addr,
    end: Addr,
}

/// A region has too little room left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{needed_bytes} bytes do not fit into the {left_bytes} bytes left in the region")]
pub struct RegionFull {
    /// Bytes requested, rounded up to whole pages.
    pub needed_bytes: u64,
    /// Bytes left.
    pub left_bytes: u64,
}

impl Region {
    /// The region of `bytes` bytes from `start` on.
    ///
    /// # Panics
    /// If `start` is not the start of a page.
    pub fn new(start: Addr, bytes: u64) -> Region {
        check_base(start);
        Region { next: start, end: start + bytes }
    }

    /// Bytes not handed out yet.
    pub fn left_bytes(&self) -> u64 {
        self.end - self.next
    }

    /// Takes the next `bytes` bytes, rounded up to whole pages, and returns their address.
    ///
    /// # Errors
    /// [`RegionFull`] when they do not fit. Nothing is then taken.
    pub fn take(&mut self, bytes: u64) -> Result<Addr, RegionFull> {
        let left_bytes = self.left_bytes();
        match bytes.checked_next_multiple_of(PAGE) {
            Some(needed_bytes) if needed_bytes <= left_bytes => {
                let start = self.next;
                self.next = start + needed_bytes;
                Ok(start)
            }
            needed => Err(RegionFull { needed_bytes: needed.unwrap_or(u64::MAX), left_bytes }),
        }
    }

    /// Takes room for a vector of `len` values.
    ///
    /// # Errors
    /// [`RegionFull`] when it does not fit.
    pub fn vector<T: Value>(&mut self, len: u64) -> Result<Vector<T>, RegionFull> {
        Ok(Vector::at(self.take(Vector::<T>::bytes(len))?, len))
    }

    /// Takes room for a map of `capacity` entries.
    ///
    /// # Errors
    /// [`RegionFull`] when it does not fit.
    pub fn map<K: Value, V: Value>(&mut self, capacity: u64) -> Result<Map<K, V>, RegionFull> {
        Ok(Map::at(self.take(Map::<K, V>::bytes(capacity))?, capacity))
    }

    /// Takes room for a B+-tree of `pages` pages.
    ///
    /// # Errors
    /// [`RegionFull`] when it does not fit.
    pub fn b_tree<K: Value + Ord, R: Row>(
        &mut self,
        pages: u64,
    ) -> Result<BTree<K, R>, RegionFull> {
        Ok(BTree::at(self.take(BTree::<K, R>::bytes(pages))?, pages))
    }
}
