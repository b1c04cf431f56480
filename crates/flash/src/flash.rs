//! [`Flash`]: the device as its user sees it.

use ebbtide_core::{PageId, Span, Time};

use crate::config::{Config, ConfigError};
use crate::counters::{Counters, Lifetime, Wear};
use crate::flat::Flat;
use crate::ssd::Ssd;

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Brings a page.
    Read,
    /// Takes a page.
    Write,
}

/// A command to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// The submitter's own mark; comes back with the completion.
    pub tag: u64,
    /// What to do.
    pub kind: Kind,
    /// With which logical page of 4 KiB.
    pub page: PageId,
}

/// A completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The command's tag.
    pub tag: u64,
    /// What it did.
    pub kind: Kind,
    /// When it was done.
    pub at: Time,
    /// It waited for a collection. A buffered write did only if it waited for room in the buffer
    /// that a write blocked by a collection then made.
    pub blocked_by_gc: bool,
    /// How much longer it took than on an idle device.
    pub queued: Span,
}

/// A flash device in virtual time. A clone goes on by itself from the same state, so that one warmed
/// device serves many runs.
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
    /// Completed while a command was submitted, and not yet told.
    untold: Vec<Done>,
    outstanding: u64,
}

#[derive(Debug, Clone)]
enum Device {
    Flat(Flat),
    Ssd(Box<Ssd>),
}

impl Flash {
    /// The device that `config` describes, idle.
    ///
    /// # Errors
    /// When there can be no such device.
    pub fn new(config: &Config) -> Result<Flash, ConfigError> {
        config.check()?;
        let device = match config {
            Config::Flat(flat) => Device::Flat(Flat::new(flat)),
            Config::Ssd(ssd) => Device::Ssd(Box::new(Ssd::new(ssd))),
        };
        Ok(Flash { device, now: Time::ZERO, untold: Vec::new(), outstanding: 0 })
    }

    /// How many logical pages there are; `None` for a flat device, which has no bounds.
    pub fn logical_pages(&self) -> Option<u64> {
        match &self.device {
            Device::Flat(_) => None,
            Device::Ssd(ssd) => Some(ssd.logical_pages()),
        }
    }

    /// Gives the device a command at `now`. What happens by itself until then happens first.
    ///
    /// # Panics
    /// If time runs back, or the page is beyond the last.
    pub fn submit(&mut self, now: Time, command: Command) {
        let mut untold = std::mem::take(&mut self.untold);
        self.run_until(now, &mut untold);
        self.untold = untold;
        self.outstanding += 1;
        match &mut self.device {
            Device::Flat(flat) => flat.submit(now, command),
            Device::Ssd(ssd) => ssd.submit(now, command),
        }
    }

    /// When the next thing happens by itself, or is told; nothing does if there is none. Never
    /// before the latest time the device was told.
    pub fn next_event(&self) -> Option<Time> {
        if self.untold.is_empty() { self.device.next_event() } else { Some(self.now) }
    }

    /// Lets everything happen until `now`, that instant included; appends what is done, in order.
    ///
    /// # Panics
    /// If time runs back.
    pub fn advance(&mut self, now: Time, done: &mut Vec<Done>) {
        let before = done.len();
        done.append(&mut self.untold);
        self.run_until(now, done);
        self.outstanding -= (done.len() - before) as u64;
    }

    /// Commands that were submitted and not yet told to be done.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Tells from now on which pages move.
    pub fn watch_moves(&mut self) {
        self.moved().get_or_insert_default();
    }

    /// Pages that lie elsewhere than when this was last asked, in the order in which they went there:
    /// those that were written, and those that collections moved. Nothing unless
    /// [watched](Flash::watch_moves).
    pub fn take_moved(&mut self) -> Vec<PageId> {
        self.moved().as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn moved(&mut self) -> &mut Option<Vec<PageId>> {
        match &mut self.device {
            Device::Flat(flat) => &mut flat.moved,
            Device::Ssd(ssd) => &mut ssd.moved,
        }
    }

    /// Whether nothing is under way: no command, no buffered write, no collection.
    pub fn is_idle(&self) -> bool {
        self.next_event().is_none()
    }

    /// What happened since the start.
    pub fn counters(&self) -> &Counters {
        match &self.device {
            Device::Flat(flat) => &flat.counters,
            Device::Ssd(ssd) => &ssd.counters,
        }
    }

    /// How long each plane was busy until now, plane by plane; planes of a flat device are not.
    pub fn plane_busy(&self) -> impl Iterator<Item = Span> {
        let ssd = match &self.device {
            Device::Flat(_) => None,
            Device::Ssd(ssd) => Some(ssd.plane_busy(self.now)),
        };
        ssd.into_iter().flatten()
    }

    /// How worn the blocks are; a flat device does not wear.
    pub fn wear(&self) -> Wear {
        match &self.device {
            Device::Flat(_) => Wear::default(),
            Device::Ssd(ssd) => ssd.wear(),
        }
    }

    /// How long the device lasts if `elapsed` of use programmed what it has, collections included.
    /// `None` for a flat device.
    pub fn lifetime(&self, elapsed: Span) -> Option<Lifetime> {
        let counters = self.counters();
        self.lifetime_of(counters.host_pages_programmed + counters.gc_pages_programmed, elapsed)
    }

    /// How long the device lasts at a write amplification of 1, as the CXL-flash paper takes it.
    /// `None` for a flat device.
    pub fn lifetime_without_amplification(&self, elapsed: Span) -> Option<Lifetime> {
        self.lifetime_of(self.counters().writes, elapsed)
    }

    fn lifetime_of(&self, pages: u64, elapsed: Span) -> Option<Lifetime> {
        match &self.device {
            Device::Flat(_) => None,
            Device::Ssd(ssd) => {
                Some(Lifetime::new(ssd.raw_bytes(), ssd.endurance_cycles(), pages, elapsed))
            }
        }
    }

    fn run_until(&mut self, now: Time, done: &mut Vec<Done>) {
        assert!(now >= self.now, "time runs back from {:?} to {now:?}", self.now);
        self.now = now;
        while let Some(at) = self.device.next_event().filter(|at| *at <= now) {
            match &mut self.device {
                Device::Flat(flat) => flat.step(done),
                Device::Ssd(ssd) => ssd.step(at, done),
            }
        }
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
