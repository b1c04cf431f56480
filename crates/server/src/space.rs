//! Frees pages after changes, and for commands that find no free page.

use ebbtide_core::FullMemory;
use ebbtide_core::durability::TransactionError;
use ebbtide_structures::keyspace::{DATABASES, Due, HASHES, Keyspace};

use crate::events::Classes;
use crate::evict::{Locks, count_keys, evict};
use crate::state::State;

/// Maximum number of pages of cleared databases that one call frees.
const PAGES: usize = 32;

/// Free pages that a client's transaction should find at its start.
const PREPARED_PAGES: u64 = 256;

/// The share of all pages that a cache has free for transactions at most.
const PREPARED_SHARE: u64 = 16;

/// Free pages that upkeep of a cache keeps: a share of all pages, within these bounds.
const AHEAD_SHARE: u64 = 64;
const AHEAD_PAGES: std::ops::RangeInclusive<u64> = PREPARED_PAGES..=1024;

/// Bytes of commands for which a transaction of a cache should find a free page.
const BYTES_OF_A_PAGE: usize = 1_000;

/// Leaves that one call examines for joins. Between two that can be joined there may be many.
const LEAVES: usize = 32;

/// Fields of hashes that one call removes from the hashes of a leaf. They belong to few
/// transactions, none of them long.
const FIELDS: usize = 32;

/// Frees pages before a command that cannot run again, and whose arguments have `bytes` bytes.
pub(crate) fn prepare<M: FullMemory>(
    memory: &mut M,
    state: &State,
    keyspace: &Keyspace,
    bytes: usize,
) {
    let (_, all) = keyspace.free_pages(memory);
    let wanted = match state.shared.eviction.policy().evicts() {
        true => PREPARED_PAGES.min(all / PREPARED_SHARE) + (bytes / BYTES_OF_A_PAGE) as u64,
        false => PREPARED_PAGES,
    };
    for _ in 0..wanted {
        let (free, _) = keyspace.free_pages(memory);
        if free >= wanted || !make(memory, state, keyspace) {
            break;
        }
    }
}

/// Removes keys of a cache before it is full, so that commands find free pages. Returns true if it
/// removed any.
pub(crate) fn evict_ahead<M: FullMemory>(
    memory: &mut M,
    state: &State,
    keyspace: &Keyspace,
) -> bool {
    if state.shared.eviction.policy().evicts() {
        // Before the first key goes, there must be generations to choose by.
        count_keys(memory, state, keyspace);
    }
    let (free, all) = keyspace.free_pages(memory);
    let ahead = (all / AHEAD_SHARE).clamp(*AHEAD_PAGES.start(), *AHEAD_PAGES.end());
    free < ahead.min(all / PREPARED_SHARE) && evict(memory, state, keyspace, Locks::Wait)
}

/// Frees pages for a command that found none and holds no stripe. Returns true if it freed any.
pub(crate) fn make<M: FullMemory>(memory: &mut M, state: &State, keyspace: &Keyspace) -> bool {
    reclaim(memory, state, keyspace)
        || expire(memory, state, keyspace, 1)
        || evict(memory, state, keyspace, Locks::Wait)
        || join(memory, state, |memory, database, from| {
            let join = |memory: &mut M| keyspace.join_from(memory, database, from);
            keyspace.exclusive(memory, &[from], join).ok().map(|(joined, _)| joined)
        })
}

/// As [`make`], for a command that holds stripes.
pub(crate) fn make_held<M: FullMemory>(memory: &mut M, state: &State, keyspace: &Keyspace) -> bool {
    reclaim(memory, state, keyspace)
        || evict(memory, state, keyspace, Locks::Free)
        || join(memory, state, |memory, database, from| {
            let join = |memory: &mut M| keyspace.join_from(memory, database, from);
            memory.transaction(join).ok().map(|(joined, _)| joined)
        })
}

/// Frees pages of cleared databases, or else of a removed large value.
fn reclaim<M: FullMemory>(memory: &mut M, state: &State, keyspace: &Keyspace) -> bool {
    let cleared = (0..PAGES).take_while(|_| reclaim_cleared(memory, keyspace)).count();
    cleared > 0 || reclaim_large(memory, state, keyspace)
}

/// Frees one page of a cleared database.
pub(crate) fn reclaim_cleared<M: FullMemory>(memory: &mut M, keyspace: &Keyspace) -> bool {
    let given = memory.transaction(|memory| keyspace.reclaim(memory));
    given.is_ok_and(|(given, _)| given)
}

/// Frees a large value that has no key and no hold.
pub(crate) fn reclaim_large<M: FullMemory>(
    memory: &mut M,
    state: &State,
    keyspace: &Keyspace,
) -> bool {
    let given = memory
        .transaction(|memory| keyspace.reclaim_large(memory, |id| state.shared.holds.holds(id)));
    given.is_ok_and(|(given, _)| given)
}

