//! [`Names`]: the last names of a district's customers, computed and not stored.

use super::scale::{CUSTOMERS_PER_NAME, Scale};
use crate::permutation::Permutation;
use ebbtide_structures::hash::mix;

/// The index from last name to customers. Names never change, so it is not stored.
///
/// The first third of a district's customers has the names in order, as in the standard (clause
/// 4.3.3.1). Each other third has them in a random order. (The standard draws these names at
/// random, so three customers have a name on average. Here exactly three have it.)
#[derive(Debug, Clone)]
pub(super) struct Names {
    orders: [Permutation; CUSTOMERS_PER_NAME as usize - 1],
    names: u32,
}

impl Names {
    pub(super) fn new(scale: Scale, seed: u64) -> Names {
        let names = scale.names();
        let order = |third: usize| Permutation::new(u64::from(names), mix(seed ^ third as u64));
        Names { orders: std::array::from_fn(order), names }
    }

    /// The customers called `name`.
    pub(super) fn customers(&self, name: u32) -> [u32; CUSTOMERS_PER_NAME as usize] {
        std::array::from_fn(|third| {
            let place = match third {
                0 => name,
                _ => self.orders[third - 1].apply(u64::from(name)) as u32,
            };
            third as u32 * self.names + place + 1
        })
    }

    /// The name of a customer.
    pub(super) fn name(&self, c_id: u32) -> u32 {
        let (third, place) = ((c_id - 1) / self.names, (c_id - 1) % self.names);
        match third {
            0 => place,
            _ => self.orders[third as usize - 1].invert(u64::from(place)) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_customer_is_found_by_name() {
        for thousandths in [1, 2, 7, 1000] {
            let scale = Scale::part(thousandths);
            let names = Names::new(scale, 3);
            let mut customers: Vec<u32> =
                (0..scale.names()).flat_map(|name| names.customers(name)).collect();
            customers.sort_unstable();
            assert!(customers.into_iter().eq(1..=scale.customers));
            for c_id in 1..=scale.customers {
                assert!(names.customers(names.name(c_id)).contains(&c_id));
            }
        }
    }
}
