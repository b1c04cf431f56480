//! `XINFO`: describes a stream, its consumer groups and their consumers.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, EntryId, Group, Kind};

use super::stream_claims::{Names, each_pending};
use super::stream_groups::{Progress, no_group_of, unknown};
use super::streams::NO_KEY;
use super::{Call, Failure, Outcome};

pub(super) fn xinfo<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let subcommand = call.arguments[1].to_ascii_uppercase();
    if subcommand == b"HELP" {
        help(call);
        return Ok(());
    }
    let key = call.key(2);
    let stream = call.collection(&key, Kind::Stream)?.ok_or(NO_KEY)?;
    match (&*subcommand, call.arguments) {
        (b"STREAM", _) => describe(call, &stream),
        (b"GROUPS", [_, _, _]) => groups(call, &stream),
        (b"CONSUMERS", [_, _, key, name]) => {
            let group =
                stream.find_group(call.memory, name).ok_or_else(|| no_group_of(key, name))?;
            consumers(call, &stream, &group)
        }
        _ => Err(unknown(call).into()),
    }
}

fn help<M: FullMemory>(call: &mut Call<'_, M>) {
    const LINES: [&str; 9] = [
        "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CONSUMERS <key> <groupname>",
        "    Show consumers of <groupname>.",
        "GROUPS <key>",
        "    Show the stream consumer groups.",
        "STREAM <key> [FULL [COUNT <count>]",
        "    Show information about the stream.",
        "HELP",
        "    Prints this help.",
    ];
    call.reply.help(&LINES);
}

impl<M: FullMemory> Call<'_, M> {
    /// Replies with a name and a number.
    fn reply_count(&mut self, name: &str, count: u64) {
        self.reply.bulk(name.as_bytes());
        self.reply.integer(count as i64);
    }

    /// Replies with the entries read and the lag of a group.
    fn reply_progress(&mut self, progress: &Progress, group: &Group) {
        self.reply.bulk(b"entries-read");
        match group.entries_read {
            Some(read) => self.reply.integer(read as i64),
            None => self.reply.null(),
        }
        self.reply.bulk(b"lag");
        match progress.lag(group) {
            Some(lag) => self.reply.integer(lag),
            None => self.reply.null(),
        }
    }
}

fn groups<M: FullMemory>(call: &mut Call<'_, M>, stream: &Collection) -> Outcome {
    let count = stream.group_count(call.memory);
    call.visits(count)?;
    let progress = Progress::of(call.memory, stream);
    call.reply.array(count as usize);
    call.each_group(stream, |call, group| {
        call.reply.map(6);
        call.reply.bulk(b"name");
        call.reply.bulk(&group.name);
        let consumers = stream.consumer_count(call.memory, group);
        call.reply_count("consumers", consumers);
        let pending = stream.pending_count(call.memory, group, None);
        call.reply_count("pending", pending);
        call.reply.bulk(b"last-delivered-id");
        call.reply_id(group.last);
        call.reply_progress(&progress, group);
        Ok(())
    })
}

fn consumers<M: FullMemory>(call: &mut Call<'_, M>, stream: &Collection, group: &Group) -> Outcome {
    let count = stream.consumer_count(call.memory, group);
    call.visits(count)?;
    let now_ms = call.state.now_ms.get();
    call.reply.array(count as usize);
    call.each_consumer((stream, group), |call, consumer| {
        call.reply.map(3);
        call.reply.bulk(b"name");
        call.reply.bulk(&consumer.name);
        let pending = stream.pending_count(call.memory, group, Some(consumer));
        call.reply_count("pending", pending);
        call.reply_count("idle", now_ms.saturating_sub(consumer.seen_ms));
        Ok(())
    })
}

fn describe<M: FullMemory>(call: &mut Call<'_, M>, stream: &Collection) -> Outcome {
    let full = full_count(call)?;
    call.reply.map(if full.is_some() { 9 } else { 10 });
    reply_state(call, stream);
    let Some(most) = full else {
        let groups = stream.group_count(call.memory);
        call.reply_count("groups", groups);
        let last = stream.len(call.memory).wrapping_sub(1);
        for (name, rank) in [("first-entry", 0), ("last-entry", last)] {
            call.reply.bulk(name.as_bytes());
            match stream.at(call.memory, rank) {
                Some(element) => call.reply_entry(&element),
                None => call.reply.null(),
            }
        }
        return Ok(());
    };
    let most = if most == 0 { u64::MAX } else { most };
    let there = stream.len(call.memory);
    call.reply.bulk(b"entries");
    call.reply_entries(stream, (0, most.min(there)))?;
    call.reply.bulk(b"groups");
    let count = stream.group_count(call.memory);
    call.visits(count)?;
    call.reply.array(count as usize);
    let progress = Progress::of(call.memory, stream);
    call.each_group(stream, |call, group| full_group(call, (stream, group), &progress, most))
}

/// Replies with a group, its consumers, and at most `most` pending entries of each.
fn full_group<M: FullMemory>(
    call: &mut Call<'_, M>,
    (stream, group): (&Collection, &Group),
    progress: &Progress,
    most: u64,
) -> Outcome {
    call.reply.map(7);
    call.reply.bulk(b"name");
    call.reply.bulk(&group.name);
    call.reply.bulk(b"last-delivered-id");
    call.reply_id(group.last);
    call.reply_progress(progress, group);
    let pending = stream.pending_count(call.memory, group, None);
    call.reply_count("pel-count", pending);
    call.reply.bulk(b"pending");
    call.reply.array(most.min(pending) as usize);
    let mut names = Names::default();
    each_pending(call, (stream, group, None), (0, most.min(pending)), |call, pending| {
        call.reply.array(4);
        call.reply_id(pending.id);
        names.reply(call, (stream, group), pending.consumer);
        call.reply.integer(pending.delivered_ms as i64);
        call.reply.integer(pending.deliveries as i64);
        Ok(())
    })?;
    call.reply.bulk(b"consumers");
    let consumers = stream.consumer_count(call.memory, group);
    call.reply.array(consumers as usize);
    call.each_consumer((stream, group), |call, consumer| {
        call.reply.map(4);
        call.reply.bulk(b"name");
        call.reply.bulk(&consumer.name);
        call.reply_count("seen-time", consumer.seen_ms);
        let pending = stream.pending_count(call.memory, group, Some(consumer));
        call.reply_count("pel-count", pending);
        call.reply.bulk(b"pending");
        call.reply.array(most.min(pending) as usize);
        let of = (stream, group, Some(consumer));
        each_pending(call, of, (0, most.min(pending)), |call, pending| {
            call.reply.array(3);
            call.reply_id(pending.id);
            call.reply.integer(pending.delivered_ms as i64);
            call.reply.integer(pending.deliveries as i64);
            Ok(())
        })
    })
}

/// Parses `FULL [COUNT number]` of `XINFO STREAM`. Returns the number; 0 for all entries.
fn full_count<M: FullMemory>(call: &Call<'_, M>) -> Result<Option<u64>, Failure> {
    const DEFAULT: u64 = 10;
    match call.arguments[3..] {
        [] => Ok(None),
        [_] if call.is(3, "FULL") => Ok(Some(DEFAULT)),
        [_, _, _] if call.is(3, "FULL") && call.is(4, "COUNT") => {
            Ok(Some(u64::try_from(call.integer(5)?).unwrap_or(DEFAULT)))
        }
        _ => Err(unknown(call)),
    }
}

/// Replies with the first seven fields of `XINFO STREAM`.
fn reply_state<M: FullMemory>(call: &mut Call<'_, M>, stream: &Collection) {
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
