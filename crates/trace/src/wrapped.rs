//! [`Wrapped`], [`Folded`] and [`WithFrames`]: a trace fitted to a device.

use ebbtide_core::{Addr, PAGE_BYTES, choice};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{Access, Source, TraceError};

/// A trace without the entries whose physical page is unknown.
pub struct WithFrames<S> {
    source: S,
}

impl<S: Source> WithFrames<S> {
    /// Removes the entries of `source` without a physical page.
    pub fn new(source: S) -> WithFrames<S> {
        WithFrames { source }
    }
}

impl<S: Source> Source for WithFrames<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        loop {
            let more = self.source.fill(batch);
            batch.retain(|access| access.frame.is_some());
            if !batch.is_empty() || !matches!(more, Ok(true)) {
                return more;
            }
        }
    }

    fn remark(&self) -> Option<String> {
        self.source.remark()
    }
}

/// A trace on a device that is smaller than its addresses. Addresses are taken modulo the size of
/// the device, so neighbours stay neighbours.
pub struct Wrapped<S> {
    source: S,
    device_bytes: u64,
}

impl<S: Source> Wrapped<S> {
    /// Fits `source` to a device of `pages` pages.
    ///
    /// # Panics
    /// If `pages` is 0.
    pub fn new(source: S, pages: u64) -> Wrapped<S> {
        assert!(pages > 0, "a device has pages");
        Wrapped { source, device_bytes: pages.saturating_mul(PAGE_BYTES as u64) }
    }
}

impl<S: Source> Source for Wrapped<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let more = self.source.fill(batch);
        batch
            .iter_mut()
            .for_each(|access| access.address = Addr(access.address.0 % self.device_bytes));
        more
    }

    fn remark(&self) -> Option<String> {
        self.source.remark()
    }
}

choice! {
    /// Treatment of addresses beyond a device.
    #[derive(Default)]
    pub enum Beyond as "way with addresses beyond the data" {
        /// They are moved onto the device ([`Folded`]).
        #[default]
        Fold = "fold",
        /// They are an error.
        Refuse = "refuse",
    }
}

/// A trace on a device that is smaller than its addresses. Regions of 2 MiB beyond the device are
/// moved to its unused regions, in the order of their first use. They share these regions once all
/// are used. An address on the device stays in place, unless a region from beyond was moved there.
///
/// A program's addresses have gaps, so it may use few pages far apart. Neighbours stay neighbours.
pub struct Folded<S> {
    source: S,
    region_pages: u64,
    regions: u64,
    /// The place of each used region.
    places: FxHashMap<u64, u64>,
    used: FxHashSet<u64>,
    next: u64,
    shared: u64,
}

/// Pages of a region.
const REGION_PAGES: u64 = 512;

impl<S: Source> Folded<S> {
    /// Fits `source` to a device of `pages` pages.
    ///
    /// # Panics
    /// If `pages` is 0.
    pub fn new(source: S, pages: u64) -> Folded<S> {
        assert!(pages > 0, "a device has pages");
        let region_pages = REGION_PAGES.min(pages);
        let (places, used) = (FxHashMap::default(), FxHashSet::default());
        Folded {
            source,
            region_pages,
            regions: pages / region_pages,
            places,
            used,
            next: 0,
            shared: 0,
        }
    }

    /// Returns the number of regions so far that share their place with another. They exist if the
    /// trace has more regions than the device.
    pub fn shared(&self) -> u64 {
        self.shared
    }

    fn place(&mut self, region: u64) -> u64 {
        if let Some(place) = self.places.get(&region) {
            return *place;
        }
        let place = if region < self.regions && !self.used.contains(&region) {
            region
        } else {
            // Once all are used, `next` goes round and regions share a place.
            while self.next < self.regions && self.used.contains(&self.next) {
                self.next += 1;
            }
            let place = self.next % self.regions;
            self.next += 1;
            place
        };
        self.shared += u64::from(!self.used.insert(place));
        self.places.insert(region, place);
        place
    }
}

impl<S: Source> Source for Folded<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let more = self.source.fill(batch);
        let region_bytes = self.region_pages * PAGE_BYTES as u64;
        // Neighbours in time are neighbours in space, mostly.
        let mut last = None;
        for access in batch.iter_mut() {
            let address = access.address.0;
            let offset = |from| address.checked_sub(from).filter(|offset| *offset < region_bytes);
            let known = last.and_then(|(from, to)| Some(to + offset(from)?));
            let place = known.unwrap_or_else(|| {
                let region = address / region_bytes;
                let to = self.place(region) * region_bytes;
                last = Some((region * region_bytes, to));
                to + address % region_bytes
            });
            access.address = Addr(place);
        }
        more
    }

    fn remark(&self) -> Option<String> {
        self.source.remark()
    }
}

#[cfg(test)]
mod tests {
    use ebbtide_core::Time;

    use super::*;
    use crate::{Compacted, Footprint, Op};

    struct Fixed(Vec<u64>);

    impl Source for Fixed {
        fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
            batch.clear();
            let access = |address| Access::new(Time::ZERO, Addr(address), 8, Op::Read);
            batch.extend(self.0.drain(..).map(access));
            Ok(!batch.is_empty())
        }
    }

    fn folded(addresses: &[u64], pages: u64) -> Vec<u64> {
        let mut source = Folded::new(Fixed(addresses.to_vec()), pages);
        let mut batch = Vec::new();
        source.fill(&mut batch).expect("no fault");
        batch.iter().map(|access| access.address.0).collect()
    }

    const REGION: u64 = REGION_PAGES * PAGE_BYTES as u64;

    #[test]
    fn a_compacted_trace_has_no_gaps_and_keeps_neighbours() {
        let addresses = [0x7fff_0000_0008, 4096, 0x7fff_0000_1000, 3 * 4096 + 5];
        let footprint = Footprint::of(Fixed(addresses.to_vec())).expect("no fault");
        assert_eq!(footprint.pages(), 4);
        let mut batch = Vec::new();
        let mut source = Compacted::new(Fixed(addresses.to_vec()), &footprint);
        source.fill(&mut batch).expect("no fault");
        let places: Vec<u64> = batch.iter().map(|access| access.address.0).collect();
        assert_eq!(places, [2 * 4096 + 8, 0, 3 * 4096, 4096 + 5]);
    }

    #[test]
    fn what_lies_on_the_device_stays_there() {
        let addresses = [0, 7, REGION + 64, 3 * REGION, 8];
        assert_eq!(folded(&addresses, 4 * REGION_PAGES), addresses);
    }

    #[test]
    fn regions_beyond_the_device_take_unused_places_and_neighbours_stay_together() {
        let stack = 0x7fff_ffe0_0000;
        let addresses = [REGION, stack + 4096, stack + 8192, 5 * REGION, REGION + 8, stack];
        let expected = [REGION, 4096, 8192, 2 * REGION, REGION + 8, 0];
        assert_eq!(folded(&addresses, 4 * REGION_PAGES), expected);
    }

    #[test]
    fn regions_share_places_once_all_are_used() {
        let far = [10, 11, 12, 13, 10].map(|region| region * REGION);
        assert_eq!(folded(&far, 2 * REGION_PAGES), [0, REGION, 0, REGION, 0]);
        assert!(folded(&[1 << 40], 3).iter().all(|address| *address < 3 * 4096));
        let accesses = Fixed(far.to_vec());
        let mut source = Folded::new(accesses, 2 * REGION_PAGES);
        source.fill(&mut Vec::new()).expect("no fault");
        assert_eq!(source.shared(), 2);
    }
}
