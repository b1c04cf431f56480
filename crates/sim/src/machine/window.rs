//! [`Window`]: the accesses of a core in flight, other than the one that it waits for.
//!
//! A core has a miss register for each line on its way from beyond the chip. Its store buffer
//! releases stores in program order. AstriFlash (HPCA'23) Table I has 32 of either. Independent
//! loads overlap up to the miss registers. A program states which loads are independent
//! ([`FullMemory::load_all`](ebbtide_core::FullMemory::load_all)). Prefetched lines of a stream
//! take registers too.

use std::collections::VecDeque;

use ebbtide_core::{PageId, Time};
use ebbtide_trace::LineId;

use crate::config::Cores;
use crate::memory_side::{Request, Waiter};

/// The lines of a core in flight.
pub(crate) struct Window {
    /// Lines whose page is absent. Register `n` has slot `n + 1` in its [`Waiter`].
    registers: Vec<Option<Register>>,
    held: usize,
    /// Lines with a known time of arrival. Arrived ones are dropped when room is needed.
    coming: Vec<Coming>,
    /// When the last of them arrives.
    last: Time,
    /// Stores that have not left the buffer, in program order.
    stores: VecDeque<Entry>,
    stores_max: usize,
    /// When the last load of the batch has its line.
    batch: Time,
    /// The reason why the core is blocked.
    waits: Option<Waits>,
    streams: Streams,
}

/// A line that arrives at a known time.
#[derive(Clone, Copy)]
struct Coming {
    line: LineId,
    at: Time,
    /// Words that a store has written, one bit each.
    words: u8,
}

/// A line of an absent page.
#[derive(Clone, Copy)]
pub(crate) struct Register {
    pub(crate) request: Request,
    /// Words that stores have written, one bit each.
    words: u8,
    stored: bool,
    loaded: bool,
    pub(crate) issued: Time,
}

/// A store in the buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// It can leave at this time.
    Until(Time),
    /// It waits for the line of this register.
    For(u32),
}

/// The reason why a core is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Room in the store buffer.
    Room,
    /// An empty store buffer.
    Drained,
    /// A free register.
    Register,
    /// Every load of the batch.
    Batch,
}

impl Window {
    /// The window of a core of `cores`.
    pub(crate) fn new(cores: &Cores) -> Window {
        Window {
            registers: vec![None; cores.miss_registers],
            held: 0,
            coming: Vec::new(),
            last: Time::ZERO,
            stores: VecDeque::with_capacity(cores.store_buffer),
            stores_max: cores.store_buffer,
            batch: Time::ZERO,
            waits: None,
            streams: Streams::new(cores.prefetch_lines),
        }
    }

    /// Whether stores continue past a miss.
    pub(crate) fn buffers(&self) -> bool {
        self.stores_max > 0 && !self.registers.is_empty()
    }

    /// Number of miss registers.
    pub(crate) fn registers(&self) -> usize {
        self.registers.len()
    }

    /// Whether a store is in flight.
    #[inline]
    pub(crate) fn is_storing(&self) -> bool {
        !self.stores.is_empty()
    }

    /// Whether a line of an absent page is in flight.
    #[inline]
    pub(crate) fn is_missing(&self) -> bool {
        self.held > 0
    }

    /// Releases stores until `now`. Returns when the buffer has room: `now` or later, or `None` if
    /// an absent page must come first.
    pub(crate) fn room(&mut self, now: Time) -> Option<Time> {
        self.leave(now);
        if self.stores.len() < self.stores_max {
            return Some(now);
        }
        match self.stores.front() {
            Some(Entry::Until(at)) => Some(*at),
            _ => {
                self.waits = Some(Waits::Room);
                None
            }
        }
    }

    /// When the store buffer is empty: `now` or later, or `None` if an absent page must come first.
    pub(crate) fn drained(&mut self, now: Time) -> Option<Time> {
        let mut last = now;
        for entry in &self.stores {
            match entry {
                Entry::Until(at) => last = last.max(*at),
                Entry::For(_) => {
                    self.waits = Some(Waits::Drained);
                    return None;
                }
            }
        }
        self.stores.clear();
        Some(last)
    }

    fn leave(&mut self, now: Time) {
        while self
            .stores
            .pop_front_if(|entry| matches!(entry, Entry::Until(at) if *at <= now))
            .is_some()
        {}
    }

    /// Passes a store at `now` through the buffer. Its line is at the core at `at`.
    #[inline]
    pub(crate) fn store(&mut self, now: Time, at: Time) {
        if self.stores_max > 0 && (at > now || !self.stores.is_empty()) {
            self.stores.push_back(Entry::Until(at.max(now)));
        }
    }

