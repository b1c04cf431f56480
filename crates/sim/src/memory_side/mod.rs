//! Memory sides: what a design puts behind the caches of the chip.

mod access;
mod ahead;
mod all_dram;
mod counters;
mod device;
mod device_cache;
mod dram;
mod dram_cache;
mod fetch;
mod miss_table;
pub mod mos;
mod paged;
mod paging;
mod partial_pages;
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
    CacheCounters, Counters, DurabilityCounters, FootprintCounters, PromotionCounters,
    RelocationCounters, TrafficCounters,
};
pub use device_cache::{DeviceCache, Happened, Seen};
pub use dram_cache::DramCache;
pub use paging::Paging;
pub use promotion::Promotion;
pub use residency::PlainLru;
pub use software_cache::{SoftwareCache, SoftwareCosts};

/// Memory behind the caches of the chip, in virtual time.
///
/// Every call carries the time. Time runs back by no more than cores run ahead of each other.
pub trait MemorySide: Warm + Observe {
    /// Accesses a line.
    fn access(&mut self, now: Time, request: Request) -> Answer;

    /// Accesses a line that is always present, such as one of the partition for page tables. Gives
    /// when the line arrives. `page` selects the memory controller.
    fn flat(&mut self, now: Time, page: PageId) -> Time;

    /// A dirty line leaves the chip, which does not wait for that. If its page is absent, memory
    /// fetches the page to change it.
    fn write_back(&mut self, now: Time, request: Request);

    /// A cache on the chip holds a newer line of `page`. Only a memory that
    /// [faults](Capabilities::faults) marks the page as dirty now. Others do so when the line is
    /// [written back](MemorySide::write_back).
    fn dirtied(&mut self, _page: PageId) {}

    /// Appends the pages that left their frames since the last call. Only a memory that
    /// [faults](Capabilities::faults) tells them. Another page takes the frame, so that the chip must
    /// drop their lines. Those that were dirty left with the page.
    fn take_left(&mut self, _left: &mut Vec<PageId>) {}

    /// Time of the next event, or [`Time::ZERO`] if events are ready.
    fn next_event(&self) -> Option<Time>;

    /// Handles everything up to `now`, in order, and appends what happened to `events`.
    fn advance(&mut self, now: Time, events: &mut Vec<Event>);

    /// The program announces that it will need `page` soon. Gives until when the announcement keeps
    /// the core busy. Most memories ignore it.
    fn hint(&mut self, now: Time, _page: PageId) -> Time {
        now
    }

    /// What this memory can do.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Enters `accesses` of a trace one after another, each at its time or at `now` if that is later,
    /// until one does not hit, or an event is due before one, or one is a hint. Appends to `ready` when
    /// the line of each that hit arrives, and gives the answer to the first that did not hit.
    ///
    /// The calls of a memory within are not virtual.
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

/// What a memory can do beyond what every memory does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Fetches less than a whole page.
    pub fetches_lines: bool,
    /// A miss is a fault, which stops the access before it is complete. Nothing goes past it.
    pub faults: bool,
    /// Answers lines where they are, without moving their page.
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

    /// Puts all that a warm-up changes into `archive`, or takes it from there: of a memory in which a warm-up
    /// does the same. By default it cannot, and every machine is warmed anew.
    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.cannot();
    }
}

/// What can be seen of a memory from outside.
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

    /// Pages fetched ahead of demand and what came of them, if the memory does that.
    fn prefetched(&self) -> Option<&Metrics> {
        None
    }

    /// Starts or stops noting the stages that missed pages pass. Gives what was noted until now.
    fn keep_notes(&mut self, _keep: bool) -> Vec<Noted> {
        Vec::new()
    }

    /// Loads what is known of `page` into the caches of the host, ahead of an access. The simulated
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
