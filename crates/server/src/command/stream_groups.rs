//! `XGROUP` and `XACK`, and what commands on the consumer groups of streams share.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{
    Collection, Consumer, EntryId, Full, Group, Key, Kind, NAME_BYTES_MAX, StreamState,
};

use super::stream_arguments::{id, strict_id};
use super::{Call, Failure, Outcome, Stop};
use crate::number::integer;

/// Elements of a stream and records of its groups that one transaction changes, if the command
/// makes several.
pub(super) const AT_ONCE: usize = 64;

const NO_STREAM: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may \
     want to use the MKSTREAM option to create an empty stream automatically.";

/// The counts of a stream that decide how far behind a group is. As in Redis, a count is unknown
/// after entries in the middle were removed.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    pub(super) state: StreamState,
    pub(super) length: u64,
    /// The id of its first entry.
    pub(super) first: EntryId,
}

impl Progress {
    pub(super) fn of<M: FullMemory>(memory: &mut M, stream: &Collection) -> Progress {
        let first = stream.at(memory, 0).map_or(EntryId::default(), |first| EntryId::of(&first));
        Progress { state: stream.stream_state(), length: stream.len(memory), first }
    }

    /// True if an entry from `start` on may have been removed by its id.
    fn has_gap_from(&self, start: EntryId) -> bool {
        let deleted = self.state.deleted;
        self.length > 0
            && deleted != EntryId::default()
            && self.first <= deleted
            && start <= deleted
    }

    /// Number of entries up to `id` that were ever added, if it can be told.
    pub(super) fn read_up_to(&self, id: EntryId) -> Option<u64> {
        let StreamState { last, deleted, added } = self.state;
        if added == 0 || self.length == 0 && id <= last || id == last {
            return Some(added);
        }
        let is_whole = deleted == EntryId::default() || deleted < self.first;
        if id > last || !is_whole || id > self.first {
            return None;
        }
        Some(added.wrapping_sub(self.length) + u64::from(id == self.first))
    }

    /// Number of entries that a group has not read, if it can be told.
    pub(super) fn lag(&self, group: &Group) -> Option<i64> {
        let read = match group.entries_read {
            _ if self.state.added == 0 => Some(0),
            Some(read) if !self.has_gap_from(group.last) => Some(read),
            _ => self.read_up_to(group.last),
        };
        read.map(|read| self.state.added.wrapping_sub(read) as i64)
    }

    /// Notes that a group has read the entry of this id.
    pub(super) fn read(&self, group: &mut Group, id: EntryId) {
        group.entries_read = match group.entries_read {
            Some(read) if !self.has_gap_from(id) => Some(read.saturating_add(1)),
            known if self.state.added == 0 => known,
            _ => self.read_up_to(id),
        };
        group.last = id;
    }
}

/// The text of bytes in an error.
pub(super) fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The error for a group that is not there.
pub(super) fn no_group(key: &[u8], group: &[u8]) -> Stop {
    let (key, group) = (text_of(key), text_of(group));
    format!("NOGROUP No such key '{key}' or consumer group '{group}'").into()
}

/// Returns an error if the name of a group or a consumer is too long.
pub(super) fn check_name(name: &[u8]) -> Outcome {
    if name.len() > NAME_BYTES_MAX {
        let text =
            format!("ERR the name of a group or a consumer has at most {NAME_BYTES_MAX} bytes");
        return Err(text.into());
    }
    Ok(())
}

impl<M: FullMemory> Call<'_, M> {
    /// Returns a stream and its group of this name.
    pub(super) fn group(
        &mut self,
        key: &Key<'_>,
        name: &[u8],
    ) -> Result<Option<(Collection, Group)>, Stop> {
        let Some(stream) = self.collection(key, Kind::Stream)? else { return Ok(None) };
        Ok(stream.find_group(self.memory, name).map(|group| (stream, group)))
    }

    /// Changes a group of a stream. `change` may run more than once.
    ///
    /// # Errors
    /// Returns the error of `change`, or an error if there is no group.
    pub(super) fn edit_group<R>(
        &mut self,
        key: &Key<'_>,
        name: &[u8],
        mut change: impl FnMut(&mut Call<'_, M>, &mut Collection, &mut Group) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        self.edit(key, Kind::Stream, |call, stream| {
            let group = stream.find_group(call.memory, name);
            let mut group = group.ok_or_else(|| no_group(key.bytes, name))?;
            change(call, stream, &mut group)
        })
    }

    /// Finds or adds a consumer, which is seen now.
    pub(super) fn seen_consumer(
        &mut self,
        key: &Key<'_>,
        (stream, group): (&mut Collection, &mut Group),
        name: &[u8],
    ) -> Result<Consumer, Stop> {
        let now_ms = self.state.now_ms.get();
        if let Some(mut consumer) = stream.find_consumer(self.memory, group, name) {
            consumer.seen_ms = now_ms;
            stream.put_consumer(self.memory, group, &consumer)?;
            return Ok(consumer);
        }
        check_name(name)?;
        let consumer = stream.add_consumer(self.memory, group, name, now_ms)?;
        self.event_of_stream(key.bytes, "xgroup-createconsumer");
        Ok(consumer)
    }

    /// Calls `each` with all groups of a stream.
    pub(super) fn each_group(
        &mut self,
        stream: &Collection,
        mut each: impl FnMut(&mut Self, &Group) -> Outcome,
    ) -> Outcome {
        let mut rank = 0;
        loop {
            let groups = stream.groups(self.memory, rank, AT_ONCE);
            if groups.is_empty() {
                return Ok(());
            }
            for group in &groups {
                each(self, group)?;
            }
            rank += groups.len() as u64;
            self.pause()?;
        }
    }

    /// Calls `each` with all consumers of a group.
    pub(super) fn each_consumer(
        &mut self,
        (stream, group): (&Collection, &Group),
        mut each: impl FnMut(&mut Self, &Consumer) -> Outcome,
    ) -> Outcome {
        let count = stream.consumer_count(self.memory, group);
        self.visits(count)?;
        let mut rank = 0;
        while rank < count {
            let consumers = stream.consumers(self.memory, group, rank, AT_ONCE);
            if consumers.is_empty() {
                break;
            }
            for consumer in &consumers {
                each(self, consumer)?;
            }
            rank += consumers.len() as u64;
            self.pause()?;
        }
        Ok(())
    }
}

