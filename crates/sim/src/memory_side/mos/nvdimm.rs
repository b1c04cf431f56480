//! [`Nvdimm`]: the NVDIMM and its bus.

use std::collections::VecDeque;

use ebbtide_core::{PageId, Span, Time};

use crate::config::Config;
use crate::memory_side::dram::Controllers;

/// The NVDIMM behind its bus. The bus has one master at a time. The host reads lines. Transfers
/// move 4 KiB in a burst, one after another, and the end of each returns its `T`.
///
/// A burst is never interrupted. The host waits for its end and then precedes the next burst. If
/// the NVMe controller is on the same bus, a lock register passes the NVDIMM from one master to the
/// other. Each pass takes [`lock`](Nvdimm::new).
pub(super) struct Nvdimm<T> {
    controllers: Controllers,
    lock: Span,
    /// The current burst, and when the burst and the hand-back of the NVDIMM end.
    burst: Option<(Time, T)>,
    waiting: VecDeque<(Span, T)>,
    /// When the host has received all lines that it requested.
    host_until: Time,
    /// Time of the host's own controller to move a page over the bus.
    pub(super) page_time: Span,
    /// Time of a page on the bus alone.
    pub(super) page_bus: Span,
}

impl<T> Nvdimm<T> {
    /// An idle NVDIMM. Handing it over takes `lock`.
    pub(super) fn new(config: &Config, lock: Span) -> Nvdimm<T> {
        let controllers = Controllers::new(config);
        Nvdimm {
            page_time: controllers.fill,
            page_bus: controllers.page_bus(),
            controllers,
            lock,
            burst: None,
            waiting: VecDeque::new(),
            host_until: Time::ZERO,
        }
    }

    /// The host reads a line of `page` with its tag, after the current burst. Returns when it has
    /// both.
    pub(super) fn line(&mut self, now: Time, page: PageId) -> Time {
        let start = self.burst.as_ref().map_or(now, |(end, _)| now.max(*end));
        let controller = self.controllers.of(page);
        let ready = self.controllers.hit(start, controller);
        self.host_until = self.host_until.max(ready);
        ready
    }

    /// Lines that the host read since the last call.
    pub(super) fn take_lines(&mut self) -> u64 {
        self.controllers.take_lines()
    }

    /// Requests a burst of `span`.
    pub(super) fn transfer(&mut self, now: Time, span: Span, then: T) {
        self.waiting.push_back((span, then));
        if self.burst.is_none() {
            self.begin(now);
        }
    }

    fn begin(&mut self, now: Time) {
        self.burst = self.waiting.pop_front().map(|(span, then)| {
            let start = now.max(self.host_until);
            (start + self.lock + span + self.lock, then)
        });
    }

    /// When the current burst ends.
    pub(super) fn next_event(&self) -> Option<Time> {
        self.burst.as_ref().map(|(end, _)| *end)
    }

    /// Ends the current burst and starts the next one.
    pub(super) fn step(&mut self) -> Option<(Time, T)> {
        let done = self.burst.take();
        if let Some((end, _)) = done {
            self.begin(end);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::designs::resolve;

    fn nvdimm(lock_ns: u64) -> Nvdimm<u32> {
        Nvdimm::new(&resolve("thams-e", &[]).unwrap(), Span::from_ns(lock_ns))
    }

    #[test]
    fn the_lock_register_keeps_the_nvdimm_to_one_master() {
        let (lock, burst) = (Span::from_ns(5), Span::from_ns(200));
        let mut nvdimm = nvdimm(5);
        nvdimm.transfer(Time::ZERO, burst, 1);
        nvdimm.transfer(Time::ZERO, burst, 2);
        let first_end = Time::ZERO + lock + burst + lock;
        assert_eq!(nvdimm.next_event(), Some(first_end));
        // The host's request comes in the middle of the first burst. It waits for the end of that
        // burst, and the second burst waits for the host.
        let idle = self::nvdimm(5).line(Time::ZERO, PageId(0)).since(Time::ZERO);
        let line = nvdimm.line(Time::from_ns(50), PageId(0));
        assert_eq!(line, first_end + idle);
        assert_eq!(nvdimm.step(), Some((first_end, 1)));
        assert_eq!(nvdimm.next_event(), Some(line + lock + burst + lock));
    }

    #[test]
    fn a_host_alone_never_waits() {
        let mut nvdimm = nvdimm(5);
        let idle = nvdimm.line(Time::ZERO, PageId(0)).since(Time::ZERO);
        let later = Time::from_ns(1_000);
        assert_eq!(nvdimm.line(later, PageId(1)), later + idle);
        assert_eq!(nvdimm.next_event(), None);
    }
}
