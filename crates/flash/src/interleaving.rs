//! [`Interleaving`]: the drive of each page, where several drives stand side by side.

use ebbtide_core::PageId;

/// Pages over drives, round robin by units of some pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interleaving {
    drives: u64,
    /// Pages that go to a drive before the next drive follows.
    unit: u64,
}

impl Interleaving {
    /// Returns the interleaving of units of `unit` pages over `drives` drives, both at least 1.
    pub(crate) fn new(drives: u32, unit: u32) -> Interleaving {
        Interleaving { drives: u64::from(drives), unit: u64::from(unit) }
    }

    /// Returns the number of drives.
    pub fn drives(self) -> usize {
        self.drives as usize
    }

    /// Returns the drive of `page`, counted from 0.
    pub fn drive(self, page: PageId) -> usize {
        (page.0 / self.unit % self.drives) as usize
    }

    /// The number of `page` among the pages of its drive.
    fn on_drive(self, page: PageId) -> u64 {
        let stripe = self.drives * self.unit;
        page.0 / stripe * self.unit + page.0 % self.unit
    }

    /// The page of number `own` on `drive`, the inverse of [`on_drive`](Interleaving::on_drive).
    fn page(self, drive: u64, own: u64) -> PageId {
        PageId((own / self.unit * self.drives + drive) * self.unit + own % self.unit)
    }

    /// The pages of all drives in whole units, if each drive has room for `pages`. One drive has no
    /// units.
    pub(crate) fn in_all(self, pages: u64) -> u64 {
        if self.drives == 1 { pages } else { pages / self.unit * self.unit * self.drives }
    }
}

/// The plane of each page. The planes of the drives take turns, so that plane `n` belongs to drive
/// `n % drives`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    pub interleaving: Interleaving,
    /// Planes of a drive.
    planes: u64,
}

impl Places {
    /// Places on `planes` planes of all drives.
    pub(crate) fn new(interleaving: Interleaving, planes: u32) -> Places {
        Places { interleaving, planes: u64::from(planes) / interleaving.drives }
    }

    /// The plane of `page`, and the page's number on it. The pages of a drive are striped over its
    /// channels first, then over chips, dies and planes.
    pub(crate) fn of(self, page: PageId) -> (usize, u32) {
        let own = self.interleaving.on_drive(page);
        let plane = own % self.planes * self.interleaving.drives;
        (plane as usize + self.interleaving.drive(page), (own / self.planes) as u32)
    }

    /// The page that is number `own` on `plane`, the inverse of [`of`](Places::of).
    pub(crate) fn page(self, plane: usize, own: u32) -> PageId {
        let drives = self.interleaving.drives;
        let (plane, drive) = (plane as u64 / drives, plane as u64 % drives);
        self.interleaving.page(drive, u64::from(own) * self.planes + plane)
    }

    /// The drive of `plane`.
    pub(crate) fn drive(self, plane: usize) -> usize {
        plane % self.interleaving.drives()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_page_has_a_place_of_its_own(
            drives in 1u32..5, unit in 1u32..7, planes in 1u32..5, page in 0u64..5_000,
        ) {
            let interleaving = Interleaving::new(drives, unit);
            let places = Places::new(interleaving, planes * drives);
            let (plane, own) = places.of(PageId(page));
            prop_assert_eq!(places.page(plane, own), PageId(page));
            prop_assert_eq!(places.drive(plane), interleaving.drive(PageId(page)));
        }

        #[test]
        fn whole_units_fill_every_plane_at_most_to_its_end(
            drives in 1u32..5, unit in 1u32..7, planes in 1u32..5, each in 1u64..40,
        ) {
            let interleaving = Interleaving::new(drives, unit);
            let places = Places::new(interleaving, planes * drives);
            let pages = interleaving.in_all(u64::from(planes) * each);
            prop_assert!((0..pages).all(|page| u64::from(places.of(PageId(page)).1) < each));
        }
    }

    #[test]
    fn units_of_one_page_go_over_all_planes_in_turn() {
        let places = Places::new(Interleaving::new(4, 1), 4 * 6);
        for page in 0..200 {
            assert_eq!(places.of(PageId(page)), ((page % 24) as usize, (page / 24) as u32));
        }
    }

    #[test]
    fn a_unit_stays_on_one_drive() {
        let interleaving = Interleaving::new(3, 4);
        let drives: Vec<usize> = (0..16).map(|page| interleaving.drive(PageId(page))).collect();
        assert_eq!(drives, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0]);
    }
}
