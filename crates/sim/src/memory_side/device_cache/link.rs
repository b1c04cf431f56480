//! [`Link`]: the link between the host and a byte-addressable device.

use ebbtide_core::{LINE_BYTES, PAGE_BYTES, Span, Time};

use super::bus::Bus;
use crate::config::Config;

/// A direction of a [`Link`].
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Towards {
    /// To the host.
    Host,
    /// To the device.
    Device,
}

/// A link. Data to the host and data to the device do not delay each other.
#[derive(Debug)]
pub(super) struct Link {
    /// The way to the device and back.
    latency: Span,
    line: Span,
    page: Span,
    ways: [Bus; 2],
}

impl Link {
    pub(super) fn new(config: &Config) -> Link {
        let takes =
            |bytes: usize| Span::from_ps(bytes as u64 * 1_000 / config.link.bandwidth_gb_per_s);
        Link {
            latency: Span::from_ns(2 * config.link.latency_ns),
            line: takes(LINE_BYTES),
            page: takes(PAGE_BYTES),
            ways: Default::default(),
        }
    }

    /// Carries a line while the device serves it, until `ready`. Returns when the host has it.
    #[inline]
    pub(super) fn line(&mut self, now: Time, ready: Time, towards: Towards) -> Time {
        self.ways[towards as usize].line(now, ready, self.line) + self.latency
    }

    /// Carries a page from `now` on. Returns when it has arrived.
    pub(super) fn page(&mut self, now: Time, towards: Towards) -> Time {
        self.ways[towards as usize].page(now, self.page)
    }
}
