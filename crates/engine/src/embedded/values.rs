//! Values of any size: small ones as a whole, large ones piece by piece.
//!
//! A large value is written without a key, each piece in a transaction of its own, and then
//! attached to its key. So a change is one step for others, and a crash leaves the old value.

use ebbtide_core::Memory;
use ebbtide_core::durability::{Aborted, TransactionError};
use ebbtide_structures::keyspace::{Entry, Full, Key, Large, WHOLE_BYTES_MAX};

use super::room::With;
use super::space::Space;
use crate::core::flash_memory::FlashMemory;
use crate::sync::holds::Hold;

/// A large value that is written and has no key yet. Its pages stay while this exists.
pub(super) struct Staged {
    pub(super) large: Large,
    _hold: Hold,
}

/// The value of `key`, for a job that holds no stripe.
pub(super) fn read(
    space: &Space,
    memory: &mut FlashMemory<'_>,
    number: usize,
    key: &[u8],
) -> Option<Vec<u8>> {
    let (keys, key) = (space.keys, space.keys.key(key));
    loop {
        let (entry, value) = keys.consistent(memory, key.hash, |memory| {
            let (mut value, mut none) = (Vec::new(), Vec::new());
            let entry = keys.find(memory, number, &key, &mut value)?;
            match entry.large() {
                Some(_) => value = std::mem::take(&mut none),
                None => read_rest(space, memory, &entry, &mut value),
            }
            Some((entry, value))
        })?;
        let Some(id) = entry.large() else { return Some(value) };
        let _hold = space.room.holds.hold(id);
        // It is held before its key is seen to have it.
        let again = keys.consistent(memory, key.hash, |memory| {
            keys.find(memory, number, &key, &mut Vec::new())
        });
        if again.as_ref() == Some(&entry) {
            let mut value = Vec::with_capacity(entry.value_bytes as usize);
            read_rest(space, memory, &entry, &mut value);
            return Some(value);
        }
    }
}

/// The value of `key`, for a job that holds its stripe.
pub(super) fn read_held(
    space: &Space,
    memory: &mut FlashMemory<'_>,
    number: usize,
    key: &Key<'_>,
) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let entry = space.keys.find(memory, number, key, &mut value)?;
    read_rest(space, memory, &entry, &mut value);
    Some(value)
}

/// Reads a value that does not lie next to its key.
fn read_rest(space: &Space, memory: &mut FlashMemory<'_>, entry: &Entry, value: &mut Vec<u8>) {
    if !entry.is_inline() {
        space.keys.read_range(memory, entry, 0, entry.value_bytes as usize, value);
    }
}

/// Writes a value without a key if it is a large one. The caller holds a stripe.
pub(super) fn stage(
    space: &Space,
    memory: &mut FlashMemory<'_>,
    value: Option<&[u8]>,
) -> Result<Result<Option<Staged>, Full>, TransactionError> {
    let Some(value) = value.filter(|value| value.len() > WHOLE_BYTES_MAX) else {
        return Ok(Ok(None));
    };
    let begun = with_room(space, memory, |memory| {
        let (large, hold) = space.keys.begin_large(memory, |id| space.room.holds.hold(id))?;
        Ok(Staged { large, _hold: hold })
    })?;
    let mut staged = match begun {
        Ok(staged) => staged,
        Err(full) => return Ok(Err(full)),
    };
    for piece in value.chunks(WHOLE_BYTES_MAX) {
        let written = with_room(space, memory, |memory| {
            let mut larger = staged.large.clone();
            space.keys.write_large(memory, &mut larger, staged.large.bytes, piece)?;
            Ok(larger)
        })?;
        match written {
            Ok(larger) => staged.large = larger,
            Err(full) => {
                give_up(space, memory, [staged]);
                return Ok(Err(full));
            }
        }
    }
    Ok(Ok(Some(staged)))
}

/// Frees the pages of values whose change has failed. Otherwise the change would take them for
/// room, and run again without end.
pub(super) fn give_up(
    space: &Space,
    memory: &mut FlashMemory<'_>,
    staged: impl IntoIterator<Item = Staged>,
) {
    for Staged { large, _hold: hold } in staged {
        drop(hold);
        space.room.reclaim(&space.keys, memory, |id| id != large.id());
    }
}

/// Runs `body` as a transaction, until there is room for it or no page comes back any more.
fn with_room<T>(
    space: &Space,
    memory: &mut FlashMemory<'_>,
    mut body: impl FnMut(&mut FlashMemory<'_>) -> Result<T, Full>,
) -> Result<Result<T, Full>, TransactionError> {
    loop {
        return match memory.try_transaction(&mut body) {
            Ok((value, _)) => Ok(Ok(value)),
            Err(Aborted::GivenUp(Full)) if space.make_room(memory, With::AStripe) => continue,
            Err(Aborted::GivenUp(full)) => Ok(Err(full)),
            Err(Aborted::Failed(error)) => Err(error),
        };
    }
}
