//! [`Fetch`]: pages on their way from a flash device into the frames of host DRAM.

use std::collections::VecDeque;

use ebbtide_core::{PageId, Span, Time};
use ebbtide_flash::Kind;

use super::device::{Device, LINES, Transfer};
use super::dram::{Controllers, Moved};
use super::earlier;

/// A flash device, and the arrived pages that are being installed.
pub(super) struct Fetch {
    pub(super) device: Device,
    /// When each page is installed, in order.
    installs: VecDeque<(Time, PageId)>,
    /// Least time from the arrival of a page until it is installed.
    install: Span,
    /// Transfers that the device finished at its last step, from last to first.
    transfers: Vec<Transfer>,
}

/// A finished transfer.
pub(super) enum Ended {
    /// This page is installed.
    Install(PageId),
    /// The device has taken this page. The page had left host DRAM.
    WriteBack(PageId),
}

impl Fetch {
    /// Pages from `device`, each installed at least `install` after it arrived.
    pub(super) fn new(device: Device, install: Span) -> Fetch {
        Fetch { device, installs: VecDeque::new(), install, transfers: Vec::new() }
    }

    /// Writes `page` to flash: reads it from DRAM from `now` on, and then sends it.
    pub(super) fn write(&mut self, now: Time, page: PageId, controllers: &mut Controllers) {
        self.write_lines(now, page, LINES, controllers);
    }

    /// The same for `lines` lines of `page`.
    pub(super) fn write_lines(
        &mut self,
        now: Time,
        page: PageId,
        lines: u64,
        controllers: &mut Controllers,
    ) {
        controllers.carry(Moved { page, lines, into: false, since: now });
    }

    /// Time of the next event.
    pub(super) fn next_event(&self, controllers: &Controllers) -> Option<Time> {
        let install = self.installs.front().map(|(at, _)| *at);
        earlier(install, earlier(self.device.next_event(), controllers.next_move()))
    }

    /// The next transfer that ends by `now`, with its time.
    pub(super) fn step(
        &mut self,
        now: Time,
        controllers: &mut Controllers,
    ) -> Option<(Time, Ended)> {
        loop {
            while let Some(Transfer { page, kind, lines, at }) = self.transfers.pop() {
                match kind {
                    Kind::Read => controllers.carry(Moved { page, lines, into: true, since: at }),
                    Kind::Write => return Some((at, Ended::WriteBack(page))),
                }
            }
            let at = self.next_event(controllers).filter(|at| *at <= now)?;
            if let Some((at, page)) = self.installs.pop_front_if(|(due, _)| *due <= at) {
                return Some((at, Ended::Install(page)));
            }
            match controllers.pop_moved(at) {
                Some((at, Moved { page, into: true, since, .. })) => {
                    let due = at.max(since + self.install);
                    // A few lines are installed sooner than a page that arrived just before them.
                    let place = self.installs.partition_point(|(other, _)| *other <= due);
                    self.installs.insert(place, (due, page));
                }
                Some((at, Moved { page, lines, .. })) => self.device.write_lines(at, page, lines),
                None => {
                    self.device.step(at, &mut self.transfers);
                    self.transfers.reverse();
                }
            }
        }
    }
}
