//! [`Controllers`]: memory controllers, and the timing of DRAM.

use std::collections::VecDeque;

use ebbtide_core::{LINE_BYTES, PAGE_BYTES, PageId, Span, Time};

use crate::config::Config;

/// The buses of the controllers, and the timing that they share.
///
/// An access takes `RAS + CAS + commands` until its line arrives (AstriFlash §IV-B1). It occupies
/// the data bus of its controller only for its columns, because rows of different banks open in
/// parallel. Pages move over the same bus. Lines go first, because a core waits for them. So each
/// line delays the pages that move.
#[derive(Debug, Clone)]
pub(super) struct Controllers {
    buses: Vec<Bus>,
    /// Number of pages that move over any bus.
    moving: usize,
    latency: Span,
    bus: Span,
    tag_latency: Span,
    /// Lines read, lines written and tag lookups since the last call of `take_lines`.
    lines: u64,
    /// Writing a whole page into DRAM.
    pub(super) fill: Span,
    row: Span,
}

/// The data bus of a controller.
#[derive(Debug, Clone, Default)]
struct Bus {
    /// Until when lines occupy it.
    lines_until: Time,
    /// Pages that move, in order.
    moves: VecDeque<Move>,
    /// Total time that lines took while pages moved.
    delay: Span,
}

/// A page that moves over a bus.
#[derive(Debug, Clone, Copy)]
struct Move {
    /// When it will have moved, less the bus's delay at that time.
    undelayed: Span,
    moved: Moved,
}

/// A page that has moved over the bus of its controller, in whole or in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moved {
    /// The page.
    pub(super) page: PageId,
    /// Number of its lines.
    pub(super) lines: u64,
    /// True if it moved into DRAM, false if out of it.
    pub(super) into: bool,
    /// When the move was requested.
    pub(super) since: Time,
}

impl Bus {
    /// When `moving` will have moved if no further line comes.
    fn end(&self, moving: &Move) -> Time {
        Time::ZERO + moving.undelayed + self.delay
    }

    fn next_end(&self) -> Option<Time> {
        self.moves.front().map(|moving| self.end(moving))
    }
}

impl Controllers {
    pub(super) fn new(config: &Config) -> Controllers {
        let dram = &config.dram;
        let span = |count| config.cores.cycles(count);
        let column = |bytes: u64| bytes.div_ceil(8) * dram.cas_cycles_per_8_bytes;
        let line = column(LINE_BYTES as u64);
        let tags = column(config.dram_cache.ways as u64 * config.dram_cache.tag_bytes);
        Controllers {
            buses: vec![Bus::default(); dram.controllers],
            moving: 0,
            latency: span(dram.ras_cycles + line + 2 * dram.command_cycles),
            bus: span(line),
            tag_latency: span(tags),
            lines: 0,
            fill: span(dram.ras_cycles + column(PAGE_BYTES as u64)),
            row: span(dram.ras_cycles),
        }
    }

    pub(super) fn of(&self, page: PageId) -> usize {
        page.index() % self.buses.len()
    }

    pub(super) fn count(&self) -> usize {
        self.buses.len()
    }

    /// Moves a page from `moved.since` on. [`Controllers::pop_moved`] returns it when it has moved.
    pub(super) fn carry(&mut self, moved: Moved) {
        let number = self.of(moved.page);
        let bus = &mut self.buses[number];
        let before = bus.moves.back().map(|last| bus.end(last)).unwrap_or(bus.lines_until);
        let takes = Span::from_ps(moved.lines * self.bus.as_ps());
        let end = moved.since.max(before) + takes;
        bus.moves.push_back(Move { undelayed: end.since(Time::ZERO + bus.delay), moved });
        self.moving += 1;
    }

    /// When the next page will have moved.
    #[inline]
    pub(super) fn next_move(&self) -> Option<Time> {
        if self.moving == 0 {
            return None;
        }
        self.buses.iter().filter_map(Bus::next_end).min().map(|end| end + self.row)
    }

    /// A page that has moved by `now`, with its time.
    pub(super) fn pop_moved(&mut self, now: Time) -> Option<(Time, Moved)> {
        let ends = self.buses.iter_mut().filter_map(|bus| Some((bus.next_end()?, bus)));
        let (end, bus) = ends.min_by_key(|(end, _)| *end)?;
        let at = end + self.row;
        if at > now {
            return None;
        }
        let Move { moved, .. } = bus.moves.pop_front()?;
        self.moving -= 1;
        Some((at, moved))
    }

    /// Time of a page on a bus.
    pub(super) fn page_bus(&self) -> Span {
        Span::from_ps(self.fill.as_ps() - self.row.as_ps())
    }

    /// Reads a line of `page` without tags. Returns when it arrives.
    pub(super) fn plain(&mut self, now: Time, page: PageId) -> Time {
        self.occupy(now, self.of(page), self.bus) + self.latency
    }

    /// Reads a line whose tags match. Returns when it arrives.
    pub(super) fn hit(&mut self, now: Time, controller: usize) -> Time {
        self.occupy(now, controller, self.bus + self.tag_latency) + self.latency + self.tag_latency
    }

    /// Reads tags that do not match. Returns when the mismatch is known.
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

    /// Occupies the bus for `span`. Returns when that time begins.
    fn occupy(&mut self, now: Time, controller: usize, span: Span) -> Time {
        let bus = &mut self.buses[controller];
        let start = now.max(bus.lines_until);
        bus.lines_until = start + span;
        if !bus.moves.is_empty() {
            bus.delay = bus.delay + span;
        }
        self.lines += 1;
        start
    }

    /// Lines read, lines written and tag lookups since the last call.
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

    #[test]
    fn pages_and_lines_share_a_bus_and_lines_go_first() {
        let mut controllers = Controllers::new(&resolve("dram-only", &[]).unwrap());
        let cycles = |count: u64| Time::from_ps(count * 500);
        let moved = |page| Moved { page: PageId(page), lines: 64, into: true, since: Time::ZERO };
        // A line takes 24 cycles, a page 64 times that, and the page's row 55.
        controllers.carry(moved(0));
        controllers.carry(moved(4));
        controllers.carry(moved(1));
        let alone = controllers.plain(Time::ZERO, PageId(8));
        assert_eq!(alone, cycles(81), "it does not wait for pages");
        controllers.plain(Time::ZERO, PageId(8));
        let page = 64 * 24;
        assert_eq!(controllers.next_move(), Some(cycles(page + 55)), "of the other controller");
        let mut ends = Vec::new();
        while let Some((at, Moved { page, .. })) = controllers.pop_moved(cycles(10_000)) {
            ends.push((page.0, at));
        }
        let delayed = 2 * 24;
        let expected = [
            (1, cycles(page + 55)),
            (0, cycles(page + delayed + 55)),
            (4, cycles(2 * page + delayed + 55)),
        ];
        assert_eq!(ends, expected);
        assert_eq!(controllers.next_move(), None);
    }
}
