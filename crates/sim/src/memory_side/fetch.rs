//! [`Fetch`]: pages on their way from a flash device into the frames of host DRAM.

use std::collections::VecDeque;

use ebbtide_core::{PageId, Span, Time};
use ebbtide_flash::Kind;

use super::device::{Device, Transfer};

/// A flash device, and the pages that arrived from it and are being installed.
pub(super) struct Fetch {
    pub(super) device: Device,
    /// When each page is installed, in order.
    installs: VecDeque<(Time, PageId)>,
    /// What the device finished at its last step, from last to first.
    transfers: Vec<Transfer>,
}

/// What ended.
pub(super) enum Ended {
    /// This page is installed.
    Install(PageId),
    /// The device has taken a page that left host DRAM.
    WriteBack,
}

impl Fetch {
    pub(super) fn new(device: Device) -> Fetch {
        Fetch { device, installs: VecDeque::new(), transfers: Vec::new() }
    }

    /// Time of the next event.
    pub(super) fn next_event(&self) -> Option<Time> {
        let install = self.installs.front().map(|(at, _)| *at);
        install.into_iter().chain(self.device.next_event()).min()
    }

    /// The next thing that ends up to `now`, with its time. `install` takes the number of lines of
    /// a page that arrived and gives the time that they take to install.
    pub(super) fn step(
        &mut self,
        now: Time,
        install: impl Fn(u64) -> Span,
    ) -> Option<(Time, Ended)> {
        loop {
            while let Some(Transfer { page, kind, lines, at }) = self.transfers.pop() {
                match kind {
                    Kind::Read => {
                        let due = at + install(lines);
                        // A few lines are installed sooner than a page that arrived just before.
                        let place = self.installs.partition_point(|(other, _)| *other <= due);
                        self.installs.insert(place, (due, page));
                    }
                    Kind::Write => return Some((at, Ended::WriteBack)),
                }
            }
            let at = self.next_event().filter(|at| *at <= now)?;
            if let Some((at, page)) = self.installs.pop_front_if(|(due, _)| *due <= at) {
                return Some((at, Ended::Install(page)));
            }
            self.device.step(at, &mut self.transfers);
            self.transfers.reverse();
        }
    }
}
