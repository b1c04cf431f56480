//! The results of requests that have ended: pages are published, frames freed, waiters woken.

use std::sync::Arc;

use ebbtide_core::durability::{Frozen, Lsn};
use ebbtide_core::{FrameId, PageId, Time};
use smallvec::smallvec;

use super::Backside;
use super::requests::Operation;
use crate::cache::{BLANK, Installed, Last};
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
        let &Operation { page, slot, prefetched, since, .. } = operation;
        let frame = operation.frames[0];
        self.prefetch.ended(prefetched);
        match error {
            None => {
                self.counters(pool).flash_reads.add(1);
                self.read_ns.push(now.since(since).as_ns());
                self.prefetch.arrived(page, prefetched);
                let installed = Installed { slot: Some(slot), dirty: false, ahead: prefetched };
                self.publish(pool, page, frame, installed);
            }
            Some(error) => {
                self.counters(pool).read_errors.add(1);
                self.fail(pool, page, slot, &format!("cannot be read: {error}"));
                self.add_free(pool, frame);
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
                    self.release(pool, frame, Some(slot));
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
        let installed = Installed { slot, dirty: true, ahead: false };
        self.publish(pool, pool.cache.page_in(frame), frame, installed);
    }

    /// Makes a busy page resident in `frame` and wakes its waiters.
    pub(super) fn publish(
        &mut self,
        pool: &BufferPool,
        page: PageId,
        frame: FrameId,
        installed: Installed,
    ) {
        let shard = pool.cache.shard(page);
        let waiting = pool.cache.publish(page, frame, installed, &shard);
        drop(shard);
        if waiting == Last::NONE {
            self.installed.push(frame);
            return;
        }
        // The frame stays until the first waiter has used it: it makes progress for certain.
        let mut outcome = Outcome::Installed(frame);
        pool.cache.wake(waiting, |waiter| {
            self.wake(pool, waiter, std::mem::replace(&mut outcome, Outcome::Retry));
        });
    }

    /// Makes the page in `frame` absent, and frees the frame. The page is unpublished and has a
    /// current copy in `slot`. If a fiber has asked for the page in between, publishes it again
    /// instead.
    pub(super) fn release(&mut self, pool: &BufferPool, frame: FrameId, slot: Option<u32>) {
        let page = pool.cache.page_in(frame);
        let shard = pool.cache.shard(page);
        // A page that was written for a checkpoint is as useful as before.
        let stays = self.take_cleaned(frame);
        if stays || pool.cache.is_waited_for(frame, &shard) {
            drop(shard);
            self.counters(pool).revived.add(u64::from(!stays));
            let installed = Installed { slot, dirty: false, ahead: false };
            self.publish(pool, page, frame, installed);
        } else {
            let nobody = pool.cache.set_absent(page, slot.unwrap_or(BLANK), &shard);
            debug_assert_eq!(nobody, Last::NONE);
            self.add_free(pool, frame);
        }
    }

    /// Fails all waiters of `page`, which cannot be read from its `slot`.
    pub(super) fn fail(&mut self, pool: &BufferPool, page: PageId, slot: u32, reason: &str) {
        let waiting = pool.cache.set_absent(page, slot, &pool.cache.shard(page));
        let reason: Arc<str> = reason.into();
        pool.cache.wake(waiting, |waiter| {
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
