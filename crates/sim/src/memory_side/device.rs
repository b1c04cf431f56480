//! [`Device`]: the flash device behind its link. The link carries whole pages or some of their
//! lines.

use std::collections::VecDeque;

use ebbtide_core::{Bytes, LINE_BYTES, PAGE_BYTES, PageId, Span, Time};
use ebbtide_flash::{Command, Config as FlashConfig, Done, Flash, Interleaving, Kind};

use super::access::{Noted, Stage};
use super::counters::TrafficCounters;
use crate::config::{Config, ConfigError, malformed_flash, require};

/// A page that crossed the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    /// The page.
    pub page: PageId,
    /// The direction: a read comes in, a write goes out.
    pub kind: Kind,
    /// Number of lines carried.
    pub lines: u64,
    /// When the last byte arrived.
    pub at: Time,
}

/// The flash device that `config` describes. It must hold the data.
///
/// # Errors
/// [`ConfigError`] when the device is impossible or too small.
pub(super) fn flash(config: &Config) -> Result<Flash, ConfigError> {
    let flash = Flash::new(&config.flash_device()?).map_err(malformed_flash)?;
    if let Some(pages) = flash.logical_pages() {
        let (data, capacity) = (config.dataset.size, Bytes(pages * PAGE_BYTES as u64));
        let expected = format!("no more than the flash device holds, {capacity}");
        require(data <= capacity, "dataset.size", data, expected)?;
    }
    Ok(flash)
}

/// Lines of a page.
pub(super) const LINES: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// The tag of a command: its page, and the number of wanted lines.
fn tag(page: PageId, lines: u64) -> u64 {
    page.0 * (LINES + 1) + lines
}

/// The page and number of lines in a [`tag`].
fn told(tag: u64) -> (PageId, u64) {
    (PageId(tag / (LINES + 1)), tag % (LINES + 1))
}

/// The link of a drive: when its lanes are free. Commands and pages leave by the lane out, and
/// pages come by the lane in.
#[derive(Debug, Clone, Copy, Default)]
struct Lanes {
    out_free: Time,
    in_free: Time,
}

/// Inserts `item`, which arrives at `at`, into the queue in flight, in the order of arrival.
fn in_order<T>(flight: &mut VecDeque<T>, at: Time, arrival: impl Fn(&T) -> Time, item: T) {
    let place = flight.iter().rposition(|other| arrival(other) <= at).map_or(0, |last| last + 1);
    flight.insert(place, item);
}

/// Flash and its links. Pages are interleaved over the drives, and each drive has its own link.
///
/// A read ends when its page arrives in the host. A write ends when the device has acknowledged it.
/// A modelled SSD acknowledges it when its write buffer has room. Flat flash takes any number of
/// writes, so a write there ends when its page arrives in the device.
pub(super) struct Device {
    flash: Flash,
    /// Whether the flash is flat.
    takes_all: bool,
    latency: Span,
    bandwidth_gb_per_s: u64,
    interleaving: Interleaving,
    /// The lanes of each drive's link, by drive.
    lanes: Vec<Lanes>,
    /// Commands in flight to the device, with their number of lines. A write carries its lines.
    outbound: VecDeque<(Time, Kind, PageId, u64)>,
    /// Pages in flight to the host, with their number of lines.
    inbound: VecDeque<(Time, PageId, u64)>,
    done: Vec<Done>,
    /// The latest time that flash has reached.
    flash_now: Time,
    /// Time of the next event. It is read far more often than it changes.
    next: Option<Time>,
    traffic: TrafficCounters,
    /// Notes on pages in flight to the host, if they are kept.
    notes: Option<Vec<Noted>>,
}

impl Device {
    /// The device and link that `config` describes.
    ///
    /// # Errors
    /// When the flash cannot be as described.
    pub(super) fn new(config: &Config) -> Result<Device, ConfigError> {
        let described = config.flash_device()?;
        let interleaving = described.interleaving();
        Ok(Device {
            flash: flash(config)?,
            takes_all: matches!(described, FlashConfig::Flat(_)),
            latency: Span::from_ns(config.link.latency_ns),
            bandwidth_gb_per_s: config.link.bandwidth_gb_per_s,
            interleaving,
            lanes: vec![Lanes::default(); interleaving.drives()],
            outbound: VecDeque::new(),
            inbound: VecDeque::new(),
            done: Vec::new(),
            flash_now: Time::ZERO,
            next: None,
            traffic: TrafficCounters::default(),
            notes: None,
        })
    }

    /// Reads `page`.
    pub(super) fn read(&mut self, now: Time, page: PageId) {
        self.read_lines(now, page, LINES);
    }