    /// When a further line can be requested: `now` or later, or `None` if an absent page must come
    /// first.
    pub(crate) fn register_from(&mut self, now: Time) -> Option<Time> {
        if self.held + self.coming.len() < self.registers.len() || self.registers.is_empty() {
            return Some(now);
        }
        self.coming.retain(|coming| coming.at > now);
        if self.held + self.coming.len() < self.registers.len() {
            return Some(now);
        }
        let first = self.coming.iter().map(|coming| coming.at).min();
        if first.is_none() {
            self.waits = Some(Waits::Register);
        }
        first
    }

    /// The number of registers that are free at `now`.
    fn free_at(&mut self, now: Time) -> usize {
        self.coming.retain(|coming| coming.at > now);
        self.registers.len().saturating_sub(self.held + self.coming.len())
    }

    /// The waiter of `core` for a line that may be absent. [`Window::register_from`] has confirmed
    /// that there is a register.
    pub(crate) fn waiter(&self, waiter: Waiter) -> Waiter {
        let free = self.registers.iter().position(Option::is_none);
        let free = free.expect("a register is free");
        Waiter { slot: free as u32 + 1, ..waiter }
    }

    /// Occupies a register for the line of `request`, whose page is absent. Its waiter came from
    /// [`Window::waiter`]. The line is in flight since `issued`, for a store of `words` or for a
    /// load of the batch.
    pub(crate) fn hold(&mut self, request: Request, words: Option<u8>, issued: Time) {
        let slot = request.waiter.slot;
        let place = &mut self.registers[slot as usize - 1];
        debug_assert!(place.is_none(), "slot {slot} is held");
        let stored = words.is_some();
        let words = words.unwrap_or(0);
        *place = Some(Register { request, words, stored, loaded: !stored, issued });
        self.held += 1;
        if stored {
            self.stores.push_back(Entry::For(slot));
        }
    }

    fn holding(&mut self, line: LineId) -> Option<(u32, &mut Register)> {
        let all = (1..).zip(&mut self.registers);
        all.filter_map(|(slot, register)| Some((slot, register.as_mut()?)))
            .find(|(_, register)| register.request.line_id() == line)
    }

    /// Whether a store of `words` of `line` joins a store in flight.
    pub(crate) fn joins(&mut self, line: LineId, words: u8) -> bool {
        let Some((slot, register)) = self.holding(line) else { return false };
        register.words |= words;
        register.stored = true;
        register.request.write = true;
        self.stores.push_back(Entry::For(slot));
        true
    }

    /// Whether the store buffer has all `words` of `line`.
    pub(crate) fn forwards(&mut self, line: LineId, words: u8) -> bool {
        self.holding(line).is_some_and(|(_, register)| register.words & words == words)
    }

    /// Whether a load of the batch already waits for the line.
    pub(crate) fn shares(&mut self, line: LineId) -> bool {
        let Some((_, register)) = self.holding(line) else { return false };
        register.loaded = true;
        true
    }

    /// A line that is not on the chip arrives at `ready`. A store has written `words` of it.
    pub(crate) fn comes(&mut self, line: LineId, ready: Time, words: u8) {
        if !self.registers.is_empty() {
            self.coming.push(Coming { line, at: ready, words });
            self.last = self.last.max(ready);
        }
    }

    /// When `line`, which is marked as present, really arrives. `None` unless `words` of it are
    /// still in flight at `now`.
    #[inline]
    pub(crate) fn arrival(&self, line: LineId, words: u8, now: Time) -> Option<Time> {
        if self.last <= now {
            return None;
        }
        let found = self.coming.iter().find(|coming| coming.line == line && coming.at > now);
        found.filter(|coming| coming.words & words != words).map(|coming| coming.at)
    }

    /// Records that a load of the batch has its line at `ready`.
    pub(crate) fn loads_until(&mut self, ready: Time) {
        self.batch = self.batch.max(ready);
    }

    /// When every load of the batch has its line, or `None` if an absent page must come first. The
    /// next batch begins.
    pub(crate) fn batch_over(&mut self) -> Option<Time> {
        if self.registers.iter().flatten().any(|register| register.loaded) {
            self.waits = Some(Waits::Batch);
            return None;
        }
        Some(std::mem::replace(&mut self.batch, Time::ZERO))
    }

    /// Records that the line of `slot` is at the core at `ready`.
    pub(crate) fn arrived(&mut self, slot: u32, ready: Time) {
        let Some(register) = self.registers[slot as usize - 1].take() else { return };
        self.held -= 1;
        for entry in self.stores.iter_mut().filter(|entry| **entry == Entry::For(slot)) {
            *entry = Entry::Until(ready);
        }
        if register.loaded {
            self.batch = self.batch.max(ready);
        }
    }

