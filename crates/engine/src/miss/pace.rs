//! The pace: how long a core's requests may wait for others to join them.
//!
//! A submission costs several microseconds at any size, so a core submits few and large batches.
//! The wait costs nothing while the core's other work outlasts a read of the device. That work is
//! the jobs that can run and the jobs whose pages are already under way. The pages of the batch are
//! then there before the core runs out of work. With less work, as at low load, requests wait only
//! while another job runs, and at most as long as a submission costs.

use ebbtide_core::{Span, Time};

/// A new sample makes up one part in this many of a running mean.
const SHARE: u64 = 16;

/// Longer gaps between misses do not count as pace, for example the gap of a core that slept.
const GAP_MAX: Span = Span::from_us(1_000);

/// A request waits for others at most for the time of this many reads.
const HOLD_READS: u64 = 4;

/// A core with a job to run may spend this time on it before it submits, even with little other
/// work. It is about what a submission and its completion interrupt cost a core of a virtual
/// machine. It is a tenth of what a drive takes for a read.
const HOLD_MIN: Span = Span::from_us(20);

/// Running means of the device's time for a read, and of the gap between misses of a busy core.
#[derive(Debug, Default)]
pub(super) struct Pace {
    read_ps: u64,
    gap_ps: u64,
    missed_at: Time,
}

impl Pace {
    /// A miss at `now`.
    pub(super) fn missed(&mut self, now: Time) {
        let gap = now.since(self.missed_at);
        self.missed_at = now;
        if gap < GAP_MAX {
            follow(&mut self.gap_ps, gap);
        }
    }

    /// Notes that the core has nothing to run at `now`: the gap to its next miss counts from here.
    pub(super) fn idle(&mut self, now: Time) {
        self.missed_at = now;
    }

    /// Notes that a read ended `span` after it was handed over. A core that was `waiting` saw the
    /// end at once. A busy core looks late, so `span` is only an upper bound for the device's time.
    pub(super) fn read_took(&mut self, span: Span, waiting: bool) {
        if waiting || self.read_ps == 0 || span.as_ps() < self.read_ps {
            follow(&mut self.read_ps, span);
        }
    }

    /// Returns the longest time that a request waits for others. `runnable` jobs of the core can
    /// run, and `in_flight` requests are under way.
    pub(super) fn hold(&self, runnable: usize, in_flight: usize) -> Span {
        if self.hides_a_read(runnable + in_flight) {
            self.hold_max()
        } else if runnable > 0 {
            HOLD_MIN.min(self.hold_max())
        } else {
            Span::ZERO
        }
    }

    /// Returns from how many jobs that can run on work hides a read, beside `in_flight` requests.
    pub(super) fn hides_from(&self, in_flight: usize) -> usize {
        let jobs = match self.gap_ps {
            0 if self.read_ps > 0 => usize::MAX,
            gap_ps => self.read_ps.div_ceil(gap_ps.max(1)) as usize,
        };
        jobs.saturating_sub(in_flight)
    }

    /// The longest that a request waits for others while work hides a read.
    pub(super) fn hold_max(&self) -> Span {
        Span::from_ps(HOLD_READS * self.read_ps)
    }

    /// Whether `jobs` keep the core busy for as long as a read takes.
    fn hides_a_read(&self, jobs: usize) -> bool {
        self.gap_ps.saturating_mul(jobs as u64) >= self.read_ps
    }
}

fn follow(mean_ps: &mut u64, sample: Span) {
    let sample = sample.as_ps();
    *mean_ps = if *mean_ps == 0 { sample } else { *mean_ps - *mean_ps / SHARE + sample / SHARE };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pace of a core that misses every `gap_us` on a device that takes `read_us`.
    fn pace(gap_us: u64, read_us: u64) -> Pace {
        let mut pace = Pace::default();
        for miss in 1..200 {
            pace.missed(Time::from_ns(1_000 * gap_us * miss));
            pace.read_took(Span::from_us(read_us), true);
        }
        pace
    }

    #[test]
    fn work_that_lasts_as_long_as_a_read_hides_it() {
        let pace = pace(10, 300);
        assert!(pace.hides_a_read(31) && !pace.hides_a_read(29));
    }

    #[test]
    fn a_request_waits_for_reads_that_are_hidden_for_a_job_that_runs_or_not_at_all() {
        let pace = pace(10, 300);
        assert_eq!(pace.hold(20, 11), pace.hold_max());
        assert_eq!(pace.hold(1, 11), HOLD_MIN);
        assert_eq!(pace.hold(0, 11), Span::ZERO);
        assert_eq!(Pace::default().hold(1, 0), Span::ZERO, "nothing is known of the drive");
    }

    #[test]
    fn a_core_that_was_idle_keeps_its_pace() {
        let mut pace = pace(10, 300);
        let before = pace.gap_ps;
        pace.missed(pace.missed_at + GAP_MAX);
        assert_eq!(pace.gap_ps, before);
    }

    /// Otherwise a core at a third of its load would seem to miss a third as often as a busy one.
    /// It would then hold requests back although no other work hides their latency.
    #[test]
    fn time_without_work_between_misses_is_not_part_of_the_pace() {
        let mut pace = Pace::default();
        for miss in 1..200 {
            pace.idle(Time::from_ns(30_000 * miss));
            pace.missed(Time::from_ns(30_000 * miss + 10_000));
            pace.read_took(Span::from_us(300), true);
        }
        assert!(pace.hides_a_read(31) && !pace.hides_a_read(29));
    }

    #[test]
    fn one_read_moves_the_pace_by_a_sixteenth_of_its_difference() {
        let mut pace = pace(10, 100);
        pace.read_took(Span::from_us(1_700), true);
        assert_eq!(pace.hold_max(), Span::from_us(HOLD_READS * 200));
    }

    #[test]
    fn the_pace_follows_a_device_that_slows_down_once_the_core_waits_for_it() {
        let mut pace = pace(10, 100);
        (0..64).for_each(|_| pace.read_took(Span::from_us(400), true));
        assert!(pace.hold_max() > Span::from_us(4 * 380), "{:?}", pace.hold_max());
    }

    #[test]
    fn what_a_busy_core_sees_late_does_not_make_the_device_slower() {
        let mut pace = pace(10, 100);
        let before = pace.read_ps;
        (0..64).for_each(|_| pace.read_took(Span::from_us(900), false));
        assert_eq!(pace.read_ps, before);
        (0..64).for_each(|_| pace.read_took(Span::from_us(50), false));
        assert!(pace.read_ps < before * 6 / 10);
    }
}