pub(super) fn xgroup<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let subcommand = call.arguments[1].to_ascii_uppercase();
    let count = call.arguments.len();
    let mut options = Options::default();
    if count >= 4 {
        options = Options::parse(call, &subcommand)?;
        let key = call.key(2);
        let stream = call.collection(&key, Kind::Stream)?;
        if stream.is_none() && !options.makes_stream {
            return Err(NO_STREAM.into());
        }
        let name = call.arguments[3];
        let is_there = stream.is_some_and(|stream| stream.find_group(call.memory, name).is_some());
        let needs_group = matches!(&*subcommand, b"SETID" | b"CREATECONSUMER" | b"DELCONSUMER");
        if needs_group && !is_there {
            return Err(no_group_of(call.arguments[2], name));
        }
    }
    match (&*subcommand, count) {
        (b"HELP", 2) => help(call),
        (b"CREATE", 5..=8) => create(call, &options)?,
        (b"SETID", 5 | 7) => set_id(call, &options)?,
        (b"DESTROY", 4) => destroy(call)?,
        (b"CREATECONSUMER", 5) => create_consumer(call)?,
        (b"DELCONSUMER", 5) => delete_consumer(call)?,
        _ => return Err(unknown(call).into()),
    }
    Ok(())
}

/// The error of `XGROUP` and `XINFO` for a group that is not there.
pub(super) fn no_group_of(key: &[u8], group: &[u8]) -> Stop {
    let (key, group) = (text_of(key), text_of(group));
    format!("NOGROUP No such consumer group '{group}' for key name '{key}'").into()
}

/// The error for a subcommand that does not exist or has other arguments.
pub(super) fn unknown<M: FullMemory>(call: &Call<'_, M>) -> Failure {
    let command = text_of(call.arguments[0]).to_uppercase();
    let name = text_of(call.arguments[1]);
    format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try {command} HELP.")
        .into()
}

fn help<M: FullMemory>(call: &mut Call<'_, M>) {
    const LINES: [&str; 17] = [
        "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CREATE <key> <groupname> <id|$> [option]",
        "    Create a new consumer group. Options are:",
        "    * MKSTREAM",
        "      Create the empty stream if it does not exist.",
        "    * ENTRIESREAD entries_read",
        "      Set the group's entries_read counter (internal use).",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Create a new consumer in the specified group.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Remove the specified consumer.",
        "DESTROY <key> <groupname>",
        "    Remove the specified group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        "    Set the current group ID and entries_read counter.",
        "HELP",
        "    Prints this help.",
    ];
    call.reply.help(&LINES);
}

/// The options of `XGROUP CREATE` and `XGROUP SETID`.
#[derive(Default)]
struct Options {
    makes_stream: bool,
    entries_read: Option<u64>,
}

impl Options {
    fn parse<M: FullMemory>(call: &Call<'_, M>, subcommand: &[u8]) -> Result<Options, Failure> {
        const NEGATIVE: &str = "ERR value for ENTRIESREAD must be positive or -1";
        let mut options = Options::default();
        let (creates, sets) = (subcommand == b"CREATE", subcommand == b"SETID");
        let mut index = 5;
        while index < call.arguments.len() {
            if creates && call.is(index, "MKSTREAM") {
                options.makes_stream = true;
                index += 1;
            } else if (creates || sets)
                && call.is(index, "ENTRIESREAD")
                && index + 1 < call.arguments.len()
            {
                let read = call.integer(index + 1)?;
                options.entries_read = u64::try_from(read).ok();
                if read < -1 {
                    return Err(NEGATIVE.into());
                }
                index += 2;
            } else {
                return Err(unknown(call));
            }
        }
        Ok(options)
    }
}

