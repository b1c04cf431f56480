//! [`Controllers`]: memory controllers, and the timing of DRAM.

use ebbtide_core::{LINE_BYTES, PAGE_BYTES, PageId, Span, Time};

use crate::config::Config;

/// The time at which each controller is free, and the timing that they share.
///
/// An access takes `RAS + CAS + commands` until its line arrives (AstriFlash §IV-B1). It occupies
/// the data bus of its controller only for its columns, because rows of different banks open in
/// parallel.
#[derive(Debug, Clone)]
pub(super) struct Controllers {
    free: Vec<Time>,
    latency: Span,
    bus: Span,
    tag_latency: Span,
    /// Lines read and written and tag lookups since the last call of `take_lines`.
    lines: u64,
    /// Writing a whole page into DRAM.
    pub(super) fill: Span,
    row: Span,
}

impl Controllers {
    pub(super) fn new(config: &Config) -> Controllers {
        let dram = &config.dram;
        let span = |count| config.cores.cycles(count);
        let column = |bytes: u64| bytes.div_ceil(8) * dram.cas_cycles_per_8_bytes;
        let line = column(LINE_BYTES as u64);
        let tags = column(config.dram_cache.ways as u64 * config.dram_cache.tag_bytes);
        Controllers {
            free: vec![Time::ZERO; dram.controllers],
            latency: span(dram.ras_cycles + line + 2 * dram.command_cycles),
            bus: span(line),
            tag_latency: span(tags),
            lines: 0,
            fill: span(dram.ras_cycles + column(PAGE_BYTES as u64)),
            row: span(dram.ras_cycles),
        }
    }

    pub(super) fn of(&self, page: PageId) -> usize {
        page.index() % self.free.len()
    }

    pub(super) fn count(&self) -> usize {
        self.free.len()
    }

    /// Writing or reading `count` lines of a page.
    pub(super) fn lines(&self, count: u64) -> Span {
        Span::from_ps(self.row.as_ps() + count * self.bus.as_ps())
    }

    /// Reads a line of `page` without tags. Gives when it arrives.
    pub(super) fn plain(&mut self, now: Time, page: PageId) -> Time {
        self.occupy(now, self.of(page), self.bus) + self.latency
    }

    /// Reads a line whose tags match. Gives when it arrives.
    pub(super) fn hit(&mut self, now: Time, controller: usize) -> Time {
        self.occupy(now, controller, self.bus + self.tag_latency) + self.latency + self.tag_latency
    }

    /// Reads tags that do not match. Gives when that is known.
    pub(super) fn probe(&mut self, now: Time, controller: usize) -> Time {
        let line = self.bus;
        let start = self.occupy(now, controller, self.tag_latency);
        Time::from_ps((start + self.latency + self.tag_latency).as_ps() - line.as_ps())
    }

    /// Writes a line of `page` without tags.
    pub(super) fn write(&mut self, now: Time, page: PageId) {
        self.occupy(now, self.of(page), self.bus);
    }

    /// Writes a line whose tags match.
    pub(super) fn write_tagged(&mut self, now: Time, controller: usize) {
        self.occupy(now, controller, self.bus + self.tag_latency);
    }

    /// Occupies the bus for `span`. Gives when that begins.
    fn occupy(&mut self, now: Time, controller: usize, span: Span) -> Time {
        let start = now.max(self.free[controller]);
        self.free[controller] = start + span;
        self.lines += 1;
        start
    }

    /// Lines read and written and tag lookups since the last call.
    pub(super) fn take_lines(&mut self) -> u64 {
        std::mem::take(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::designs::resolve;

    #[test]
    fn an_idle_hit_and_probe_take_what_the_paper_gives() {
        // AstriFlash §IV-B1: about 95 cycles for a hit with tags of 4 ways, 79 and commands for a
        // plain access. A probe takes 35 to 40 ns.
        let mut controllers = Controllers::new(&resolve("astriflash", &[]).unwrap());
        assert_eq!(controllers.plain(Time::ZERO, PageId(0)), Time::from_ps(81 * 500));
        assert_eq!(controllers.hit(Time::ZERO, 1), Time::from_ps(93 * 500));
        assert_eq!(controllers.probe(Time::ZERO, 2), Time::from_ps(69 * 500));
    }

    #[test]
    fn accesses_at_once_take_turns_on_the_bus() {
        let mut controllers = Controllers::new(&resolve("dram-only", &[]).unwrap());
        let first = controllers.plain(Time::ZERO, PageId(0));
        assert_eq!(controllers.plain(Time::ZERO, PageId(0)) - first, Span::from_ps(24 * 500));
        assert_eq!(controllers.plain(Time::ZERO, PageId(1)), first);
    }
}
