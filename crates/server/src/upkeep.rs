//! Upkeep: removes keys that have expired and gives back the pages of cleared databases and of large values
//! that were removed, a little at a time.

use std::cell::Cell;

use ebbtide_core::Memory;
use ebbtide_structures::keyspace::{DATABASES, HASHES, Keyspace};

use crate::state::State;

/// Leaves that a round looks at for expired keys.
const LEAVES_PER_ROUND: usize = 16;

/// Pages that a round gives back.
const PAGES_PER_ROUND: usize = 256;

/// Where upkeep is.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// The database and the hash from which to go on.
    place: Cell<(usize, u64)>,
}

impl Upkeep {
    /// A round.
    pub(crate) fn run<M: Memory>(&self, memory: &mut M, state: &State) {
        let Some(keyspace) = state.keys() else { return };
        self.expire(memory, state, keyspace);
        reclaim_large(memory, state, keyspace);
        reclaim_cleared(memory, state, keyspace);
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
                let removed = state.exclusive(memory, &keyspace, &[key.hash], |memory| {
                    let entry = keyspace.find(memory, database, &key, &mut Vec::new());
                    let over = entry.is_some_and(|entry| is_over(entry.expires_at_ms));
                    let removed = over && keyspace.remove(memory, database, &key);
                    if removed {
                        state.changed(database, key.bytes);
                    }
                    removed
                });
                if removed.is_ok_and(|(removed, _)| removed) {
                    state.statistics().expired.add(1);
                }
            }
        }
        self.place.set((database, from));
    }
}

/// Gives back pages of cleared databases, which no job may see any more.
fn reclaim_cleared<M: Memory>(memory: &mut M, state: &State, keyspace: Keyspace) {
    for _ in 0..PAGES_PER_ROUND {
        let more = memory.transaction(|memory| {
            keyspace.reclaim(memory, || state.shared.all_began_after_clears())
        });
        if !more.is_ok_and(|(more, _)| more) {
            break;
        }
    }
}

/// Gives back large values that no key has and nobody holds.
fn reclaim_large<M: Memory>(memory: &mut M, state: &State, keyspace: Keyspace) {
    for _ in 0..PAGES_PER_ROUND {
        let more = memory.transaction(|memory| {
            keyspace.reclaim_large(memory, |id| state.shared.holds.holds(id))
        });
        if !more.is_ok_and(|(more, _)| more) {
            break;
        }
    }
}
