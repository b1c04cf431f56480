//! [`WriteHealth`]: decides when a device that refuses writes is tried again, and when it is given
//! up.

use crate::time::{Span, Time};

/// The state of a device's writes.
///
/// After 16 failures in a row the device counts as failing. It is then tried with one write at a
/// time, first after 1 ms. The delay doubles each time, up to 1 s. When it has failed for 5 s it is
/// given up, until a write succeeds.
#[derive(Debug, Default)]
pub struct WriteHealth {
    failed_in_a_row: u32,
    failing: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    since: Time,
    next_try: Time,
    pause: Span,
}

impl WriteHealth {
    /// After this many failures in a row the device counts as failing.
    pub const FAILED_IN_A_ROW_MAX: u32 = 16;

    /// The first pause between two tries.
    pub const PAUSE_MIN: Span = Span::from_us(1_000);

    /// The longest pause between two tries.
    pub const PAUSE_MAX: Span = Span::from_us(1_000_000);

    /// A device that fails for this long is given up.
    pub const GIVEN_UP_AFTER: Span = Span::from_us(5_000_000);

    /// Notes that a write has failed.
    pub fn failed(&mut self, now: Time) {
        self.failed_in_a_row = self.failed_in_a_row.saturating_add(1);
        if self.failed_in_a_row >= WriteHealth::FAILED_IN_A_ROW_MAX && self.failing.is_none() {
            let pause = WriteHealth::PAUSE_MIN;
            self.failing = Some(Failing { since: now, next_try: now + pause, pause });
        }
    }

    /// Notes that a write has succeeded.
    pub fn succeeded(&mut self) {
        *self = WriteHealth::default();
    }

    /// Returns true if the device is failing and must not be tried now.
    pub fn pauses(&self, now: Time) -> bool {
        self.failing.as_ref().is_some_and(|failing| now < failing.next_try)
    }

    /// Returns how many of `wanted` writes may begin now.
    pub fn permits(&mut self, wanted: usize, now: Time) -> usize {
        let Some(failing) = &mut self.failing else { return wanted };
        if wanted == 0 || now < failing.next_try {
            return 0;
        }
        failing.pause = (failing.pause + failing.pause).min(WriteHealth::PAUSE_MAX);
        failing.next_try = now + failing.pause;
        1
    }

    /// Returns true if the device has failed for at least
    /// [`GIVEN_UP_AFTER`](WriteHealth::GIVEN_UP_AFTER).
    pub fn is_given_up(&self, now: Time) -> bool {
        let since = self.failing.as_ref().map(|failing| now.since(failing.since));
        since.is_some_and(|since| since >= WriteHealth::GIVEN_UP_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing() -> WriteHealth {
        let mut health = WriteHealth::default();
        for _ in 0..WriteHealth::FAILED_IN_A_ROW_MAX {
            assert_eq!(health.permits(40, Time::ZERO), 40);
            health.failed(Time::ZERO);
        }
        health
    }

    #[test]
    fn a_failing_device_is_tried_once_after_pauses_that_double_up_to_a_second() {
        let mut health = failing();
        let mut tries = Vec::new();
        for ms in 0..10_000 {
            let now = Time::ZERO + Span::from_us(1_000 * ms);
            assert_eq!(health.pauses(now), now < next(&health));
            if health.permits(40, now) == 1 {
                health.failed(now);
                tries.push(ms);
            }
        }
        let expected = [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2023, 3023];
        assert_eq!(tries[..expected.len()], expected);
    }

    fn next(health: &WriteHealth) -> Time {
        health.failing.as_ref().map_or(Time::ZERO, |failing| failing.next_try)
    }

    #[test]
    fn a_device_that_fails_for_long_is_given_up_until_a_write_succeeds() {
        let mut health = failing();
        let late = Time::ZERO + WriteHealth::GIVEN_UP_AFTER;
        assert!(!health.is_given_up(Time::ZERO) && health.is_given_up(late));
        health.succeeded();
        assert!(!health.is_given_up(late) && health.failing.is_none());
        assert_eq!(health.permits(40, late), 40);
    }

    #[test]
    fn failures_among_successes_are_those_of_single_places() {
        let mut health = WriteHealth::default();
        for _ in 0..100 {
            (1..WriteHealth::FAILED_IN_A_ROW_MAX).for_each(|_| health.failed(Time::ZERO));
            health.succeeded();
        }
        assert!(health.failing.is_none());
    }
}
