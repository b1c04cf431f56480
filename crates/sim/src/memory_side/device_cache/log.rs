//! [`Log`]: the log of written lines in the device's DRAM (SkyByte, HPCA'25), and its compaction.

use std::collections::VecDeque;

use ebbtide_core::{Archive, LINE_BYTES, Lines, PAGE_BYTES, PageId, Time, WriteLog};
use ebbtide_flash::{Done, Kind};

use super::super::{Answer, Noted, Request, Stage};
use super::{DeviceCache, FLUSH};
use crate::config::{self, Config, ConfigError, Stores};

/// A log, and what compaction has under way.
///
/// A written line goes to the log, and to its page if the cache has it. So pages of the cache are
/// never dirty, and an evicted page is not written. Compaction merges the lines of a page into the
/// cached page, or reads the page from flash first, unless the log has all lines. Then it writes
/// the page.
pub(super) struct Log {
    lines: WriteLog,
    stores: Stores,
    /// Pages that are merged at a time.
    merges_max: u64,
    /// Pages that are being merged.
    merges: u64,
    /// Whole pages that wait for room.
    owed: VecDeque<PageId>,
}

/// Marks the tag of a command of compaction. The rest of the tag is the page.
const MERGE: u64 = 1 << 62;

/// Whether `tag` is one of compaction.
pub(super) fn is_merge(tag: u64) -> bool {
    tag != FLUSH && tag & MERGE != 0
}

impl Log {
    /// The log of `config`, if it has one.
    pub(super) fn new(config: &Config) -> Result<Option<Log>, ConfigError> {
        let Some(log) = &config.write_log else { return Ok(None) };
        log.check(&config.dram_cache)?;
        let config::WriteLog { merges, stores, .. } = *log;
        Ok(log.lines().map(|lines| Log {
            lines: WriteLog::new(lines),
            stores,
            merges_max: merges,
            merges: 0,
            owed: VecDeque::new(),
        }))
    }

    /// Whether `request` goes to the log.
    #[inline]
    pub(super) fn takes(&self, request: &Request) -> bool {
        request.dirties() || request.write && self.stores == Stores::Logged
    }

    /// Whether the log has room, and no page waits for room.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.lines.has_room() && self.owed.is_empty()
    }

    #[inline]
    pub(super) fn holds(&self, page: PageId, line: u8) -> bool {
        self.lines.holds(page, line)
    }

    /// The lines of `page` that are here.
    pub(super) fn lines(&self, page: PageId) -> Lines {
        self.lines.lines(page)
    }

    /// Drops the lines of `page`. Returns whether there were any.
    pub(super) fn forget(&mut self, page: PageId) -> bool {
        self.owed.retain(|owed| *owed != page);
        self.lines.forget(page) != Lines::NONE
    }

    /// Pages with lines that flash does not have.
    pub(super) fn pages(&self) -> impl Iterator<Item = PageId> {
        self.lines.pages().chain(self.owed.iter().copied())
    }

    pub(super) fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(&mut self.lines);
    }
}

impl DeviceCache {
    /// Appends the line of `request` to the log.
    pub(super) fn append(&mut self, now: Time, request: Request) -> Answer {
        let Request { page, line, .. } = request;
        let ready = self.serve(now, page, u64::from(line), true);
        if self.cache.as_ref().is_some_and(|cache| cache.residency.find(page).is_some()) {
            self.counters.traffic.device_dram_bytes += LINE_BYTES as u64;
            self.dram.serve(now, page, u64::from(line));
        }
        let Some(log) = &mut self.log else { unreachable!("only a device with a log appends") };
        self.counters.log.log_appends += 1;
        self.counters.log.log_rewrites += u64::from(log.lines.append(page, line));
        self.compact(now);
        if request.dirties() { Answer::Hit(ready) } else { Answer::Posted(now) }
    }

    /// Appends all lines of `page`, which arrives from the host, once there is room.
    pub(super) fn append_page(&mut self, now: Time, page: PageId) {
        if let Some(log) = &mut self.log {
            log.owed.push_back(page);
        }
        self.append_owed(now);
    }

    /// Appends the pages that there is room for.
    fn append_owed(&mut self, now: Time) {
        while let Some(log) = &mut self.log
            && log.lines.has_room_for_page()
            && let Some(page) = log.owed.pop_front()
        {
            log.lines.append_page(page);
            self.counters.log.log_appends += Lines::ALL.count();
            self.counters.traffic.device_dram_bytes += PAGE_BYTES as u64;
            self.dram.move_page(now);
        }
        self.compact(now);
    }

    /// Begins merges until as many are under way as may be.
    fn compact(&mut self, now: Time) {
        while let Some(log) = &mut self.log
            && log.merges < log.merges_max
            && let Some(page) = log.lines.next_merge()
        {
            log.merges += 1;
            let is_cached = self.cache.as_ref().is_some_and(|c| c.residency.find(page).is_some());
            if is_cached || log.lines.is_whole(page) {
                self.write_merged(now, page);
            } else {
                self.counters.log.log_pages_read += 1;
                self.counters.traffic.device_dram_bytes += PAGE_BYTES as u64;
                self.dram.move_page(now);
                self.backend.read(now, page, MERGE | page.0);
            }
        }
    }

    /// Writes `page` with its lines from the log, unless it has none there any more.
    fn write_merged(&mut self, now: Time, page: PageId) {
        let Some(log) = &mut self.log else { return };
        let lines = log.lines.take(page);
        if lines == Lines::NONE {
            return self.end_merge();
        }
        self.counters.log.log_pages_written += 1;
        self.counters.log.log_lines_merged += lines.count();
        // The lines leave the log, and the page leaves for flash.
        let bytes = lines.count() * LINE_BYTES as u64 + PAGE_BYTES as u64;
        self.counters.traffic.device_dram_bytes += bytes;
        self.dram.move_lines(now, lines.count());
        self.dram.move_page(now);
        if let Some(notes) = &mut self.notes {
            notes.push(Noted { page, stage: Stage::Left, at: now });
        }
        self.backend.write(now, page, MERGE | page.0);
    }

    fn end_merge(&mut self) {
        let Some(log) = &mut self.log else { return };
        log.merges -= 1;
        log.lines.merged();
    }

    /// Handles the end of a command of compaction.
    pub(super) fn merge_ended(&mut self, done: Done) {
        match done.kind {
            Kind::Read => self.write_merged(done.at, PageId(done.tag & !MERGE)),
            Kind::Write => self.end_merge(),
        }
        self.append_owed(done.at);
    }

    /// An append in no time. So is the compaction of a full half.
    pub(super) fn warm_append(&mut self, request: Request) {
        let Some(log) = &mut self.log else { return };
        self.counters.log.log_appends += 1;
        let again = log.lines.append(request.page, request.line);
        self.counters.log.log_rewrites += u64::from(again);
        self.warm_compact();
    }

    /// [`write_page`](DeviceCache::write_page) in no time. Without a log nothing changes.
    pub(in super::super) fn warm_write_page(&mut self, page: PageId) {
        let Some(log) = &mut self.log else { return };
        log.lines.append_page(page);
        self.counters.log.log_appends += Lines::ALL.count();
        self.warm_compact();
    }

    fn warm_compact(&mut self) {
        let Some(log) = &mut self.log else { return };
        while let Some(page) = log.lines.next_merge() {
            log.lines.take(page);
            log.lines.merged();
        }
    }
}
