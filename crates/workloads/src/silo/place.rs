//! Assigns a key to a place, and removes the key from the index when the place has no row.
//!
//! While the record is not locked, the index leads from a key to a place only if the place has that
//! key.

use ebbtide_core::{Addr, FullMemory};
use smallvec::SmallVec;

use super::record::{self, Head};
use super::table::NO_KEY;
use super::{Silo, Tid};
use crate::Corrupt;
use crate::masstree::{Changed, Tree};
use ebbtide_structures::checksum::mismatch;

/// A place with a key but no row yet. The index leads to it.
pub(super) struct Claimed {
    pub tid: Tid,
    /// The nodes of the index that this changed.
    pub changed: SmallVec<[Changed; 2]>,
}

/// Assigns `place` to `key` and lets `index` lead there; `None` if `index` leads to another place
/// already.
///
/// # Errors
/// [`Corrupt`] if the place has a row, or holds no record, or the index is damaged.
pub(super) fn claim<M: FullMemory>(
    silo: &Silo,
    memory: &mut M,
    index: &Tree,
    place: Addr,
    key: u64,
) -> Result<Option<Claimed>, Corrupt> {
    // The job should not wait for this page with the lock held.
    let _word: u64 = memory.load(place);
    record::while_locked(memory, place, |memory, tid| {
        rename(silo, memory, index, place, tid, key)?;
        enter(memory, index, place, *tid, key)
    })
}

/// A place that has a key but no row: its row was removed or never committed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vacant<'a> {
    pub index: &'a Tree,
    pub place: Addr,
    pub key: u64,
    pub tid: Tid,
}

/// Removes the key of a vacant place from the index, unless another job has changed the record
/// since.
///
/// # Errors
/// [`Corrupt`] if the place holds no record, or the index is damaged.
pub(super) fn vacate<M: FullMemory>(
    silo: &Silo,
    memory: &mut M,
    vacant: Vacant<'_>,
) -> Result<(), Corrupt> {
    let Vacant { index, place, key, tid } = vacant;
    let _word: u64 = memory.load(place);
    record::while_locked(memory, place, |memory, now| match *now == tid {
        true => take_out(silo, memory, index, place, now, (key, key)),
        false => Ok(()),
    })
}

/// Writes `key` into a place that is locked at `tid`, unless it is there.
fn rename<M: FullMemory>(
    silo: &Silo,
    memory: &mut M,
    index: &Tree,
    place: Addr,
    tid: &mut Tid,
    key: u64,
) -> Result<(), Corrupt> {
    let head = record::read_version(memory, silo.checksums, place, *tid, &mut []);
    let old = head.ok_or_else(|| mismatch(place))?.key;
    if !tid.is_absent() {
        return Err(Corrupt(format!(
            "the place at {place:?} for key {key:#x} has the row of key {old:#x}"
        )));
    }
    match old == key {
        true => Ok(()),
        false => take_out(silo, memory, index, place, tid, (old, key)),
    }
}

/// Removes the old key of a locked place without a row from the index and writes the new one. This
/// raises the version, since the old key may get another place from now on.
fn take_out<M: FullMemory>(
    silo: &Silo,
    memory: &mut M,
    index: &Tree,
    place: Addr,
    tid: &mut Tid,
    (old, key): (u64, u64),
) -> Result<(), Corrupt> {
    let next = version_after(silo, memory, place, *tid)?.with_absent(true);
    if old != NO_KEY && index.get(memory, &old.to_be_bytes())? == Some(place.0) {
        index.remove(memory, &old.to_be_bytes())?;
    }
    record::write(memory, silo.checksums, place, Head { tid: next, key }, &[]);
    *tid = next;
    Ok(())
}

/// A version above `tid`, of its epoch or, if that has none left, of a later one.
fn version_after<M: FullMemory>(
    silo: &Silo,
    memory: &mut M,
    place: Addr,
    tid: Tid,
) -> Result<Tid, Corrupt> {
    if let Some(next) = tid.next() {
        return Ok(next);
    }
    if silo.epoch.now(memory)? == tid.epoch() {
        silo.epoch.advance(memory)?;
    }
    tid.next_in(silo.epoch.now(memory)?).ok_or_else(|| used_up(place))
}

/// Lets the index lead from `key` to its place, unless it leads to another place.
fn enter<M: FullMemory>(
    memory: &mut M,
    index: &Tree,
    place: Addr,
    tid: Tid,
    key: u64,
) -> Result<Option<Claimed>, Corrupt> {
    let mut changed = SmallVec::new();
    let taken =
        index.insert_seen(memory, &key.to_be_bytes(), place.0, |change| changed.push(change))?;
    let ours = taken.is_none_or(|taken| taken == place.0);
    Ok(ours.then_some(Claimed { tid, changed }))
}

/// The error that the 2²⁹ sequence numbers of the last epoch are used up.
#[cold]
fn used_up(at: Addr) -> Corrupt {
    Corrupt(format!("the record at {at:?} has no version left in its epoch"))
}
