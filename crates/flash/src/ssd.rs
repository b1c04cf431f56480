//! [`Ssd`]: the modelled SSD with its channels, its planes and the controller that schedules them.
//! Drives side by side have channels, planes and a write buffer each.
//!
//! A read senses its page into the plane's register, waits for the channel and is transferred. A
//! write waits in the write buffer until enough writes fill a physical page. If the host waits for
//! a write, this time is limited. The page is then transferred and programmed. A channel serves
//! requests in order. A plane serves reads before programs. When its free pages fall to the
//! threshold, it collects garbage, one block at a time. Between two collections the plane serves
//! one waiting command. At the hard limit it serves no write.

use std::collections::VecDeque;

use ebbtide_core::{PageId, Span, Time};
use rustc_hash::FxHashMap;

use crate::aged::{Aged, GOLDEN};
use crate::agenda::Agenda;
use crate::command::{Command, Done, Kind};
use crate::config::{GarbageCollection, SsdConfig, Suspend, WriteDone, WriteUnit};
use crate::counters::{Counters, DriveCounters, Wear};
use crate::interleaving::Places;
use crate::plane::{Plane, Stage, Suspended};
use crate::requests::{Pool, Queue, Request};
use crate::timing::Timing;
use crate::translation::{Collection, Layout, PlaneMap, Urgency};

/// A channel: one bus.
#[derive(Debug, Clone, Copy, Default)]
struct Channel {
    /// End of all transfers requested so far.
    free_at: Time,
    /// Until when a collection holds the channel.
    held_until: Time,
}

/// A write that found the write buffer full.
#[derive(Debug, Clone)]
struct Unacknowledged {
    tag: u64,
    submitted: Time,
}

/// Write buffer and counters of a drive.
#[derive(Debug, Clone, Default)]
struct Drive {
    /// Writes in the buffer.
    buffered_writes: u64,
    unacknowledged: VecDeque<Unacknowledged>,
    counters: DriveCounters,
}

/// The modelled SSD, or several drives of it side by side.
#[derive(Debug, Clone)]
pub(crate) struct Ssd {
    config: SsdConfig,
    logical_pages: u64,
    places: Places,
    drives: Vec<Drive>,
    layout: Layout,
    timing: Timing,
    channels: Vec<Channel>,
    planes: Vec<Plane>,
    agenda: Agenda,
    pool: Pool,
    /// Copies of each page in the write buffers.
    buffered: FxHashMap<PageId, u32>,
    /// Reads and acknowledgements that write buffers complete, with their drive. Each kind is in
    /// the order of completion.
    from_buffer: [VecDeque<(usize, Done)>; 2],
    /// When writes stop waiting for others to fill their physical page, and the plane they wait on.
    pads: VecDeque<(Time, u32)>,
    /// Pages that were programmed, if moves are watched.
    pub moved: Option<Vec<PageId>>,
    pub counters: Counters,
}

/// Where between two collections a plane is at the start, from 0 to 1; apart for planes side by
/// side.
fn phase(plane: usize) -> f64 {
    (plane as f64 * GOLDEN).fract()
}

impl Ssd {
    /// The device that `config` describes, which must have been checked.
    pub(crate) fn new(config: &SsdConfig) -> Ssd {
        let planes = config.planes();
        let pages = f64::from(config.blocks()) * f64::from(config.pages_per_block);
        let free_pages = |percent: f64| (pages * percent / 100.0) as u32;
        let slots = config.pages_per_block * config.slots_per_page();
        let aged_pages = config.aged_pages_per_plane() as u32;
        let layout = Layout {
            blocks: config.blocks(),
            pages_per_block: config.pages_per_block,
            slots_per_page: config.slots_per_page(),
            start_free_pages: free_pages(config.gc_start_free_percent),
            hard_free_pages: free_pages(config.gc_hard_free_percent),
            wear_spread: Some(config.static_wear_spread).filter(|spread| *spread > 0),
            aged: Aged::new(aged_pages, config.aged_blocks_per_plane(), slots),
        };
        Ssd {
            config: config.clone(),
            logical_pages: config.logical_pages(),
            places: Places::new(config.interleaving(), planes),
            drives: vec![Drive::default(); config.drives as usize],
            layout,
            timing: Timing::new(config),
            channels: vec![Channel::default(); config.channels_in_all() as usize],
            planes: (0..planes).map(|plane| Plane::new(plane % config.channels_in_all())).collect(),
            agenda: Agenda::new(planes as usize),
            pool: Pool::default(),
            buffered: FxHashMap::default(),
            from_buffer: Default::default(),
            pads: VecDeque::new(),
            moved: None,
            counters: Counters::default(),
        }
    }

