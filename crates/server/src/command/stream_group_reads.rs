//! `XREADGROUP`: delivers the entries of streams to the consumers of a group.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, EntryId, Group, Key, Kind, Pending};

use super::blocking::{Waits, wait_for_entries};
use super::stream_arguments::strict_id;
use super::stream_groups::{AT_ONCE, Progress, text_of};
use super::stream_reads::{Read, Reader, WAITED_COUNT};
use super::{Call, Outcome, Stop};
use crate::waiting::Use;

const GONE: &str = "UNBLOCKED the stream key no longer exists";
const GROUP_GONE: &str = "NOGROUP the consumer group this client was blocked on no longer exists";
const LAST_ID: &str = "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the \
     history of this consumer by specifying a proper ID, or use the > ID to get new \
     messages. The $ ID would just return an empty result set.";

/// What is read of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// Entries that no consumer of the group has got.
    New,
    /// Pending entries of the consumer with greater ids.
    After(EntryId),
}

pub(super) fn xreadgroup<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (read, reader) = Read::parse(call, true)?;
    let reader = reader.ok_or("ERR Missing GROUP option for XREADGROUP")?;
    let Some(ms) = read.block_ms else {
        if !serve(call, &read, reader)? {
            call.reply.null_array();
        }
        return Ok(());
    };
    let waits = Waits { keys: read.keys, timeout_ms: Some(ms).filter(|ms| *ms > 0) };
    let again = (again(&read, reader), Use::Takes(Some(reader.group.to_vec())));
    wait_for_entries(call, waits, again, |call| serve(call, &read, reader))
}

/// The command that runs once there are entries.
fn again(read: &Read<'_>, reader: Reader<'_>) -> Vec<Vec<u8>> {
    let count = read.count.unwrap_or(WAITED_COUNT).to_string();
    let mut words: Vec<&[u8]> = vec![b"XREADGROUP", b"GROUP", reader.group, reader.consumer];
    if reader.no_ack {
        words.push(b"NOACK");
    }
    words.extend([&b"COUNT"[..], count.as_bytes(), b"BLOCK", b"0", b"STREAMS"]);
    words.into_iter().chain(read.keys.iter().chain(read.ids).copied()).map(<[u8]>::to_vec).collect()
}

/// Returns a stream and the reader's group.
fn group_of<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    reader: Reader<'_>,
) -> Result<(Collection, Group), Stop> {
    let has_waited = call.session.resumed.is_some();
    let stream = match call.collection(key, Kind::Stream) {
        Err(stop) if stop.is_wrong_kind() && has_waited => return Err(GONE.into()),
        found => found?,
    };
    let is_there = stream.is_some();
    let group = stream.and_then(|stream| {
        let group = stream.find_group(call.memory, reader.group);
        group.map(|group| (stream, group))
    });
    group.ok_or_else(|| match (has_waited, is_there) {
        (true, false) => GONE.into(),
        (true, true) => GROUP_GONE.into(),
        _ => {
            let (key, group) = (text_of(key.bytes), text_of(reader.group));
            format!(
                "NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP \
                 option"
            )
            .into()
        }
    })
}

