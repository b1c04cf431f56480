//! Streams in the format of `DUMP` and `RESTORE`, with their consumer groups.
//!
//! Redis 7.0 writes type 19, and this server does as well. Type 15 of older versions and type 21 of
//! 7.2 are read too. Entries come in listpacks. A listpack begins with the fields of its first
//! entry, and an entry with the same fields has only its values. (Redis, `t_stream.c` and `rdb.c`.)

use std::collections::BTreeMap;

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{
    Collection, EntryId, Group, Key, Kind, Pending, StreamState, fields_of,
};

use super::building::Building;
use super::stream_claims::each_pending;
use super::stream_groups::{AT_ONCE, Progress, check_name};
use super::{Call, LONG_REPLY, Outcome, Stop};
use crate::number::integer;
use crate::rdb::packs::{Pack, listpack};
use crate::rdb::text::{read_length, take_text, write_length, write_text};

/// Type bytes: of versions before 7.0, of 7.0, and since 7.2.
const FIRST: u8 = 15;
const STREAM: u8 = 19;
const WITH_ACTIVE_TIME: u8 = 21;

/// Entries in a listpack.
const PACKED_TOGETHER: u64 = 100;

/// Flags of an entry.
const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// True if a dump with this type byte is of a stream.
pub(super) fn is_stream(form: u8) -> bool {
    matches!(form, FIRST | STREAM | WITH_ACTIVE_TIME)
}

/// Returns a stream in the format of `DUMP`, without version and checksum.
///
/// # Errors
/// Returns an error if it takes too much DRAM.
pub(super) fn dumped<M: FullMemory>(
    call: &mut Call<'_, M>,
    stream: &Collection,
) -> Result<Vec<u8>, Stop> {
    let (state, count) = (stream.stream_state(), stream.len(call.memory));
    let first = stream.at(call.memory, 0).map_or(EntryId::default(), |first| EntryId::of(&first));
    let mut bytes = vec![STREAM];
    write_number(&mut bytes, count.div_ceil(PACKED_TOGETHER));
    let mut node = Node::default();
    call.each_element(stream, (0, count), |call, element| {
        node.add(element);
        if node.count == PACKED_TOGETHER {
            std::mem::take(&mut node).write(&mut bytes);
        }
        check_length(call, bytes.len() + node.pack.len())
    })?;
    if node.count > 0 {
        node.write(&mut bytes);
    }
    write_number(&mut bytes, count);
    for id in [state.last, first, state.deleted] {
        write_id(&mut bytes, id);
    }
    write_number(&mut bytes, state.added);
    write_number(&mut bytes, stream.group_count(call.memory));
    call.each_group(stream, |call, group| dump_group(call, (stream, group), &mut bytes))?;
    Ok(bytes)
}

fn check_length<M: FullMemory>(call: &Call<'_, M>, bytes: usize) -> Outcome {
    let most = call.state.settings().argument_bytes_max;
    if bytes > most { Err(LONG_REPLY.into()) } else { Ok(()) }
}

fn dump_group<M: FullMemory>(
    call: &mut Call<'_, M>,
    (stream, group): (&Collection, &Group),
    bytes: &mut Vec<u8>,
) -> Outcome {
    write_text(bytes, &group.name);
    write_id(bytes, group.last);
    write_number(bytes, group.entries_read.unwrap_or(u64::MAX));
    let count = stream.pending_count(call.memory, group, None);
    write_number(bytes, count);
    each_pending(call, (stream, group, None), (0, count), |call, pending| {
        bytes.extend_from_slice(&pending.id.to_bytes());
        bytes.extend_from_slice(&pending.delivered_ms.to_le_bytes());
        write_number(bytes, pending.deliveries);
        check_length(call, bytes.len())
    })?;
    write_number(bytes, stream.consumer_count(call.memory, group));
    call.each_consumer((stream, group), |call, consumer| {
        write_text(bytes, &consumer.name);
        bytes.extend_from_slice(&consumer.seen_ms.to_le_bytes());
        let count = stream.pending_count(call.memory, group, Some(consumer));
        write_number(bytes, count);
        each_pending(call, (stream, group, Some(consumer)), (0, count), |call, pending| {
            bytes.extend_from_slice(&pending.id.to_bytes());
            check_length(call, bytes.len())
        })
    })
}

fn write_number(bytes: &mut Vec<u8>, number: u64) {
    write_length(bytes, number as usize);
}