    pub(crate) fn logical_pages(&self) -> u64 {
        self.logical_pages
    }

    /// Writes in the write buffers.
    pub(crate) fn buffered_writes(&self) -> u64 {
        self.drives.iter().map(|drive| drive.buffered_writes).sum()
    }

    pub(crate) fn drive_counters(&self) -> impl Iterator<Item = DriveCounters> {
        self.drives.iter().map(|drive| drive.counters)
    }

    pub(crate) fn raw_bytes(&self) -> u64 {
        self.config.raw_bytes()
    }

    pub(crate) fn endurance_cycles(&self) -> u32 {
        self.config.endurance_cycles
    }

    pub(crate) fn plane_busy(&self, now: Time) -> impl Iterator<Item = Span> {
        self.planes.iter().map(move |plane| plane.busy(now))
    }

    pub(crate) fn wear(&self) -> Wear {
        let maps = self.planes.iter().filter_map(|plane| plane.map.as_ref());
        let erases = maps.flat_map(|map| map.erases().iter().copied());
        let blocks = self.planes.len() as f64 * f64::from(self.layout.blocks);
        let (most, all) = erases
            .fold((0, 0), |(most, all), count| (u32::max(most, count), all + u64::from(count)));
        Wear { erases_max: most, erases_mean: all as f64 / blocks }
    }

    /// The drive of a plane.
    fn drive(&mut self, plane: usize) -> &mut Drive {
        &mut self.drives[self.places.drive(plane)]
    }

    fn channel(&mut self, plane: usize) -> &mut Channel {
        &mut self.channels[self.planes[plane].channel as usize]
    }

    /// Takes a command.
    pub(crate) fn submit(&mut self, now: Time, command: Command) {
        let pages = self.logical_pages;
        assert!(command.page.0 < pages, "{:?} is beyond the device's {pages} pages", command.page);
        match command.kind {
            Kind::Read => self.submit_read(now, command),
            Kind::Write => self.submit_write(now, command),
        }
    }

    fn submit_read(&mut self, now: Time, Command { tag, kind, page }: Command) {
        let (index, _) = self.places.of(page);
        if !self.buffered.is_empty() && self.buffered.contains_key(&page) {
            let at = now + self.timing.buffered_read;
            let done = Done { tag, kind, at, blocked_by_gc: false, queued: Span::ZERO };
            self.from_buffer[Kind::Read as usize].push_back((self.places.drive(index), done));
            return;
        }
        let id = self.pool.add(tag, page, now);
        let plane = &mut self.planes[index];
        self.pool.push(&mut plane.reads, id);
        if plane.stage == Stage::Idle {
            self.dispatch(index, now);
        } else {
            self.suspend(index, now);
        }
    }

    fn submit_write(&mut self, now: Time, Command { tag, kind, page }: Command) {
        *self.buffered.entry(page).or_insert(0) += 1;
        let (index, _) = self.places.of(page);
        let number = self.places.drive(index);
        let drive = &mut self.drives[number];
        drive.buffered_writes += 1;
        if self.config.write_done == WriteDone::Buffered {
            if drive.buffered_writes <= u64::from(self.config.write_buffer_pages) {
                let at = now + self.timing.buffered_write;
                let done = Done { tag, kind, at, blocked_by_gc: false, queued: Span::ZERO };
                self.from_buffer[Kind::Write as usize].push_back((number, done));
            } else {
                drive.unacknowledged.push_back(Unacknowledged { tag, submitted: now });
            }
        }
        let id = self.pool.add(tag, page, now);
        if self.pages_per_write() > 1 && self.pads(index) {
            self.pads.push_back((now + self.timing.pad_after, index as u32));
        }
        let plane = &mut self.planes[index];
        self.pool.push(&mut plane.writes, id);
        if plane.stage == Stage::Idle {
            self.dispatch(index, now);
        }
    }

    /// The expected time of a read of `page` from `now` on. It counts the stage of the page's plane
    /// and the reads that wait there, and leaves out a wait for the channel.
    pub(crate) fn expected_read(&self, now: Time, page: PageId) -> Span {
        if self.buffered.contains_key(&page) {
            return self.timing.buffered_read;
        }
        let plane = &self.planes[self.places.of(page).0];
        let each = self.timing.read + self.timing.page_out;
        let stage = match plane.stage {
            Stage::Idle => Span::ZERO,
            _ => plane.end.since(now),
        };
        let reads = u64::from(plane.reads.len()) + 1;
        stage + Span::from_ps(reads * each.as_ps())
    }

