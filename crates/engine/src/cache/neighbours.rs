//! Changed neighbours of pages that leave, which leave with them: so they are written side by side,
//! and read together later.

use ebbtide_core::{FrameId, PageId};

use super::{Cache, PageState};

/// The most neighbours that leave with a page, on each side.
const NEIGHBOURS_MAX: u64 = 7;

impl Cache {
    /// Takes neighbours of the changed pages among `victims` off the policy, and appends their
    /// frames. The victims were [chosen](Cache::choose) just now. The neighbours are changed as
    /// well, were not touched lately, and would leave soon.
    pub(crate) fn choose_neighbours(&self, victims: &mut Vec<FrameId>) {
        for index in 0..victims.len() {
            if !self.is_dirty(victims[index]) {
                continue;
            }
            let page = self.page_in(victims[index]);
            let above = (page.0 + 1)..(page.0 + 1 + NEIGHBOURS_MAX).min(self.table.pages());
            let below = (page.0.saturating_sub(NEIGHBOURS_MAX)..page.0).rev();
            victims.extend(above.map_while(|page| self.leave_early(PageId(page))));
            victims.extend(below.map_while(|page| self.leave_early(PageId(page))));
        }
    }

    /// Takes a page off the policy if it is resident, changed and would leave soon.
    fn leave_early(&self, page: PageId) -> Option<FrameId> {
        let PageState::Resident(frame) = self.state(page) else { return None };
        if !self.is_dirty(frame) {
            return None;
        }
        let mut locked = self.policies.knowing(self, frame)?;
        // Another page may have come to the frame before this part was locked.
        if self.page_in(frame) != page || !locked.leave_early(frame) {
            return None;
        }
        Some(frame)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use std::sync::atomic::Ordering;

    use ebbtide_core::replacement::{Admission, PolicyKind};

    use super::super::Division;
    use super::super::testing::bring;
    use super::*;

    const FRAMES: u32 = 64;

    /// A cache whose every page is in the frame of its number, changed, and the last eight are new
    /// to the policy.
    fn full(parts: usize) -> Cache {
        let division = Division::new(Some(parts), 1, FRAMES as usize, FRAMES.into());
        let policy = (division, Admission::Always, PolicyKind::MiniSim);
        let cache =
            Cache::new(FRAMES.into(), FRAMES as usize, policy, (1, 1), false).expect("memory");
        for number in 0..FRAMES {
            let (page, frame) = (PageId(number.into()), FrameId(number));
            bring(&cache, page, frame, true);
        }
        cache.settle(&mut (0..FRAMES).map(FrameId).collect());
        cache
    }

    /// Pages that leave with `page`, in order.
    fn leave_with(cache: &Cache, page: u64) -> Vec<u32> {
        let mut victims = vec![cache.choose_page(PageId(page)).expect("it is there")];
        cache.choose_neighbours(&mut victims);
        cache.unpublish(&victims, 0);
        let mut pages: Vec<u32> = victims.drain(1..).map(|frame| frame.0).collect();
        for page in &pages {
            assert_eq!(cache.state(PageId((*page).into())), PageState::Leaving(FrameId(*page)));
        }
        pages.sort_unstable();
        pages
    }

    /// The page in `frame` is as its copy on flash.
    fn clean(cache: &Cache, frame: usize) {
        cache.table.dirty()[frame].store(0, Ordering::Relaxed);
    }

    #[test]
    fn changed_neighbours_leave_with_a_changed_page_on_both_sides() {
        assert_eq!(
            leave_with(&full(1), 20),
            [13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24, 25, 26, 27]
        );
        assert_eq!(leave_with(&full(1), 2), [0, 1, 3, 4, 5, 6, 7, 8, 9]);
        for page in leave_with(&full(4), 20) {
            assert!(page.abs_diff(20) <= 7, "{page} is no neighbour");
        }
    }

    #[test]
    fn neighbours_that_are_clean_new_or_touched_stay_and_so_do_those_behind_them() {
        let cache = full(1);
        clean(&cache, 17);
        cache.hit_path().touch(FrameId(23));
        assert_eq!(leave_with(&cache, 20), [18, 19, 21, 22]);
        // The half of the pages that came last stays.
        assert_eq!(leave_with(&full(1), 32), [25, 26, 27, 28, 29, 30, 31]);
    }

    #[test]
    fn a_clean_page_leaves_alone() {
        let cache = full(1);
        clean(&cache, 20);
        assert_eq!(leave_with(&cache, 20), [0; 0]);
    }

    #[test]
    fn a_neighbour_that_was_found_touched_lately_stays() {
        let cache = full(1);
        cache.hit_path().touch(FrameId(21));
        assert_eq!(cache.leave_early(PageId(21)), None, "it was touched");
        assert_eq!(cache.leave_early(PageId(21)), None, "its touch was seen just now");
        assert_eq!(leave_with(&cache, 20), [13, 14, 15, 16, 17, 18, 19]);
    }
}