fn write_id(bytes: &mut Vec<u8>, id: EntryId) {
    write_number(bytes, id.ms);
    write_number(bytes, id.sequence);
}

/// Entries that are written together.
#[derive(Default)]
struct Node {
    master: EntryId,
    /// The fields of the first entry.
    fields: Vec<Vec<u8>>,
    /// The entries, without the part before them.
    pack: Pack,
    count: u64,
}

impl Node {
    fn add(&mut self, element: &[u8]) {
        let id = EntryId::of(element);
        let texts: Vec<&[u8]> = fields_of(element).collect();
        let fields = texts.iter().step_by(2).copied();
        if self.count == 0 {
            self.master = id;
            self.fields = fields.clone().map(<[u8]>::to_vec).collect();
        }
        let is_same = fields.eq(self.fields.iter().map(Vec::as_slice));
        self.pack.add_number(if is_same { SAME_FIELDS } else { 0 });
        self.pack.add_number(id.ms.wrapping_sub(self.master.ms) as i64);
        self.pack.add_number(id.sequence.wrapping_sub(self.master.sequence) as i64);
        let values = texts.len() as i64 / 2;
        if is_same {
            texts.iter().skip(1).step_by(2).for_each(|text| self.pack.add_text(text));
            self.pack.add_number(3 + values);
        } else {
            self.pack.add_number(values);
            texts.iter().for_each(|text| self.pack.add_text(text));
            self.pack.add_number(4 + 2 * values);
        }
        self.count += 1;
    }

    fn write(self, bytes: &mut Vec<u8>) {
        let mut pack = Pack::default();
        pack.add_number(self.count as i64);
        pack.add_number(0);
        pack.add_number(self.fields.len() as i64);
        self.fields.iter().for_each(|field| pack.add_text(field));
        pack.add_number(0);
        pack.append(&self.pack);
        write_text(bytes, &self.master.to_bytes());
        write_text(bytes, &pack.finish());
    }
}

/// The rest of a dump.
struct Rest<'a> {
    bytes: &'a [u8],
    text_bytes_max: usize,
}

impl Rest<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = read_length(self.bytes)?;
        self.bytes = rest;
        Some(number as u64)
    }

    fn id(&mut self) -> Option<EntryId> {
        Some(EntryId { ms: self.number()?, sequence: self.number()? })
    }

    /// An id in the form of the key of an entry.
    fn raw_id(&mut self) -> Option<EntryId> {
        self.bytes.split_off(..16).map(EntryId::of)
    }

    fn time(&mut self) -> Option<u64> {
        let bytes = self.bytes.split_off(..8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        take_text(&mut self.bytes, self.text_bytes_max)
    }
}

/// Sets a key to the stream in a dump without version and checksum.
///
/// # Errors
/// Returns `bad` if the dump is no stream, or an error if there is no room.
pub(super) fn restore<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    dump: &[u8],
    expires_at_ms: Option<u64>,
    bad: &'static str,
) -> Outcome {
    let (form, bytes) = dump.split_first().ok_or(bad)?;
    let mut rest = Rest { bytes, text_bytes_max: call.state.settings().argument_bytes_max };
    let mut building = Building::new(call, key, Kind::Stream);
    let (mut length, mut first, mut top) = (0, EntryId::default(), None);
    for _ in 0..rest.number().ok_or(bad)? {
        let (master, pack) = node(&mut rest).ok_or(bad)?;
        let mut entries = Entries::new(master, &pack).ok_or(bad)?;
        while let Some(element) = entries.next().ok_or(bad)? {
            let id = EntryId::of(&element);
            if top.is_some_and(|top| id <= top) {
                return Err(bad.into());
            }
            if length == 0 {
                first = id;
            }
            (top, length) = (Some(id), length + 1);
            building.add(call, key, &element)?;
        }
    }
    let state = state(&mut rest, *form, length).ok_or(bad)?;
    if top.is_some_and(|top| state.last < top) {
        return Err(bad.into());
    }
    building.set_stream_state(state);
    let progress = Progress { state, length, first };
    for _ in 0..rest.number().ok_or(bad)? {
        let group = ParsedGroup::parse(&mut rest, *form, &progress).ok_or(bad)?;
        group.add(call, key, &mut building, bad)?;
    }
    if !rest.bytes.is_empty() {
        return Err(bad.into());
    }
    let database = call.session.database;
    building.finish(call, (database, key), expires_at_ms).map(drop)
}

