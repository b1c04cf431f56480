//! [`Size`]: the numbers of rows of a database, and the length of its rings of orders.

use ebbtide_core::LINE_BYTES;

use super::scale::{DISTRICTS, Scale};
use crate::search::greatest;

/// The parameters that determine the sizes of all tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) scale: Scale,
    /// Places for orders in each district.
    pub(crate) ring: u64,
}

impl Size {
    pub(crate) fn warehouses(&self) -> u64 {
        u64::from(self.scale.warehouses)
    }

    pub(crate) fn districts(&self) -> u64 {
        self.warehouses() * u64::from(DISTRICTS)
    }

    /// Customers of a district.
    pub(crate) fn customers(&self) -> u64 {
        u64::from(self.scale.customers)
    }

    pub(crate) fn items(&self) -> u64 {
        u64::from(self.scale.items)
    }
}

/// The permitted lengths of a program's rings of orders.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingLengths {
    /// The least number of places beyond one for each customer's first order.
    pub(crate) spare: u64,
    /// All lengths are multiples of this.
    pub(crate) step: u64,
}

impl RingLengths {
    /// The size with the shortest rings.
    pub(crate) const fn shortest(self, scale: Scale) -> Size {
        let orders = scale.customers as u64 + self.spare;
        Size { scale, ring: orders.next_multiple_of(self.step) }
    }

    /// Returns the largest size whose `bytes_of` is at most `bytes`: as many whole warehouses as
    /// possible, or as great a part of one. The remaining space goes to the rings.
    ///
    /// # Panics
    /// When not even the [least scale](Scale::LEAST) fits.
    pub(crate) fn largest(self, bytes: u64, bytes_of: impl Fn(Size) -> u64) -> Size {
        let fits = |size: Size| bytes_of(size) <= bytes;
        let warehouses = |n| self.shortest(Scale { warehouses: n as u32, ..Scale::FULL });
        let part = |n| self.shortest(Scale::part(n as u32));
        assert!(fits(part(1)), "a TPC-C database in {bytes} bytes");
        let least = match fits(warehouses(1)) {
            true => warehouses(greatest(1, 1 << 20, |n| fits(warehouses(n)))),
            false => part(greatest(1, 1000, |n| fits(part(n)))),
        };
        let ring = |steps| Size { ring: least.ring + steps * self.step, ..least };
        // A place takes at least a line in every district.
        let most = bytes / LINE_BYTES as u64 / least.districts() / self.step;
        ring(greatest(0, most, |steps| fits(ring(steps))))
    }
}
