//! [`Nvme`]: the NVMe controller, and the path of commands and data between the NVDIMM and flash.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ebbtide_core::{LINE_BYTES, PAGE_BYTES, PageId, Span, Time};
use ebbtide_flash::{Command as FlashCommand, Done, Flash, Kind as FlashKind};
use rustc_hash::FxHashMap;

use super::nvdimm::Nvdimm;
use super::queue::{Command, Copy, Kind};
use crate::config::{Attachment, Config, ConfigError, Mos};
use crate::memory_side::counters::TrafficCounters;
use crate::memory_side::device::flash;

/// Lines of 4 KiB.
const LINES: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// The effect of the end of a burst on the NVDIMM's bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Burst {
    /// A part of a copy, with `left` pages to go.
    Copied { id: u64, left: u64 },
    /// 4 KiB of a fill arrived in their frame.
    Landed { id: u64, sector: u64 },
    /// 4 KiB of an eviction left the PRP pool.
    Pulled { id: u64, page: PageId },
}

/// The end of a burst, as the manager must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// The copy for this eviction is complete.
    Copied { id: u64 },
    /// 4 KiB of this fill, counted within its page, are in the frame.
    Landed { id: u64, sector: u64 },
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The controller has the command.
    Commanded { id: u64 },
    /// 4 KiB of a fill arrived at the NVDIMM's bus.
    AtBus { id: u64, sector: u64 },
    /// The next 4 KiB of an eviction can be pulled.
    Pull { id: u64, page: u64 },
    /// 4 KiB of an eviction arrived in the device.
    Stored { id: u64, page: u64 },
    /// The host knows that the command is complete.
    Finished { id: u64 },
}

/// The tag of a flash command of `id`: a mark in the lowest bit, the number of the 4 KiB in the
/// page, and `id`.
fn tag(id: u64, sector: u64) -> u64 {
    id << ID_SHIFT | sector << 1
}

/// The largest MoS page, 1 GiB, has 2^18 times 4 KiB.
const ID_SHIFT: u32 = 20;
const SECTOR_MASK: u64 = (1 << 18) - 1;

/// A command in the controller.
#[derive(Clone, Copy)]
struct UnderWay {
    command: Command,
    /// Pages of 4 KiB that have not arrived.
    left: u64,
}

/// One direction of the link, or the SSD's internal DRAM. It carries one page at a time.
struct Lane {
    free: Time,
    page: Span,
}

impl Lane {
    fn new(gb_per_s: u64) -> Lane {
        let ps = (PAGE_BYTES as u64 * 1_000).checked_div(gb_per_s).unwrap_or(0);
        Lane { free: Time::ZERO, page: Span::from_ps(ps) }
    }

    /// Carries a page. Returns when it arrives.
    fn pass(&mut self, now: Time) -> Time {
        self.free = self.free.max(now) + self.page;
        self.free
    }
}

/// Everything behind the NVDIMM's bus (HAMS §III-B).
///
/// *Loosely coupled*, over PCIe: the doorbell is a write over the link, the controller fetches the
/// command and later writes the completion. Data passes through the SSD's internal DRAM, the link,
/// and then the NVDIMM's bus under the host's memory controller.
///
/// *Tightly coupled*, on the DDR bus: one burst writes the command into registers. Data passes
/// between flash and the NVDIMM in bursts on the NVDIMM's own bus, at the link's bandwidth.
pub(super) struct Nvme {
    flash: Flash,
    /// The latest time that flash has reached.
    flash_now: Time,
    attachment: Attachment,
    latency: Span,
    command_trips: u64,
    lookup: Span,
    inbound: Lane,
    outbound: Lane,
    /// The SSD's DRAM. Every page is written into it and read from it.
    ssd_dram: Lane,
    /// Written pages in the SSD's DRAM. They count as stored.
    buffered: u64,
    buffered_max: u64,
    /// Pages of 4 KiB in a MoS page.
    pages: u64,
    /// Pages of 4 KiB on the device.
    pages_in_all: u64,
    agenda: BinaryHeap<Reverse<(Time, u64, Step)>>,
    scheduled: u64,
    under_way: FxHashMap<u64, UnderWay>,
    done: Vec<Done>,
    pub(super) traffic: TrafficCounters,
}

