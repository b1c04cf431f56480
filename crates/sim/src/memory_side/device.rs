//! [`Device`]: the flash device behind its link, in pages or some lines of them.

use std::collections::VecDeque;

use ebbtide_core::{LINE_BYTES, PAGE_BYTES, PageId, Span, Time};
use ebbtide_flash::{Command, Done, Flash, Kind};

use super::access::{Noted, Stage};
use super::counters::TrafficCounters;
use crate::config::{Config, ConfigError};

/// A page that came over the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Which page.
    pub page: PageId,
    /// In which direction.
    pub kind: Kind,
    /// How many lines of it.
    pub lines: u64,
    /// When the last byte was over.
    pub at: Time,
}

/// Lines of a page.
const LINES: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// A command's tag says its page, and how many lines of it are wanted.
fn tag(page: PageId, lines: u64) -> u64 {
    page.0 * (LINES + 1) + lines
}

/// What [`tag`] has put together.
fn told(tag: u64) -> (PageId, u64) {
    (PageId(tag / (LINES + 1)), tag % (LINES + 1))
}

/// Flash and its link. Commands and pages going out, and pages coming in, share no lane.
///
/// A read is over when its page is here; a write is over, for us, when its page is there: the
/// device buffers it.
pub struct Device {
    flash: Flash,
    latency: Span,
    bandwidth_gb_per_s: u64,
    inbound_free: Time,
    outbound_free: Time,
    /// Commands on their way out, in order, with how many lines of the page they are about; those
    /// lines too if they are writes.
    outbound: VecDeque<(Time, Kind, PageId, u64)>,
    /// Pages on their way in, with how many lines of each.
    inbound: VecDeque<(Time, PageId, u64)>,
    done: Vec<Done>,
    /// The latest time the flash was told.
    flash_now: Time,
    /// When the next thing happens, which is asked for far more often than it changes.
    next: Option<Time>,
    traffic: TrafficCounters,
    /// Of pages on their way in, while somebody wants to know.
    notes: Option<Vec<Noted>>,
}

impl Device {
    /// The device and link that `config` describes.
    ///
    /// # Errors
    /// When the flash cannot be as described.
    pub fn new(config: &Config) -> Result<Device, ConfigError> {
        let flash = crate::config::flash(&config.flash, config.dataset.size.0)?;
        Ok(Device {
            flash,
            latency: Span::from_ns(config.link.latency_ns),
            bandwidth_gb_per_s: config.link.bandwidth_gb_per_s,
            inbound_free: Time::ZERO,
            outbound_free: Time::ZERO,
            outbound: VecDeque::new(),
            inbound: VecDeque::new(),
            done: Vec::new(),
            flash_now: Time::ZERO,
            next: None,
            traffic: TrafficCounters::default(),
            notes: None,
        })
    }

    /// Asks for `page`.
    pub fn read(&mut self, now: Time, page: PageId) {
        self.read_lines(now, page, LINES);
    }

    /// Asks for so many lines of `page`, of which flash reads all.
    pub fn read_lines(&mut self, now: Time, page: PageId, lines: u64) {
        self.send(now, Kind::Read, page, lines);
    }

    /// Sends `page` to be written.
    pub fn write(&mut self, now: Time, page: PageId) {
        self.write_lines(now, page, LINES);
    }

    /// Sends so many lines of `page` to be written; the device adds the rest of it.
    pub fn write_lines(&mut self, now: Time, page: PageId, lines: u64) {
        self.send(now, Kind::Write, page, lines);
    }

    /// So many lines over the link.
    fn over(&self, lines: u64) -> Span {
        Span::from_ps(lines * LINE_BYTES as u64 * 1_000 / self.bandwidth_gb_per_s)
    }

    fn send(&mut self, now: Time, kind: Kind, page: PageId, lines: u64) {
        let sent = if kind == Kind::Write { lines } else { 0 };
        self.outbound_free = self.outbound_free.max(now) + self.over(sent);
        let arrives = self.outbound_free + self.latency;
        self.outbound.push_back((arrives, kind, page, lines));
        // Cores that run ahead of each other may ask for something in flash's past.
        let arrives = arrives.max(self.flash_now);
        self.next = Some(self.next.map_or(arrives, |next| next.min(arrives)));
    }

    /// When the next thing happens by itself.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        self.next
    }

    fn find_next(&self) -> Option<Time> {
        let outbound = self.outbound.front().map(|(at, ..)| *at);
        let inbound = self.inbound.front().map(|(at, ..)| *at);
        let next = [outbound, inbound, self.flash.next_event()].into_iter().flatten().min();
        next.map(|at| at.max(self.flash_now))
    }

    /// Everything that happens at `now`, which is [`next_event`](Device::next_event); tells what
    /// came over.
    pub fn step(&mut self, now: Time, transfers: &mut Vec<Transfer>) {
        self.flash_now = now;
        self.flash.advance(now, &mut self.done);
        while let Some((at, kind, page, lines)) = self.outbound.pop_front_if(|(at, ..)| *at <= now)
        {
            self.flash.submit(now, Command { tag: tag(page, lines), kind, page });
            match kind {
                Kind::Write => {
                    self.traffic.pages_out(1, lines);
                    // The SSD's DRAM puts the page together and holds it until flash has it.
                    self.traffic.device_dram_bytes += 2 * PAGE_BYTES as u64;
                    transfers.push(Transfer { page, kind, lines, at });
                }
                Kind::Read => self.note(page, Stage::Commanded, at),
            }
        }
        let mut done = std::mem::take(&mut self.done);
        for read in done.drain(..).filter(|done| done.kind == Kind::Read) {
            let (page, lines) = told(read.tag);
            self.note(page, Stage::Read, read.at);
            self.inbound_free = self.inbound_free.max(read.at) + self.over(lines);
            let over = self.inbound_free + self.latency;
            self.note(page, Stage::Carried, over);
            self.inbound.push_back((over, page, lines));
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

    /// What moved since the last call.
    pub(super) fn take_traffic(&mut self) -> TrafficCounters {
        std::mem::take(&mut self.traffic)
    }

    /// Notes that `page` ended a stage of its way in, if notes are kept.
    pub fn note(&mut self, page: PageId, stage: Stage, at: Time) {
        if let Some(notes) = &mut self.notes {
            notes.push(Noted { page, stage, at });
        }
    }

    /// Starts or stops keeping notes. Gives those until now.
    pub fn keep_notes(&mut self, keep: bool) -> Vec<Noted> {
        let notes = std::mem::replace(&mut self.notes, keep.then(Vec::new));
        notes.unwrap_or_default()
    }

    /// The flash itself.
    pub fn flash(&self) -> &Flash {
        &self.flash
    }
}
