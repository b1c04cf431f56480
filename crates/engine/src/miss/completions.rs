//! The results of requests that have ended: pages are published, frames freed, waiters woken.

use std::sync::Arc;

use ebbtide_core::durability::{Frozen, Lsn};
use ebbtide_core::{FrameId, PageId, Time};
use smallvec::smallvec;

use super::Backside;
use super::requests::Operation;
use crate::cache::{Change, Effect, Event, Last};
use crate::device::Direction;
use crate::miss::buffer_pool::BufferPool;
use crate::sync::mailbox::{Outcome, Waiter};

impl Backside {
    pub(super) fn reap(&mut self, pool: &BufferPool, now: Time, waiting: bool) {
        let mut completions = self.requests.reap();
        let counters = self.counters(pool);
        let whole = completions.is_empty() || pool.is_whole();
        for completion in &completions {
            // One after the other they would be waited for.
            self.requests.prefetch(pool, completion);
        }
        for completion in completions.drain(..) {
            if let Some((operation, error)) =
                self.requests.end(pool, counters, completion, (now, waiting))
            {
                match operation.direction {
                    Direction::Read if !whole => {
                        let error = Some("the file was cut short while in use".into());
                        self.end_read(pool, &operation, error, now);
                    }
                    Direction::Read => {
                        let error = error.or_else(|| damage(pool, &operation));
                        self.end_read(pool, &operation, error, now);
                    }
                    Direction::Write => self.end_write(pool, &operation, error, now),
                }
            }
        }
        self.requests.recycle(completions);
        if !self.read_ns.is_empty() {
            pool.counters.flash_reads_took(self.core, self.read_ns.drain(..));
        }
    }

    fn end_read(
        &mut self,
        pool: &BufferPool,
        operation: &Operation,
        error: Option<String>,
        now: Time,
    ) {
        let &Operation { page, prefetched, since, .. } = operation;
        self.prefetch.ended(prefetched);
        match error {
            None => {
                self.counters(pool).flash_reads.add(1);
                self.read_ns.push(now.since(since).as_ns());
                self.prefetch.arrived(page, prefetched);
                let change = pool.cache.apply(page, Event::Arrived);
                self.execute(pool, page, &change, now);
            }
            Some(error) => {
                self.counters(pool).read_errors.add(1);
                let change = pool.cache.apply(page, Event::Unreadable);
                self.fail(pool, &change, &format!("cannot be read: {error}"));
                self.execute(pool, page, &change, now);
            }
        }
    }

