//! Memory sides: the part of a design behind the caches of the chip.

mod access;
mod ahead;
mod all_dram;
mod counters;
mod device;
mod device_cache;
mod dram;
mod dram_cache;
mod fetch;
mod free_frames;
mod miss_table;
pub mod mos;
mod paged;
mod paging;
mod partial_pages;
mod plain_lru;
mod promotion;
mod read_ahead;
mod residency;
mod software_cache;

use std::ops::Range;

use ebbtide_core::prefetch::Metrics;
use ebbtide_core::{Archive, PageId, Time};
use ebbtide_flash::Flash;
use ebbtide_trace::{Access, Op};

pub use access::{Answer, Event, NOBODY, Noted, Request, Stage, Waiter};
pub use all_dram::AllDram;
pub use counters::{
    CacheCounters, Counters, DurabilityCounters, FootprintCounters, LogCounters, PromotionCounters,
    RelocationCounters, TrafficCounters,
};
pub use device_cache::{DeviceCache, Happened, Seen};
pub use dram_cache::DramCache;
pub use paging::Paging;
pub use plain_lru::PlainLru;
pub use promotion::Promotion;
pub use software_cache::{SoftwareCache, SoftwareCosts};

/// Memory behind the caches of the chip, in virtual time.
///
/// Every call carries the time. Times may go back by at most the distance that cores run ahead of
/// each other.
pub trait MemorySide: Warm + Observe {
    /// Accesses a line.
    fn access(&mut self, now: Time, request: Request) -> Answer;

    /// Accesses a line that is always present, such as one of the partition for page tables.
    /// Returns when the line arrives. `page` selects the memory controller.
    fn flat(&mut self, now: Time, page: PageId) -> Time;

    /// Takes a dirty line that leaves the chip. The chip does not wait. If its page is absent,
    /// memory fetches the page to change it.
    fn write_back(&mut self, now: Time, request: Request);

    /// Notes that a cache on the chip holds a newer line of `page`. Only a memory that
    /// [faults](Capabilities::faults) marks the page as dirty now. Others do so when the line is
    /// [written back](MemorySide::write_back).
    fn dirtied(&mut self, _page: PageId) {}

    /// Appends the pages that left their frames since the last call. Only a memory that
    /// [faults](Capabilities::faults) reports them. Another page takes the frame, so the chip must
    /// drop their lines. Their dirty lines left with the page.
    fn take_left(&mut self, _left: &mut Vec<PageId>) {}

    /// Time of the next event, or [`Time::ZERO`] if events are ready.
    fn next_event(&self) -> Option<Time>;

    /// Handles everything up to `now`, in order, and appends the events to `events`.
    fn advance(&mut self, now: Time, events: &mut Vec<Event>);

    /// Announces that the program will need `page` soon. Returns until when the announcement keeps
    /// the core busy. Most memories ignore it.
    fn hint(&mut self, now: Time, _page: PageId) -> Time {
        now
    }

    /// The capabilities of this memory.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Enters `accesses` of a trace one after another, each at its time or at `now` if that is
    /// later. Stops at a hint, at an access that does not hit, or when an event is due before an
    /// access. Appends to `ready` when the line of each hit arrives. Returns the answer to the
    /// first access that did not hit.
    ///
    /// The memory's calls within it are not virtual.
    fn enter_hits(
        &mut self,
        mut now: Time,
        accesses: &[Access],
        waiter: Waiter,
        ready: &mut Vec<Time>,
    ) -> Option<Answer> {
        for access in accesses {
            now = now.max(access.at);
            if access.op == Op::Hint || self.next_event().is_some_and(|due| due <= now) {
                return None;
            }
            match self.access(now, Request::new(access.address, access.is_write(), waiter)) {
                Answer::Hit(at) | Answer::Posted(at) => ready.push(at),
                answer => return Some(answer),
            }
        }
        None
    }
}

/// The earlier of two events that may be due.
#[inline]
fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Capabilities beyond those of every memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Fetches less than a whole page.
    pub fetches_lines: bool,
    /// A miss is a fault. It stops the access before it is complete, and nothing goes past it.
    pub faults: bool,
    /// Serves lines in place, without moving their page.
    pub byte_addressable: bool,
    /// Pages whose stores are durable once they are posted. Caches on the chip keep no dirty line
    /// of them.
    pub durable: Range<PageId>,
}

impl Default for Capabilities {
    fn default() -> Capabilities {
        let durable = PageId(0)..PageId(0);
        Capabilities { fetches_lines: false, faults: false, byte_addressable: false, durable }
    }
}

/// The untimed warm-up of a memory.
pub trait Warm {
    /// An access that takes no time.
    fn warm(&mut self, request: Request);

    /// [`MemorySide::write_back`] in no time.
    fn warm_back(&mut self, request: Request);

    /// Saves all state that a warm-up changes to `archive`, or restores it from there. Restoring
    /// needs a memory that warms up in the same way. By default it is impossible, and every machine
    /// is warmed anew.
    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.cannot();
    }
}

/// Observations of a memory from outside.
pub trait Observe {
    /// Name of the memory's type.
    fn name(&self) -> &'static str {
        let path = std::any::type_name::<Self>();
        path.rsplit("::").next().unwrap_or(path)
    }

    /// The counters since the last call.
    fn take_counters(&mut self) -> Counters;

    /// The flash device, if there is one.
    fn flash(&self) -> Option<&Flash> {
        None
    }

    /// Metrics of pages fetched ahead of demand, if the memory does that.
    fn prefetched(&self) -> Option<&Metrics> {
        None
    }

    /// Starts or stops noting the stages of missed pages. Returns the notes until now.
    fn keep_notes(&mut self, _keep: bool) -> Vec<Noted> {
        Vec::new()
    }

    /// Loads the state of `page` into the caches of the host, ahead of an access. The simulated
    /// memory does not change.
    fn expect(&self, _page: PageId) {}

    /// [`expect`](Observe::expect) for the pages of `accesses`.
    fn expect_all(&self, accesses: &[Access]) {
        let mut last = None;
        for page in accesses.iter().map(|access| access.address.page()) {
            if last.replace(page) != Some(page) {
                self.expect(page);
            }
        }
    }
}
