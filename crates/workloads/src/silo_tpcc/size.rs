//! [`Size`]: how many rows there are, and how many have room.

use crate::tpcc::{DISTRICTS, Scale};

/// Lines of every order at first: the mean of the standard's 5 to 15.
pub(super) const LINES_AT_FIRST: u64 = 10;

/// What the sizes of all tables follow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub scale: Scale,
    /// Places for orders in each district, of which one is free at least.
    pub ring: u64,
}

impl Size {
    /// The least that works.
    pub(super) const LEAST: Size = Size::least_ring(Scale::LEAST);

    /// A ring for the orders at first, one more, and the free place.
    const fn least_ring(scale: Scale) -> Size {
        Size { scale, ring: scale.customers as u64 + 2 }
    }

    /// The largest of which `bytes_of` is at most `bytes`: as many whole warehouses as possible, or
    /// as great a part of one; what is left goes to the rings.
    ///
    /// # Panics
    /// When not even the [least](Size::LEAST) fits.
    pub(super) fn fitting(bytes: u64, bytes_of: impl Fn(Size) -> u64) -> Size {
        let fits = |size: Size| bytes_of(size) <= bytes;
        let warehouses = |n| Size::least_ring(Scale { warehouses: n as u32, ..Scale::FULL });
        let part = |n| Size::least_ring(Scale::part(n as u32));
        assert!(fits(Size::LEAST), "a database in {bytes} bytes");
        let least = match fits(warehouses(1)) {
            true => warehouses(greatest(1, 1 << 20, |n| fits(warehouses(n)))),
            false => part(greatest(1, 1000, |n| fits(part(n)))),
        };
        let ring = |more| Size { ring: least.ring + more, ..least };
        // A place takes more than a line in every district.
        let most = bytes / 64 / least.districts();
        ring(greatest(0, most, |more| fits(ring(more))))
    }

    pub(super) fn warehouses(&self) -> u64 {
        u64::from(self.scale.warehouses)
    }

    pub(super) fn districts(&self) -> u64 {
        self.warehouses() * u64::from(DISTRICTS)
    }

    /// Customers of a district.
    pub(super) fn customers(&self) -> u64 {
        u64::from(self.scale.customers)
    }

    pub(super) fn items(&self) -> u64 {
        u64::from(self.scale.items)
    }

    /// Orders of a district that are not delivered at first: they have the highest numbers.
    pub(super) fn undelivered(&self) -> u64 {
        self.customers() - self.scale.delivered_at_first()
    }
}

/// The greatest of `low..=high` that `fits`, where `low` does and all that are less than one that
/// does.
fn greatest(low: u64, high: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = high - (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}
