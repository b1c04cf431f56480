//! [`Space`]: the places of the maps of a store, and changes of their keys.

use ebbtide_core::Memory;
use ebbtide_core::durability::{Aborted, Lsn, TransactionError};
use ebbtide_structures::OrderedMap;
use ebbtide_structures::keyspace::Keyspace;

use super::error::Error;
use super::room::{Room, With};
use crate::core::flash_memory::FlashMemory;

/// The places of the maps of a store, as a few numbers that jobs carry.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) keys: Keyspace,
    pub(super) order: OrderedMap,
    pub(super) room: Room,
}

impl Space {
    /// Frees some pages. Returns true if there were any.
    pub(super) fn make_room(&self, memory: &mut FlashMemory<'_>, with: With) -> bool {
        self.room.make(&self.keys, memory, with)
    }

    /// Runs `body`, which changes keys of these hashes in a map and ends in a transaction. Without
    /// hashes it may change all keys. If there was no room, reclaims pages and runs `body` again.
    pub(super) fn change<T>(
        &self,
        memory: &mut FlashMemory<'_>,
        number: usize,
        hashes: &[u64],
        mut body: impl FnMut(&mut FlashMemory<'_>) -> Changed<T>,
    ) -> Changed<T> {
        loop {
            let (done, lsn) = self.keys.alone(memory, hashes, &mut body)?;
            if matches!(done, Err(Error::Full)) && self.make_room(memory, With::NoStripe) {
                continue;
            }
            for hash in hashes {
                self.room.tidy(&self.keys, memory, (number, *hash));
            }
            return Ok((done, lsn));
        }
    }
}

/// The result of a change, and the place of its transaction in the log.
pub(super) type Changed<T> = Result<(Result<T, Error>, Lsn), TransactionError>;

/// Runs `body` as a transaction that an error rolls back.
pub(super) fn committed<T>(
    memory: &mut FlashMemory<'_>,
    body: impl FnMut(&mut FlashMemory<'_>) -> Result<T, Error>,
) -> Changed<T> {
    match memory.try_transaction(body) {
        Ok((value, lsn)) => Ok((Ok(value), lsn)),
        Err(Aborted::GivenUp(error)) => Ok((Err(error), Lsn::ZERO)),
        Err(Aborted::Failed(error)) => Err(error),
    }
}
