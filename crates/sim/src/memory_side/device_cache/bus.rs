//! [`Bus`]: a bus of the device. Lines go first, and pages take the remaining time.

use ebbtide_core::{Span, Time};

/// A bus or a direction of a link. Lines take turns. Pages move in order while no line does, so
/// each line delays the pages that wait.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bus {
    /// Until when it is taken.
    free: Time,
    /// Time that pages still need.
    owed: Span,
}

impl Bus {
    /// Carries a line for `span`. Its transfer begins at `now` at the earliest and ends at `ready`
    /// at the earliest. Returns when it is across.
    #[inline]
    pub(super) fn line(&mut self, now: Time, ready: Time, span: Span) -> Time {
        self.rest(now);
        self.free = (self.free + span).max(ready);
        self.free
    }

    /// Carries a page for `span` from `now` on. Returns when it is across if no further line comes.
    pub(super) fn page(&mut self, now: Time, span: Span) -> Time {
        self.rest(now);
        self.owed = self.owed + span;
        now.max(self.free) + self.owed
    }

    /// Moves pages in the time without lines until `now`.
    #[inline]
    fn rest(&mut self, now: Time) {
        if self.owed > Span::ZERO && now > self.free {
            let moved = now.since(self.free).min(self.owed);
            self.owed = Span::from_ps(self.owed.as_ps() - moved.as_ps());
            self.free += moved;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_take_what_lines_leave_and_lines_wait_for_no_page() {
        let mut bus = Bus::default();
        let (at, ns) = (Time::from_ns, Span::from_ns);
        assert_eq!(bus.page(at(0), ns(100)), at(100));
        assert_eq!(bus.page(at(50), ns(100)), at(200), "behind the other");
        // 60 ns of pages have moved, and 140 remain.
        assert_eq!(bus.line(at(60), at(70), ns(10)), at(70));
        assert_eq!(bus.line(at(60), at(70), ns(10)), at(80));
        assert_eq!(bus.page(at(80), ns(20)), at(80 + 140 + 20));
    }
}