    fn end_write(
        &mut self,
        pool: &BufferPool,
        operation: &Operation,
        error: Option<String>,
        now: Time,
    ) {
        self.write_back.ended(operation.frames.len());
        let frames = operation.frames.iter().zip(operation.slot..);
        self.note_write(pool, error.as_deref(), now);
        if error.is_none() {
            let counters = self.counters(pool);
            counters.flash_writes.add(operation.frames.len() as u64);
            counters.write_requests.add(1);
            self.write_back.note_success();
            for (&frame, slot) in frames {
                if map(pool, frame, slot, operation.covers) {
                    self.written(pool, frame, slot, now);
                } else {
                    self.write_failed(pool, frame, pool.cache.slot_of(frame));
                }
            }
            return;
        }
        if !operation.alone {
            self.write_back.note_failure();
        }
        if let [frame] = operation.frames[..] {
            if let Some(persist) = &pool.persist {
                persist.lock().journal.write_failed(operation.slot);
                self.write_failed(pool, frame, pool.cache.slot_of(frame));
            } else {
                pool.placement.lock().retire(operation.slot);
                self.write_failed(pool, frame, None);
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
        self.write_back.start_again(pool, &mut self.requests, alone);
    }

    /// Notes how a write went. After a device has failed for long, transactions are refused until a write
    /// succeeds.
    fn note_write(&mut self, pool: &BufferPool, error: Option<&str>, now: Time) {
        let refused = match error {
            Some(reason) if pool.write_health.failed(now) => Some(reason),
            None if pool.write_health.succeeded() => None,
            _ => return,
        };
        if let Some(persist) = &pool.persist {
            for waiter in persist.refuse(refused) {
                pool.mailboxes.wake(waiter, Outcome::Retry);
            }
        }
    }

    /// Handles a failed write. Nothing is lost: the page stays in DRAM.
    pub(super) fn write_failed(&mut self, pool: &BufferPool, frame: FrameId, slot: Option<u32>) {
        self.counters(pool).write_errors.add(1);
        self.keep(pool, frame, slot);
    }

    /// Keeps a changed page that was to leave.
    pub(super) fn keep(&mut self, pool: &BufferPool, frame: FrameId, slot: Option<u32>) {
        self.write_back.note_kept();
        self.take_cleaned(frame);
        let change = pool.cache.apply(pool.cache.page_in(frame), Event::Kept { slot });
        self.install(pool, &change);
    }

    /// Wakes the fibers that waited for a page, which is in its frame now.
    pub(super) fn install(&mut self, pool: &BufferPool, change: &Change) {
        if change.waiting == Last::NONE {
            self.installed.push(change.frame);
            return;
        }
        // The frame stays until the first waiter has used it: it makes progress for certain.
        let mut outcome = Outcome::Installed(change.frame);
        pool.cache.wake(change.waiting, |waiter| {
            self.wake(pool, waiter, std::mem::replace(&mut outcome, Outcome::Retry));
        });
    }

    /// Handles the end of a write of the page in `frame` to `slot`. The page leaves, unless a fiber
    /// has asked for it in between. A page that was written for a checkpoint is as useful as before.
    fn written(&mut self, pool: &BufferPool, frame: FrameId, slot: u32, now: Time) {
        let (page, stays) = (pool.cache.page_in(frame), self.take_cleaned(frame));
        let change = pool.cache.apply(page, Event::Written { slot, stays });
        self.left(pool, page, (&change, stays), now);
    }

    /// Executes the effects for a page that was to leave, or that `stays`.
    pub(super) fn left(
        &mut self,
        pool: &BufferPool,
        page: PageId,
        (change, stays): (&Change, bool),
        now: Time,
    ) {
        self.counters(pool).revived.add(u64::from(!stays && change.has(Effect::Install)));
        self.execute(pool, page, change, now);
    }

    /// Fails the fibers that waited for a page.
    pub(super) fn fail(&mut self, pool: &BufferPool, change: &Change, reason: &str) {
        let reason: Arc<str> = reason.into();
        pool.cache.wake(change.waiting, |waiter| {
            self.wake(pool, waiter, Outcome::Failed(reason.clone()));
        });
    }

    pub(super) fn wake(&mut self, pool: &BufferPool, waiter: Waiter, outcome: Outcome) {
        if waiter.core as usize == self.core && self.driven_by == self.core {
            self.own_wakes.push((waiter.fiber, outcome));
        } else {
            pool.mailboxes.wake(waiter, outcome);
        }
    }
}

/// Describes the damage of a page that was just read. `None` if its checksum matches or is unknown.
fn damage(pool: &BufferPool, operation: &Operation) -> Option<String> {
    let persist = pool.persist.as_ref()?;
    let sound = |contents: &_| persist.is_sound(operation.page, contents);
    (!pool.cache.with_contents(operation.frames[0], sound))
        .then(|| format!("what slot {} holds is not what was written there", operation.slot))
}

/// Logs that the page in `frame` was written to `slot`. Returns true if that write counts.
fn map(pool: &BufferPool, frame: FrameId, slot: u32, covers: Lsn) -> bool {
    let Some(persist) = &pool.persist else { return true };
    let checksum = pool.cache.with_contents(frame, |contents| persist.geometry.checksum(contents));
    let frozen = Frozen { page: pool.cache.page_in(frame), covers };
    persist.lock().journal.written(frozen, slot, checksum)
}
