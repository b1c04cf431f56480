//! [`Room`]: pages that come back, after changes and for changes that find no page.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebbtide_core::Memory;
use ebbtide_structures::keyspace::{DATABASES, HASHES, Keyspace, LargeId};

use crate::core::flash_memory::FlashMemory;
use crate::sync::holds::Holds;

/// Leaves that a change which finds no page looks at for some that can be joined.
const LEAVES: usize = 8;

/// How a job joins leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum With {
    /// It holds no stripe, and takes that of each leaf.
    NoStripe,
    /// It holds a stripe, so that no map is removed in between.
    AStripe,
}

/// Reclaims pages of the keys of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    /// Large values that jobs read or write.
    pub(super) holds: Arc<Holds>,
    /// Where joining leaves continues: a database and a hash.
    join_from: Arc<AtomicU64>,
}

impl Room {
    /// Frees some pages. Returns true if there were any.
    pub(super) fn make(&self, keys: &Keyspace, memory: &mut FlashMemory<'_>, with: With) -> bool {
        self.reclaim_large(keys, memory) || self.join(keys, memory, with)
    }

    /// Frees the pages of a large value that was replaced or removed and that no job reads.
    pub(super) fn reclaim_large(&self, keys: &Keyspace, memory: &mut FlashMemory<'_>) -> bool {
        self.reclaim(keys, memory, |_| false)
    }

    /// As [`reclaim_large`](Room::reclaim_large), of a value that need not stay.
    pub(super) fn reclaim(
        &self,
        keys: &Keyspace,
        memory: &mut FlashMemory<'_>,
        stays: impl Fn(LargeId) -> bool,
    ) -> bool {
        let stays = |id| stays(id) || self.holds.holds(id);
        keys.has_detached(memory)
            && memory
                .transaction(|memory| keys.reclaim_large(memory, stays))
                .is_ok_and(|(reclaimed, _)| reclaimed)
    }

    /// Joins the leaf of this hash with its neighbours if it has lost many entries, and frees the
    /// pages of large values.
    pub(super) fn tidy(
        &self,
        keys: &Keyspace,
        memory: &mut FlashMemory<'_>,
        (database, hash): (usize, u64),
    ) {
        if keys.is_sparse(memory, database, hash) {
            let join = |memory: &mut FlashMemory<'_>| keys.join(memory, database, hash);
            // The change itself is committed.
            let _ = keys.exclusive(memory, &[hash], join);
        }
        while self.reclaim_large(keys, memory) {}
    }

    /// Joins leaves from where the last call ended, until a page comes back or enough leaves were
    /// looked at. Returns true if a page came back.
    fn join(&self, keys: &Keyspace, memory: &mut FlashMemory<'_>, with: With) -> bool {
        let mut place = self.join_from.load(Ordering::Relaxed);
        let mut any = false;
        for _ in 0..LEAVES {
            let (database, from) = ((place / HASHES) as usize, place % HASHES);
            let join = |memory: &mut FlashMemory<'_>| keys.join_from(memory, database, from);
            let joined = match with {
                With::NoStripe => keys.exclusive(memory, &[from], join),
                With::AStripe => memory.transaction(join),
            };
            let Ok(((joined, next), _)) = joined else { break };
            place = (database as u64 * HASHES + next) % (DATABASES as u64 * HASHES);
            any |= joined;
            if joined {
                break;
            }
        }
        self.join_from.store(place, Ordering::Relaxed);
        any
    }
}
