//! Commands that change streams, and commands on their state.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, EntryId, Kind, StreamState};

use super::stream_arguments::{Changes, NewId, strict_id};
use super::{Call, Failure, Outcome, SYNTAX};
use crate::events::Classes;

pub(super) const NO_KEY: &str = "ERR no such key";

impl<M: FullMemory> Call<'_, M> {
    /// Replies with an id.
    pub(super) fn reply_id(&mut self, id: EntryId) {
        self.reply.bulk(format!("{}-{}", id.ms, id.sequence).as_bytes());
    }

    /// Reports an event of the stream that is the command's first argument.
    fn stream_event(&mut self, name: &'static str) {
        self.event_of_stream(self.arguments[1], name);
    }

    /// Reports an event of a stream.
    pub(super) fn event_of_stream(&mut self, key: &[u8], name: &'static str) {
        self.event((self.session.database, key), Classes::STREAM, name);
    }
}

pub(super) fn xadd<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let changes = Changes::parse(call, true)?;
    let fields = call.arguments.get(changes.fields_at..).unwrap_or_default();
    if fields.is_empty() || !fields.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'xadd' command".into());
    }
    if matches!(changes.id, NewId::Given(EntryId { ms: 0, sequence: 0 })) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let key = call.key(1);
    let found = call.collection(&key, Kind::Stream)?;
    if found.is_none() && !changes.makes_stream {
        call.reply.null();
        return Ok(());
    }
    let before = found.map_or(StreamState::default(), |stream| stream.stream_state());
    let id = changes.id.after(before.last, call.state.now_ms.get())?;
    let element = call.entry(&id.with(fields))?;
    let (trimmed, left) = call.edit(&key, Kind::Stream, |call, stream| {
        let excess = changes.trim.map_or(0, |trim| trim.excess(call.memory, stream, Some(id)));
        call.visits(excess)?;
        element.add(call.memory, stream, 0)?;
        let state = StreamState { last: id, added: before.added + 1, ..before };
        stream.set_stream_state(state);
        let at_once = excess.min(call.writer.removed_at_once() as u64);
        (0..at_once).for_each(|_| drop(stream.remove_at(call.memory, 0)));
        Ok((excess, excess - at_once))
    })?;
    call.stream_event("xadd");
    call.remove_each(&key, Kind::Stream, left, remove_first)?;
    if trimmed > 0 {
        call.stream_event("xtrim");
    }
    call.reply_id(id);
    Ok(())
}

fn remove_first<M: FullMemory>(call: &mut Call<'_, M>, stream: &mut Collection) -> bool {
    stream.remove_at(call.memory, 0).is_some()
}

pub(super) fn xlen<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let count = call.length(call.arguments[1], Kind::Stream)?;
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn xtrim<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let trim = Changes::parse(call, false)?.trim;
    let key = call.key(1);
    let stream = call.collection(&key, Kind::Stream)?;
    let excess = match (stream, trim) {
        (Some(stream), Some(trim)) => trim.excess(call.memory, &stream, None),
        _ => 0,
    };
    call.visits(excess)?;
    call.remove_each(&key, Kind::Stream, excess, remove_first)?;
    if excess > 0 {
        call.stream_event("xtrim");
    }
    call.reply.integer(excess as i64);
    Ok(())
}

pub(super) fn xdel<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    if call.collection(&key, Kind::Stream)?.is_none() {
        call.reply.integer(0);
        return Ok(());
    }
    let ids = call.arguments[2..].iter().map(|id| strict_id(id, 0));
    let ids: Vec<EntryId> = ids.collect::<Result<_, _>>()?;
    let removed = call.edit_each(&key, Kind::Stream, ids.len(), |call, stream, index| {
        let is_gone = stream.remove_entry(call.memory, ids[index]);
        let state = stream.stream_state();
        if is_gone && ids[index] > state.deleted {
            stream.set_stream_state(StreamState { deleted: ids[index], ..state });
        }
        Ok(is_gone.into())
    })?;
    if removed > 0 {
        call.stream_event("xdel");
    }
    call.reply.integer(removed);
    Ok(())
}

/// The arguments of `XSETID`.
struct NewState {
    last: EntryId,
    added: Option<u64>,
    deleted: Option<EntryId>,
}

impl NewState {
    fn parse<M: FullMemory>(call: &Call<'_, M>) -> Result<NewState, Failure> {
        const TOO_SMALL: &str =
            "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id";
        let last = strict_id(call.arguments[2], 0)?;
        let mut state = NewState { last, added: None, deleted: None };
        let (pairs, odd) = call.arguments[3..].as_chunks::<2>();
        for (at, [name, value]) in pairs.iter().enumerate() {
            match name.to_ascii_uppercase().as_slice() {
                b"ENTRIESADDED" => {
                    let added = call.integer(4 + at * 2)?;
                    let added = u64::try_from(added);
                    state.added = Some(added.map_err(|_| "ERR entries_added must be positive")?);
                }
                b"MAXDELETEDID" => {
                    let deleted = strict_id(value, 0)?;
                    if last < deleted {
                        return Err(TOO_SMALL.into());
                    }
                    state.deleted = Some(deleted).filter(|id| *id != EntryId::default());
                }
                _ => return Err(SYNTAX.into()),
            }
        }
        if odd.is_empty() { Ok(state) } else { Err(SYNTAX.into()) }
    }
}

pub(super) fn xsetid<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    const SMALLER: &str =
        "ERR The ID specified in XSETID is smaller than the target stream top item";
    const FEWER: &str =
        "ERR The entries_added specified in XSETID is smaller than the target stream length";
    let new = NewState::parse(call)?;
    let key = call.key(1);
    let stream = call.collection(&key, Kind::Stream)?.ok_or(NO_KEY)?;
    let count = stream.len(call.memory);
    let top = count.checked_sub(1).and_then(|rank| stream.at(call.memory, rank));
    if top.is_some_and(|top| new.last < EntryId::of(&top)) {
        return Err(SMALLER.into());
    }
    if count > 0 && new.added.is_some_and(|added| added < count) {
        return Err(FEWER.into());
    }
    call.edit(&key, Kind::Stream, |_, stream| {
        let old = stream.stream_state();
        let (added, deleted) = (new.added.unwrap_or(old.added), new.deleted.unwrap_or(old.deleted));
        stream.set_stream_state(StreamState { last: new.last, deleted, added });
        Ok(())
    })?;
    call.stream_event("xsetid");
    call.reply.ok();
    Ok(())
}
