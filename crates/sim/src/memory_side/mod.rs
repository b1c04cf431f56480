//! What happens to a line that no cache on the chip has: the memory sides that designs choose from.

mod ahead;
mod all_dram;
mod device_cache;
mod dram;
mod dram_cache;
pub mod mos;
mod paging;
mod partial_pages;
mod promotion;
mod residency;
mod software_cache;

use std::ops::{AddAssign, Range};

use ebbtide_core::prefetch::Metrics;
use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, PageId, Time};
use ebbtide_flash::Flash;
use serde::Serialize;

pub use all_dram::AllDram;
pub use device_cache::{DeviceCache, Happened, Seen};
pub use dram_cache::DramCache;
pub use paging::Paging;
pub use promotion::Promotion;
pub use residency::{PlainLru, Residency};
pub use software_cache::{SoftwareCache, SoftwareCosts};

/// Who waits: a thread of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// The core.
    pub core: u32,
    /// Its thread.
    pub thread: u32,
}

/// A line is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Its page.
    pub page: PageId,
    /// Which line of its page, for memories that tell lines apart.
    pub line: u8,
    /// Where in its job the access stands: how many the job has made, itself included. It stands for
    /// the address of the instruction, which a simulated program has not; 0 where there are no jobs, as
    /// in a trace, and for page tables.
    pub site: u32,
    /// Whether it will be written.
    pub write: bool,
    /// Who is told when the page is there.
    pub waiter: Waiter,
}

impl Request {
    /// `waiter` wants the line that `at` lies in, from no place in a job that is known.
    #[inline]
    pub fn new(at: Addr, write: bool, waiter: Waiter) -> Request {
        let line = (at.page_offset() / LINE_BYTES) as u8;
        Request { page: at.page(), line, site: 0, write, waiter }
    }
}

/// What memory answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The line arrives at this time.
    Hit(Time),
    /// The write is out of the core's hands at this time, until when the core itself is busy with
    /// it.
    Posted(Time),
    /// The page is not there, as the core learns at this time, which software of its own may have
    /// cost it. [`Event::Arrived`] will tell the waiter; the access is then repeated.
    Miss(Time),
    /// Memory takes no access now. [`Event::Unstalled`] will tell the waiter; the access is then
    /// repeated.
    Stalled,
}

/// What memory tells later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The page that the waiter missed is there.
    Arrived(Waiter, Time),
    /// The access that was stalled can be repeated.
    Unstalled(Waiter, Time),
    /// The page is no longer mapped: no core may keep its translation.
    Unmapped(PageId),
}

/// A stage of a missed page's way, which follow each other in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A backside controller began with it.
    Taken,
    /// Flash was asked for it.
    Asked,
    /// The command was over the link.
    Commanded,
    /// Flash had read it.
    Read,
    /// It was over the link.
    Carried,
}

/// That a page ended a stage of its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// The page.
    pub page: PageId,
    /// The stage.
    pub stage: Stage,
    /// When.
    pub at: Time,
}

/// How often what happened, since the counters were last taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Accesses to resident pages.
    pub hits: u64,
    /// Accesses to pages that were on their way: they wait, but start no read.
    pub hits_under_miss: u64,
    /// Accesses that started a read from flash.
    pub misses: u64,
    /// Those of them to pages that were on their way, in a memory that does not merge them.
    pub repeated_reads: u64,
    /// Unwritten pages given up.
    pub evictions_clean: u64,
    /// Written pages given up, which go to flash.
    pub evictions_dirty: u64,
    /// Accesses that found the frontside stalled.
    pub stalls: u64,
    /// The most pages that were on their way at once.
    pub in_flight_peak: u64,
    /// Accesses to lines of resident pages that were not fetched with them: each started a read that
    /// is none of `misses`. Only of a DRAM cache that fetches footprints.
    pub underpredictions: u64,
    /// Bytes fetched from flash into such a DRAM cache, which has whole pages sent otherwise.
    pub refilled_bytes: u64,
    /// Bytes read and written within DRAM, to keep a copy.
    pub copied_bytes: u64,
    /// Bytes written into and read from the flash device's own DRAM.
    pub device_dram_bytes: u64,
    /// Lines that the chip read from host DRAM, and looks at tags there.
    pub dram_lines: u64,
    /// Pages written into host DRAM, whole or in part, copies apart.
    pub dram_pages_in: u64,
    /// Lines of those.
    pub dram_page_lines_in: u64,
    /// Pages read from host DRAM, whole or in part, copies apart.
    pub dram_pages_out: u64,
    /// Lines of those.
    pub dram_page_lines_out: u64,
    /// Bytes of data over the link between host and flash, either way.
    pub link_bytes: u64,
    /// Pages that began to move from the device to host DRAM.
    pub promotions: u64,
    /// Pages that should have, but for which there was no room.
    pub promotions_dropped: u64,
    /// Promoted pages given up.
    pub demotions: u64,
    /// Those of them that went to flash.
    pub demotions_written: u64,
    /// Stores that were durable when the core went on.
    pub durable_writes: u64,
    /// Written pages of a device's cache that went to flash with their blocks.
    pub pages_cleaned: u64,
    /// Other pages of those blocks, which were read and written again with them.
    pub pages_carried: u64,
    /// Pages that a write or a collection left elsewhere in flash than page tables said.
    pub pages_moved_in_flash: u64,
    /// Accesses that the device served by an old place.
    pub redirected: u64,
    /// Interrupts that had the host mend its page tables, a batch each.
    pub page_tables_mended: u64,
}