/// Replies with entries of the streams that have some. Returns false if none has.
fn serve<M: FullMemory>(
    call: &mut Call<'_, M>,
    read: &Read<'_>,
    reader: Reader<'_>,
) -> Result<bool, Stop> {
    let mut found: Vec<(Key<'_>, From, u64)> = Vec::new();
    for (name, id) in read.keys.iter().zip(read.ids) {
        let key = call.keyspace().key(name);
        let (stream, group) = group_of(call, &key, reader)?;
        let from = match *id {
            b"$" => return Err(LAST_ID.into()),
            b">" => From::New,
            id => match strict_id(id, 0)? {
                EntryId::MAX => From::New,
                id => From::After(id),
            },
        };
        let mut count = 0;
        if from == From::New {
            // The key may be named twice.
            let earlier =
                found.iter().filter(|(of, from, _)| of.bytes == key.bytes && *from == From::New);
            let earlier: u64 = earlier.map(|(.., count)| count).sum();
            let there = new_of(call, &stream, &group).1.saturating_sub(earlier);
            count = there.min(read.count.unwrap_or(u64::MAX));
            if count == 0 {
                continue;
            }
        }
        found.push((key, from, count));
    }
    if found.is_empty() {
        return Ok(false);
    }
    // A long reply is made outside of a transaction.
    let counts: u64 = found.iter().map(|(.., count)| *count).sum();
    if counts > AT_ONCE as u64 {
        call.writer.require_pieces()?;
    }
    call.reply_streams(found.len());
    for (index, (key, from, count)) in found.iter().enumerate() {
        call.reply_stream(key.bytes);
        let start = call.reply.len();
        let replied = match from {
            From::New => deliver(call, key, reader, *count),
            From::After(id) => history(call, key, reader, (*id, read.count)),
        };
        match replied {
            // Entries of the streams before it were delivered.
            Err(stop) if stop.is_full() && index > 0 && !call.writer.has_committed() => {
                call.reply.truncate(start);
                call.reply.array(0);
            }
            replied => replied?,
        }
    }
    Ok(true)
}

/// The rank of the first entry that a group has not read, and the number of them.
fn new_of<M: FullMemory>(call: &mut Call<'_, M>, stream: &Collection, group: &Group) -> (u64, u64) {
    let Some(next) = group.last.next() else { return (0, 0) };
    let rank = stream.rank_of(call.memory, &next.to_bytes());
    (rank, stream.len(call.memory).saturating_sub(rank))
}

/// Replies with `count` entries that the group has not read, which are now pending.
fn deliver<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    reader: Reader<'_>,
    count: u64,
) -> Outcome {
    let at_once = call.writer.changed_at_once() as u64;
    call.reply.array(count as usize);
    let mut left = count;
    while left > 0 {
        let elements = deliver_some(call, key, reader, left.min(at_once))?;
        elements.iter().for_each(|element| call.reply_entry(element));
        left = left.saturating_sub(elements.len() as u64);
        call.pause_after_change()?;
    }
    Ok(())
}

/// Makes at most `count` entries that the group has not read pending, at least one. Returns them.
fn deliver_some<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    reader: Reader<'_>,
    count: u64,
) -> Result<Vec<Vec<u8>>, Stop> {
    let delivered_ms = call.state.now_ms.get();
    call.edit_group(key, reader.group, |call, stream, group| {
        let consumer = call.seen_consumer(key, (stream, group), reader.consumer)?.number;
        let (rank, _) = new_of(call, stream, group);
        let (mut elements, progress) = (Vec::new(), Progress::of(call.memory, stream));
        while (elements.len() as u64) < count {
            let most = (count - elements.len() as u64) as usize;
            let at = rank + elements.len() as u64;
            if !stream.read(call.memory, at, most, &mut elements) {
                break;
            }
        }
        for element in &elements {
            let id = EntryId::of(element);
            progress.read(group, id);
            if !reader.no_ack {
                let pending = Pending { id, consumer, delivered_ms, deliveries: 1 };
                stream.put_pending(call.memory, group, &pending)?;
            }
        }
        stream.put_group(call.memory, group)?;
        Ok(elements)
    })
}

/// Replies with the pending entries of the consumer after an id.
fn history<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    reader: Reader<'_>,
    (after, most): (EntryId, Option<u64>),
) -> Outcome {
    let start = after.next().unwrap_or_default();
    let (mut rank, count) = call.edit_group(key, reader.group, |call, stream, group| {
        let consumer = call.seen_consumer(key, (stream, group), reader.consumer)?;
        let before = stream.pending_before(call.memory, group, Some(&consumer), start);
        let all = stream.pending_count(call.memory, group, Some(&consumer));
        Ok((before, all.saturating_sub(before).min(most.unwrap_or(u64::MAX))))
    })?;
    if count > AT_ONCE as u64 {
        call.writer.require_pieces()?;
    }
    call.reply.array(count as usize);
    let (end, now_ms) = (rank + count, call.state.now_ms.get());
    while rank < end {
        let most = (end - rank).min(AT_ONCE as u64) as usize;
        let entries = call.edit_group(key, reader.group, |call, stream, group| {
            let consumer = stream.find_consumer(call.memory, group, reader.consumer);
            let at = (rank, most);
            let pending = stream.read_pending(call.memory, group, consumer.as_ref(), at);
            let mut entries = Vec::new();
            for pending in pending {
                let element = stream.find_entry(call.memory, pending.id);
                if element.is_some() {
                    let deliveries = pending.deliveries.saturating_add(1);
                    let pending = Pending { delivered_ms: now_ms, deliveries, ..pending };
                    stream.put_pending(call.memory, group, &pending)?;
                }
                entries.push((pending.id, element));
            }
            Ok(entries)
        })?;
        if entries.is_empty() {
            break;
        }
        rank += entries.len() as u64;
        for (id, element) in entries {
            match element {
                Some(element) => call.reply_entry(&element),
                None => {
                    call.reply.array(2);
                    call.reply_id(id);
                    call.reply.null_array();
                }
            }
        }
        call.pause_after_change()?;
    }
    Ok(())
}
