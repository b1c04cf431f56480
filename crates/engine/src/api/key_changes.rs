//! Keys of a keyspace that are changed in one transaction, and the room that a change needs.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use ebbtide_core::Memory;
use ebbtide_core::durability::{Aborted, Lsn, TransactionError};
use ebbtide_structures::keyspace::{HASHES, HashSecret, Key, Keyspace};

use crate::core::flash_memory::FlashMemory;

/// Leaves that a change which finds no page looks at for some that can be joined.
const LEAVES: usize = 8;

/// Returns a random secret, so that no client can choose keys that collide.
pub(crate) fn new_secret() -> HashSecret {
    let random = || RandomState::new().build_hasher().finish();
    HashSecret([random(), random()])
}

/// The value of `key`, for a job that reads it alone.
pub(crate) fn value_of(
    keys: &Keyspace,
    memory: &mut FlashMemory<'_>,
    database: usize,
    key: &Key<'_>,
) -> Option<Vec<u8>> {
    keys.consistent(memory, key.hash, |memory| value_held(keys, memory, database, key))
}

/// The value of `key`, whose stripe is held or read consistently.
pub(crate) fn value_held(
    keys: &Keyspace,
    memory: &mut FlashMemory<'_>,
    database: usize,
    key: &Key<'_>,
) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let entry = keys.find(memory, database, key, &mut value)?;
    if !entry.is_inline() {
        keys.read_range(memory, &entry, 0, entry.value_bytes as usize, &mut value);
    }
    Some(value)
}

/// Runs `body` as one transaction. It changes only keys with these hashes. An error rolls it back.
/// If there was no room, joins leaves of `database` from the hash `join_from` on, and runs `body`
/// again.
pub(crate) fn change<T, E>(
    keys: &Keyspace,
    memory: &mut FlashMemory<'_>,
    (database, hashes): (usize, &[u64]),
    join_from: &AtomicU64,
    mut body: impl FnMut(&mut FlashMemory<'_>) -> Result<T, E>,
    is_full: impl Fn(&E) -> bool,
) -> Result<(Result<T, E>, Lsn), TransactionError> {
    loop {
        let done = keys.alone(memory, hashes, |memory| memory.try_transaction(&mut body));
        return match done {
            Ok((value, lsn)) => Ok((Ok(value), lsn)),
            Err(Aborted::GivenUp(error)) => {
                if is_full(&error) && make_room(keys, memory, database, join_from) {
                    continue;
                }
                Ok((Err(error), Lsn::ZERO))
            }
            Err(Aborted::Failed(error)) => Err(error),
        };
    }
}

/// Joins the leaf of this hash with its neighbours if it has lost many entries.
pub(crate) fn join_sparse(
    keys: &Keyspace,
    memory: &mut FlashMemory<'_>,
    database: usize,
    hash: u64,
) {
    if keys.is_sparse(memory, database, hash) {
        let join = |memory: &mut FlashMemory<'_>| keys.join(memory, database, hash);
        // The change itself is committed.
        let _ = keys.exclusive(memory, &[hash], join);
    }
}

/// Joins leaves from where the last call ended, until a page comes back or enough leaves were
/// looked at. Returns true if a page came back.
fn make_room(
    keys: &Keyspace,
    memory: &mut FlashMemory<'_>,
    database: usize,
    join_from: &AtomicU64,
) -> bool {
    let mut from = join_from.load(Ordering::Relaxed);
    let mut any = false;
    for _ in 0..LEAVES {
        let join = |memory: &mut FlashMemory<'_>| keys.join_from(memory, database, from);
        let Ok(((joined, next), _)) = keys.exclusive(memory, &[from], join) else { break };
        from = if next == HASHES { 0 } else { next };
        any |= joined;
        if any || from == 0 {
            break;
        }
    }
    join_from.store(from, Ordering::Relaxed);
    any
}