impl Nvme {
    pub(super) fn new(config: &Config, mos: &Mos) -> Result<Nvme, ConfigError> {
        let gb_per_s = config.link.bandwidth_gb_per_s;
        let flash = flash(config)?;
        Ok(Nvme {
            pages_in_all: flash.logical_pages().unwrap_or(u64::MAX),
            flash,
            flash_now: Time::ZERO,
            attachment: mos.attachment,
            latency: Span::from_ns(config.link.latency_ns),
            command_trips: match mos.attachment {
                // The doorbell, and the fetch of the command over the link and back.
                Attachment::Pcie => 3,
                // The registers hold the whole command.
                Attachment::Ddr => 1,
            },
            lookup: Span::from_ns(mos.lookup_ns),
            inbound: Lane::new(gb_per_s),
            outbound: Lane::new(gb_per_s),
            ssd_dram: Lane::new(mos.ssd_dram_gb_per_s),
            buffered: 0,
            buffered_max: mos.ssd_dram.0 / PAGE_BYTES as u64,
            pages: mos.page.0 / PAGE_BYTES as u64,
            agenda: BinaryHeap::new(),
            scheduled: 0,
            under_way: FxHashMap::default(),
            done: Vec::new(),
            traffic: TrafficCounters::default(),
        })
    }

    pub(super) fn flash(&self) -> &Flash {
        &self.flash
    }

    /// Starts to copy a page into the PRP pool. Every 4 KiB are read and written.
    pub(super) fn copy(&mut self, now: Time, copy: Copy, nvdimm: &mut Nvdimm<Burst>) {
        let span = Span::from_ps(2 * nvdimm.page_time.as_ps());
        for left in (0..self.pages).rev() {
            nvdimm.transfer(now, span, Burst::Copied { id: copy.id, left });
        }
        self.traffic.copied_bytes += 2 * self.pages * PAGE_BYTES as u64;
    }

    /// Rings the doorbell for `command`, or writes it into the registers.
    pub(super) fn submit(&mut self, now: Time, command: Command) {
        let first = self.first_page(command);
        let left = self.pages.min(self.pages_in_all - first.0);
        self.under_way.insert(command.id, UnderWay { command, left });
        let trips = Span::from_ps(self.command_trips * self.latency.as_ps());
        self.schedule(now + trips + self.lookup, Step::Commanded { id: command.id });
    }

    fn first_page(&self, command: Command) -> PageId {
        PageId(command.page.0 * self.pages)
    }

    fn schedule(&mut self, at: Time, step: Step) {
        self.scheduled += 1;
        self.agenda.push(Reverse((at, self.scheduled, step)));
    }

    pub(super) fn next_event(&self) -> Option<Time> {
        let agenda = self.agenda.peek().map(|Reverse((at, ..))| *at);
        agenda.into_iter().chain(self.flash.next_event()).min()
    }

