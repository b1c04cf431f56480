//! [`Ring`]: the ring of a core. Requests for pages and for sockets enter the kernel together.

use std::fmt;

use ebbtide_core::{Span, Time};

use super::pace::Pace;
use super::{Drive, Limits};
use crate::device::{Completion, Queue, Request, SocketQueue};
use crate::net::NetRequest;

/// A core's ring, and the time of its next submission. It has two clients. The core's
/// [`Requests`](super::requests::Requests) move pages, and its service uses sockets.
pub(crate) struct Ring {
    queue: Box<dyn Queue>,
    /// When the oldest request that is not submitted yet was made.
    held_since: Option<Time>,
    submitted_at: Time,
    driven_at: Time,
    pace: Pace,
}

/// How long a busy core may leave its backside alone, as of when it locked that last. Between two
/// jobs it looks here first: the data of the backside has left its caches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    until: Time,
    /// The longest that a job which missed waits before its request is handed over.
    hold: Span,
    missed_max: usize,
    /// With fewer jobs that can run, the ring decides.
    runnable_min: usize,
}

impl Rest {
    /// True if a core with `missed` jobs, the first one since `since`, may rest at `now`.
    #[inline]
    pub(crate) fn permits(
        &self,
        (missed, since): (usize, Option<Time>),
        drive: Drive,
        now: Time,
    ) -> bool {
        let Drive::Busy { runnable } = drive else { return false };
        now < self.until
            && missed <= self.missed_max
            && runnable >= self.runnable_min
            && since.is_none_or(|since| now.since(since) < self.hold)
    }
}

/// A busy core that only gathers requests drives its ring at least this often. Completions are not
/// noticed before, where the kernel does not hold them back.
const REST_MAX: Span = Span::from_us(50);

impl Ring {
    /// The ring that submits to `queue`.
    pub(super) fn new(queue: Box<dyn Queue>) -> Ring {
        Ring {
            queue,
            held_since: None,
            submitted_at: Time::ZERO,
            driven_at: Time::ZERO,
            pace: Pace::default(),
        }
    }

