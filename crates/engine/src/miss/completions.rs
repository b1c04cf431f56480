//! The results of requests that have ended: pages are published, frames freed, waiters woken.

use std::sync::Arc;

use ebbtide_core::durability::{Frozen, Lsn};
use ebbtide_core::{FrameId, PageId, Time};
use smallvec::smallvec;

use super::Backside;
use super::core_shared::CoreShared;
use super::requests::Operation;
use crate::cache::{Change, Effect, Event, Last};
use crate::device::Direction;
use crate::sync::mailbox::Outcome;

impl Backside {
    pub(super) fn reap(&mut self, now: Time, waiting: bool) {
        let mut completions = self.requests.reap(&mut self.ring);
        let whole = completions.is_empty() || self.shared.is_whole();
        for completion in &completions {
            // One after the other they would be waited for.
            self.requests.prefetch(completion);
        }
        for completion in completions.drain(..) {
            if let Some((operation, error)) =
                self.requests.end(&mut self.ring, (self.core, completion), (now, waiting))
            {
                match operation.direction {
                    Direction::Read if !whole => {
                        let error = Some("the file was cut short while in use".into());
                        self.end_read(&operation, error, now);
                    }
                    Direction::Read => {
                        let error = error.or_else(|| self.damage(&operation));
                        self.end_read(&operation, error, now);
                    }
                    Direction::Write => self.end_write(&operation, error, now),
                }
            }
        }
        self.requests.recycle(completions);
        if !self.read_ns.is_empty() {
            self.shared.counters.flash_reads_took(self.core, self.read_ns.drain(..));
        }
    }

    #[inline]
    fn end_read(&mut self, operation: &Operation, error: Option<String>, now: Time) {
        let &Operation { page, prefetched, since, .. } = operation;
        self.prefetch.ended(prefetched);
        match error {
            None => {
                self.counters().flash_reads.add(1);
                self.read_ns.push(now.since(since).as_ns());
                self.prefetch.arrived(page, prefetched);
                let change = self.shared.cache.apply(page, Event::Arrived);
                self.execute(page, &change, now);
            }
            Some(error) => {
                self.counters().read_errors.add(1);
                let change = self.shared.cache.apply(page, Event::Unreadable);
                self.fail(&change, &format!("cannot be read: {error}"));
                self.execute(page, &change, now);
            }
        }
    }

    /// Describes the damage of a page that was just read. `None` if its checksum matches or is
    /// unknown.
    #[inline]
    fn damage(&self, operation: &Operation) -> Option<String> {
        let persist = self.shared.persist.as_ref()?;
        let sound = |contents: &_| persist.is_sound(operation.page, contents);
        (!self.shared.cache.with_contents(operation.frames[0], sound))
            .then(|| format!("what slot {} holds is not what was written there", operation.slot))
    }

    fn end_write(&mut self, operation: &Operation, error: Option<String>, now: Time) {
        self.write_back.ended(operation.frames.len());
        let frames = operation.frames.iter().zip(operation.slot..);
        self.note_write(error.as_deref(), now);
        if error.is_none() {
            let counters = self.counters();
            counters.flash_writes.add(operation.frames.len() as u64);
            counters.write_requests.add(1);
            self.write_back.note_success();
            for (&frame, slot) in frames {
                if map(&self.shared, frame, slot, operation.covers) {
                    self.written(frame, slot, now);
                } else {
                    self.write_failed(frame, self.shared.cache.slot_of(frame));
                }
            }
            return;
        }
        if !operation.alone {
            self.write_back.note_failure();
        }
        if let [frame] = operation.frames[..] {
            if let Some(persist) = &self.shared.persist {
                persist.lock().journal.write_failed(operation.slot);
                self.write_failed(frame, self.shared.cache.slot_of(frame));
            } else if self.shared.in_place {
                self.write_failed(frame, self.shared.cache.slot_of(frame));
            } else {
                self.shared.placement.lock().retire(operation.slot);
                self.write_failed(frame, None);
            }
            return;
        }
        // One bad slot fails a whole run: only writing each page alone tells which it is,
        // once, as the run has had all attempts.
        let alone = frames.map(|(&frame, slot)| Operation {
            slot,
            frames: smallvec![frame],
            alone: true,
            ..*operation
        });
        self.write_back.start_again((&mut self.requests, &mut self.ring), alone);
    }