/// What moved between host DRAM and a flash device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// To host DRAM.
    pub(crate) came: Pages,
    /// From it.
    pub(crate) went: Pages,
}

/// So many pages, whole or in part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) count: u64,
    pub(crate) lines: u64,
}

impl Pages {
    /// So many whole ones.
    pub(crate) fn whole(count: u64) -> Pages {
        Pages { count, lines: count * (PAGE_BYTES / LINE_BYTES) as u64 }
    }

    /// What was moved of them.
    pub(crate) fn bytes(self) -> u64 {
        self.lines * LINE_BYTES as u64
    }
}

impl AddAssign for Pages {
    fn add_assign(&mut self, more: Pages) {
        self.count += more.count;
        self.lines += more.lines;
    }
}

impl Counters {
    /// Pages that left the cache in front of flash, to make room or for host DRAM.
    pub fn left(&self) -> u64 {
        self.evictions_clean + self.evictions_dirty + self.promotions
    }

    /// Counts transfers over the link, to host DRAM and from it.
    pub(crate) fn moved(&mut self, Moved { came, went }: Moved) {
        self.dram_pages_in += came.count;
        self.dram_page_lines_in += came.lines;
        self.dram_pages_out += went.count;
        self.dram_page_lines_out += went.lines;
        self.link_bytes += came.bytes() + went.bytes();
    }
}

/// Memory behind the caches of the chip.
///
/// Time is told with every call and never runs back by more than cores run ahead.
pub trait MemorySide {
    /// Which part it is: the name of its type.
    fn name(&self) -> &'static str {
        let path = std::any::type_name::<Self>();
        path.rsplit("::").next().unwrap_or(path)
    }

    /// A line of `request.page` is wanted.
    fn access(&mut self, now: Time, request: Request) -> Answer;

    /// [`access`](MemorySide::access)es to `page` will come soon. Nothing of the simulated memory
    /// changes; one that knows much may have what it knows of the page at hand by then.
    fn expect(&self, _page: PageId) {}

    /// A line of the partition that is not a cache, which is always there: when it arrives. `page`
    /// says which controller.
    fn flat(&mut self, now: Time, page: PageId) -> Time;

    /// A line of `page` that the chip holds was written.
    fn dirtied(&mut self, page: PageId);

    /// When the next thing happens by itself.
    fn next_event(&self) -> Option<Time>;

    /// Everything that happens up to `now`, in order; tells `events`.
    fn advance(&mut self, now: Time, events: &mut Vec<Event>);

    /// An access in no time, to warm up.
    fn warm(&mut self, page: PageId, write: bool);

    /// An access in no time, for memories that tell the lines of a page apart.
    fn warm_line(&mut self, request: Request) {
        self.warm(request.page, request.write);
    }

    /// The host says that `page` will be needed soon (SPEC A4, hints): until when that keeps the
    /// core. Most memories do not listen.
    fn hint(&mut self, now: Time, _page: PageId) -> Time {
        now
    }

    /// What was fetched ahead of demand, hints included, and what came of it; for memories that do.
    fn prefetched(&self) -> Option<&Metrics> {
        None
    }

    /// Which pages are in DRAM, and what the policy knows of them, for another memory to begin with;
    /// `None` from one that a warm-up leaves more in, or less.
    fn residency(&self) -> Option<Residency> {
        None
    }

    /// Takes what a memory with the same frames and policy was warmed to, in place of its own. Gives
    /// whether it can.
    fn begin_with(&mut self, _residency: &Residency) -> bool {
        false
    }

    /// The counters since they were last taken.
    fn take_counters(&mut self) -> Counters;

    /// Notes from now on when which page ends which stage of its way, and forgets what was noted;
    /// or notes no more.
    fn keep_notes(&mut self, _keep: bool) {}

    /// What was noted since this was last asked; nothing by a memory that does not.
    fn take_notes(&mut self) -> Vec<Noted> {
        Vec::new()
    }

    /// Pages whose stores are durable once [`access`](MemorySide::access) says when they are posted:
    /// none of them may stay in a cache on the chip.
    fn durable(&self) -> Range<PageId> {
        PageId(0)..PageId(0)
    }

    /// The flash device, if there is one.
    fn flash(&self) -> Option<&Flash>;

    /// Whether it can fetch less than a whole page.
    fn fetches_lines(&self) -> bool {
        false
    }

    /// Whether it answers lines from where they are, so that pages need not move for an access.
    fn is_byte_addressable(&self) -> bool {
        false
    }
}
