//! `XRANGE` and `XREAD`, and what commands that read streams share.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, EntryId, Kind, fields_of};

use super::blocking::{Waits, wait_for_entries};
use super::stream_arguments::{count, range_end, range_start, strict_id};
use super::{Call, Failure, NOT_INTEGER, Outcome, SYNTAX, Stop};
use crate::number::integer;
use crate::protocol::Protocol;
use crate::waiting::Use;

/// Entries of each stream that a client gets that has waited and gave no `COUNT`.
pub(super) const WAITED_COUNT: u64 = 1000;

impl<M: FullMemory> Call<'_, M> {
    /// Replies with an entry of a stream.
    pub(super) fn reply_entry(&mut self, element: &[u8]) {
        self.reply.array(2);
        self.reply_id(EntryId::of(element));
        self.reply.array(fields_of(element).count());
        fields_of(element).for_each(|text| self.reply.bulk(text));
    }

    /// Begins a reply with entries of this number of streams.
    pub(super) fn reply_streams(&mut self, count: usize) {
        match self.reply.protocol {
            Protocol::Three => self.reply.map(count),
            Protocol::Two => self.reply.array(count),
        }
    }

    /// Begins the entries of a stream in such a reply.
    pub(super) fn reply_stream(&mut self, key: &[u8]) {
        if self.reply.protocol == Protocol::Two {
            self.reply.array(2);
        }
        self.reply.bulk(key);
    }

    /// Replies with `count` entries from `rank` on.
    pub(super) fn reply_entries(
        &mut self,
        stream: &Collection,
        (rank, count): (u64, u64),
    ) -> Outcome {
        self.visits(count)?;
        self.reply.array(count as usize);
        self.each_element(stream, (rank, count), |call, element| {
            call.reply_entry(element);
            Ok(())
        })
    }
}

pub(super) fn xrange<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    range(call, (2, 3), false)
}

pub(super) fn xrevrange<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    range(call, (3, 2), true)
}

/// Replies with the entries between the ids at these indices.
fn range<M: FullMemory>(
    call: &mut Call<'_, M>,
    (start_at, end_at): (usize, usize),
    backwards: bool,
) -> Outcome {
    let start = range_start(call.arguments[start_at])?;
    let end = range_end(call.arguments[end_at])?;
    let most = count(call, 4)?;
    let key = call.key(1);
    let Some(stream) = call.collection(&key, Kind::Stream)? else {
        call.reply.array(0);
        return Ok(());
    };
    if most == Some(0) {
        call.reply.null_array();
        return Ok(());
    }
    let from = stream.rank_of(call.memory, &start.to_bytes());
    let to = match end.next() {
        Some(after) => stream.rank_of(call.memory, &after.to_bytes()),
        None => stream.len(call.memory),
    };
    let there = to.saturating_sub(from);
    let count = there.min(most.unwrap_or(u64::MAX));
    if !backwards {
        return call.reply_entries(&stream, (from, count));
    }
    call.visits(count)?;
    call.reply.array(count as usize);
    call.each_element_back(&stream, (from + there - count, count), |call, element| {
        call.reply_entry(element);
        Ok(())
    })
}

/// A group of a stream, and the consumer that reads.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) group: &'a [u8],
    pub(super) consumer: &'a [u8],
    /// True if the entries count as acknowledged at once.
    pub(super) no_ack: bool,
}

/// The arguments of `XREAD` and `XREADGROUP`.
pub(super) struct Read<'a> {
    pub(super) count: Option<u64>,
    /// Milliseconds to wait, 0 for no end; `None` if it does not wait.
    pub(super) block_ms: Option<u64>,
    pub(super) keys: &'a [&'a [u8]],
    pub(super) ids: &'a [&'a [u8]],
}

