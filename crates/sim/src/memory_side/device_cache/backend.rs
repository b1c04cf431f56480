//! [`Backend`]: flash behind a bounded number of commands.

use ebbtide_core::{PageId, Span, Time};
use ebbtide_flash::{Command, Done, Flash, Kind};

/// The flash of a device, with a limit on its commands in flight.
pub(super) struct Backend {
    flash: Flash,
    commands_max: u64,
    /// The latest time that flash has reached. Cores that run ahead of each other may send commands
    /// before it.
    now: Time,
    /// Time of the next event. It is read far more often than it changes.
    next: Option<Time>,
}

impl Backend {
    pub(super) fn new(flash: Flash, commands_max: u64) -> Backend {
        let next = flash.next_event();
        Backend { flash, commands_max, now: Time::ZERO, next }
    }

    /// The number of commands that there is room for. Flushes are never delayed, so they may exceed
    /// the limit.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        self.commands_max.saturating_sub(self.flash.outstanding())
    }

    /// The expected time of a read of `page`.
    pub(super) fn expected_read(&self, now: Time, page: PageId) -> Span {
        self.flash.expected_read(now.max(self.now), page)
    }

    /// Reads `page`. The completion carries `tag`.
    pub(super) fn read(&mut self, now: Time, page: PageId, tag: u64) {
        self.submit(now, Command { tag, kind: Kind::Read, page });
    }

    /// Writes `page`. The completion carries `tag`.
    pub(super) fn write(&mut self, now: Time, page: PageId, tag: u64) {
        self.submit(now, Command { tag, kind: Kind::Write, page });
    }

    fn submit(&mut self, now: Time, command: Command) {
        self.now = self.now.max(now);
        self.flash.submit(self.now, command);
        self.next = self.flash.next_event();
    }

    /// Time of the next event.
    #[inline]
    pub(super) fn next_event(&self) -> Option<Time> {
        self.next
    }

    /// Handles everything up to `at`, and appends completions to `done`.
    pub(super) fn step(&mut self, at: Time, done: &mut Vec<Done>) {
        self.now = self.now.max(at);
        self.flash.advance(self.now, done);
        self.next = self.flash.next_event();
    }

    /// The latest time that flash has reached.
    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// Records from now on which pages move in flash.
    pub(super) fn watch_moves(&mut self) {
        self.flash.watch_moves();
    }

    /// Pages that moved since the last call.
    pub(super) fn take_moved(&mut self) -> Vec<PageId> {
        self.flash.take_moved()
    }

    pub(super) fn flash(&self) -> &Flash {
        &self.flash
    }
}
