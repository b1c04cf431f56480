//! Commands that read streams.

use ebbtide_core::Memory;
use ebbtide_structures::keyspace::{Collection, EntryId, Kind, fields_of};

use super::blocking::{Waits, wait_for_entries};
use super::stream_arguments::{count, range_end, range_start, strict_id};
use super::{Call, Failure, NOT_INTEGER, Outcome, SYNTAX, WRONG_KIND};
use crate::number::integer;
use crate::protocol::Protocol;

/// Entries of each stream that a client gets that has waited and gave no `COUNT`.
const WAITED_COUNT: u64 = 1000;

impl<M: Memory> Call<'_, M> {
    /// Replies with an entry of a stream.
    fn reply_entry(&mut self, element: &[u8]) {
        self.reply.array(2);
        self.reply_id(EntryId::of(element));
        self.reply.array(fields_of(element).count());
        fields_of(element).for_each(|text| self.reply.bulk(text));
    }

    /// Replies with `count` entries from `rank` on.
    fn reply_entries(&mut self, stream: &Collection, (rank, count): (u64, u64)) -> Outcome {
        self.visits(count)?;
        self.reply.array(count as usize);
        self.each_element(stream, (rank, count), |call, element| {
            call.reply_entry(element);
            Ok(())
        })
    }
}

pub(super) fn xrange<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    range(call, (2, 3), false)
}

pub(super) fn xrevrange<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    range(call, (3, 2), true)
}

/// Replies with the entries between the ids at these indices.
fn range<M: Memory>(
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

/// The arguments of `XREAD`.
struct Read<'a> {
    count: Option<u64>,
    /// Milliseconds to wait, 0 for no end; `None` if it does not wait.
    block_ms: Option<u64>,
    keys: &'a [&'a [u8]],
    ids: &'a [&'a [u8]],
}

