//! [`Clock`]: the time since an engine was made.

use ebbtide_core::Time;

/// A clock that counts from when it was made. Each core reads it at every switch between jobs, so
/// it works on plain nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start_ns: u64,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { start_ns: monotonic_ns() }
    }

    /// Time since the clock was made.
    #[inline]
    pub(crate) fn now(self) -> Time {
        Time::from_ns(monotonic_ns() - self.start_ns)
    }
}

/// The kernel's monotonic clock, which never goes back.
#[inline]
fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time to `now`. Every Linux has this clock, so that succeeds.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_starts_at_zero_and_goes_on() {
        let clock = Clock::start();
        let first = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        let then = clock.now();
        assert!(then.since(first).as_ns() >= 2_000_000, "{first:?} {then:?}");
    }
}