fn create<M: FullMemory>(call: &mut Call<'_, M>, options: &Options) -> Outcome {
    const BUSY: &str = "BUSYGROUP Consumer Group name already exists";
    let (key, name, at) = (call.key(2), call.arguments[3], call.arguments[4]);
    let stream = call.collection(&key, Kind::Stream)?;
    let last = match at {
        b"$" => stream.as_ref().map_or(EntryId::default(), |stream| stream.stream_state().last),
        at => strict_id(at, 0)?,
    };
    check_name(name)?;
    let makes = stream.is_none();
    if stream.is_some_and(|stream| stream.find_group(call.memory, name).is_some()) {
        return Err(BUSY.into());
    }
    call.edit(&key, Kind::Stream, |call, stream| {
        if makes {
            stream.set_stream_state(StreamState::default());
        }
        stream.add_group(call.memory, name, last, options.entries_read)?;
        Ok(())
    })?;
    call.event_of_stream(key.bytes, "xgroup-create");
    call.reply.ok();
    Ok(())
}

fn set_id<M: FullMemory>(call: &mut Call<'_, M>, options: &Options) -> Outcome {
    let (key, name, at) = (call.key(2), call.arguments[3], call.arguments[4]);
    let given = if at == b"$" { None } else { Some(id(at, 0)?) };
    call.edit_group(&key, name, |call, stream, group| {
        group.last = given.unwrap_or(stream.stream_state().last);
        group.entries_read = options.entries_read;
        Ok(stream.put_group(call.memory, group)?)
    })?;
    call.event_of_stream(key.bytes, "xgroup-setid");
    call.reply.ok();
    Ok(())
}

fn destroy<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(2);
    let Some((stream, group)) = call.group(&key, call.arguments[3])? else {
        call.reply.integer(0);
        return Ok(());
    };
    let size = stream.group_size(call.memory, &group) + 1;
    call.visits(size)?;
    call.remove_each(&key, Kind::Stream, size, |call, stream| {
        stream.remove_from_group(call.memory, &group).is_some()
    })?;
    call.event_of_stream(key.bytes, "xgroup-destroy");
    // Clients that wait in the group get an error.
    call.state.serve(call.session.database, key.bytes);
    call.reply.integer(1);
    Ok(())
}

fn create_consumer<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, name) = (call.key(2), call.arguments[4]);
    let found = call.group(&key, call.arguments[3])?;
    let is_there = found
        .is_some_and(|(stream, group)| stream.find_consumer(call.memory, &group, name).is_some());
    if !is_there {
        call.edit_group(&key, call.arguments[3], |call, stream, group| {
            call.seen_consumer(&key, (stream, group), name).map(drop)
        })?;
    }
    call.reply.integer((!is_there).into());
    Ok(())
}

fn delete_consumer<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, name) = (call.key(2), call.arguments[4]);
    let found = call.group(&key, call.arguments[3])?;
    let found = found.and_then(|(stream, group)| {
        let consumer = stream.find_consumer(call.memory, &group, name)?;
        Some((stream, group, consumer))
    });
    let Some((stream, group, consumer)) = found else {
        call.reply.integer(0);
        return Ok(());
    };
    let pending = stream.pending_count(call.memory, &group, Some(&consumer));
    call.visits(pending)?;
    call.remove_each(&key, Kind::Stream, pending + 1, |call, stream| {
        stream.remove_from_consumer(call.memory, &group, &consumer).is_some()
    })?;
    call.event_of_stream(key.bytes, "xgroup-delconsumer");
    call.reply.integer(pending as i64);
    Ok(())
}

pub(super) fn xack<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    if call.group(&key, call.arguments[2])?.is_none() {
        call.reply.integer(0);
        return Ok(());
    }
    let ids = call.arguments[3..].iter().map(|id| strict_id(id, 0));
    let ids: Vec<EntryId> = ids.collect::<Result<_, _>>()?;
    let name = call.arguments[2];
    let acknowledged = call.edit_each(&key, Kind::Stream, ids.len(), |call, stream, index| {
        let group = stream.find_group(call.memory, name);
        Ok(group.is_some_and(|group| stream.remove_pending(call.memory, &group, ids[index])).into())
    })?;
    call.reply.integer(acknowledged);
    Ok(())
}

/// Parses an integer. The error is `text`.
pub(super) fn integer_or(text: &[u8], otherwise: &'static str) -> Result<i64, Failure> {
    integer(text).ok_or(otherwise.into())
}

/// Returns `done`, or an error if there was no room for any of it.
pub(super) fn some_or_full<T>(done: Vec<T>, full: bool) -> Result<Vec<T>, Stop> {
    if full && done.is_empty() { Err(Full.into()) } else { Ok(done) }
}