    /// Time of the next event.
    pub(crate) fn next_event(&self) -> Option<Time> {
        let plane = self.agenda.first().map(|(at, _)| at);
        let first = self.from_buffer.iter().filter_map(|lane| lane.front());
        let buffer = first.map(|(_, done)| done.at);
        let pad = self.pads.front().map(|(at, _)| *at);
        plane.into_iter().chain(buffer).chain(pad).min()
    }

    /// Handles one event at `at`, which is [`next_event`](Ssd::next_event).
    pub(crate) fn step(&mut self, at: Time, done: &mut Vec<Done>) {
        if let Some((end, plane)) = self.agenda.first()
            && end == at
        {
            self.finish(plane as usize, at, done);
        } else if let Some((_, plane)) = self.pads.pop_front_if(|(pad, _)| *pad == at) {
            if self.planes[plane as usize].stage == Stage::Idle {
                self.dispatch(plane as usize, at);
            }
        } else {
            let lanes = &mut self.from_buffer;
            let due = |(_, done): &mut (usize, Done)| done.at == at;
            let first = lanes.iter_mut().find_map(|lane| lane.pop_front_if(due));
            let (drive, first) = first.expect("there is an event at its time");
            if first.kind == Kind::Read {
                self.counters.reads += 1;
                self.counters.buffer_reads += 1;
                self.drives[drive].counters.reads += 1;
            }
            done.push(first);
        }
    }

    /// Ends the stage of a plane.
    fn finish(&mut self, index: usize, now: Time, done: &mut Vec<Done>) {
        match self.planes[index].stage {
            Stage::Idle => unreachable!("an idle plane ends nothing"),
            Stage::Sensing => return self.send(index, now),
            Stage::Receiving => {
                self.enter(index, now, Stage::Programming, now + self.timing.program);
                return self.suspend(index, now);
            }
            Stage::Copying => {
                self.planes[index].blocked_until = now;
                self.enter(index, now, Stage::Erasing, now + self.timing.erase);
                return self.suspend(index, now);
            }
            Stage::Sending => self.finish_read(index, now, done),
            Stage::Programming => self.finish_program(index, now, done),
            Stage::Erasing => {
                let plane = &mut self.planes[index];
                plane.blocked_until = now;
                plane.just_collected = true;
            }
            Stage::Suspending => {}
        }
        self.dispatch(index, now);
    }

    fn enter(&mut self, index: usize, now: Time, stage: Stage, end: Time) {
        self.planes[index].enter(now, stage, end);
        self.agenda.set(index as u32, end);
    }

    /// Starts the next stage of a plane that is idle or has finished one.
    fn dispatch(&mut self, index: usize, now: Time) {
        if self.planes[index].suspended.is_some() {
            if self.planes[index].reads.is_empty() {
                self.resume(index, now);
            } else {
                self.sense(index, now);
            }
            return;
        }
        while self.must_collect(index, now) {
            if self.collect(index, now) {
                return;
            }
        }
        let plane = &self.planes[index];
        if !plane.reads.is_empty() {
            self.sense(index, now);
        } else if plane.urgency < Urgency::Now && self.can_fill_page(index, now) {
            self.receive(index, now);
        } else if plane.stage != Stage::Idle {
            self.planes[index].rest(now);
            self.agenda.clear(index as u32);
        }
    }

    /// Returns true if a collection comes before anything else.
    fn must_collect(&self, index: usize, now: Time) -> bool {
        let plane = &self.planes[index];
        let waiting = match plane.urgency {
            Urgency::None => return false,
            Urgency::Soon => !plane.reads.is_empty() || self.can_fill_page(index, now),
            Urgency::Now => !plane.reads.is_empty(),
        };
        !(plane.just_collected && waiting)
    }

    /// Starts a collection. Returns `false` if it takes no time or gains nothing.
    fn collect(&mut self, index: usize, now: Time) -> bool {
        let plane = &mut self.planes[index];
        let Some(work) = plane.map.as_mut().and_then(|map| map.collect(&self.layout)) else {
            plane.urgency = Urgency::None;
            return false;
        };
        plane.suspensions = 0;
        self.update_urgency(index);
        self.count_collection(index, &work);
        let (start, copying) = match self.config.garbage_collection {
            GarbageCollection::Free => return false,
            GarbageCollection::PlaneBlocking => (now, self.timing.copyback(&work)),
            GarbageCollection::ControllerBlocking => {
                let copying = self.timing.copy_over_bus(&work);
                let held = copying + self.timing.erase;
                let channel = self.channel(index);
                let start = now.max(channel.free_at);
                channel.free_at = start + held;
                channel.held_until = start + held;
                (start, copying)
            }
        };
        self.counters.gc_busy = self.counters.gc_busy.saturating_add(copying + self.timing.erase);
        self.enter(index, now, Stage::Copying, start + copying);
        true
    }

