//! How a place gets a key, and how the key leaves the index when the place has no row any more.
//!
//! Outside of the record's lock, the index leads from a key to a place only if that is the key in
//! the place.

use ebbtide_core::{Addr, Memory};
use smallvec::SmallVec;

use super::record::{self, Head};
use super::table::NO_KEY;
use super::{Silo, Tid};
use crate::Wrong;
use crate::checksum::mismatch;
use crate::masstree::{Changed, Tree};

/// A place whose key leads to it now; it holds no row yet.
pub(super) struct Claimed {
    pub tid: Tid,
    /// What that changed in the index.
    pub changed: SmallVec<[Changed; 2]>,
}

/// Gives `place` to `key` and lets `index` lead there; `None` if it leads to another place already.
///
/// # Errors
/// [`Wrong`] when there is a row in the place, or what stands there is no record or index.
pub(super) fn claim<M: Memory>(
    silo: &Silo,
    memory: &mut M,
    index: &Tree,
    place: Addr,
    key: u64,
) -> Result<Option<Claimed>, Wrong> {
    // So that its page is not waited for with the lock held.
    let _word: u64 = memory.load(place);
    record::while_locked(memory, place, |memory, tid| {
        rename(silo, memory, index, place, tid, key)?;
        enter(memory, index, place, *tid, key)
    })
}

/// A place that has a key but no row: one whose row was removed, or was never committed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vacant<'a> {
    pub index: &'a Tree,
    pub place: Addr,
    pub key: u64,
    pub tid: Tid,
}

/// Takes the key of a vacant place out of the index, unless somebody has changed the record since.
///
/// # Errors
/// [`Wrong`] when what stands there is no record or index.
pub(super) fn vacate<M: Memory>(
    silo: &Silo,
    memory: &mut M,
    vacant: Vacant<'_>,
) -> Result<(), Wrong> {
    let Vacant { index, place, key, tid } = vacant;
    let _word: u64 = memory.load(place);
    record::while_locked(memory, place, |memory, now| match *now == tid {
        true => take_out(silo, memory, index, place, now, (key, key)),
        false => Ok(()),
    })
}

/// Writes `key` into a place that is locked at `tid`, unless it is there.
fn rename<M: Memory>(
    silo: &Silo,
    memory: &mut M,
    index: &Tree,
    place: Addr,
    tid: &mut Tid,
    key: u64,
) -> Result<(), Wrong> {
    let head = record::read_version(memory, silo.checksums, place, *tid, &mut []);
    let old = head.ok_or_else(|| mismatch(place))?.key;
    if !tid.is_absent() {
        return Err(Wrong(format!(
            "the place at {place:?} for key {key:#x} has the row of key {old:#x}"
        )));
    }
    match old == key {
        true => Ok(()),
        false => take_out(silo, memory, index, place, tid, (old, key)),
    }
}

/// Takes the old key of a locked place without a row out of the index and writes the new one. Who
/// noted the version learns of it: the old key may be given another place from now on.
fn take_out<M: Memory>(
    silo: &Silo,
    memory: &mut M,
    index: &Tree,
    place: Addr,
    tid: &mut Tid,
    (old, key): (u64, u64),
) -> Result<(), Wrong> {
    let next = tid.next().ok_or_else(|| used_up(place))?.with_absent(true);
    if old != NO_KEY && index.get(memory, &old.to_be_bytes())? == Some(place.0) {
        index.remove(memory, &old.to_be_bytes())?;
    }
    record::write(memory, silo.checksums, place, Head { tid: next, key }, &[]);
    *tid = next;
    Ok(())
}

/// Lets the index lead from `key` to its place, unless it leads to another.
fn enter<M: Memory>(
    memory: &mut M,
    index: &Tree,
    place: Addr,
    tid: Tid,
    key: u64,
) -> Result<Option<Claimed>, Wrong> {
    let mut changed = SmallVec::new();
    let taken =
        index.insert_seen(memory, &key.to_be_bytes(), place.0, |change| changed.push(change))?;
    let ours = taken.is_none_or(|taken| taken == place.0);
    Ok(ours.then_some(Claimed { tid, changed }))
}

/// Sequence numbers last for 2²⁹ changes in an epoch.
#[cold]
fn used_up(at: Addr) -> Wrong {
    Wrong(format!("the record at {at:?} has no version left in its epoch"))
}
