//! Messages between the chip and its memory: requests, answers and events.

use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, PageId, Time};
use ebbtide_trace::LineId;

/// A thread of a core that waits for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// The core.
    pub core: u32,
    /// The thread on that core.
    pub thread: u32,
    /// 0 if the thread itself waits. Otherwise the miss register of the core that waits, from 1, or
    /// [`NOBODY`].
    pub slot: u32,
}

/// The slot of a request without a waiter.
pub const NOBODY: u32 = u32::MAX;

/// An access to a line.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The page of the line.
    pub page: PageId,
    /// The line within the page.
    pub line: u8,
    /// The number of the access within its job, from 1. It stands for the program counter, which a
    /// simulated program does not have. 0 for traces and page tables, which have no jobs.
    pub site: u32,
    /// Whether the access is a store.
    pub write: bool,
    /// Whether the chip keeps the stored data. It then writes the line back when the line leaves
    /// the chip.
    pub keeps: bool,
    /// The thread to notify when the page arrives.
    pub waiter: Waiter,
}

impl Request {
    /// An access of `waiter` to the line of `at`, at site 0.
    #[inline]
    pub fn new(at: Addr, write: bool, waiter: Waiter) -> Request {
        let line = (at.page_offset() / LINE_BYTES) as u8;
        Request { page: at.page(), line, site: 0, write, keeps: false, waiter }
    }

    /// Whether the access changes the page in memory.
    #[inline]
    pub fn dirties(&self) -> bool {
        self.write && !self.keeps
    }

    /// The number of the line among the lines of all pages.
    #[inline]
    pub(crate) fn line_id(&self) -> LineId {
        self.page.0 * (PAGE_BYTES / LINE_BYTES) as u64 + u64::from(self.line)
    }
}

/// How memory answers an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The line arrives at this time.
    Hit(Time),
    /// The core is busy with the access until this time and then continues. A store has carried its
    /// data, so the chip keeps the line clean.
    Posted(Time),
    /// The page is absent, and the core learns that at this time. [`Event::Arrived`] notifies the
    /// waiter when to repeat the access.
    Miss(Time),
    /// The page is absent, and the core learns that at this time. The page is expected soon, so a
    /// core that switches threads at a miss waits for it.
    Brief(Time),
    /// Memory accepts no access now. [`Event::Unstalled`] notifies the waiter when to repeat it,
    /// unless the waiter is [`NOBODY`].
    Stalled,
}

/// Later reports of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The page that the waiter missed is present.
    Arrived(Waiter, Time),
    /// The waiter can repeat its stalled access.
    Unstalled(Waiter, Time),
    /// The page was unmapped: every core must drop its translation.
    Unmapped(PageId),
    /// Translations were shot down by this core, which interrupts all others, or by no core.
    Interrupted(Option<u32>),
}

/// A stage of a missed page on its way to DRAM. The stages are in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A backside controller took the miss.
    Taken,
    /// The controller sent a command to flash.
    Asked,
    /// The command crossed the link.
    Commanded,
    /// Flash read the page.
    Read,
    /// The page crossed the link.
    Carried,
    /// The page left its frame.
    Left,
}

/// The end of a stage for one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// The page.
    pub page: PageId,
    /// The stage.
    pub stage: Stage,
    /// When the stage ended.
    pub at: Time,
}