    fn count_collection(&mut self, index: usize, work: &Collection) {
        if let Some(moved) = &mut self.moved {
            moved.extend(work.moved.iter().map(|own| self.places.page(index, *own)));
        }
        self.counters.erases += 1;
        self.drive(index).counters.erases += 1;
        self.counters.gc_pages_moved += work.moved.len() as u64;
        self.counters.gc_pages_programmed +=
            u64::from(work.programs) * u64::from(self.layout.slots_per_page);
    }

    fn update_urgency(&mut self, index: usize) {
        let plane = &mut self.planes[index];
        plane.urgency = plane.map.as_ref().map_or(Urgency::None, |map| map.urgency(&self.layout));
    }

    /// Starts the first read.
    fn sense(&mut self, index: usize, now: Time) {
        let plane = &mut self.planes[index];
        plane.just_collected = false;
        plane.current = self.pool.split(&mut plane.reads, 1);
        let blocked_until = plane.blocked_until;
        let blocked = |request: &mut Request| request.blocked = blocked_until > request.submitted;
        self.pool.update(plane.current, blocked);
        self.enter(index, now, Stage::Sensing, now + self.timing.read);
    }

    /// Transfers the sensed page as soon as the channel is free.
    fn send(&mut self, index: usize, now: Time) {
        let page_out = self.timing.page_out;
        let (end, held) = self.transfer(index, now, page_out);
        if held {
            let read = self.planes[index].current;
            self.pool.update(read, |request| request.blocked = true);
        }
        self.enter(index, now, Stage::Sending, end);
    }

    /// Occupies the channel of a plane for `span`. Returns the end, and true if a collection delays
    /// it.
    fn transfer(&mut self, index: usize, now: Time, span: Span) -> (Time, bool) {
        let channel = self.channel(index);
        let end = now.max(channel.free_at) + span;
        channel.free_at = end;
        let held_until = channel.held_until;
        if held_until > now {
            self.planes[index].blocked_until = held_until;
        }
        (end, held_until > now)
    }

    fn finish_read(&mut self, index: usize, now: Time, done: &mut Vec<Done>) {
        let plane = &mut self.planes[index];
        let Some(id) = self.pool.pop(&mut plane.current) else { return };
        let Request { tag, submitted, blocked, .. } = self.pool.remove(id);
        let queued = now - (submitted + self.timing.read + self.timing.page_out);
        self.counters.reads += 1;
        self.drive(index).counters.reads += 1;
        self.counters.reads_blocked_by_gc += u64::from(blocked);
        self.counters.read_queued = self.counters.read_queued.saturating_add(queued);
        done.push(Done { tag, kind: Kind::Read, at: now, blocked_by_gc: blocked, queued });
    }

    /// Writes that one program takes.
    fn pages_per_write(&self) -> u32 {
        match self.config.write_unit {
            WriteUnit::Filled => self.layout.slots_per_page,
            WriteUnit::Padded => 1,
        }
    }

    /// Returns true if the waiting writes fill a physical page, or the first has waited long
    /// enough.
    fn can_fill_page(&self, index: usize, now: Time) -> bool {
        let writes = &self.planes[index].writes;
        let waited = |id| self.pool.get(id).submitted + self.timing.pad_after <= now;
        let filled = writes.len() >= self.pages_per_write();
        filled || self.pads(index) && writes.front().is_some_and(waited)
    }

    /// Returns true if a write to a plane that has waited long enough is padded to a physical page.
    /// An acknowledged write is safe in its drive's buffer, so it waits for others until the buffer
    /// is full.
    fn pads(&self, index: usize) -> bool {
        let drive = &self.drives[self.places.drive(index)];
        self.config.write_done == WriteDone::Programmed || !drive.unacknowledged.is_empty()
    }

