//! [`DramServer`]: the device's own DRAM, whose banks share a bus.

use std::collections::VecDeque;

use ebbtide_core::{PageId, Span, Time};

use super::super::device::LINES;
use super::bus::Bus;
use crate::config::Device;

/// DRAM with a queue. A line occupies its bank for its whole time, and the bus for the end of that
/// time. Lines leave in the order of their requests, and pages move between them. With one bank
/// lines take turns, as in the simulator of the CXL-flash study (ATC'23).
///
/// A full queue accepts no line from the host. It still serves data from flash, and the host waits
/// for that.
#[derive(Debug)]
pub(super) struct DramServer {
    line: Span,
    on_bus: Span,
    /// Time of each line of a page on the bus. Zero if pages take none.
    of_page: Span,
    /// When each bank is free.
    banks: Vec<Time>,
    bus: Bus,
    /// Ends of the last lines, as many as fit in the banks and the queue.
    ends: VecDeque<Time>,
    lines_max: usize,
}

impl DramServer {
    /// The DRAM of `device`.
    pub(super) fn new(device: &Device) -> DramServer {
        let on_bus = Span::from_ns(device.dram_bus_ns);
        let of_page = if device.pages_take_bus { on_bus } else { Span::ZERO };
        DramServer {
            line: Span::from_ns(device.dram_ns),
            on_bus,
            of_page,
            banks: vec![Time::ZERO; device.dram_banks as usize],
            bus: Bus::default(),
            ends: VecDeque::new(),
            lines_max: (device.dram_queue + device.dram_banks) as usize,
        }
    }

    /// Serves line `line` of `page`, requested at `now`. Returns when the line is served.
    #[inline]
    pub(super) fn serve(&mut self, now: Time, page: PageId, line: u64) -> Time {
        let number = (page.0 * LINES + line) as usize % self.banks.len();
        let bank = &mut self.banks[number];
        let end = self.bus.line(now, now.max(*bank) + self.line, self.on_bus);
        *bank = end;
        if self.ends.len() == self.lines_max {
            self.ends.pop_front();
        }
        self.ends.push_back(end);
        end
    }

    /// Moves a page between DRAM and flash from `now` on. Returns when the move begins. Its lines
    /// then move at the speed of flash.
    pub(super) fn move_page(&mut self, now: Time) -> Time {
        self.move_lines(now, LINES)
    }

    /// Moves `count` lines like those of a page.
    pub(super) fn move_lines(&mut self, now: Time, count: u64) -> Time {
        let span = Span::from_ps(count * self.of_page.as_ps());
        let end = self.bus.page(now, span);
        Time::from_ps(end.as_ps() - span.as_ps())
    }

    /// The time from which the queue has room for another line.
    #[inline]
    pub(super) fn open_from(&self) -> Time {
        if self.ends.len() < self.lines_max { Time::ZERO } else { self.ends[0] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::designs::resolve;

    fn dram(banks: &str) -> DramServer {
        let config = resolve("cxl-flash", &[("device.dram_banks", banks)]).expect("a machine");
        DramServer::new(&config.device.expect("cxl-flash has one"))
    }

    #[test]
    fn a_line_waits_for_those_before_it_and_a_full_queue_for_the_first_to_end() {
        let mut dram = dram("1");
        let now = Time::from_ns(1_000);
        // One line in service and eight that wait.
        let served: Vec<u64> = (0..9).map(|n| dram.serve(now, PageId(n), n).as_ns()).collect();
        assert_eq!(served[..3], [1_046, 1_092, 1_138]);
        assert_eq!(dram.open_from(), Time::from_ns(1_046));
        assert_eq!(dram.serve(Time::from_ns(9_000), PageId(0), 0), Time::from_ns(9_046));
        assert!(dram.open_from() <= Time::from_ns(9_000));
    }

    #[test]
    fn lines_of_other_banks_share_only_the_bus() {
        let mut dram = dram("16");
        let served = |dram: &mut DramServer, line| dram.serve(Time::ZERO, PageId(0), line).as_ns();
        // 20 of the 46 ns are on the bus.
        assert_eq!([0, 1, 2].map(|line| served(&mut dram, line)), [46, 66, 86]);
        assert_eq!(served(&mut dram, 16), 106, "its bank was free at 46");
        assert_eq!(dram.move_page(Time::ZERO), Time::from_ns(106));
        assert_eq!(served(&mut dram, 3), 126, "a page does not delay a line");
        assert_eq!(dram.move_page(Time::ZERO), Time::from_ns(126 + 64 * 20));
    }
}