    /// Handles everything at `now`, which is [`next_event`](Nvme::next_event). Appends completed
    /// commands to `finished`.
    pub(super) fn step(
        &mut self,
        now: Time,
        nvdimm: &mut Nvdimm<Burst>,
        finished: &mut Vec<(u64, Time)>,
    ) {
        self.flash_now = self.flash_now.max(now);
        let mut done = std::mem::take(&mut self.done);
        self.flash.advance(self.flash_now, &mut done);
        for Done { tag, kind, at, .. } in done.drain(..) {
            match kind {
                FlashKind::Read => self.read(tag, at),
                FlashKind::Write => self.programmed(tag, at),
            }
        }
        self.done = done;
        while self.agenda.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((at, _, step))) = self.agenda.pop() else { break };
            match step {
                Step::Commanded { id } => self.begin(id, at),
                Step::AtBus { id, sector } => self.land(id, sector, at, nvdimm),
                Step::Pull { id, page } => self.pull(id, PageId(page), at, nvdimm),
                Step::Stored { id, page } => self.store(id, PageId(page), at),
                Step::Finished { id } => finished.push((id, at)),
            }
        }
    }

    fn begin(&mut self, id: u64, at: Time) {
        let UnderWay { command, left } = self.under_way[&id];
        let first = self.first_page(command).0;
        match command.kind {
            Kind::Fill { .. } => {
                // From the wanted 4 KiB on to the end, and then the 4 KiB before them.
                for sector in (command.wanted..left).chain(0..command.wanted.min(left)) {
                    let (tag, page) = (tag(id, sector), PageId(first + sector));
                    self.ask(at, FlashCommand { tag, kind: FlashKind::Read, page });
                }
            }
            Kind::Evict { .. } => self.schedule(at, Step::Pull { id, page: first }),
        }
    }

    fn ask(&mut self, at: Time, command: FlashCommand) {
        self.flash_now = self.flash_now.max(at);
        self.flash.submit(self.flash_now, command);
    }

    /// Handles the read of 4 KiB of a fill from flash.
    fn read(&mut self, tag: u64, at: Time) {
        let (id, sector) = (tag >> ID_SHIFT, tag >> 1 & SECTOR_MASK);
        let buffered = self.through_ssd_dram(at);
        let at_bus = match self.attachment {
            Attachment::Pcie => self.inbound.pass(buffered) + self.latency,
            Attachment::Ddr => buffered,
        };
        self.schedule(at_bus, Step::AtBus { id, sector });
    }

    /// Passes 4 KiB through the SSD's DRAM, if there is one. Returns when they leave it.
    fn through_ssd_dram(&mut self, at: Time) -> Time {
        if self.buffered_max == 0 {
            return at;
        }
        self.traffic.device_dram_bytes += 2 * PAGE_BYTES as u64;
        let written = self.ssd_dram.pass(at);
        self.ssd_dram.pass(written)
    }

    fn land(&mut self, id: u64, sector: u64, at: Time, nvdimm: &mut Nvdimm<Burst>) {
        nvdimm.transfer(at, self.burst(nvdimm), Burst::Landed { id, sector });
    }

    /// Time of 4 KiB of a command's data on the NVDIMM's bus.
    fn burst(&self, nvdimm: &Nvdimm<Burst>) -> Span {
        match self.attachment {
            Attachment::Pcie => nvdimm.page_time,
            // The slower of the link and the NVDIMM.
            Attachment::Ddr => self.inbound.page.max(nvdimm.page_bus),
        }
    }

    /// Pulls the next 4 KiB of an eviction from the PRP pool.
    fn pull(&mut self, id: u64, page: PageId, at: Time, nvdimm: &mut Nvdimm<Burst>) {
        nvdimm.transfer(at, self.burst(nvdimm), Burst::Pulled { id, page });
    }

    /// Handles the end of a burst. Returns its result for the manager.
    pub(super) fn burst_over(&mut self, burst: Burst, at: Time) -> Option<Over> {
        match burst {
            Burst::Copied { id, left } => return (left == 0).then_some(Over::Copied { id }),
            Burst::Landed { id, sector } => {
                self.traffic.pages_in(1, LINES);
                self.page_done(id, at);
                return Some(Over::Landed { id, sector });
            }
            Burst::Pulled { id, page } => {
                self.traffic.pages_out(1, LINES);
                let stored = match self.attachment {
                    Attachment::Pcie => self.outbound.pass(at) + self.latency,
                    Attachment::Ddr => at,
                };
                let stored = self.through_ssd_dram(stored);
                self.schedule(stored, Step::Stored { id, page: page.0 });
                let UnderWay { command, .. } = self.under_way[&id];
                let end = (self.first_page(command).0 + self.pages).min(self.pages_in_all);
                if page.0 + 1 < end {
                    // The next page is pulled while this one is on the link.
                    let next = at.max(self.link_begins());
                    self.schedule(next, Step::Pull { id, page: page.0 + 1 });
                }
            }
        }
        None
    }

    /// When the link starts to carry its last page.
    fn link_begins(&self) -> Time {
        let Lane { free, page } = self.outbound;
        Time::from_ps(free.as_ps().saturating_sub(page.as_ps()))
    }

    /// 4 KiB of an eviction arrived in the device, which writes them to flash. They count as stored
    /// at once if the SSD's DRAM has room for them.
    fn store(&mut self, id: u64, page: PageId, at: Time) {
        let buffered = self.buffered < self.buffered_max;
        let tag = tag(id, 0) | u64::from(buffered);
        self.ask(at, FlashCommand { tag, kind: FlashKind::Write, page });
        if buffered {
            self.buffered += 1;
            self.page_done(id, at);
        }
    }

    /// Handles the end of the programming of 4 KiB.
    fn programmed(&mut self, tag: u64, at: Time) {
        if tag & 1 == 1 {
            self.buffered -= 1;
        } else {
            self.page_done(tag >> ID_SHIFT, at);
        }
    }

    fn page_done(&mut self, id: u64, at: Time) {
        let under_way = self.under_way.get_mut(&id).expect("the command is in flight");
        under_way.left -= 1;
        if under_way.left == 0 {
            self.under_way.remove(&id);
            self.schedule(at + self.latency, Step::Finished { id });
        }
    }
}
