//! Upkeep: removes keys that have expired and gives back the pages of cleared databases and of large values
//! that were removed, a little at a time.

use std::cell::Cell;

use ebbtide_core::Memory;
use ebbtide_structures::keyspace::{DATABASES, HASHES, Keyspace};

use crate::state::{State, add};

/// Leaves that a round looks at for expired keys.
const LEAVES_PER_ROUND: usize = 16;

/// Pages that a round gives back.
const PAGES_PER_ROUND: usize = 256;

/// Where upkeep is.
#[derive(Debug)]
pub(crate) struct Upkeep {
    /// The database and the hash from which to go on.
    place: Cell<(usize, u64)>,
    /// How often databases had been cleared when that was last looked at.
    clears_seen: Cell<u64>,
    /// Pages may be given back once no job below this number is under way.
    safe_from: Cell<u64>,
}

impl Default for Upkeep {
    fn default() -> Upkeep {
        Upkeep { place: Cell::default(), clears_seen: Cell::new(u64::MAX), safe_from: Cell::new(0) }
    }
}

impl Upkeep {
    /// A round. `oldest` is the number of the oldest job under way, this one included, and `next` that of
    /// the next one.
    pub(crate) fn run<M: Memory>(&self, memory: &mut M, state: &State, oldest: u64, next: u64) {
        let Some(keyspace) = state.keys.get() else { return };
        self.expire(memory, state, keyspace);
        reclaim_large(memory, state, keyspace);
        if self.clears_seen.replace(state.clears.get()) != state.clears.get() {
            self.safe_from.set(next);
        } else if oldest >= self.safe_from.get() {
            self.reclaim(memory, state, keyspace);
        }
    }

    fn reclaim<M: Memory>(&self, memory: &mut M, state: &State, keyspace: Keyspace) {
        for _ in 0..PAGES_PER_ROUND {
            let clears = state.clears.get();
            let more = memory.transaction(|memory| keyspace.reclaim(memory));
            if !more.is_ok_and(|(more, _)| more) || clears != self.clears_seen.get() {
                break;
            }
        }
    }

    fn expire<M: Memory>(&self, memory: &mut M, state: &State, keyspace: Keyspace) {
        let (mut database, mut from) = self.place.get();
        for _ in 0..LEAVES_PER_ROUND {
            if from >= HASHES || keyspace.counts(memory, database).expiring == 0 {
                (database, from) = ((database + 1) % DATABASES, 0);
                continue;
            }
            let mut found = Vec::new();
            from = keyspace.scan(memory, database, from, &mut found);
            let now_ms = crate::client::now_ms();
            let is_over = |at: Option<u64>| at.is_some_and(|at| at <= now_ms);
            for scanned in found.iter().filter(|scanned| is_over(scanned.expires_at_ms)) {
                let key = keyspace.key(&scanned.key);
                let removed = keyspace.exclusive(memory, &[key.hash], |memory| {
                    let entry = keyspace.find(memory, database, &key, &mut Vec::new());
                    let over = entry.is_some_and(|entry| is_over(entry.expires_at_ms));
                    over && keyspace.remove(memory, database, &key)
                });
                if removed.is_ok_and(|(removed, _)| removed) {
                    add(&state.statistics.expired, 1);
                    state.changed(database, key.bytes);
                }
            }
        }
        self.place.set((database, from));
    }
}

/// Gives back large values that no key has and nobody holds.
fn reclaim_large<M: Memory>(memory: &mut M, state: &State, keyspace: Keyspace) {
    for _ in 0..PAGES_PER_ROUND {
        let more =
            memory.transaction(|memory| keyspace.reclaim_large(memory, |id| state.holds.holds(id)));
        if !more.is_ok_and(|(more, _)| more) {
            break;
        }
    }
}
