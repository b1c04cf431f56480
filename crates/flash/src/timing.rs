//! [`Timing`]: durations of operations and transfers.

use ebbtide_core::{PAGE_BYTES, Span};

use crate::config::SsdConfig;
use crate::translation::Collection;

/// Durations of a device's operations and transfers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub read: Span,
    pub program: Span,
    pub erase: Span,
    /// Transfer of 4 KiB over a channel.
    pub page_out: Span,
    /// Transfer of a physical page over a channel.
    pub unit_in: Span,
    pub pad_after: Span,
    pub buffered_write: Span,
    pub buffered_read: Span,
    pub suspend: Span,
    pub resume: Span,
}

/// A span of `us` microseconds, rounded to picoseconds.
pub(crate) fn span_us(us: f64) -> Span {
    Span::from_ps((us * 1e6).round() as u64)
}

fn times(span: Span, count: u32) -> Span {
    Span::from_ps(span.as_ps() * u64::from(count))
}

impl Timing {
    pub(crate) fn new(config: &SsdConfig) -> Timing {
        let transfer = |bytes: u32| span_us(config.transfer_us(bytes));
        Timing {
            read: span_us(config.read_us),
            program: span_us(config.program_us),
            erase: span_us(config.erase_ms * 1e3),
            page_out: transfer(PAGE_BYTES as u32),
            unit_in: transfer(config.page_bytes),
            pad_after: span_us(config.pad_after_us),
            buffered_write: span_us(config.buffered_write_us),
            buffered_read: span_us(config.buffered_read_us),
            suspend: span_us(config.suspend_us),
            resume: span_us(config.resume_us),
        }
    }

    /// Moving the valid pages of a block inside the plane.
    pub(crate) fn copyback(&self, work: &Collection) -> Span {
        times(self.read, work.reads) + times(self.program, work.programs)
    }

    /// Moving the valid pages of a block out over the channel and back in.
    pub(crate) fn copy_over_bus(&self, work: &Collection) -> Span {
        self.copyback(work)
            + times(self.page_out, work.moved.len() as u32)
            + times(self.unit_in, work.programs)
    }
}