/// Joins leaves from where the last call ended, until one frees a page or [`LEAVES`] leaves were
/// examined. `join` joins the leaf of a hash in a database.
fn join<M: FullMemory>(
    memory: &mut M,
    state: &State,
    join: impl Fn(&mut M, usize, u64) -> Option<(bool, u64)>,
) -> bool {
    let (mut database, mut from) = state.shared.join_from();
    let mut any = false;
    for _ in 0..LEAVES {
        let Some((joined, next)) = join(memory, database, from) else { break };
        any |= joined;
        (database, from) = match next {
            HASHES.. => ((database + 1) % DATABASES, 0),
            next => (database, next),
        };
        if joined {
            break;
        }
    }
    state.shared.joined_to(database, from);
    any
}

/// Leaves with expired keys that are fetched ahead of the one in turn.
const AHEAD: usize = 32;

/// Leaves after which other jobs run while none is [late](LATE_MS), and while one is.
const LEAVES_A_TURN: [usize; 2] = [16, 256];

/// A leaf is late if its first key expired this long ago. Keys then come faster than they go.
const LATE_MS: u64 = 1_000;

/// For each database, removes expired keys and fields from the `most` leaves with the earliest
/// expiry. Lets other jobs run in between. Returns true if there was a leaf. While the server
/// follows a master, that removes them.
pub(crate) fn expire<M: FullMemory>(
    memory: &mut M,
    state: &State,
    keyspace: &Keyspace,
    most: usize,
) -> bool {
    let now_ms = crate::clock::now_ms();
    if state.shared.following.refuses_changes() || state.shared.pause.is_on(now_ms) {
        return false;
    }
    let keyspace = keyspace.at(now_ms);
    let mut any = false;
    for database in 0..DATABASES {
        let leaves = keyspace.due(memory, database, most);
        let late = leaves.first().is_some_and(|first| first.late_ms(now_ms) >= LATE_MS);
        let turn = LEAVES_A_TURN[usize::from(late)];
        for due in leaves.iter().take(AHEAD).skip(1) {
            keyspace.fetch_due_ahead(memory, database, *due);
        }
        for (at, due) in leaves.iter().enumerate() {
            // Its page has come when half of those before it are done.
            if let Some(next) = leaves.get(at + AHEAD) {
                keyspace.fetch_due_ahead(memory, database, *next);
            }
            if let Some(near) = leaves.get(at + AHEAD / 2) {
                keyspace.fetch_beside_ahead(memory, database, *near);
            }
            if expire_leaf(memory, state, &keyspace, (database, *due)).is_err() {
                return any;
            }
            any = true;
            if (at + 1).is_multiple_of(turn) {
                memory.let_others_run();
            }
        }
    }
    any
}

/// Removes expired fields from the hashes of a leaf. When few are left, removes the expired keys.
fn expire_leaf<M: FullMemory>(
    memory: &mut M,
    state: &State,
    keyspace: &Keyspace,
    (database, due): (usize, Due),
) -> Result<(), TransactionError> {
    if expire_fields(memory, state, keyspace, (database, due))? >= FIELDS {
        return Ok(());
    }
    let hashes = keyspace.expired(memory, database, due.hash());
    let leaf = [due.hash()];
    let held = if hashes.is_empty() { &leaf } else { &hashes[..] };
    let (removed, _) = state.exclusive(memory, keyspace, held, |memory| {
        let expired = keyspace.expire(memory, database, due, held);
        expired.iter().for_each(|(key, _)| state.removed(database, key));
        expired
    })?;
    let keys = removed.iter().map(|(key, _)| key);
    state.publish_all(Classes::EXPIRED, "expired", database, keys);
    state.statistics().expired.add(removed.len() as u64);
    Ok(())
}

/// Removes [`FIELDS`] expired fields from the hashes of a leaf, or all if there are fewer. Returns
/// their number, which is larger if the last hash lost more at once.
fn expire_fields<M: FullMemory>(
    memory: &mut M,
    state: &State,
    keyspace: &Keyspace,
    (database, due): (usize, Due),
) -> Result<usize, TransactionError> {
    let mut done = 0;
    for name in keyspace.with_expired_fields(memory, database, due.hash()) {
        let key = keyspace.key(&name);
        let expire = |memory: &mut M| {
            let expired = keyspace.expire_fields(memory, database, &key, FIELDS - done);
            let expired = expired.unwrap_or_default();
            if expired.fields > 0 {
                state.removed(database, &name);
            }
            expired
        };
        let (expired, _) = state.exclusive(memory, keyspace, &[key.hash], expire)?;
        if expired.fields > 0 {
            state.publish_all(Classes::HASH, "hexpired", database, [&name]);
        }
        if expired.key {
            state.publish_all(Classes::GENERIC, "del", database, [&name]);
        }
        state.statistics().expired_fields.add(expired.fields as u64);
        state.statistics().expired.add(expired.key.into());
        done += expired.fields;
        if done >= FIELDS {
            break;
        }
    }
    Ok(done)
}