impl<'a> Read<'a> {
    fn parse<M: Memory>(call: &Call<'a, M>) -> Result<Read<'a>, Failure> {
        let arguments: &'a [&'a [u8]] = call.arguments;
        let mut read = Read { count: None, block_ms: None, keys: &[], ids: &[] };
        let mut index = 1;
        while index + 1 < arguments.len() {
            let value = arguments[index + 1];
            if call.is(index, "BLOCK") {
                read.block_ms = Some(block_ms(call, value)?);
            } else if call.is(index, "COUNT") {
                let count = integer(value).ok_or(Failure::from(NOT_INTEGER))?;
                read.count = u64::try_from(count).ok().filter(|count| *count > 0);
            } else if call.is(index, "STREAMS") {
                let streams = &arguments[index + 1..];
                if !streams.len().is_multiple_of(2) {
                    let text = "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must \
                                be specified.";
                    return Err(text.into());
                }
                (read.keys, read.ids) = streams.split_at(streams.len() / 2);
                return Ok(read);
            } else {
                return Err(not_of_groups(call, index));
            }
            index += 2;
        }
        Err(if index < arguments.len() { not_of_groups(call, index) } else { SYNTAX.into() })
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

/// The error for an option that `XREAD` does not have.
fn not_of_groups<M: Memory>(call: &Call<'_, M>, index: usize) -> Failure {
    let has_more = index + 2 < call.arguments.len();
    for (name, is_there) in [("GROUP", has_more), ("NOACK", true)] {
        if is_there && call.is(index, name) {
            return format!(
                "ERR The {name} option is only supported by XREADGROUP. You called XREAD instead."
            )
            .into();
        }
    }
    SYNTAX.into()
}

/// Parses the milliseconds after `BLOCK`.
fn block_ms<M: Memory>(call: &Call<'_, M>, text: &[u8]) -> Result<u64, Failure> {
    if call.session.in_script {
        let name = String::from_utf8_lossy(call.arguments[0]);
        return Err(
            format!("ERR {name} command is not allowed with BLOCK option from scripts").into()
        );
    }
    let ms = integer(text).ok_or(Failure::from("ERR timeout is not an integer or out of range"))?;
    u64::try_from(ms).map_err(|_| "ERR timeout is negative".into())
}

pub(super) fn xread<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    let read = Read::parse(call)?;
    let after = ids_after(call, &read)?;
    if let Some(ms) = read.block_ms {
        let waits = Waits { keys: read.keys, timeout_ms: Some(ms).filter(|ms| *ms > 0) };
        let again = read.again(&after);
        return wait_for_entries(call, waits, again, |call| read_after(call, &read, &after));
    }
    if !read_after(call, &read, &after)? {
        call.reply.null_array();
    }
    Ok(())
}

/// Parses the ids after which streams are read. `$` is the last one of its stream.
fn ids_after<M: Memory>(call: &mut Call<'_, M>, read: &Read<'_>) -> Result<Vec<EntryId>, Failure> {
    const GROUPS_ONLY: &str = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP \
                               <group> <consumer> option.";
    let each = read.keys.iter().zip(read.ids);
    each.map(|(key, id)| {
        let stream = stream_of(call, key)?;
        match *id {
            b"$" => Ok(stream.map_or(EntryId::default(), |stream| stream.stream_state().last)),
            b">" => Err(GROUPS_ONLY.into()),
            id => strict_id(id, 0),
        }
    })
    .collect()
}

/// The stream of a key. A client that has waited passes over values of other kinds.
fn stream_of<M: Memory>(call: &mut Call<'_, M>, key: &[u8]) -> Result<Option<Collection>, Failure> {
    let key = call.keyspace().key(key);
    match call.collection(&key, Kind::Stream) {
        Err(Failure::Reply(text)) if text == WRONG_KIND && call.session.resumed.is_some() => {
            Ok(None)
        }
        found => found,
    }
}

/// Replies with the entries after these ids. Returns false if there are none.
fn read_after<M: Memory>(
    call: &mut Call<'_, M>,
    read: &Read<'_>,
    after: &[EntryId],
) -> Result<bool, Failure> {
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
    let is_map = call.reply.protocol == Protocol::Three;
    if is_map {
        call.reply.map(found.len())
    } else {
        call.reply.array(found.len())
    }
    for (key, stream, range) in found {
        if !is_map {
            call.reply.array(2);
        }
        call.reply.bulk(key);
        call.reply_entries(&stream, range)?;
    }
    Ok(true)
}

pub(super) fn xinfo<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    if call.is(1, "HELP") {
        const LINES: [&str; 5] = [
            "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "STREAM <key> [FULL [COUNT <count>]",
            "    Show information about the stream.",
            "HELP",
            "    Prints this help.",
        ];
        call.reply.array(LINES.len());
        LINES.iter().for_each(|line| call.reply.status(line));
        return Ok(());
    }
    let key = call.key(2);
    let stream = call.collection(&key, Kind::Stream)?;
    let stream = stream.ok_or(Failure::from("ERR no such key"))?;
    let full = full_count(call)?;
    call.reply.map(if full.is_some() { 9 } else { 10 });
    reply_state(call, &stream);
    match full {
        Some(most) => {
            let there = stream.len(call.memory);
            call.reply.bulk(b"entries");
            call.reply_entries(&stream, (0, if most == 0 { there } else { most.min(there) }))?;
            call.reply.bulk(b"groups");
            call.reply.array(0);
        }
        None => {
            call.reply.bulk(b"groups");
            call.reply.integer(0);
            let last = stream.len(call.memory).wrapping_sub(1);
            for (name, rank) in [("first-entry", 0), ("last-entry", last)] {
                call.reply.bulk(name.as_bytes());
                match stream.at(call.memory, rank) {
                    Some(element) => call.reply_entry(&element),
                    None => call.reply.null(),
                }
            }
        }
    }
    Ok(())
}

/// Parses `FULL [COUNT number]` of `XINFO STREAM`. Returns the number; 0 for all entries.
fn full_count<M: Memory>(call: &Call<'_, M>) -> Result<Option<u64>, Failure> {
    const DEFAULT: u64 = 10;
    match call.arguments[3..] {
        [] => Ok(None),
        [_] if call.is(3, "FULL") => Ok(Some(DEFAULT)),
        [_, _, _] if call.is(3, "FULL") && call.is(4, "COUNT") => {
            Ok(Some(u64::try_from(call.integer(5)?).unwrap_or(DEFAULT)))
        }
        _ => {
            let name = String::from_utf8_lossy(call.arguments[1]);
            Err(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try XINFO HELP."
            )
            .into())
        }
    }
}

/// Replies with the first seven fields of `XINFO STREAM`.
fn reply_state<M: Memory>(call: &mut Call<'_, M>, stream: &Collection) {
    /// Bytes of a page.
    const PAGE_BYTES: u64 = 4096;
    let count = stream.len(call.memory);
    // Redis has one node for a few entries, and one below it.
    let pages = match stream.is_large() {
        true => stream.estimated_bytes(call.memory) / PAGE_BYTES,
        false => u64::from(count > 0),
    };
    let (state, first) = (stream.stream_state(), stream.at(call.memory, 0));
    let numbers = [("length", count), ("radix-tree-keys", pages), ("radix-tree-nodes", pages + 1)];
    for (name, number) in numbers {
        call.reply.bulk(name.as_bytes());
        call.reply.integer(number as i64);
    }
    call.reply.bulk(b"last-generated-id");
    call.reply_id(state.last);
    call.reply.bulk(b"max-deleted-entry-id");
    call.reply_id(state.deleted);
    call.reply.bulk(b"entries-added");
    call.reply.integer(state.added as i64);
    call.reply.bulk(b"recorded-first-entry-id");
    call.reply_id(first.map_or(EntryId::default(), |first| EntryId::of(&first)));
}
