//! [`CacheFilter`]: a core's caches, which pass on only the accesses that reach memory.

use crate::line_cache::{Evicted, LineCache, LineId};
use ebbtide_core::LINE_BYTES;
use thiserror::Error;

/// The shape of one cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheShape {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Associativity: lines per set.
    pub ways: usize,
}

/// The caches between a core and memory, each exact LRU, written back, with 64-byte lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    /// The first level, for instructions and for data each.
    pub l1: CacheShape,
    /// The last level, which need not include the first.
    pub llc: CacheShape,
}

impl Default for Hierarchy {
    /// AstriFlash's caches for one core: 64 KiB of 4 ways for instructions and for data, and 1 MiB
    /// of 16 ways (AstriFlash, HPCA'23, Table I).
    fn default() -> Hierarchy {
        Hierarchy {
            l1: CacheShape { bytes: 64 << 10, ways: 4 },
            llc: CacheShape { bytes: 1 << 20, ways: 16 },
        }
    }
}

/// A cache whose number of sets is not a power of two.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "a {name} cache of {bytes} bytes and {ways} ways cannot be: expected a power of two of sets of \
     64-byte lines"
)]
pub struct CacheError {
    name: &'static str,
    bytes: u64,
    ways: usize,
}

/// A request of the caches to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traffic {
    /// A line is read.
    Fetch(LineId),
    /// A dirty line is written back.
    Writeback(LineId),
}

/// A core's caches: two of the first level and one of the last.
pub struct CacheFilter {
    instructions: LineCache,
    data: LineCache,
    llc: LineCache,
    /// The line that the last instruction came from.
    fetched: LineId,
}

impl CacheFilter {
    /// Returns empty caches.
    ///
    /// # Errors
    /// [`CacheError`] if the number of a cache's sets is not a power of two.
    pub fn new(hierarchy: Hierarchy) -> Result<CacheFilter, CacheError> {
        let cache = |name, CacheShape { bytes, ways }| {
            let whole = bytes.is_multiple_of(LINE_BYTES as u64);
            let cache = LineCache::new(bytes / LINE_BYTES as u64, ways).filter(|_| whole);
            cache.ok_or(CacheError { name, bytes, ways })
        };
        Ok(CacheFilter {
            instructions: cache("first-level", hierarchy.l1)?,
            data: cache("first-level", hierarchy.l1)?,
            llc: cache("last-level", hierarchy.llc)?,
            fetched: LineId::MAX,
        })
    }

    /// Fetches an instruction of `bytes` bytes at `address`. Calls `reach` for every request to
    /// memory.
    #[inline]
    pub fn instruction<E>(
        &mut self,
        address: u64,
        bytes: u32,
        reach: &mut impl FnMut(Traffic) -> Result<(), E>,
    ) -> Result<(), E> {
        let (first, last) = lines(address, bytes);
        // Nearly every instruction lies in the line of the one before.
        if first == last && first == self.fetched {
            return Ok(());
        }
        self.fetched = last;
        for line in first..=last {
            if self.instructions.touch(line, false).is_none() {
                self.instructions.install(line, false);
                look_in_llc(&mut self.llc, line, reach)?;
            }
        }
        Ok(())
    }

    /// Reads or writes `bytes` bytes at `address`. Calls `reach` for every request to memory.
    #[inline]
    pub fn data<E>(
        &mut self,
        address: u64,
        bytes: u32,
        write: bool,
        reach: &mut impl FnMut(Traffic) -> Result<(), E>,
    ) -> Result<(), E> {
        let (first, last) = lines(address, bytes);
        for line in first..=last {
            if self.data.touch(line, write).is_none() {
                let victim = self.data.install(line, write);
                look_in_llc(&mut self.llc, line, reach)?;
                if let Some(Evicted { line: victim, dirty: true }) = victim
                    && self.llc.touch(victim, true).is_none()
                {
                    evict(self.llc.install(victim, true), reach)?;
                }
            }
        }
        Ok(())
    }
}

/// The first and the last line of `bytes` at `address`.
#[inline]
fn lines(address: u64, bytes: u32) -> (LineId, LineId) {
    let last = address.saturating_add(u64::from(bytes) - 1);
    (address / LINE_BYTES as u64, last / LINE_BYTES as u64)
}

/// Fetches a line from the last level, or through it from memory.
fn look_in_llc<E>(
    llc: &mut LineCache,
    line: LineId,
    reach: &mut impl FnMut(Traffic) -> Result<(), E>,
) -> Result<(), E> {
    if llc.touch(line, false).is_some() {
        return Ok(());
    }
    reach(Traffic::Fetch(line))?;
    evict(llc.install(line, false), reach)
}

fn evict<E>(
    victim: Option<Evicted>,
    reach: &mut impl FnMut(Traffic) -> Result<(), E>,
) -> Result<(), E> {
    match victim {
        Some(Evicted { line, dirty: true }) => reach(Traffic::Writeback(line)),
        _ => Ok(()),
    }
}
