//! [`OrderedMap`]: keys and values of bytes, in the order of the keys.

use std::ops::{Bound, RangeBounds};

use super::map::Map;
use super::walk::{Keys, Ordering, Range, Walk};

/// Keys and values of bytes, in the order of the keys. Found by its name:
/// [`Store::ordered_map`](super::Store::ordered_map).
///
/// It is a [`Map`](super::Map) whose keys are in a B+-tree as well. The tree takes about 100 bytes
/// a key of the store's room for [`order`](super::Builder::order). A key of more than 56 bytes
/// takes 200 bytes more for each further 57 bytes, unless another key begins with the same bytes.
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
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// use ebbtide::{Error, Map, Ordered};
///
/// fn count<Order>(map: &Map<Order>) -> Result<u64, Error> {
///     map.len()
/// }
/// let days: Map<Ordered> = store.ordered_map("days")?;
/// assert_eq!(count(&days)?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Ordered {}

impl Map<Ordered> {
    /// All keys with their values, in order.
    pub fn iter(&self) -> Range {
        self.range::<&[u8]>(..)
    }

    /// All keys, in order. Values are not read.
    pub fn keys(&self) -> Keys {
        let all = (Bound::Unbounded, Bound::Unbounded);
        Keys(Walk::Ordered(Ordering::new(&self.entries, all, false)))
    }

    /// The keys of `range` with their values, in order. A key that is there all the time comes
    /// exactly once.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range {
        let bytes = |key: &K| key.as_ref().to_vec();
        let bounds = (range.start_bound().map(bytes), range.end_bound().map(bytes));
        Range(Ordering::new(&self.entries, bounds, true))
    }
}
