//! [`Caches`]: the private caches and the last level, kept coherent. They return cycles, not times.

#[cfg(test)]
mod tests;

use ebbtide_core::{LINE_BYTES, PAGE_BYTES, PageId};
use ebbtide_trace::{Evicted, LineCache, LineId};
use serde::{Deserialize, Serialize};

use super::directory::{Directory, Held};
use super::noc::Noc;
use crate::config::{Cache, Config, ConfigError};

/// The caches of the chip. The home tile of a line has a slice of the last level, and a directory
/// of the cores that hold the line. It looks both up in parallel, in the same time.
///
/// The last level is neither inclusive nor exclusive (AstriFlash Table I). It receives lines from
/// memory, and dirty lines that their owner evicts or shares. A shared line comes from the last
/// level or from memory, never from a private cache.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Caches {
    own: Vec<LineCache>,
    directory: Directory,
    slices: Vec<LineCache>,
    noc: Noc,
    own_cycles: u64,
    /// Cycles to look in the private cache, then in a slice.
    both_cycles: u64,
    controllers: usize,
    coherence: Coherence,
    written_back: u64,
    /// Dirty lines that left the chip and that memory has not taken yet.
    #[serde(skip)]
    leaving: Vec<LineId>,
}

/// Counters of cache coherence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coherence {
    /// Lines that the private cache of their owner sent to another core.
    pub forwards: u64,
    /// Lines that a private cache lost because another core stored to them.
    pub invalidations: u64,
    /// Stores to lines that the private cache shared, which had to request ownership.
    pub upgrades: u64,
}

/// The outcome of a lookup of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Looked {
    /// Whether it is on the chip.
    pub found: bool,
    /// Cycles until the line is at the core. For a line that is not on the chip: cycles of the
    /// request to the memory controller and of the answer back.
    pub cycles: u64,
}

impl Caches {
    /// Empty caches as `config` describes them.
    ///
    /// # Errors
    /// When a number of sets is not a power of two.
    pub(crate) fn new(config: &Config) -> Result<Caches, ConfigError> {
        let count = config.cores.count;
        let own = tags(&config.l1, 1, "l1.size")?;
        let slice = tags(&config.llc, count, "llc.size")?;
        Ok(Caches {
            directory: Directory::new(count * (config.l1.size.0 / LINE_BYTES as u64) as usize),
            own: vec![own; count],
            slices: vec![slice; count],
            noc: Noc::new(&config.noc, count),
            own_cycles: config.l1.latency_cycles,
            both_cycles: config.l1.latency_cycles + config.llc.latency_cycles,
            controllers: config.dram.controllers,
            coherence: Coherence::default(),
            written_back: 0,
            leaving: Vec::new(),
        })
    }

    /// Looks `line` up in the private cache of `core`, makes it the most recently used, and marks
    /// it dirty if `write`. Returns whether it was dirty before, or `None` if it is absent. A store
    /// to a clean line must then [own](Caches::own) it.
    #[inline]
    pub(crate) fn touch(&mut self, core: usize, line: LineId, write: bool) -> Option<bool> {
        self.own[core].touch(line, write)
    }

    /// Makes `core` the owner of `line`, which is clean in its private cache. Returns the cycles
    /// until no other core holds the line. They are 0 if none does: the private cache knows that.
    pub(crate) fn own(&mut self, core: usize, line: LineId) -> u64 {
        if self.directory.owner(line) == Some(core) {
            return 0;
        }
        self.coherence.upgrades += 1;
        let ask = 2 * self.noc.message_cycles(core, self.noc.home(line));
        ask + self.both_cycles + self.take(core, line)
    }

    /// Looks for `line`, which is not in the private cache of `core`, in the other private caches
    /// and in the last level.
    #[inline]
    pub(crate) fn look(&mut self, core: usize, line: LineId) -> Looked {
        let Some(owner) = self.directory.owner(line) else { return self.look_in_llc(core, line) };
        debug_assert!(owner != core, "core {core} owns line {line} and does not hold it");
        self.coherence.forwards += 1;
        let ways = self.noc.forward_cycles(core, self.noc.home(line), owner);
        Looked { found: true, cycles: self.both_cycles + ways + self.own_cycles }
    }

    /// Looks for `line` in the last level.
    #[inline]
    pub(crate) fn look_in_llc(&mut self, core: usize, line: LineId) -> Looked {
        let home = self.noc.home(line);
        let found = self.slices[home].touch(line, false).is_some();
        let mut cycles = self.both_cycles + self.noc.round_trip_cycles(core, home);
        if !found {
            let controller = (line * LINE_BYTES as u64 / PAGE_BYTES as u64) as usize;
            let tile = self.noc.controller_tile(controller % self.controllers);
            cycles += self.noc.round_trip_cycles(home, tile);
        }
        Looked { found, cycles }
    }

    /// Whether `core` would find `line` on the chip.
    pub(crate) fn is_on_chip(&self, core: usize, line: LineId) -> bool {
        self.own[core].holds(line)
            || self.directory.owner(line).is_some()
            || self.slices[self.noc.home(line)].holds(line)
    }