impl<'a> Read<'a> {
    /// Parses the arguments of `XREAD`, or of `XREADGROUP` if `of_group` is true.
    pub(super) fn parse<M: FullMemory>(
        call: &Call<'a, M>,
        of_group: bool,
    ) -> Result<(Read<'a>, Option<Reader<'a>>), Failure> {
        const UNBALANCED: &str = "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be \
             specified.";
        let arguments: &'a [&'a [u8]] = call.arguments;
        let mut read = Read { count: None, block_ms: None, keys: &[], ids: &[] };
        let (mut reader, mut no_ack, mut index) = (None, false, 1);
        let only = |name: &str| -> Result<(), Failure> {
            let text = format!(
                "ERR The {name} option is only supported by XREADGROUP. You called XREAD instead."
            );
            if of_group { Ok(()) } else { Err(text.into()) }
        };
        while index < arguments.len() {
            let more = &arguments[index + 1..];
            index += match (arguments[index].to_ascii_uppercase().as_slice(), more) {
                (b"BLOCK", [value, ..]) => {
                    read.block_ms = Some(block_ms(call, value)?);
                    2
                }
                (b"COUNT", [value, ..]) => {
                    let count = integer(value).ok_or(NOT_INTEGER)?;
                    read.count = u64::try_from(count).ok().filter(|count| *count > 0);
                    2
                }
                (b"STREAMS", [_, ..]) if !more.len().is_multiple_of(2) => {
                    return Err(UNBALANCED.into());
                }
                (b"STREAMS", [_, ..]) => {
                    (read.keys, read.ids) = more.split_at(more.len() / 2);
                    break;
                }
                (b"GROUP", [group, consumer, ..]) => {
                    only("GROUP")?;
                    reader = Some((*group, *consumer));
                    3
                }
                (b"NOACK", _) => {
                    only("NOACK")?;
                    no_ack = true;
                    1
                }
                _ => return Err(SYNTAX.into()),
            };
        }
        if read.keys.is_empty() {
            return Err(SYNTAX.into());
        }
        Ok((read, reader.map(|(group, consumer)| Reader { group, consumer, no_ack })))
    }

    /// The command that runs once there are entries. `after` has the id after which each stream is
    /// read.
    fn again(&self, after: &[EntryId]) -> Vec<Vec<u8>> {
        let count = self.count.unwrap_or(WAITED_COUNT).to_string();
        let words = ["XREAD", "COUNT", &count, "BLOCK", "0", "STREAMS"];
        let ids = after.iter().map(|id| format!("{}-{}", id.ms, id.sequence).into_bytes());
        let words = words.into_iter().map(|word| word.as_bytes().to_vec());
        words.chain(self.keys.iter().map(|key| key.to_vec())).chain(ids).collect()
    }
}

/// Parses the milliseconds after `BLOCK`.
fn block_ms<M: FullMemory>(call: &Call<'_, M>, text: &[u8]) -> Result<u64, Failure> {
    if call.session.in_script {
        let name = String::from_utf8_lossy(call.arguments[0]);
        return Err(
            format!("ERR {name} command is not allowed with BLOCK option from scripts").into()
        );
    }
    let ms = integer(text).ok_or("ERR timeout is not an integer or out of range")?;
    u64::try_from(ms).map_err(|_| "ERR timeout is negative".into())
}

pub(super) fn xread<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (read, _) = Read::parse(call, false)?;
    let after = ids_after(call, &read)?;
    if let Some(ms) = read.block_ms {
        let waits = Waits { keys: read.keys, timeout_ms: Some(ms).filter(|ms| *ms > 0) };
        let again = read.again(&after);
        return wait_for_entries(call, waits, (again, Use::Reads), |call| {
            read_after(call, &read, &after)
        });
    }
    if !read_after(call, &read, &after)? {
        call.reply.null_array();
    }
    Ok(())
}

/// Parses the ids after which streams are read. `$` is the last one of its stream.
fn ids_after<M: FullMemory>(call: &mut Call<'_, M>, read: &Read<'_>) -> Result<Vec<EntryId>, Stop> {
    const GROUPS_ONLY: &str = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP \
                               <group> <consumer> option.";
    let each = read.keys.iter().zip(read.ids);
    each.map(|(key, id)| {
        let stream = stream_of(call, key)?;
        match *id {
            b"$" => Ok(stream.map_or(EntryId::default(), |stream| stream.stream_state().last)),
            b">" => Err(GROUPS_ONLY.into()),
            id => Ok(strict_id(id, 0)?),
        }
    })
    .collect()
}

/// The stream of a key. A client that has waited passes over values of other kinds.
fn stream_of<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &[u8],
) -> Result<Option<Collection>, Stop> {
    let key = call.keyspace().key(key);
    match call.collection(&key, Kind::Stream) {
        Err(stop) if stop.is_wrong_kind() && call.session.resumed.is_some() => Ok(None),
        found => found,
    }
}

/// Replies with the entries after these ids. Returns false if there are none.
fn read_after<M: FullMemory>(
    call: &mut Call<'_, M>,
    read: &Read<'_>,
    after: &[EntryId],
) -> Result<bool, Stop> {
    let mut found = Vec::new();
    for (key, id) in read.keys.iter().zip(after) {
        let Some((stream, start)) = stream_of(call, key)?.zip(id.next()) else { continue };
        let from = stream.rank_of(call.memory, &start.to_bytes());
        let there = stream.len(call.memory).saturating_sub(from);
        if there > 0 {
            found.push((key, stream, (from, there.min(read.count.unwrap_or(u64::MAX)))));
        }
    }
    if found.is_empty() {
        return Ok(false);
    }
    call.reply_streams(found.len());
    for (key, stream, range) in found {
        call.reply_stream(key);
        call.reply_entries(&stream, range)?;
    }
    Ok(true)
}
