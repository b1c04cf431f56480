//! [`DramServer`]: the device's own DRAM, which serves one line after another.

use ebbtide_core::{Span, Time};

/// A server with a queue. Every line takes the same time, in order, as in the simulator of the
/// CXL-flash study (ATC'23).
///
/// A full queue accepts no line from the host. Data from flash is served nonetheless, and the host
/// waits for it, so the server keeps only the time at which it is free.
#[derive(Debug)]
pub(super) struct DramServer {
    service: Span,
    /// A backlog up to this leaves room in the queue.
    backlog_max: Span,
    free: Time,
}

impl DramServer {
    /// A server that takes `service` a line, with room for `queue` waiting lines.
    pub(super) fn new(service: Span, queue: u64) -> DramServer {
        let backlog_max = Span::from_ps(service.as_ps() * queue);
        DramServer { service, backlog_max, free: Time::ZERO }
    }

    /// Serves a line requested at `now`. Gives when the line is served.
    #[inline]
    pub(super) fn serve(&mut self, now: Time) -> Time {
        self.free = self.free.max(now) + self.service;
        self.free
    }

    /// The time from which the queue has room for another line.
    #[inline]
    pub(super) fn open_from(&self) -> Time {
        Time::from_ps(self.free.as_ps().saturating_sub(self.backlog_max.as_ps()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_waits_for_those_before_it_and_a_full_queue_for_the_first_to_end() {
        let mut dram = DramServer::new(Span::from_ns(46), 8);
        let now = Time::from_ns(1_000);
        // One in service and eight that wait.
        let served: Vec<u64> = (0..9).map(|_| dram.serve(now).as_ns()).collect();
        assert_eq!(served[..3], [1_046, 1_092, 1_138]);
        assert_eq!(dram.open_from(), Time::from_ns(1_046));
        assert_eq!(dram.serve(Time::from_ns(9_000)), Time::from_ns(9_046));
        assert!(dram.open_from() <= Time::from_ns(9_000));
    }
}
