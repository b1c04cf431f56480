//! Frames: kept free ahead of need, taken from pages that the policy gives up, handed to other
//! cores.

use ebbtide_core::{FrameId, PageId, Time};

use super::Backside;
use crate::cache::Event;
use crate::sync::mailbox::Outcome;

impl Backside {
    /// Frees the frames whose grace period is over, or queues them for writing.
    pub(super) fn end_grace_periods(&mut self, by: usize, now: Time) {
        while let Some(frames) = self.evictions.next_over(&self.shared.epochs, by, now) {
            frames.into_iter().for_each(|frame| self.evict(frame, now));
        }
    }

    /// Frees a frame that no core uses any more. A changed page is queued to be written. A page
    /// that a checkpoint no longer needs stays, although no job asks for it now.
    fn evict(&mut self, frame: FrameId, now: Time) {
        let (page, changed, stays) = self.note_eviction(frame);
        let change = self.shared.cache.apply(page, Event::GraceOver { changed, stays });
        self.left(page, (&change, stays), now);
    }

    /// As [`evict`](Backside::evict), for a page that was not unpublished. This core is the only
    /// one, so no grace period is needed.
    #[inline]
    fn evict_at_once(&mut self, frame: FrameId, now: Time) {
        let (page, changed, stays) = self.note_eviction(frame);
        let change = self.shared.cache.apply(page, Event::GivenUpAtOnce { changed, stays });
        self.left(page, (&change, stays), now);
    }

    /// Counts the eviction of the page in `frame`. Returns the page, whether it has changed, and
    /// whether it stays.
    #[inline]
    fn note_eviction(&mut self, frame: FrameId) -> (PageId, bool, bool) {
        let (page, changed) = (self.shared.cache.page_in(frame), self.shared.cache.is_dirty(frame));
        let stays = !changed && self.take_cleaned(frame);
        if changed {
            self.counters().evictions_dirty.add(1);
            self.shared.departures.note(page);
        } else {
            self.counters().evictions_clean.add(1);
        }
        (page, changed, stays)
    }

    /// Keeps free frames ahead of need, many at a time.
    pub(super) fn refill(&mut self, by: usize, now: Time) {
        let wanted = self.limits.reserve + self.starved.len();
        if self.free.len() >= wanted.div_ceil(2) + self.starved.len() / 2 {
            self.share_out();
            return;
        }
        self.shared.take_spare(self.core, wanted - self.free.len(), &mut self.free);
        let coming = self.free.len() + self.evictions.frame_count() + self.write_back.frame_count();
        // While writes fail, only need is worth another one: else a core would never come to rest.
        if coming >= wanted || (self.starved.is_empty() && self.write_back.fails()) {
            return;
        }
        self.shared.cache.settle(&mut self.installed);
        if self.write_back.fails() {
            // Only unchanged pages can leave. One more page shows whether the device has recovered.
            let mut frames = self.shared.cache.choose(wanted - coming, true);
            self.write_back.note_search(!frames.is_empty());
            frames.extend(self.shared.cache.choose(1, false));
            self.take_over(frames, by, now);
            return;
        }
        let mut frames = self.shared.cache.choose(wanted - coming, false);
        self.shared.cache.choose_neighbours(&mut frames);
        self.take_over(frames, by, now);
    }

    /// Evicts the resident `page`, which its program will not need soon. Called by core `by`,
    /// outside any memory call.
    pub(crate) fn drop_page(&mut self, page: PageId, by: usize, now: Time) {
        self.shared.cache.settle(&mut self.installed);
        if let Some(frame) = self.shared.cache.choose_page(page) {
            self.take_over(vec![frame], by, now);
        }
    }

    /// Starts to write some of the pages that a checkpoint waits for.
    pub(super) fn clean(&mut self, by: usize, now: Time) {
        if self.shared.persist.is_none() || self.shared.write_health.pauses(now) {
            return;
        }
        for _ in 0..self.limits.batch_max {
            if self.cleaning.len() >= self.limits.cleaned_max() {
                return;
            }
            let next = self.shared.persist.as_ref().and_then(|persist| persist.to_clean.pop());
            let Some(page) = next else { return };
            self.clean_page(page, by, now);
        }
    }

    /// Starts to write the resident `page`, which stays. Called by core `by`, outside any memory
    /// call. Returns false if the page is not resident, or moves.
    pub(crate) fn clean_page(&mut self, page: PageId, by: usize, now: Time) -> bool {
        self.shared.cache.settle(&mut self.installed);
        let Some(frame) = self.shared.cache.choose_page(page) else { return false };
        self.cleaning.insert(frame);
        self.take_over(vec![frame], by, now);
        true
    }

    /// Whether `frame` was being written for a checkpoint, which is over now. Every eviction asks,
    /// and mostly there is none.
    pub(super) fn take_cleaned(&mut self, frame: FrameId) -> bool {
        !self.cleaning.is_empty() && self.cleaning.remove(&frame)
    }

    /// Gives up pages that the policy has forgotten just now.
    pub(super) fn take_over(&mut self, frames: Vec<FrameId>, by: usize, now: Time) {
        if self.shared.epochs.alone() {
            frames.into_iter().for_each(|frame| self.evict_at_once(frame, now));
        } else if !frames.is_empty() {
            self.shared.cache.unpublish(&frames, self.core);
            self.evictions.begin(&self.shared.epochs, frames, now);
            self.end_grace_periods(by, now);
        }
    }

    /// Takes a frame that holds no page any more. One of another node serves that node's cores.
    #[inline]
    pub(super) fn add_free(&mut self, frame: FrameId) {
        self.write_back.note_free();
        if self.shared.nodes.of_frame(frame) == self.shared.nodes.of_core(self.core) {
            self.free.push(frame);
        } else {
            self.far.push(frame);
        }
    }

    /// Hands free frames of other nodes over to them.
    pub(super) fn hand_over_far(&mut self) {
        if !self.far.is_empty() {
            self.shared.put_spare(self.far.iter().copied());
            self.far.clear();
        }
    }

    /// Hands frames beyond the reserve to cores that have none.
    pub(super) fn share_out(&mut self) {
        let surplus = self.free.len().saturating_sub(self.limits.reserve);
        if surplus > self.limits.reserve {
            self.shared.put_spare(self.free[..surplus].iter().copied());
            self.free.drain(..surplus);
        }
    }

    /// Fails misses that still wait for a frame when nothing can be written, because no frame will
    /// become free.
    pub(super) fn fail_starved(&mut self) {
        // Victims in their grace period may hold unchanged pages, which need no write.
        let looks_on = !self.write_back.has_kept_all();
        if !self.write_back.fails() || !self.evictions.is_empty() || looks_on {
            return;
        }
        for (page, _) in std::mem::take(&mut self.starved) {
            let change = self.shared.cache.apply(page, Event::NoFrame);
            self.wake_all(change.waiting, || Outcome::NoFrame);
        }
    }
}
