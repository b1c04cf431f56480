//! [`Caches`]: every core's own cache and the last level, coherent. They tell cycles, not times.

#[cfg(test)]
mod tests;

use ebbtide_core::{LINE_BYTES, PAGE_BYTES};
use ebbtide_trace::{Evicted, LineCache, LineId};
use serde::Serialize;

use super::directory::{Directory, Held};
use super::noc::Noc;
use crate::config::{Cache, Config, ConfigError};

/// The caches of the chip. A line's home tile holds it in its slice of the last level and knows in its
/// directory which cores hold it, which takes as long to look up as the slice, and is done meanwhile.
///
/// The last level includes the cores' own caches no more than it excludes them (SPEC A1): it gets a
/// line that comes from memory, and one that was written when the writer gives it up or shares it. A
/// line that cores share comes from there or from memory, never from one of them.
#[derive(Debug, Clone)]
pub struct Caches {
    own: Vec<LineCache>,
    directory: Directory,
    slices: Vec<LineCache>,
    noc: Noc,
    own_cycles: u64,
    /// Looking in the core's own cache, then in a slice.
    both_cycles: u64,
    controllers: usize,
    coherence: Coherence,
    written_back: u64,
}

/// What keeping caches coherent came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Coherence {
    /// Lines that a core's own cache gave another core, because it owned them.
    pub forwards: u64,
    /// Lines that a core's own cache lost because another core stored to them.
    pub invalidations: u64,
    /// Stores to lines in the core's own cache that it shared, so that it had to ask for them.
    pub upgrades: u64,
}

/// What came of looking for a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looked {
    /// Whether it is on the chip.
    pub found: bool,
    /// After how long it is at the core; or the request at the memory controller, and its answer's way
    /// back besides.
    pub cycles: u64,
}

impl Caches {
    /// Empty ones as `config` describes them.
    ///
    /// # Errors
    /// When sets are not a power of two.
    pub fn new(config: &Config) -> Result<Caches, ConfigError> {
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
        })
    }

    /// Looks `line` up in the core's own cache and makes it the latest used; marks it dirty if `write`.
    /// Gives whether it was there, and whether it was dirty before: a store to one that was not must
    /// [own](Caches::own) it.
    #[inline]
    pub fn touch(&mut self, core: usize, line: LineId, write: bool) -> Option<bool> {
        self.own[core].touch(line, write)
    }

    /// `core` stores to `line`, which its own cache holds and which was not dirty. Gives after how many
    /// cycles nobody else holds it: none if nobody did, which its own cache knows.
    pub fn own(&mut self, core: usize, line: LineId) -> u64 {
        if self.directory.owner(line) == Some(core) {
            return 0;
        }
        self.coherence.upgrades += 1;
        let ask = 2 * self.noc.message_cycles(core, self.noc.home(line));
        ask + self.both_cycles + self.take(core, line)
    }

    /// Looks for `line`, which the core's own cache does not hold, in those of others and in the last
    /// level.
    #[inline]
    pub fn look(&mut self, core: usize, line: LineId) -> Looked {
        let Some(owner) = self.directory.owner(line) else { return self.look_in_llc(core, line) };
        debug_assert!(owner != core, "core {core} owns line {line} and does not hold it");
        self.coherence.forwards += 1;
        let ways = self.noc.forward_cycles(core, self.noc.home(line), owner);
        Looked { found: true, cycles: self.both_cycles + ways + self.own_cycles }
    }

    /// Looks for `line` in the last level.
    #[inline]
    pub fn look_in_llc(&mut self, core: usize, line: LineId) -> Looked {
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

    /// Puts `line`, which was found on the chip or came from memory, into the core's own cache, which
    /// does not hold it. Gives how many cycles later than it nobody else holds it, for a store.
    #[inline]
    pub fn fill(&mut self, core: usize, line: LineId, write: bool) -> u64 {
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

    /// `line` is in the last level from now on. Written lines that leave it for that are counted alone:
    /// memory knows of them since they were written.
    pub fn install_in_llc(&mut self, line: LineId, dirty: bool) {
        let slice = &mut self.slices[self.noc.home(line)];
        if slice.touch(line, dirty).is_none()
            && let Some(Evicted { dirty: true, .. }) = slice.install(line, dirty)
        {
            self.written_back += 1;
        }
    }

    /// `core` stores to `line` past all caches: its own keeps what it has of it, and no other does.
    pub fn store_past(&mut self, core: usize, line: LineId) {
        let before = if self.own[core].holds(line) {
            self.directory.own(core, line)
        } else {
            self.directory.clear(line)
        };
        self.invalidate(core, line, before);
    }

    /// What was counted since it was last taken.
    pub fn take_coherence(&mut self) -> Coherence {
        std::mem::take(&mut self.coherence)
    }

    /// Written lines that left the last level since this was last asked.
    pub fn take_written_back(&mut self) -> u64 {
        std::mem::take(&mut self.written_back)
    }

    /// `core` reads `line` from now on, with its owner if there is one: the last level then gets what
    /// that has written.
    fn share(&mut self, core: usize, line: LineId) {
        if let Some(owner) = self.directory.read(core, line)
            && self.own[owner].clean(line)
        {
            self.install_in_llc(line, true);
        }
    }

    /// `core` owns `line` from now on, and who held it loses it. Gives for how many cycles the home tile
    /// waits for sharers' answers; an owner's is the line itself.
    fn take(&mut self, core: usize, line: LineId) -> u64 {
        let before = self.directory.own(core, line);
        self.invalidate(core, line, before)
    }

    /// Takes `line` from all who held it `before` but `core`. Gives for how many cycles its home tile
    /// waits for the answers of those that shared it.
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

/// The tags of one of the `slices` that make up `cache`, which errors call `key`.
fn tags(cache: &Cache, slices: usize, key: &'static str) -> Result<LineCache, ConfigError> {
    let lines = cache.size.0 / LINE_BYTES as u64 / slices as u64;
    LineCache::new(lines, cache.ways).ok_or_else(|| ConfigError::Value {
        key,
        value: cache.size.to_string(),
        expected: format!("{slices} x {} ways x a power of two of 64-byte lines", cache.ways),
    })
}
