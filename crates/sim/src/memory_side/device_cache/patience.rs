//! [`Patience`]: which absent pages a device expects late (SkyByte, HPCA'25).

use std::collections::BTreeMap;

use ebbtide_core::{PageId, Span, Time};
use rustc_hash::FxHashMap;

use super::super::{Answer, Event, Request, Waiter};
use crate::config::{Config, Device};

/// Compares the expected wait for flash with a threshold. A core runs another thread during a long
/// wait, and waits itself during a brief one.
pub(super) struct Patience {
    after: Span,
    /// The way to the core that is told.
    reply: Span,
    /// When pages in flight are expected.
    expected: FxHashMap<PageId, Time>,
    /// Threads that left, by the time when the device's DRAM begins to receive their page, and by
    /// their order.
    left: BTreeMap<(Time, u64), Waiter>,
    /// Threads that were ever entered there.
    entered: u64,
}

impl Patience {
    /// The patience of `device`, if it tells cores to run other threads.
    pub(super) fn new(config: &Config, device: &Device) -> Option<Patience> {
        let after = Span::from_ns(device.switch_after_ns?);
        let reply = Span::from_ns(2 * config.link.latency_ns);
        let (expected, left) = (FxHashMap::default(), BTreeMap::new());
        Some(Patience { after, reply, expected, left, entered: 0 })
    }

    /// The answer to `request`, whose page is absent, and whether its thread leaves its core. A
    /// read of a page that is not in flight takes as long as `read` says.
    pub(super) fn answer(
        &mut self,
        now: Time,
        request: Request,
        read: impl FnOnce(PageId) -> Span,
    ) -> (Answer, bool) {
        let page = request.page;
        let due = *self.expected.entry(page).or_insert_with(|| now + read(page));
        match due.since(now) < self.after {
            true => (Answer::Brief(now + self.reply), false),
            // A miss register of the core and a write-back wait without a thread.
            false => (Answer::Miss(now + self.reply), request.waiter.slot == 0),
        }
    }

    /// Enters `waiter`, whose page moves into the device's DRAM from `at` on. Its thread must not
    /// repeat the access earlier.
    pub(super) fn returns(&mut self, at: Time, waiter: Waiter) {
        self.left.insert((at, self.entered), waiter);
        self.entered += 1;
    }

    /// When the next thread can repeat its access.
    pub(super) fn next_event(&self) -> Option<Time> {
        self.left.first_key_value().map(|((at, _), _)| *at)
    }

    /// The arrival of the next thread's page, if it is due by `until`.
    pub(super) fn pop_due(&mut self, until: Time) -> Option<Event> {
        let due = self.next_event().is_some_and(|at| at <= until);
        let ((at, _), waiter) = if due { self.left.pop_first() } else { None }?;
        Some(Event::Arrived(waiter, at))
    }

    /// Notes that `page` has come from flash.
    pub(super) fn arrived(&mut self, page: PageId) {
        self.expected.remove(&page);
    }
}
