//! [`Flash`]: the device and its public interface.

use ebbtide_core::{PageId, Span, Time};

use crate::command::{Command, Done};
use crate::config::{Config, ConfigError};
use crate::counters::{Counters, DriveCounters, Lifetime, Wear};
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
    /// Returns the device that `config` describes, idle at time zero.
    ///
    /// # Errors
    /// [`ConfigError::Value`] if a value of `config` is out of its range; see [`Config::check`].
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

    /// Returns the number of logical pages of 4 KiB. `None` for a flat device, which has no limit.
    pub fn logical_pages(&self) -> Option<u64> {
        match &self.device {
            Device::Flat(_) => None,
            Device::Ssd(ssd) => Some(ssd.logical_pages()),
        }
    }

    /// Submits a command at `now`. First handles all events up to and including `now`. The next
    /// [`advance`](Flash::advance) reports their completions.
    ///
    /// # Panics
    /// If `now` is before the time of an earlier call, or the page is not below
    /// [`logical_pages`](Flash::logical_pages).
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

    /// Returns the expected latency of a read of `page` that is submitted at `now`. Does not count
    /// waits for the channel, for collections not yet started or for later commands.
    pub fn expected_read(&self, now: Time, page: PageId) -> Span {
        match &self.device {
            Device::Flat(flat) => flat.expected_read(),
            Device::Ssd(ssd) => ssd.expected_read(now, page),
        }
    }

    /// Returns the time of the next event or unreported completion; `None` if there is none. It is
    /// never before the time of an earlier call.
    pub fn next_event(&self) -> Option<Time> {
        if self.untold.is_empty() { self.device.next_event() } else { Some(self.now) }
    }

    /// Handles all events up to and including `now`. Appends the completions to `done` in the order
    /// of their times.
    ///
    /// # Panics
    /// If `now` is before the time of an earlier call.
    pub fn advance(&mut self, now: Time, done: &mut Vec<Done>) {
        let before = done.len();
        done.append(&mut self.untold);
        self.run_until(now, done);
        self.outstanding -= (done.len() - before) as u64;
    }

    /// Returns the number of submitted commands whose completion is not yet reported.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Returns the number of writes in the write buffer, not yet programmed. Acknowledged writes
    /// can stay there indefinitely.
    pub fn buffered_writes(&self) -> u64 {
        match &self.device {
            Device::Flat(_) => 0,
            Device::Ssd(ssd) => ssd.buffered_writes(),
        }
    }

    /// Records from now on which logical pages move to another place in flash.
    /// [`take_moved`](Flash::take_moved) returns them.
    pub fn watch_moves(&mut self) {
        self.moved().get_or_insert_default();
    }

    /// Returns the logical pages that a write or a collection moved since the last call, in order.
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

    /// Returns true if there is no event and no unreported completion. Acknowledged writes can
    /// still wait in the write buffer; see [`buffered_writes`](Flash::buffered_writes).
    pub fn is_idle(&self) -> bool {
        self.next_event().is_none()
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> &Counters {
        match &self.device {
            Device::Flat(flat) => &flat.counters,
            Device::Ssd(ssd) => &ssd.counters,
        }
    }

    /// Returns the counters of each drive since the start. Empty for a flat device, which has no
    /// drives side by side.
    pub fn drive_counters(&self) -> impl Iterator<Item = DriveCounters> {
        let ssd = match &self.device {
            Device::Flat(_) => None,
            Device::Ssd(ssd) => Some(ssd.drive_counters()),
        };
        ssd.into_iter().flatten()
    }

    /// Returns the busy time of each plane until the time of the last call. Empty for a flat
    /// device.
    pub fn plane_busy(&self) -> impl Iterator<Item = Span> {
        let ssd = match &self.device {
            Device::Flat(_) => None,
            Device::Ssd(ssd) => Some(ssd.plane_busy(self.now)),
        };
        ssd.into_iter().flatten()
    }

    /// Returns the wear of the blocks. Zero for a flat device.
    pub fn wear(&self) -> Wear {
        match &self.device {
            Device::Flat(_) => Wear::default(),
            Device::Ssd(ssd) => ssd.wear(),
        }
    }

    /// Returns the lifetime at the mean rate of programs during `elapsed`, the time since the
    /// start. Copies by collections count. `None` for a flat device.
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
        let took = now.since(self.counted).as_ps().saturating_mul(self.inside);
        self.counted = now;
        let counters = match &mut self.device {
            Device::Flat(flat) => &mut flat.counters,
            Device::Ssd(ssd) => &mut ssd.counters,
        };
        counters.commands_time = counters.commands_time.saturating_add(Span::from_ps(took));
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