    /// The register of `slot`.
    pub(crate) fn register(&self, slot: u32) -> Option<&Register> {
        self.registers.get(slot as usize - 1)?.as_ref()
    }

    /// Whether the reason for the core's block has ended. If so, the core is not blocked any more.
    pub(crate) fn is_over(&mut self) -> bool {
        let over = match self.waits {
            None => false,
            Some(Waits::Room) => !matches!(self.stores.front(), Some(Entry::For(_))),
            Some(Waits::Drained) => !self.stores.iter().any(|entry| matches!(entry, Entry::For(_))),
            Some(Waits::Register) => self.held < self.registers.len(),
            Some(Waits::Batch) => !self.registers.iter().flatten().any(|register| register.loaded),
        };
        if over {
            self.waits = None;
        }
        over
    }

    /// Lines of `page` to prefetch after an access to `line` of it. That access missed the private
    /// cache.
    pub(crate) fn streamed(&mut self, now: Time, page: PageId, line: u8) -> Ahead {
        match self.streams.depth {
            0 => Ahead::NONE,
            _ => {
                let room = self.free_at(now);
                self.streams.train(page, line, room)
            }
        }
    }
}

impl Window {
    /// Records that memory took only the first `asked` lines of `ahead`, the last result of
    /// [`Window::streamed`].
    pub(crate) fn not_streamed(&mut self, ahead: Ahead, asked: u16) {
        if let Some(stream) = self.streams.pages.first_mut() {
            stream.ahead -= ahead.count - asked;
        }
    }
}

/// Lines of a page: the first, a step, and their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ahead {
    from: i16,
    step: i16,
    count: u16,
}

impl Ahead {
    const NONE: Ahead = Ahead { from: 0, step: 0, count: 0 };

    /// The lines.
    pub(crate) fn lines(self) -> impl Iterator<Item = u8> {
        (0..self.count as i16).map(move |number| (self.from + number * self.step) as u8)
    }
}

/// Streams of accesses that a core's prefetcher follows, each within a page. As in Intel's L2
/// streamer (64-ia-32 optimization manual, §2.3.5.4), there are 32 streams, one a page. Intel's
/// prefetcher runs up to 20 lines ahead.
struct Streams {
    /// The latest first.
    pages: Vec<Stream>,
    depth: u16,
}

#[derive(Clone, Copy)]
struct Stream {
    page: PageId,
    last: i16,
    step: i16,
    /// Accesses in a row with that step.
    confirmed: u8,
    /// Lines ahead of `last` that were already requested.
    ahead: u16,
}

const STREAMS: usize = 32;

const LINES: i16 = (ebbtide_core::PAGE_BYTES / ebbtide_core::LINE_BYTES) as i16;

impl Streams {
    fn new(depth: u16) -> Streams {
        Streams { pages: Vec::new(), depth }
    }

    /// Notes an access to `line` of `page`. Returns the lines to request, at most `room`.
    fn train(&mut self, page: PageId, line: u8, room: usize) -> Ahead {
        let line = i16::from(line);
        let Some(place) = self.pages.iter().position(|stream| stream.page == page) else {
            self.pages.truncate(STREAMS - 1);
            let new = Stream { page, last: line, step: 0, confirmed: 0, ahead: 0 };
            self.pages.insert(0, new);
            return Ahead::NONE;
        };
        self.pages[..=place].rotate_right(1);
        let stream = &mut self.pages[0];
        let step = line - stream.last;
        if step == 0 {
            return Ahead::NONE;
        }
        if step != stream.step {
            (stream.step, stream.confirmed, stream.ahead) = (step, 0, 0);
        } else {
            stream.ahead = stream.ahead.saturating_sub(1);
        }
        stream.last = line;
        stream.confirmed = stream.confirmed.saturating_add(1);
        // The next line is requested at once, another step once it was seen twice.
        if step != 1 && stream.confirmed < 2 {
            return Ahead::NONE;
        }
        let from = line + step * (stream.ahead as i16 + 1);
        let left = if step > 0 { LINES - 1 - from } else { from } / step.abs() + 1;
        let left = if (0..LINES).contains(&from) { left.max(0) as u16 } else { 0 };
        let count = self.depth.saturating_sub(stream.ahead).min(left).min(room as u16);
        stream.ahead += count;
        Ahead { from, step, count }
    }
}

#[cfg(test)]
mod tests {
    use ebbtide_core::Addr;

    use super::*;

    fn window(stores: usize, registers: usize, depth: u16) -> Window {
        let config = crate::designs::resolve("astriflash", &[]).expect("a shipped design");
        Window::new(&Cores {
            store_buffer: stores,
            miss_registers: registers,
            prefetch_lines: depth,
            ..config.cores
        })
    }