    /// Whether nothing is under way. Sockets that only wait for clients count as nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.in_flight() + self.queue.unsubmitted() == 0
    }

    /// The most pages in a request.
    pub(super) fn run_pages_max(&self) -> usize {
        self.queue.run_pages_max()
    }

    /// Takes a request for pages, which was made at `now`.
    pub(super) fn push(&mut self, request: Request, now: Time) {
        self.queue.push(request);
        self.held_since.get_or_insert(now);
    }

    /// Takes the requests of a service to its sockets. Like requests for pages, they wait for
    /// others to join. A ring without sockets drops them.
    pub(crate) fn request_sockets(&mut self, requests: &mut Vec<NetRequest>, now: Time) {
        match self.queue.sockets() {
            Some(sockets) => sockets.request(requests),
            None => requests.clear(),
        }
        self.held_since.get_or_insert(now);
    }

    /// The sockets of this ring, if it takes any.
    pub(crate) fn sockets(&mut self) -> Option<&mut dyn SocketQueue> {
        self.queue.sockets()
    }

    /// A job of this core has missed.
    pub(super) fn missed(&mut self, now: Time) {
        self.pace.missed(now);
    }

    /// A read has ended, `took` after its submission. A core that was `waiting` sees this at once.
    pub(super) fn read_took(&mut self, took: Span, waiting: bool) {
        self.pace.read_took(took, waiting);
    }

    /// Notes how eagerly the ring is driven at `now`.
    pub(super) fn driven(&mut self, drive: Drive, now: Time) {
        self.driven_at = now;
        self.queue.set_busy(matches!(drive, Drive::Busy { .. }));
        if drive == Drive::Idle {
            self.pace.idle(now);
        }
    }

    /// Appends the completions of requests for pages. Those of sockets become events.
    pub(super) fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.queue.reap(completions);
    }

    /// Whether the kernel holds completions back for the core that submitted them.
    pub(crate) fn has_held_back(&mut self) -> bool {
        self.queue.has_held_back()
    }

    /// True if it is time to submit, when `more` requests would join. The completions that the
    /// kernel holds back come with a submission of this core, but not with another core's.
    pub(super) fn is_due(&mut self, limits: &Limits, more: usize, drive: Drive, now: Time) -> bool {
        let unsubmitted = self.queue.unsubmitted() + more;
        let held_back = drive != Drive::Help && self.queue.has_held_back();
        let waited = now.since(self.held_since.unwrap_or(now)).max(if held_back {
            now.since(self.submitted_at)
        } else {
            Span::ZERO
        });
        if unsubmitted == 0 {
            // Jobs that had missed did not need a request.
            self.held_since = None;
        }
        let due = waited >= self.hold(limits, drive) || unsubmitted >= limits.batch_max;
        due && (unsubmitted > 0 || held_back)
    }

    /// The longest that a request waits for others.
    fn hold(&self, limits: &Limits, drive: Drive) -> Span {
        match (drive, limits.hold) {
            (Drive::Idle | Drive::Help, _) => Span::ZERO,
            (Drive::Busy { .. }, Some(hold)) => hold,
            (Drive::Busy { runnable }, None) => self.pace.hold(runnable, self.queue.in_flight()),
        }
    }

    /// True if a busy core may leave the ring alone at `now`. It has `missed` jobs, the first one
    /// since `since`. Their requests wait for others like those in the ring.
    pub(super) fn may_rest(
        &mut self,
        limits: &Limits,
        (missed, since): (usize, Option<Time>),
        drive: Drive,
        now: Time,
    ) -> bool {
        self.held_since = self.held_since.or(since);
        let rest_max = self.hold(limits, drive).min(limits.hold.unwrap_or(REST_MAX));
        now.since(self.driven_at) < rest_max && !self.is_due(limits, missed, drive, now)
    }

    /// Returns how long a busy core with at most half of `free` frames to fill may rest. This
    /// permits nothing that [`may_rest`](Ring::may_rest) would not.
    pub(super) fn rest(&self, limits: &Limits, free: usize) -> Rest {
        let (hold, runnable_min) = match limits.hold {
            Some(hold) => (hold, 0),
            None => (self.pace.hold_max(), self.pace.hides_from(self.queue.in_flight())),
        };
        let rest_max = hold.min(limits.hold.unwrap_or(REST_MAX));
        // The kernel may hold completions back from now on.
        let held_until = self.held_since.map_or(self.submitted_at, |s| s.min(self.submitted_at));
        let until = (held_until + hold).min(self.driven_at + rest_max);
        match limits.batch_max.checked_sub(self.queue.unsubmitted() + 1) {
            Some(room) => Rest { until, hold, missed_max: room.min(free / 2), runnable_min },
            None => Rest::default(),
        }
    }

    /// Hands all requests to the kernel.
    pub(super) fn submit(&mut self, now: Time) {
        self.queue.submit();
        self.held_since = (self.queue.unsubmitted() > 0).then_some(now);
        self.submitted_at = now;
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("submitted", &self.queue.in_flight())
            .field("not_submitted", &self.queue.unsubmitted())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::Device;
    use crate::device::ram::{Latency, Ram};

    const LIMITS: Limits =
        Limits { depth: 8, batch_max: 4, hold: None, reserve: 4, prefetches_max: 4 };

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    fn busy(runnable: usize) -> Drive {
        Drive::Busy { runnable }
    }

    /// A request since 1,000 us, of a core that misses every 10 us, on a device that takes 100 us.
    fn ring() -> Ring {
        let ram = Arc::new(Ram::new(1, Latency::Looks(1), |_, _| {}));
        let mut ring = Ring::new(ram.queue(LIMITS.depth).expect("a queue"));
        for miss in 1..100 {
            ring.missed(us(10 * miss));
            ring.read_took(Span::from_us(100), true);
        }
        ring.request_sockets(&mut Vec::new(), us(1000));
        ring
    }

    #[test]
    fn a_request_waits_for_others_while_the_jobs_of_a_busy_core_hide_a_read() {
        let mut ring = ring();
        let mut due = |more, jobs, at| ring.is_due(&LIMITS, more, jobs, us(at));
        assert!(!due(1, busy(10), 1000), "ten jobs take as long as a read");
        assert!(!due(1, busy(9), 1019), "nine do not, but one of them runs first");
        assert!(due(1, busy(9), 1020), "and no longer than a submission is worth");
        assert!(due(1, busy(0), 1000), "the job that runs now was the last");
        assert!(due(1, Drive::Idle, 1000), "nothing can run");
        assert!(!due(0, Drive::Idle, 1000), "there is nothing to submit");
    }

    #[test]
    fn a_request_waits_until_the_batch_is_full_or_four_reads_take_no_longer() {
        let mut ring = ring();
        let mut due = |more, at| ring.is_due(&LIMITS, more, busy(100), us(at));
        assert!(!due(3, 1000) && due(4, 1000));
        assert!(!due(1, 1399) && due(1, 1400));
    }

    /// A ring without requests, driven at 1,000 us, of the same core and device.
    fn driven_ring() -> Ring {
        let mut ring = ring();
        ring.submit(us(1000));
        ring.driven(busy(10), us(1000));
        ring
    }

    #[test]
    fn a_core_whose_other_jobs_hide_a_read_leaves_its_ring_alone_for_fifty_microseconds() {
        let mut ring = driven_ring();
        let mut rests = |missed, drive, at| ring.may_rest(&LIMITS, missed, drive, us(at));
        assert!(rests((0, None), busy(10), 1049));
        assert!(rests((3, Some(us(1010))), busy(10), 1049));
        assert!(!rests((3, Some(us(1010))), busy(10), 1050), "it looks for completions");
        assert!(!rests((4, Some(us(1010))), busy(10), 1011), "a batch is full");
        assert!(!rests((1, Some(us(1010))), busy(0), 1011), "the job that runs now was the last");
        for drive in [Drive::Idle, Drive::Help] {
            assert!(!rests((0, None), drive, 1001), "{drive:?}");
        }
    }

    #[test]
    fn a_core_rests_without_a_look_at_its_ring_only_where_the_ring_would_let_it() {
        let mut permitted = 0;
        for hold in [None, Some(Span::from_us(30))] {
            let limits = Limits { hold, ..LIMITS };
            for (waits, free) in [(false, 4), (true, 4), (false, 100)] {
                let mut ring = driven_ring();
                if waits {
                    ring.request_sockets(&mut Vec::new(), us(1003));
                }
                let rest = ring.rest(&limits, free);
                for at in 1000..1100 {
                    for (missed, since) in [(0, None), (1, Some(us(1005))), (3, Some(us(1005)))] {
                        for drive in [busy(0), busy(9), busy(10), Drive::Idle, Drive::Help] {
                            if !rest.permits((missed, since), drive, us(at)) {
                                continue;
                            }
                            permitted += 1;
                            let rests = ring.may_rest(&limits, (missed, since), drive, us(at));
                            assert!(
                                rests && 2 * missed <= free,
                                "{rest:?} {missed} {drive:?} {at}"
                            );
                        }
                    }
                }
            }
        }
        assert!(permitted > 500, "{permitted}");
        let rest = driven_ring().rest(&LIMITS, 100);
        assert!(rest.permits((3, Some(us(1010))), busy(10), us(1049)));
        assert!(!rest.permits((3, Some(us(1010))), busy(10), us(1050)));
        assert!(!rest.permits((4, Some(us(1010))), busy(10), us(1011)));
        assert!(!Rest::default().permits((0, None), busy(10), us(0)));
    }

    #[test]
    fn a_missed_job_waits_no_longer_before_its_request_than_a_request_would() {
        let mut ring = driven_ring();
        let missed = (1, Some(us(1005)));
        assert!(ring.may_rest(&LIMITS, missed, busy(9), us(1019)), "one job runs first");
        assert!(!ring.may_rest(&LIMITS, missed, busy(9), us(1025)));
        ring.request_sockets(&mut Vec::new(), us(1024));
        assert!(ring.is_due(&LIMITS, 1, busy(9), us(1025)), "the wait began with the miss");
    }

    #[test]
    fn a_job_that_missed_and_needs_no_request_makes_no_later_request_due() {
        let mut ring = driven_ring();
        assert!(ring.may_rest(&LIMITS, (1, Some(us(1001))), busy(9), us(1002)));
        assert!(!ring.is_due(&LIMITS, 0, busy(9), us(1021)));
        ring.request_sockets(&mut Vec::new(), us(1030));
        assert!(!ring.is_due(&LIMITS, 1, busy(9), us(1040)));
    }

    #[test]
    fn a_request_waits_as_long_as_the_options_say() {
        let mut ring = ring();
        let limits = Limits { hold: Some(Span::from_us(50)), ..LIMITS };
        let mut due = |at| ring.is_due(&limits, 1, busy(0), us(at));
        assert!(!due(1049) && due(1050));
    }
}
