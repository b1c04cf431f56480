//! [`Scale`]: the numbers of warehouses, customers and items.

/// Districts of a warehouse, at every scale.
pub const DISTRICTS: u8 = 10;

/// Customers of one district that share a last name, at every scale (the standard's average).
pub(crate) const CUSTOMERS_PER_NAME: u32 = 3;

/// The cardinalities of a TPC-C database (TPC-C rev. 5.11, clause 1.2).
///
/// The standard knows one scale, [`FULL`](Scale::FULL) a warehouse. A smaller database has one
/// warehouse with fewer customers and items, in the standard's ratio of 3 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: u32,
    /// Customers of each district, which is also the number of its initial orders.
    pub customers: u32,
    /// Items, and stock rows of each warehouse.
    pub items: u32,
}

impl Scale {
    /// One warehouse of the standard's size.
    pub const FULL: Scale = Scale::part(1000);

    /// One warehouse of the least size: 3 customers to a district, 100 items.
    pub(crate) const LEAST: Scale = Scale::part(1);

    /// One warehouse of `thousandths` of the standard's size.
    pub(crate) const fn part(thousandths: u32) -> Scale {
        Scale { warehouses: 1, customers: 3 * thousandths, items: 100 * thousandths }
    }

    /// The number of last names in a district, which are `0..names()`.
    pub fn names(&self) -> u32 {
        self.customers / CUSTOMERS_PER_NAME
    }

    /// The number of a district's initial orders that are delivered: 70%, the standard's 2,100 of
    /// 3,000.
    pub(crate) fn delivered_at_first(&self) -> u64 {
        u64::from(self.customers) * 7 / 10
    }

    /// The number of a district's initial orders that are not delivered, which have the highest
    /// numbers.
    pub(crate) fn undelivered_at_first(&self) -> u64 {
        u64::from(self.customers) - self.delivered_at_first()
    }
}

/// The warehouse and the district of the district numbered `number`, from 0, among all.
pub(crate) fn district_ids(number: u64) -> (u32, u8) {
    let districts = u64::from(DISTRICTS);
    ((number / districts) as u32 + 1, (number % districts) as u8 + 1)
}