    /// Reads `page` and carries `lines` lines of it.
    pub(super) fn read_lines(&mut self, now: Time, page: PageId, lines: u64) {
        self.send(now, Kind::Read, page, lines);
    }

    /// Sends `lines` lines of `page` and writes the page. The device adds the other lines.
    pub(super) fn write_lines(&mut self, now: Time, page: PageId, lines: u64) {
        self.send(now, Kind::Write, page, lines);
    }

    /// Time of `lines` lines on the link.
    fn over(&self, lines: u64) -> Span {
        Span::from_ps(lines * LINE_BYTES as u64 * 1_000 / self.bandwidth_gb_per_s)
    }

    fn lanes_of(&mut self, page: PageId) -> &mut Lanes {
        &mut self.lanes[self.interleaving.drive(page)]
    }

    fn send(&mut self, now: Time, kind: Kind, page: PageId, lines: u64) {
        let sent = if kind == Kind::Write { lines } else { 0 };
        let over = self.over(sent);
        let free = &mut self.lanes_of(page).out_free;
        *free = now.max(*free) + over;
        let arrives = *free + self.latency;
        in_order(&mut self.outbound, arrives, |(at, ..)| *at, (arrives, kind, page, lines));
        // Cores that run ahead of each other may send a command before flash's latest time.
        let arrives = arrives.max(self.flash_now);
        self.next = Some(self.next.map_or(arrives, |next| next.min(arrives)));
    }

    /// Time of the next event.
    #[inline]
    pub(super) fn next_event(&self) -> Option<Time> {
        self.next
    }

    fn find_next(&self) -> Option<Time> {
        let outbound = self.outbound.front().map(|(at, ..)| *at);
        let inbound = self.inbound.front().map(|(at, ..)| *at);
        let next = [outbound, inbound, self.flash.next_event()].into_iter().flatten().min();
        next.map(|at| at.max(self.flash_now))
    }

    /// Handles everything at `now`, which is [`next_event`](Device::next_event). Appends the data
    /// that crossed the link to `transfers`.
    pub(super) fn step(&mut self, now: Time, transfers: &mut Vec<Transfer>) {
        self.flash_now = now;
        self.flash.advance(now, &mut self.done);
        while let Some((at, kind, page, lines)) = self.outbound.pop_front_if(|(at, ..)| *at <= now)
        {
            self.flash.submit(now, Command { tag: tag(page, lines), kind, page });
            match kind {
                Kind::Write => {
                    self.traffic.pages_out(1, lines);
                    // The SSD's DRAM assembles the page and holds it until flash has it.
                    self.traffic.device_dram_bytes += 2 * PAGE_BYTES as u64;
                    if self.takes_all {
                        transfers.push(Transfer { page, kind, lines, at });
                    }
                }
                Kind::Read => self.note(page, Stage::Commanded, at),
            }
        }
        let mut done = std::mem::take(&mut self.done);
        for ended in done.drain(..) {
            let (page, lines) = told(ended.tag);
            if ended.kind == Kind::Write {
                if !self.takes_all {
                    transfers.push(Transfer { page, kind: Kind::Write, lines, at: ended.at });
                }
                continue;
            }
            self.note(page, Stage::Read, ended.at);
            let takes = self.over(lines);
            let free = &mut self.lanes_of(page).in_free;
            *free = ended.at.max(*free) + takes;
            let over = *free + self.latency;
            self.note(page, Stage::Carried, over);
            in_order(&mut self.inbound, over, |(at, ..)| *at, (over, page, lines));
        }
        self.done = done;
        while let Some((at, page, lines)) = self.inbound.pop_front_if(|(at, ..)| *at <= now) {
            self.traffic.pages_in(1, lines);
            // Flash reads the whole page into the SSD's DRAM, which sends the lines.
            self.traffic.device_dram_bytes += PAGE_BYTES as u64 + lines * LINE_BYTES as u64;
            transfers.push(Transfer { page, kind: Kind::Read, lines, at });
        }
        self.next = self.find_next();
    }

    /// The traffic since the last call.
    pub(super) fn take_traffic(&mut self) -> TrafficCounters {
        std::mem::take(&mut self.traffic)
    }

    /// Notes that `page` ended a stage, if notes are kept.
    pub(super) fn note(&mut self, page: PageId, stage: Stage, at: Time) {
        if let Some(notes) = &mut self.notes {
            notes.push(Noted { page, stage, at });
        }
    }

    /// Starts or stops keeping notes. Returns those until now.
    pub(super) fn keep_notes(&mut self, keep: bool) -> Vec<Noted> {
        let notes = std::mem::replace(&mut self.notes, keep.then(Vec::new));
        notes.unwrap_or_default()
    }

    /// The flash device.
    pub(super) fn flash(&self) -> &Flash {
        &self.flash
    }
}