    /// Puts `line`, which was found on the chip or came from memory, into the private cache of
    /// `core`. For a store, returns the cycles after the lookup until no other core holds the line.
    #[inline]
    pub(crate) fn fill(&mut self, core: usize, line: LineId, write: bool) -> u64 {
        let cycles = if write {
            self.take(core, line)
        } else {
            self.share(core, line);
            0
        };
        if let Some(Evicted { line: old, dirty }) = self.own[core].install(line, write) {
            self.directory.leave(old);
            if dirty {
                self.install_in_llc(old, true);
            }
        }
        cycles
    }

    /// Puts `line`, which comes from memory, into the last level, which does not hold it.
    pub(crate) fn bring(&mut self, line: LineId) {
        let slice = &mut self.slices[self.noc.home(line)];
        if let Some(Evicted { dirty: true, line }) = slice.install(line, false) {
            self.leaves(line);
        }
    }

    /// A dirty `line` leaves the chip.
    fn leaves(&mut self, line: LineId) {
        self.written_back += 1;
        self.leaving.push(line);
    }

    /// The next dirty line that left the chip. Each is returned once, and memory must take them
    /// all.
    #[inline]
    pub(crate) fn take_leaving(&mut self) -> Option<LineId> {
        self.leaving.pop()
    }

    /// Marks `line` in the private cache of `core` as clean: memory has what was stored.
    pub(crate) fn clean(&mut self, core: usize, line: LineId) {
        self.own[core].clean(line);
    }

    /// Drops all lines of `page`. The page has left memory with them.
    pub(crate) fn drop_page(&mut self, page: PageId) {
        const LINES: u64 = (PAGE_BYTES / LINE_BYTES) as u64;
        for line in page.0 * LINES..(page.0 + 1) * LINES {
            match self.directory.clear(line) {
                Some(Held::Owned(owner)) => _ = self.own[usize::from(owner)].remove(line),
                Some(Held::Shared(_)) => {
                    self.own.iter_mut().for_each(|own| _ = own.remove(line));
                }
                None => {}
            }
            self.slices[self.noc.home(line)].remove(line);
        }
    }

    /// Puts `line` into the last level.
    pub(crate) fn install_in_llc(&mut self, line: LineId, dirty: bool) {
        let slice = &mut self.slices[self.noc.home(line)];
        if slice.touch(line, dirty).is_none()
            && let Some(Evicted { dirty: true, line }) = slice.install(line, dirty)
        {
            self.leaves(line);
        }
    }

    /// `core` stores to `line` without keeping it dirty. Its private cache keeps a clean copy if it
    /// has one, and no other cache keeps any.
    pub(crate) fn store_past(&mut self, core: usize, line: LineId) {
        let before = if self.own[core].holds(line) {
            self.directory.own(core, line)
        } else {
            self.directory.clear(line)
        };
        self.invalidate(core, line, before);
    }

    /// The coherence counters since the last call.
    pub(crate) fn take_coherence(&mut self) -> Coherence {
        std::mem::take(&mut self.coherence)
    }

    /// Dirty lines that left the last level since the last call.
    pub(crate) fn take_written_back(&mut self) -> u64 {
        std::mem::take(&mut self.written_back)
    }

    /// Makes `core` a reader of `line`. An owner of the line shares it from now on, and the last
    /// level receives its dirty data.
    fn share(&mut self, core: usize, line: LineId) {
        if let Some(owner) = self.directory.read(core, line)
            && self.own[owner].clean(line)
        {
            self.install_in_llc(line, true);
        }
    }

    /// Makes `core` the owner of `line`. All other holders lose it. Returns the cycles that the
    /// home tile waits for the answers of sharers. The answer of an owner is the line itself.
    fn take(&mut self, core: usize, line: LineId) -> u64 {
        let before = self.directory.own(core, line);
        self.invalidate(core, line, before)
    }

    /// Takes `line` from all holders `before` except `core`. Returns the cycles that the home tile
    /// waits for the answers of sharers.
    fn invalidate(&mut self, core: usize, line: LineId, before: Option<Held>) -> u64 {
        let home = self.noc.home(line);
        let mut waits = 0;
        match before {
            Some(Held::Owned(owner)) if usize::from(owner) != core => {
                self.own[usize::from(owner)].remove(line);
                self.coherence.invalidations += 1;
            }
            Some(Held::Shared(_)) => {
                for (other, own) in self.own.iter_mut().enumerate() {
                    if other != core && own.remove(line).is_some() {
                        self.coherence.invalidations += 1;
                        let asked = 2 * self.noc.message_cycles(home, other) + self.own_cycles;
                        waits = asked.max(waits);
                    }
                }
            }
            _ => {}
        }
        waits
    }
}

/// The tags of one of the `slices` of `cache`. Errors name the cache by `key`.
fn tags(cache: &Cache, slices: usize, key: &'static str) -> Result<LineCache, ConfigError> {
    let lines = cache.size.0 / LINE_BYTES as u64 / slices as u64;
    LineCache::new(lines, cache.ways).ok_or_else(|| ConfigError::Value {
        key,
        value: cache.size.to_string(),
        expected: format!("{slices} x {} ways x a power of two of 64-byte lines", cache.ways),
    })
}
