//! [`OrderedMap`]: keys and values of bytes, in the order of the keys.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};

use super::entries::{Entries, Pair};
use super::error::Error;
use super::map::Map;

/// Keys and values of bytes, in the order of the keys. Found by its name:
/// [`Store::ordered_map`](super::Store::ordered_map).
///
/// It is a [`Map`](super::Map) whose keys are in a B+-tree as well. The tree takes about 100 bytes a key of the
/// store's room for [`order`](super::Builder::order). A key has at most 62 bytes.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// let log = store.ordered_map("log")?;
/// for (day, what) in [("2026-03-09", "full"), ("2026-01-02", "low"), ("2026-01-31", "high")] {
///     log.insert(day, what)?;
/// }
/// let january: Result<Vec<_>, _> = log.range("2026-01".."2026-02").collect();
/// let days: Vec<_> = january?.into_iter().map(|(day, _)| day).collect();
/// assert_eq!(days, [b"2026-01-02", b"2026-01-31"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type OrderedMap = Map<Ordered>;

/// Marks a [`Map`] whose keys are in order.
#[derive(Clone, Copy, Debug)]
pub enum Ordered {}

impl Map<Ordered> {
    /// All keys with their values, in order.
    pub fn iter(&self) -> Range<'_> {
        self.range::<&[u8]>(..)
    }

    /// The keys of `range` with their values, in order. A key that is there all the time comes exactly once.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range<'_> {
        let bytes = |key: &K| key.as_ref().to_vec();
        let (from, is_after) = match range.start_bound() {
            Bound::Included(key) => (bytes(key), false),
            // A longer key than any is behind those that it begins with.
            Bound::Excluded(key) => (bytes(key), true),
            Bound::Unbounded => (Vec::new(), false),
        };
        let end = range.end_bound().map(bytes);
        Range { entries: &self.entries, found: VecDeque::new(), from: Some((from, is_after)), end }
    }
}

/// The keys and values of a part of an [`OrderedMap`].
#[derive(Debug)]
pub struct Range<'m> {
    entries: &'m Entries,
    found: VecDeque<Pair>,
    /// Where to go on, and whether behind that key.
    from: Option<(Vec<u8>, bool)>,
    end: Bound<Vec<u8>>,
}

impl Range<'_> {
    fn is_inside(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Included(end) => key <= &end[..],
            Bound::Excluded(end) => key < &end[..],
            Bound::Unbounded => true,
        }
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() {
            let (from, is_after) = self.from.take()?;
            match self.entries.some_from(&from, is_after) {
                Ok((mut found, last)) => {
                    // A start longer than any key was cut.
                    found.retain(|(key, _)| *key >= from);
                    (self.found, self.from) = (found.into(), last.map(|last| (last, true)));
                }
                Err(error) => return Some(Err(error)),
            }
        }
        let (key, value) = self.found.pop_front()?;
        if !self.is_inside(&key) {
            (self.from, self.found) = (None, VecDeque::new());
            return None;
        }
        Some(Ok((key, value)))
    }
}