    /// Starts to program a physical page with the first writes.
    fn receive(&mut self, index: usize, now: Time) {
        let unit = self.pages_per_write();
        let unit_in = self.timing.unit_in;
        let (end, held) = self.transfer(index, now, unit_in);
        let places = self.places;
        let plane = &mut self.planes[index];
        plane.just_collected = false;
        plane.suspensions = 0;
        plane.current = self.pool.split(&mut plane.writes, unit);
        let pages = self.pool.iter(plane.current).map(|request| places.of(request.page).1);
        if let Some(moved) = &mut self.moved {
            moved.extend(self.pool.iter(plane.current).map(|request| request.page));
        }
        let aged = || Box::new(PlaneMap::at_phase(&self.layout, phase(index)));
        let map = plane.map.get_or_insert_with(aged);
        map.program(&self.layout, pages);
        self.counters.host_pages_programmed += u64::from(self.layout.slots_per_page);
        if held || self.waited_for_collection(index) {
            let writes = self.planes[index].current;
            self.pool.update(writes, |request| request.blocked = true);
        }
        self.update_urgency(index);
        self.enter(index, now, Stage::Receiving, end);
    }

    /// Returns true if a collection delayed the current writes after they filled their physical
    /// page.
    fn waited_for_collection(&self, index: usize) -> bool {
        let plane = &self.planes[index];
        let mut times = self.pool.iter(plane.current).map(|request| request.submitted);
        let Some(first) = times.next() else { return false };
        let ready = if plane.current.len() == self.pages_per_write() {
            times.last().unwrap_or(first)
        } else {
            first + self.timing.pad_after
        };
        plane.blocked_until > ready
    }

    fn finish_program(&mut self, index: usize, now: Time, done: &mut Vec<Done>) {
        while let Some(id) = self.pool.pop(&mut self.planes[index].current) {
            let request = self.pool.remove(id);
            self.leave_buffer(index, request.page);
            let Request { tag, submitted, blocked, .. } = request;
            let queued = now - (submitted + self.timing.unit_in + self.timing.program);
            self.counters.writes += 1;
            self.drive(index).counters.writes += 1;
            self.counters.writes_blocked_by_gc += u64::from(blocked);
            self.counters.write_queued = self.counters.write_queued.saturating_add(queued);
            match self.config.write_done {
                WriteDone::Programmed => {
                    let kind = Kind::Write;
                    done.push(Done { tag, kind, at: now, blocked_by_gc: blocked, queued });
                }
                WriteDone::Buffered => self.acknowledge(index, now, blocked),
            }
        }
    }

    fn leave_buffer(&mut self, index: usize, page: PageId) {
        self.drive(index).buffered_writes -= 1;
        let times =
            self.buffered.get_mut(&page).expect("a write is in the buffer until programmed");
        *times -= 1;
        if *times == 0 {
            self.buffered.remove(&page);
        }
    }

    /// Acknowledges the first write that waits for room in a drive's buffer, after another has left
    /// it.
    fn acknowledge(&mut self, index: usize, now: Time, blocked_by_gc: bool) {
        let first = self.drive(index).unacknowledged.pop_front();
        let Some(Unacknowledged { tag, submitted }) = first else { return };
        let at = now + self.timing.buffered_write;
        let done = Done { tag, kind: Kind::Write, at, blocked_by_gc, queued: now - submitted };
        let drive = self.places.drive(index);
        self.from_buffer[Kind::Write as usize].push_back((drive, done));
    }

    /// Suspends the operation of a plane for waiting reads, if it may be suspended and that saves
    /// time.
    fn suspend(&mut self, index: usize, now: Time) {
        let plane = &mut self.planes[index];
        if plane.reads.is_empty() || self.config.suspend == Suspend::None {
            return;
        }
        let inside_plane = self.config.garbage_collection == GarbageCollection::PlaneBlocking;
        let may = match plane.stage {
            Stage::Erasing => inside_plane,
            Stage::Copying => inside_plane && self.config.suspend == Suspend::ProgramErase,
            Stage::Programming => self.config.suspend == Suspend::ProgramErase,
            _ => false,
        };
        let remaining = plane.end - now;
        let helps = remaining > self.timing.suspend;
        if !may || !helps || plane.suspensions == self.config.suspensions_max {
            return;
        }
        plane.suspensions += 1;
        let commands = std::mem::replace(&mut plane.current, Queue::EMPTY);
        plane.suspended = Some(Suspended { stage: plane.stage, commands, remaining });
        self.counters.suspensions += 1;
        self.enter(index, now, Stage::Suspending, now + self.timing.suspend);
    }

    /// Resumes the suspended operation.
    fn resume(&mut self, index: usize, now: Time) {
        let plane = &mut self.planes[index];
        let Some(Suspended { stage, commands, remaining }) = plane.suspended.take() else { return };
        plane.current = commands;
        self.enter(index, now, stage, now + self.timing.resume + remaining);
    }
}