    /// Notes how a write went. After a device has failed for long, transactions are refused until a
    /// write succeeds.
    fn note_write(&mut self, error: Option<&str>, now: Time) {
        let refused = match error {
            Some(reason) if self.shared.write_health.failed(now) => Some(reason),
            None if self.shared.write_health.succeeded() => None,
            _ => return,
        };
        if let Some(persist) = &self.shared.persist {
            for waiter in persist.refuse(refused) {
                self.shared.mailboxes.wake(waiter, Outcome::Retry);
            }
        }
    }

    /// Handles a failed write. Nothing is lost: the page stays in DRAM.
    pub(super) fn write_failed(&mut self, frame: FrameId, slot: Option<u32>) {
        self.counters().write_errors.add(1);
        self.keep(frame, slot);
    }

    /// Keeps a changed page that was to leave.
    pub(super) fn keep(&mut self, frame: FrameId, slot: Option<u32>) {
        self.write_back.note_kept();
        self.take_cleaned(frame);
        let change =
            self.shared.cache.apply(self.shared.cache.page_in(frame), Event::Kept { slot });
        self.install(&change);
    }

    /// Wakes the fibers that waited for a page, which is in its frame now.
    #[inline]
    pub(super) fn install(&mut self, change: &Change) {
        if change.waiting == Last::NONE {
            self.installed.push(change.frame);
            return;
        }
        // The frame stays until the first waiter has used it: it makes progress for certain.
        let mut outcome = Outcome::Installed(change.frame);
        self.wake_all(change.waiting, || std::mem::replace(&mut outcome, Outcome::Retry));
    }

    /// Handles the end of a write of the page in `frame` to `slot`. The page leaves, unless a fiber
    /// has asked for it in between. A page that was written for a checkpoint is as useful as
    /// before.
    fn written(&mut self, frame: FrameId, slot: u32, now: Time) {
        let (page, stays) = (self.shared.cache.page_in(frame), self.take_cleaned(frame));
        let change = self.shared.cache.apply(page, Event::Written { slot, stays });
        self.left(page, (&change, stays), now);
    }

    /// Executes the effects for a page that was to leave, or that `stays`.
    pub(super) fn left(&mut self, page: PageId, (change, stays): (&Change, bool), now: Time) {
        self.counters().revived.add(u64::from(!stays && change.has(Effect::Install)));
        self.execute(page, change, now);
    }

    /// Fails the fibers that waited for a page.
    pub(super) fn fail(&mut self, change: &Change, reason: &str) {
        let reason: Arc<str> = reason.into();
        self.wake_all(change.waiting, || Outcome::Failed(reason.clone()));
    }

    /// Wakes the fibers of a list, each with the next outcome.
    pub(super) fn wake_all(&mut self, waiting: Last, mut outcome: impl FnMut() -> Outcome) {
        let Backside { shared, own_wakes, core, driven_by, .. } = self;
        shared.cache.wake(waiting, |waiter| {
            if waiter.core as usize == *core && driven_by == core {
                own_wakes.push((waiter.fiber, outcome()));
            } else {
                shared.mailboxes.wake(waiter, outcome());
            }
        });
    }
}

/// Logs that the page in `frame` was written to `slot`. Returns true if that write counts.
fn map(shared: &CoreShared, frame: FrameId, slot: u32, covers: Lsn) -> bool {
    let Some(persist) = &shared.persist else { return true };
    let checksum =
        shared.cache.with_contents(frame, |contents| persist.geometry.checksum(contents));
    let frozen = Frozen { page: shared.cache.page_in(frame), covers };
    persist.written(frozen, slot, checksum)
}