fn node(rest: &mut Rest<'_>) -> Option<(EntryId, Vec<Vec<u8>>)> {
    let master = rest.text().filter(|id| id.len() == 16)?;
    Some((EntryId::of(&master), listpack(&rest.text()?)?))
}

/// Parses the state of a stream of this length.
fn state(rest: &mut Rest<'_>, form: u8, length: u64) -> Option<StreamState> {
    if rest.number()? != length {
        return None;
    }
    let last = rest.id()?;
    if form == FIRST {
        return Some(StreamState { last, deleted: EntryId::default(), added: length });
    }
    let _first = rest.id()?;
    let deleted = rest.id()?;
    let added = rest.number().filter(|added| i64::try_from(*added).is_ok())?;
    Some(StreamState { last, deleted, added })
}

/// The entries in the texts of a listpack.
struct Entries<'a> {
    master: EntryId,
    fields: &'a [Vec<u8>],
    texts: &'a [Vec<u8>],
}

impl<'a> Entries<'a> {
    fn new(master: EntryId, pack: &'a [Vec<u8>]) -> Option<Entries<'a>> {
        let (head, rest) = pack.split_at_checked(3)?;
        let fields = usize::try_from(integer(&head[2])?).ok()?;
        let (fields, rest) = rest.split_at_checked(fields)?;
        let (_, texts) = rest.split_first()?;
        Some(Entries { master, fields, texts })
    }

    fn take(&mut self, count: usize) -> Option<&'a [Vec<u8>]> {
        self.texts.split_off(..count)
    }

    fn number(&mut self) -> Option<i64> {
        integer(self.texts.split_off_first()?)
    }

    /// Returns the element of the next entry that was not deleted; `Some(None)` at the end, and
    /// `None` if the texts are no entries.
    #[expect(clippy::option_option, reason = "an end is no error")]
    fn next(&mut self) -> Option<Option<Vec<u8>>> {
        while !self.texts.is_empty() {
            let (flags, ms, sequence) = (self.number()?, self.number()?, self.number()?);
            let id = EntryId {
                ms: self.master.ms.wrapping_add(ms as u64),
                sequence: self.master.sequence.wrapping_add(sequence as u64),
            };
            let texts: Vec<&[u8]> = if flags & SAME_FIELDS != 0 {
                let (fields, values) = (self.fields, self.take(self.fields.len())?);
                fields.iter().zip(values).flat_map(|(field, value)| [&field[..], value]).collect()
            } else {
                let fields = usize::try_from(self.number()?).ok()?;
                self.take(fields.checked_mul(2)?)?.iter().map(Vec::as_slice).collect()
            };
            // The number of texts of the entry, to go backwards.
            self.number()?;
            if flags & DELETED == 0 {
                return Some(Some(id.with(&texts)));
            }
        }
        Some(None)
    }
}

/// A consumer group in a dump.
struct ParsedGroup {
    name: Vec<u8>,
    last: EntryId,
    entries_read: Option<u64>,
    consumers: Vec<ParsedConsumer>,
}

/// A consumer in a dump, and its pending entries.
struct ParsedConsumer {
    name: Vec<u8>,
    seen_ms: u64,
    /// The consumers of these have no numbers yet.
    pending: Vec<Pending>,
}

impl ParsedGroup {
    fn parse(rest: &mut Rest<'_>, form: u8, progress: &Progress) -> Option<ParsedGroup> {
        let (name, last) = (rest.text()?, rest.id()?);
        let entries_read = match form {
            FIRST => progress.read_up_to(last),
            _ => Some(rest.number()?).filter(|read| i64::try_from(*read).is_ok()),
        };
        let mut all = BTreeMap::new();
        for _ in 0..rest.number()? {
            let (id, delivered_ms, deliveries) = (rest.raw_id()?, rest.time()?, rest.number()?);
            let pending = Pending { id, consumer: 0, delivered_ms, deliveries };
            if all.insert(id, pending).is_some() {
                return None;
            }
        }
        let mut consumers = Vec::new();
        for _ in 0..rest.number()? {
            let (name, seen_ms) = (rest.text()?, rest.time()?);
            if form == WITH_ACTIVE_TIME {
                rest.time()?;
            }
            let mut pending = Vec::new();
            for _ in 0..rest.number()? {
                pending.push(all.remove(&rest.raw_id()?)?);
            }
            consumers.push(ParsedConsumer { name, seen_ms, pending });
        }
        all.is_empty().then_some(ParsedGroup { name, last, entries_read, consumers })
    }

