//! Whole pages on their way between frames and mapped regions, and the wait of a core that must not
//! switch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ebbtide_core::{PAGE_BYTES, PageId, Span};

use super::FlashMemory;
use crate::miss::Drive;
use crate::sync::mailbox::{Outcome, Waiter};

/// After this wait, a core that must not switch reports that it seems to wait for itself.
const WATCH_AFTER: Span = Span::from_us(5_000_000);

impl FlashMemory<'_> {
    /// Runs `look` on the contents of `page`, which stays in DRAM until `look` returns. `look` must
    /// not call the memory.
    pub(crate) fn with_page<R>(&mut self, page: PageId, look: impl FnOnce(*const u8) -> R) -> R {
        self.access_page(page.start(), |_| false, |memory| look(memory))
    }

    /// Stores `bytes` as the contents of `page` if that needs neither a read nor a wait. Returns
    /// true if it did. Never switches.
    pub(crate) fn try_replace_page(&mut self, page: PageId, bytes: &[u8; PAGE_BYTES]) -> bool {
        let pool = &self.local.shared.pool;
        if self.local.backside().overwrite(page, bytes) {
            return true;
        }
        self.presence.enter();
        let found = self.hit_path.find(page);
        if let Some(frame) = found {
            pool.cache.fill(frame, bytes);
            self.hit_path.mark_dirty(frame);
        }
        self.presence.exit();
        found.is_some()
    }

    /// Waits until another fiber or core wakes this fiber by [`Outcome::Retry`].
    pub(crate) fn park(&mut self) {
        let outcome = self.halt();
        debug_assert!(matches!(outcome, Outcome::Retry), "a parked fiber got {outcome:?}");
    }

    /// Lets the core go on with other work for a moment: other jobs, or only the device if the
    /// fiber must not be suspended.
    pub(crate) fn pause(&mut self) {
        if self.blocks { self.drive() } else { self.yield_now() }
    }

    /// Blocks the core until the fiber is sent an outcome. The core drives its own backside
    /// meanwhile.
    #[cold]
    pub(super) fn await_outcome(&mut self) -> Outcome {
        let pool = &self.local.shared.pool;
        let (since, mut reported) = (pool.now(), false);
        loop {
            if let Some(outcome) = self.fiber().outcome.take() {
                return outcome;
            }
            self.drive();
            if !reported && pool.now().since(since) > WATCH_AFTER {
                reported = true;
                report_self_wait(self.local.core);
            }
        }
    }

    /// Drives the core's backside once. Wake-ups of other fibers go to the core's mailbox.
    fn drive(&mut self) {
        let local = self.local;
        let (pool, core) = (&local.shared.pool, local.core);
        let mut wakes = Vec::new();
        let mut backside = local.backside();
        let now = pool.now();
        local.look_for_missed(&mut backside, now);
        backside.advance(core, now, Drive::Idle);
        backside.take_own_wakes(&mut wakes);
        drop(backside);
        wakes.extend(std::iter::from_fn(|| pool.mailboxes.next(core)));
        for (fiber, outcome) in wakes {
            if fiber == self.fiber {
                local.fibers[fiber as usize].outcome.set(Some(outcome));
            } else {
                pool.mailboxes.wake(Waiter { core: core as u32, fiber }, outcome);
            }
        }
        std::hint::spin_loop();
    }
}

/// Prints that a core waits in `no_switch`, at most once a second in a process.
fn report_self_wait(core: usize) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO).as_secs();
    if LAST.swap(now, Ordering::Relaxed) != now {
        eprintln!(
            "ebbtide: core {core} has waited for a page for 5 s without running other jobs: it holds \
             no_switch or unwinds, and seems to wait for one of its own jobs"
        );
    }
}
