//! Collections in the format of `DUMP` and `RESTORE`.
//!
//! They are written as counted elements, and read in all [forms](crate::rdb::forms). Hashes with
//! fields that expire have the form that Redis has for them since 7.4.
//! [Streams](super::dump_streams) have forms of their own.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, Field, Key, Kind, Score};

use super::building::Building;
use super::dump_streams;
use super::sorted_sets::check_member;
use super::{Call, LONG_REPLY, Outcome, Stop};
use crate::rdb::forms::{HASH, HASH_WITH_EXPIRY, LIST, SET, SORTED_SET, decode};
use crate::rdb::text::{write_length, write_text};

/// Returns a collection in the format of `DUMP`, without version and checksum.
///
/// # Errors
/// Returns an error if it takes too much DRAM.
pub(super) fn dumped<M: FullMemory>(
    call: &mut Call<'_, M>,
    collection: &Collection,
) -> Result<Vec<u8>, Stop> {
    if collection.kind == Kind::Stream {
        return dump_streams::dumped(call, collection);
    }
    let count = collection.len(call.memory);
    let most = call.state.settings().argument_bytes_max;
    // Expiry times count from here. All are later.
    let now_ms = call.state.now_ms.get();
    let expires = collection.may_expire();
    let mut bytes = vec![match collection.kind {
        Kind::Hash if expires => HASH_WITH_EXPIRY,
        Kind::Hash => HASH,
        Kind::Set => SET,
        Kind::SortedSet => SORTED_SET,
        Kind::List | Kind::String | Kind::Stream => LIST,
    }];
    if expires {
        bytes.extend(now_ms.to_le_bytes());
    }
    write_length(&mut bytes, count as usize);
    call.each_live(collection, |_, element| {
        match collection.kind {
            Kind::Hash => {
                let field = Field::decode(element);
                if expires {
                    let left = field.expires_at_ms.map_or(0, |at| at.saturating_sub(now_ms) + 1);
                    write_length(&mut bytes, left as usize);
                }
                write_text(&mut bytes, field.name);
                write_text(&mut bytes, field.value);
            }
            Kind::SortedSet => {
                let (score, member) = Score::split(element);
                write_text(&mut bytes, member);
                bytes.extend(score.to_le_bytes());
            }
            _ => write_text(&mut bytes, element),
        }
        if bytes.len() > most { Err(LONG_REPLY.into()) } else { Ok(()) }
    })?;
    Ok(bytes)
}

/// Sets a key to the collection in a dump without version and checksum.
///
/// # Errors
/// Returns `bad` if the dump is no collection, or an error if there is no room.
pub(super) fn restore<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    dump: &[u8],
    expires_at_ms: Option<u64>,
    bad: &'static str,
) -> Outcome {
    if dump.first().is_some_and(|form| dump_streams::is_stream(*form)) {
        return dump_streams::restore(call, key, dump, expires_at_ms, bad);
    }
    let most = call.state.settings().argument_bytes_max;
    let (kind, elements) = decode(dump, most).ok_or(bad)?;
    if kind == Kind::SortedSet {
        elements.iter().try_for_each(|element| check_member(Score::split(element).1))?;
    }
    let mut building = Building::new(call, key, kind);
    for element in &elements {
        building.add(call, key, element)?;
    }
    let database = call.session.database;
    building.finish(call, (database, key), expires_at_ms).map(drop)
}