    /// Adds it to a stream.
    ///
    /// # Errors
    /// Returns `bad` if a name is there twice, or an error if there is no room.
    fn add<M: FullMemory>(
        &self,
        call: &mut Call<'_, M>,
        key: &Key<'_>,
        building: &mut Building,
        bad: &'static str,
    ) -> Outcome {
        check_name(&self.name)?;
        if building.stream().find_group(call.memory, &self.name).is_some() {
            return Err(bad.into());
        }
        let mut group = building.change(call, key, |call, stream| {
            stream.add_group(call.memory, &self.name, self.last, self.entries_read)
        })?;
        for consumer in &self.consumers {
            check_name(&consumer.name)?;
            if building.stream().find_consumer(call.memory, &group, &consumer.name).is_some() {
                return Err(bad.into());
            }
            let before = group;
            let number;
            (group, number) = building.change(call, key, |call, stream| {
                let mut group = before.clone();
                let (name, seen_ms) = (&consumer.name, consumer.seen_ms);
                let added = stream.add_consumer(call.memory, &mut group, name, seen_ms)?;
                Ok((group, added.number))
            })?;
            for pending in consumer.pending.chunks(AT_ONCE) {
                building.change(call, key, |call, stream| {
                    pending.iter().try_for_each(|pending| {
                        let pending = Pending { consumer: number, ..*pending };
                        stream.put_pending(call.memory, &group, &pending)
                    })
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: EntryId = EntryId { ms: 7, sequence: 1 };

    /// A group with one consumer and one pending entry. `times` has the times of the consumer, and
    /// `read` the entries read if the form has them.
    fn group(read: Option<u64>, times: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_text(&mut bytes, b"group");
        write_id(&mut bytes, LAST);
        read.into_iter().for_each(|read| write_number(&mut bytes, read));
        write_number(&mut bytes, 1);
        bytes.extend(LAST.to_bytes());
        bytes.extend(5u64.to_le_bytes());
        write_number(&mut bytes, 2);
        write_number(&mut bytes, 1);
        write_text(&mut bytes, b"consumer");
        times.iter().for_each(|time| bytes.extend(time.to_le_bytes()));
        write_number(&mut bytes, 1);
        bytes.extend(LAST.to_bytes());
        bytes
    }

    #[test]
    fn groups_of_all_versions_are_read() {
        let state = StreamState { last: LAST, deleted: EntryId::default(), added: 3 };
        let progress = Progress { state, length: 3, first: EntryId { ms: 1, sequence: 0 } };
        let forms = [
            (FIRST, group(None, &[9]), Some(3)),
            (STREAM, group(Some(2), &[9]), Some(2)),
            (STREAM, group(Some(u64::MAX), &[9]), None),
            (WITH_ACTIVE_TIME, group(Some(1), &[9, 8]), Some(1)),
        ];
        for (form, bytes, entries_read) in forms {
            let mut rest = Rest { bytes: &bytes, text_bytes_max: 100 };
            let group = ParsedGroup::parse(&mut rest, form, &progress).expect("a group");
            assert_eq!((&group.name[..], group.last), (&b"group"[..], LAST));
            assert_eq!(group.entries_read, entries_read, "form {form}");
            let consumer = &group.consumers[0];
            assert_eq!((&consumer.name[..], consumer.seen_ms), (&b"consumer"[..], 9));
            let pending = Pending { id: LAST, consumer: 0, delivered_ms: 5, deliveries: 2 };
            assert_eq!(consumer.pending, [pending]);
            assert!(rest.bytes.is_empty());
            for end in 0..bytes.len() {
                let mut rest = Rest { bytes: &bytes[..end], text_bytes_max: 100 };
                assert!(ParsedGroup::parse(&mut rest, form, &progress).is_none());
            }
        }
    }

    #[test]
    fn a_state_before_version_7_has_only_the_last_id() {
        let mut bytes = Vec::new();
        write_number(&mut bytes, 4);
        write_id(&mut bytes, LAST);
        let mut rest = Rest { bytes: &bytes, text_bytes_max: 0 };
        let expected = StreamState { last: LAST, deleted: EntryId::default(), added: 4 };
        assert_eq!(state(&mut rest, FIRST, 4), Some(expected));
        assert_eq!(state(&mut Rest { bytes: &bytes, text_bytes_max: 0 }, FIRST, 5), None);
        assert_eq!(state(&mut Rest { bytes: &bytes, text_bytes_max: 0 }, STREAM, 4), None);
    }
}
