//! Walks through the keys and values of a map: [`Iter`], [`Range`] and [`Keys`].

use std::collections::VecDeque;
use std::ops::Bound;

use super::entries::{Entries, Met, Pair};
use super::error::Error;

/// The keys and values of a [`Map`](super::Map), in no order.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// let sizes = store.map("sizes")?;
/// sizes.load([("ant", [1]), ("bee", [2])])?;
/// let all: Result<Vec<_>, _> = sizes.iter().collect();
/// assert_eq!(all?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "an iterator reads nothing by itself"]
pub struct Iter(pub(super) Walk);

/// The keys and values of a part of an [`OrderedMap`](super::OrderedMap), in order.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// let sizes = store.ordered_map("sizes")?;
/// sizes.load([("ant", [1]), ("bee", [2]), ("cat", [3])])?;
/// let from_b = sizes.range("b"..).map(|pair| pair.map(|pair| pair.1));
/// let from_b: Result<Vec<_>, _> = from_b.collect();
/// assert_eq!(from_b?, [[2], [3]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "an iterator reads nothing by itself"]
pub struct Range(pub(super) Ordering);

/// The keys of a map of either kind.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// let sizes = store.ordered_map("sizes")?;
/// sizes.load([("ant", vec![1; 90_000]), ("bee", vec![2; 90_000])])?;
/// let keys: Result<Vec<_>, _> = sizes.keys().collect();
/// assert_eq!(keys?, [b"ant", b"bee"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "an iterator reads nothing by itself"]
pub struct Keys(pub(super) Walk);

/// A walk in either order.
#[derive(Debug)]
pub(super) enum Walk {
    Unordered(Hashes),
    Ordered(Ordering),
}

impl Walk {
    fn next(&mut self) -> Result<Option<Met>, Error> {
        match self {
            Walk::Unordered(hashes) => hashes.next(),
            Walk::Ordered(ordering) => ordering.next(),
        }
    }

    fn next_pair(&mut self) -> Result<Option<Pair>, Error> {
        match self {
            Walk::Unordered(hashes) => pair(hashes.entries.clone(), || hashes.next()),
            Walk::Ordered(ordering) => pair(ordering.entries.clone(), || ordering.next()),
        }
    }
}

/// The next key that is still there, with its value.
fn pair(
    entries: Entries,
    mut next: impl FnMut() -> Result<Option<Met>, Error>,
) -> Result<Option<Pair>, Error> {
    while let Some(met) = next()? {
        if let Some(pair) = entries.pair(met)? {
            return Ok(Some(pair));
        }
    }
    Ok(None)
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_pair().transpose()
    }
}

impl Iterator for Range {
    type Item = Result<(Vec<u8>, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        pair(self.0.entries.clone(), || self.0.next()).transpose()
    }
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|met| met.map(|(key, _)| key)).transpose()
    }
}

/// A walk in the order of hashes.
#[derive(Debug)]
pub(super) struct Hashes {
    entries: Entries,
    with_values: bool,
    found: VecDeque<Met>,
    /// Where to go on.
    from: Option<u64>,
}

impl Hashes {
    pub(super) fn new(entries: &Entries, with_values: bool) -> Hashes {
        let (entries, found) = (entries.clone(), VecDeque::new());
        Hashes { entries, with_values, found, from: Some(0) }
    }

    /// The next key. After an error there is none.
    fn next(&mut self) -> Result<Option<Met>, Error> {
        while self.found.is_empty() {
            let Some(from) = self.from.take() else { return Ok(None) };
            let (found, next) = self.entries.some(from, self.with_values)?;
            (self.found, self.from) = (found.into(), next);
        }
        Ok(self.found.pop_front())
    }
}

/// A walk in the order of keys.
#[derive(Debug)]
pub(super) struct Ordering {
    entries: Entries,
    with_values: bool,
    found: VecDeque<Met>,
    /// Where to go on, and whether behind that key.
    from: Option<(Vec<u8>, bool)>,
    end: Bound<Vec<u8>>,
}

impl Ordering {
    pub(super) fn new(
        entries: &Entries,
        (start, end): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        with_values: bool,
    ) -> Ordering {
        let from = match start {
            Bound::Included(key) => (key, false),
            Bound::Excluded(key) => (key, true),
            Bound::Unbounded => (Vec::new(), false),
        };
        let (entries, found) = (entries.clone(), VecDeque::new());
        Ordering { entries, with_values, found, from: Some(from), end }
    }

    /// The next key of the range. After an error there is none.
    fn next(&mut self) -> Result<Option<Met>, Error> {
        while self.found.is_empty() {
            let Some((from, is_after)) = self.from.take() else { return Ok(None) };
            let (found, last) = self.entries.some_from(&from, is_after, self.with_values)?;
            (self.found, self.from) = (found.into(), last.map(|last| (last, true)));
        }
        let met = self.found.pop_front().filter(|(key, _)| match &self.end {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        });
        if met.is_none() {
            (self.from, self.found) = (None, VecDeque::new());
        }
        Ok(met)
    }
}