    fn request(window: &Window, line: u64, write: bool) -> Request {
        let waiter = window.waiter(Waiter { core: 0, thread: 0, slot: 0 });
        Request::new(Addr(line * 64), write, waiter)
    }

    #[test]
    fn stores_leave_in_order() {
        let ns = Time::from_ns;
        let mut window = window(2, 4, 0);
        window.hold(request(&window, 1, true), Some(1), ns(0));
        window.store(ns(1), ns(5));
        assert_eq!(window.room(ns(10)), None, "the second waits behind the first");
        assert!(!window.is_over());
        window.arrived(1, ns(20));
        assert!(window.is_over());
        assert_eq!(window.room(ns(10)), Some(ns(20)));
        assert_eq!(window.room(ns(20)), Some(ns(20)));
        assert!(!window.is_storing(), "both have left");
    }

    #[test]
    fn loads_find_what_was_stored_and_only_that() {
        let mut window = window(4, 4, 0);
        window.hold(request(&window, 1, true), Some(0b11), Time::ZERO);
        assert!(window.forwards(1, 0b01) && window.forwards(1, 0b11));
        assert!(!window.forwards(1, 0b100) && !window.forwards(2, 0b01));
        assert!(window.joins(1, 0b100) && !window.joins(2, 1));
        assert!(window.forwards(1, 0b111));
    }

    #[test]
    fn registers_bound_the_lines_under_way() {
        let ns = Time::from_ns;
        let mut window = window(4, 2, 0);
        window.comes(7, ns(30), 0);
        window.comes(8, ns(20), 0b1);
        assert_eq!(window.arrival(8, 0b10, ns(10)), Some(ns(20)));
        assert_eq!(window.arrival(8, 0b1, ns(10)), None, "it is stored");
        assert_eq!(window.register_from(ns(10)), Some(ns(20)));
        assert_eq!(window.register_from(ns(20)), Some(ns(20)), "a line has arrived");
        assert_eq!(window.arrival(7, 0b1, ns(20)), Some(ns(30)));
        window.hold(request(&window, 1, false), None, ns(20));
        window.coming.clear();
        window.hold(request(&window, 2, false), None, ns(20));
        assert_eq!(window.register_from(ns(20)), None);
        assert_eq!(window.batch_over(), None);
        window.arrived(2, ns(40));
        window.arrived(1, ns(50));
        assert!(window.is_over());
        assert_eq!(window.batch_over(), Some(ns(50)));
        assert_eq!(window.batch_over(), Some(Time::ZERO), "the next batch has nothing yet");
    }

    #[test]
    fn a_stream_is_followed_within_its_page() {
        let mut streams = Streams::new(4);
        let page = PageId(3);
        let lines = |ahead: Ahead| ahead.lines().collect::<Vec<u8>>();
        assert!(lines(streams.train(page, 10, 8)).is_empty());
        assert_eq!(lines(streams.train(page, 11, 8)), [12, 13, 14, 15]);
        assert_eq!(lines(streams.train(page, 12, 8)), [16], "one more for each that is used");
        assert!(lines(streams.train(PageId(4), 13, 8)).is_empty(), "another page");
        assert_eq!(lines(streams.train(page, 13, 0)), [], "no register is free");
        assert_eq!(lines(streams.train(page, 14, 8)), [17, 18]);
        assert!(lines(streams.train(page, 58, 8)).is_empty(), "a jump");
        assert_eq!(lines(streams.train(page, 59, 8)), [60, 61, 62, 63], "to the end of the page");
        assert_eq!(lines(streams.train(page, 60, 8)), []);
    }

    #[test]
    fn lines_that_memory_did_not_take_are_asked_for_again() {
        let mut window = window(1, 8, 4);
        let page = PageId(3);
        window.streamed(Time::ZERO, page, 10);
        let ahead = window.streamed(Time::ZERO, page, 11);
        assert_eq!(ahead.lines().collect::<Vec<u8>>(), [12, 13, 14, 15]);
        window.not_streamed(ahead, 1);
        let again = window.streamed(Time::ZERO, page, 12);
        assert_eq!(again.lines().collect::<Vec<u8>>(), [13, 14, 15, 16]);
    }

    #[test]
    fn a_stride_is_followed_once_it_has_come_twice_also_backwards() {
        let mut streams = Streams::new(3);
        let page = PageId(0);
        let mut train = |line| streams.train(page, line, 8).lines().collect::<Vec<u8>>();
        assert!(train(40).is_empty() && train(35).is_empty());
        assert_eq!(train(30), [25, 20, 15]);
        assert_eq!(train(25), [10]);
        assert_eq!(train(20), [5]);
        assert_eq!(train(15), [0]);
        assert!(train(10).is_empty());
    }
}
