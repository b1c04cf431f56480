//! [`Flash`]: the device and its public interface.

use ebbtide_core::{PageId, Span, Time};

use crate::command::{Command, Done};
use crate::config::{Config, ConfigError};
use crate::counters::{Counters, Lifetime, Wear};
use crate::flat::Flat;
use crate::ssd::Ssd;

/// A flash device in virtual time. A clone continues on its own from the same state, so one warmed
/// device can serve many runs.
///
/// ```
/// use ebbtide_core::{PageId, Time};
/// use ebbtide_flash::{Command, Config, Flash, Kind};
///
/// let mut flash = Flash::new(&Config::preset("flat")?)?;
/// flash.submit(Time::ZERO, Command { tag: 7, kind: Kind::Read, page: PageId(3) });
/// let mut done = Vec::new();
/// while let Some(at) = flash.next_event() {
///     flash.advance(at, &mut done);
/// }
/// assert_eq!((done[0].tag, done[0].at), (7, Time::from_ns(50_000)));
/// # Ok::<(), ebbtide_flash::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Flash {
    device: Device,
    now: Time,
    /// Completions during a submission. The next advance reports them.
    untold: Vec<Done>,
    outstanding: u64,
    /// Commands that are not complete.
    inside: u64,
    /// Until when their time is counted.
    counted: Time,
}

#[derive(Debug, Clone)]
enum Device {
    Flat(Box<Flat>),
    Ssd(Box<Ssd>),
}

impl Flash {
    /// The device that `config` describes, idle.
    ///
    /// # Errors
    /// When such a device is impossible.
    pub fn new(config: &Config) -> Result<Flash, ConfigError> {
        config.check()?;
        let device = match config {
            Config::Flat(flat) => Device::Flat(Box::new(Flat::new(flat))),
            Config::Ssd(ssd) => Device::Ssd(Box::new(Ssd::new(ssd))),
        };
        Ok(Flash {
            device,
            now: Time::ZERO,
            untold: Vec::new(),
            outstanding: 0,
            inside: 0,
            counted: Time::ZERO,
        })
    }

    /// Number of logical pages, or `None` for a flat device, which is unlimited.
    pub fn logical_pages(&self) -> Option<u64> {
        match &self.device {
            Device::Flat(_) => None,
            Device::Ssd(ssd) => Some(ssd.logical_pages()),
        }
    }

    /// Submits a command at `now`, after all events until then.
    ///
    /// # Panics
    /// If `now` is before an earlier call, or the page is beyond the last.
    pub fn submit(&mut self, now: Time, command: Command) {
        let mut untold = std::mem::take(&mut self.untold);
        self.run_until(now, &mut untold);
        self.untold = untold;
        self.outstanding += 1;
        self.inside += 1;
        match &mut self.device {
            Device::Flat(flat) => flat.submit(now, command),
            Device::Ssd(ssd) => ssd.submit(now, command),
        }
    }

    /// The expected time of a read of `page` that is submitted at `now`. Commands that come later
    /// can delay it.
    pub fn expected_read(&self, now: Time, page: PageId) -> Span {
        match &self.device {
            Device::Flat(flat) => flat.expected_read(),
            Device::Ssd(ssd) => ssd.expected_read(now, page),
        }
    }

    /// Time of the next event or completion, or `None` if the device is idle. It is never before
    /// the time of an earlier call.
    pub fn next_event(&self) -> Option<Time> {
        if self.untold.is_empty() { self.device.next_event() } else { Some(self.now) }
    }

    /// Handles all events up to and including `now`, and appends completions to `done` in order.
    ///
    /// # Panics
    /// If `now` is before an earlier call.
    pub fn advance(&mut self, now: Time, done: &mut Vec<Done>) {
        let before = done.len();
        done.append(&mut self.untold);
        self.run_until(now, done);
        self.outstanding -= (done.len() - before) as u64;
    }

    /// Commands submitted whose completion was not yet reported.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Writes that are in the write buffer and not yet programmed. Acknowledged ones may stay
    /// there.
    pub fn buffered_writes(&self) -> u64 {
        match &self.device {
            Device::Flat(_) => 0,
            Device::Ssd(ssd) => ssd.buffered_writes,
        }
    }

    /// Records from now on which pages move in flash.
    pub fn watch_moves(&mut self) {
        self.moved().get_or_insert_default();
    }

    /// Pages that moved in flash since the last call, in order: by a write or by a collection.
    /// Empty unless moves are [watched](Flash::watch_moves).
    pub fn take_moved(&mut self) -> Vec<PageId> {
        self.moved().as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn moved(&mut self) -> &mut Option<Vec<PageId>> {
        match &mut self.device {
            Device::Flat(flat) => &mut flat.moved,
            Device::Ssd(ssd) => &mut ssd.moved,
        }
    }

    /// Returns true if the device is idle: without commands, buffered writes and collections.
    pub fn is_idle(&self) -> bool {
        self.next_event().is_none()
    }

    /// The counters since the start.
    pub fn counters(&self) -> &Counters {
        match &self.device {
            Device::Flat(flat) => &flat.counters,
            Device::Ssd(ssd) => &ssd.counters,
        }
    }

    /// Busy time of each plane until now. A flat device has no planes.
    pub fn plane_busy(&self) -> impl Iterator<Item = Span> {
        let ssd = match &self.device {
            Device::Flat(_) => None,
            Device::Ssd(ssd) => Some(ssd.plane_busy(self.now)),
        };
        ssd.into_iter().flatten()
    }

    /// Wear of the blocks. A flat device does not wear.
    pub fn wear(&self) -> Wear {
        match &self.device {
            Device::Flat(_) => Wear::default(),
            Device::Ssd(ssd) => ssd.wear(),
        }
    }

    /// Returns the lifetime if all pages so far, including copies by collections, were programmed
    /// in `elapsed`. `None` for a flat device.
    pub fn lifetime(&self, elapsed: Span) -> Option<Lifetime> {
        let counters = self.counters();
        let pages = counters.host_pages_programmed + counters.gc_pages_programmed;
        match &self.device {
            Device::Flat(_) => None,
            Device::Ssd(ssd) => {
                Some(Lifetime::new(ssd.raw_bytes(), ssd.endurance_cycles(), pages, elapsed))
            }
        }
    }

    /// Counts the time until `now` of the commands in the device.
    fn count(&mut self, now: Time) {
        let took = now.since(self.counted).as_ps() * self.inside;
        self.counted = now;
        let counters = match &mut self.device {
            Device::Flat(flat) => &mut flat.counters,
            Device::Ssd(ssd) => &mut ssd.counters,
        };
        counters.commands_time = counters.commands_time + Span::from_ps(took);
    }

    fn run_until(&mut self, now: Time, done: &mut Vec<Done>) {
        assert!(now >= self.now, "time runs back from {:?} to {now:?}", self.now);
        self.now = now;
        while let Some(at) = self.device.next_event().filter(|at| *at <= now) {
            self.count(at);
            let before = done.len();
            match &mut self.device {
                Device::Flat(flat) => flat.step(done),
                Device::Ssd(ssd) => ssd.step(at, done),
            }
            self.inside -= (done.len() - before) as u64;
        }
        self.count(now);
    }
}

impl Device {
    fn next_event(&self) -> Option<Time> {
        match self {
            Device::Flat(flat) => flat.next_event(),
            Device::Ssd(ssd) => ssd.next_event(),
        }
    }
}
