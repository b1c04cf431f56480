//! `XPENDING`, `XCLAIM` and `XAUTOCLAIM`: entries that were delivered and not acknowledged.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, Consumer, EntryId, Group, Key, Pending};

use super::stream_arguments::{range_end, range_start, strict_id};
use super::stream_groups::{AT_ONCE, integer_or, no_group, some_or_full, text_of};
use super::{Call, Failure, Outcome, SYNTAX, Stop};
use crate::number::integer;

/// Entries that one `XAUTOCLAIM` claims at most. The client goes on at the id in its reply.
const CLAIMED_MAX: u64 = 16_384;

/// Pending entries that `XAUTOCLAIM` looks at for each that it may claim.
const LOOKED_AT: u64 = 10;

pub(super) fn xpending<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let range = Range::parse(call)?;
    let key = call.key(1);
    let name = call.arguments[2];
    let (stream, group) = call.group(&key, name)?.ok_or_else(|| no_group(key.bytes, name))?;
    match range {
        None => summary(call, (&stream, &group)),
        Some(range) => list(call, (&stream, &group), &range),
    }
}

/// The range of `XPENDING`.
struct Range<'a> {
    min_idle: i64,
    start: EntryId,
    end: EntryId,
    count: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Range<'a> {
    fn parse<M: FullMemory>(call: &Call<'a, M>) -> Result<Option<Range<'a>>, Failure> {
        let count = call.arguments.len();
        if count == 3 {
            return Ok(None);
        }
        if !(6..=9).contains(&count) {
            return Err(SYNTAX.into());
        }
        let (mut min_idle, mut at) = (0, 3);
        if call.is(3, "IDLE") {
            min_idle = call.integer(4)?;
            if count < 8 {
                return Err(SYNTAX.into());
            }
            at = 5;
        }
        let count = u64::try_from(call.integer(at + 2)?).unwrap_or(0);
        let start = range_start(call.arguments[at])?;
        let end = range_end(call.arguments[at + 1])?;
        let consumer = call.arguments.get(at + 3).copied();
        Ok(Some(Range { min_idle, start, end, count, consumer }))
    }
}

/// Replies with the number of pending entries of a group, their first and last ids, and the
/// consumers that have some.
fn summary<M: FullMemory>(
    call: &mut Call<'_, M>,
    (stream, group): (&Collection, &Group),
) -> Outcome {
    let count = stream.pending_count(call.memory, group, None);
    call.reply.array(4);
    call.reply.integer(count as i64);
    let Some(last) = count.checked_sub(1) else {
        call.reply.null();
        call.reply.null();
        call.reply.null_array();
        return Ok(());
    };
    for rank in [0, last] {
        match stream.read_pending(call.memory, group, None, (rank, 1)).first() {
            Some(pending) => call.reply_id(pending.id),
            None => call.reply.null(),
        }
    }
    let mut owners = 0;
    call.each_consumer((stream, group), |call, consumer| {
        owners += usize::from(stream.pending_count(call.memory, group, Some(consumer)) > 0);
        Ok(())
    })?;
    call.reply.array(owners);
    call.each_consumer((stream, group), |call, consumer| {
        let count = stream.pending_count(call.memory, group, Some(consumer));
        if count > 0 {
            call.reply.array(2);
            call.reply.bulk(&consumer.name);
            call.reply.bulk(count.to_string().as_bytes());
        }
        Ok(())
    })
}

/// Calls `each` with the pending entries of a group or a consumer from rank `from` to before `to`.
pub(super) fn each_pending<M: FullMemory>(
    call: &mut Call<'_, M>,
    (stream, group, consumer): (&Collection, &Group, Option<&Consumer>),
    (from, to): (u64, u64),
    mut each: impl FnMut(&mut Call<'_, M>, &Pending) -> Outcome,
) -> Outcome {
    call.visits(to.saturating_sub(from))?;
    let mut rank = from;
    while rank < to {
        let most = (to - rank).min(AT_ONCE as u64) as usize;
        let pending = stream.read_pending(call.memory, group, consumer, (rank, most));
        if pending.is_empty() {
            break;
        }
        for pending in &pending {
            each(call, pending)?;
        }
        rank += pending.len() as u64;
        call.pause()?;
    }
    Ok(())
}

/// Names of consumers by number. It remembers the last one.
#[derive(Default)]
pub(super) struct Names(Option<(u64, Vec<u8>)>);

impl Names {
    pub(super) fn reply<M: FullMemory>(
        &mut self,
        call: &mut Call<'_, M>,
        (stream, group): (&Collection, &Group),
        number: u64,
    ) {
        if self.0.as_ref().is_none_or(|(of, _)| *of != number) {
            self.0 = Some((number, stream.consumer_name(call.memory, group, number)));
        }
        call.reply.bulk(self.0.as_ref().map_or(&[], |(_, name)| name));
    }
}

/// Replies with the pending entries of a range.
fn list<M: FullMemory>(
    call: &mut Call<'_, M>,
    (stream, group): (&Collection, &Group),
    range: &Range<'_>,
) -> Outcome {
    let mut consumer = None;
    if let Some(name) = range.consumer {
        consumer = stream.find_consumer(call.memory, group, name);
        if consumer.is_none() {
            call.reply.array(0);
            return Ok(());
        }
    }
    let of = (stream, group, consumer.as_ref());
    let now_ms = call.state.now_ms.get() as i64;
    let idle = |pending: &Pending| now_ms.saturating_sub(pending.delivered_ms as i64);
    let matches = |pending: &Pending| range.min_idle == 0 || idle(pending) >= range.min_idle;
    let from = stream.pending_before(call.memory, group, of.2, range.start);
    let mut to = match range.end.next() {
        Some(after) => stream.pending_before(call.memory, group, of.2, after),
        None => stream.pending_count(call.memory, group, of.2),
    };
    let mut count = to.saturating_sub(from).min(range.count);
    if range.min_idle == 0 {
        to = from + count;
    } else {
        let mut found = 0;
        each_pending(call, of, (from, to), |_, pending| {
            found += u64::from(matches(pending));
            Ok(())
        })?;
        count = found.min(range.count);
    }
    call.reply.array(count as usize);
    let (mut left, mut names) = (count, Names::default());
    each_pending(call, of, (from, to), |call, pending| {
        if left == 0 || !matches(pending) {
            return Ok(());
        }
        left -= 1;
        call.reply.array(4);
        call.reply_id(pending.id);
        names.reply(call, (stream, group), pending.consumer);
        call.reply.integer(idle(pending).max(0));
        call.reply.integer(pending.deliveries as i64);
        Ok(())
    })
}

/// How entries are claimed.
#[derive(Clone, Copy)]
struct Claim<'a> {
    group: &'a [u8],
    consumer: &'a [u8],
    min_idle: i64,
    delivered_ms: u64,
    deliveries: Option<u64>,
    /// True if entries that are not pending are claimed, too.
    force: bool,
    /// True if the reply has only ids, and the entries do not count as delivered again.
    only_ids: bool,
    last: EntryId,
}

/// What became of an entry that was to be claimed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claimed {
    /// It was claimed.
    Yes,
    /// It is not in the stream any more, and was pending.
    Gone,
    /// It stays with its consumer, or is not pending.
    No,
}

impl Claim<'_> {
    /// Claims an entry. `pending` is its pending entry.
    fn apply<M: FullMemory>(
        &self,
        call: &mut Call<'_, M>,
        key: &Key<'_>,
        (stream, group): (&mut Collection, &mut Group),
        (id, pending): (EntryId, Option<Pending>),
    ) -> Result<Claimed, Stop> {
        if stream.find_entry(call.memory, id).is_none() {
            let was_pending = stream.remove_pending(call.memory, group, id);
            return Ok(if was_pending { Claimed::Gone } else { Claimed::No });
        }
        let now_ms = call.state.now_ms.get() as i64;
        let before = match pending {
            Some(pending) => {
                let idle = now_ms.saturating_sub(pending.delivered_ms as i64);
                if self.min_idle > 0 && idle < self.min_idle {
                    return Ok(Claimed::No);
                }
                pending.deliveries
            }
            None if self.force => 1,
            None => return Ok(Claimed::No),
        };
        let consumer = call.seen_consumer(key, (stream, group), self.consumer)?.number;
        let again = before.saturating_add(u64::from(!self.only_ids));
        let deliveries = self.deliveries.unwrap_or(again);
        let pending = Pending { id, consumer, delivered_ms: self.delivered_ms, deliveries };
        stream.put_pending(call.memory, group, &pending)?;
        Ok(Claimed::Yes)
    }

    /// Replies with entries that were claimed.
    fn reply<M: FullMemory>(
        &self,
        call: &mut Call<'_, M>,
        key: &Key<'_>,
        ids: &[EntryId],
    ) -> Outcome {
        call.reply.array(ids.len());
        if self.only_ids {
            ids.iter().for_each(|id| call.reply_id(*id));
            return Ok(());
        }
        let found = call.group(key, self.group)?;
        let (stream, _) = found.ok_or_else(|| no_group(key.bytes, self.group))?;
        for id in ids {
            match stream.find_entry(call.memory, *id) {
                Some(element) => call.reply_entry(&element),
                None => call.reply.null(),
            }
            call.pause_after_change()?;
        }
        Ok(())
    }
}

pub(super) fn xclaim<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, name) = (call.key(1), call.arguments[2]);
    if call.group(&key, name)?.is_none() {
        return Err(no_group(key.bytes, name));
    }
    let (claim, ids) = parse_claim(call)?;
    // A long reply is made outside of a transaction.
    if ids.len() > AT_ONCE {
        call.writer.require_pieces()?;
    }
    if claim.last > EntryId::default() {
        call.edit_group(&key, name, |call, stream, group| {
            if claim.last > group.last {
                group.last = claim.last;
                stream.put_group(call.memory, group)?;
            }
            Ok(())
        })?;
    }
    let mut claimed = Vec::new();
    'all: for ids in ids.chunks(call.writer.changed_at_once()) {
        let mut left = ids;
        while !left.is_empty() {
            let done = call.edit_group(&key, name, |call, stream, group| {
                let mut done = Vec::new();
                for id in left {
                    let pending = stream.find_pending(call.memory, group, *id);
                    match claim.apply(call, &key, (stream, group), (*id, pending)) {
                        Err(stop) if stop.is_full() => return some_or_full(done, true),
                        claimed => done.push((*id, claimed?)),
                    }
                }
                Ok(done)
            });
            let done = match done {
                // What was claimed is in the reply.
                Err(stop) if stop.is_full() && !claimed.is_empty() => break 'all,
                done => done?,
            };
            left = &left[done.len()..];
            claimed.extend(done.iter().filter(|(_, of)| *of == Claimed::Yes).map(|(id, _)| *id));
        }
        call.pause()?;
    }
    claim.reply(call, &key, &claimed)
}

/// Parses the arguments of `XCLAIM` from the consumer on: the ids, then the options.
fn parse_claim<'a, M: FullMemory>(
    call: &Call<'a, M>,
) -> Result<(Claim<'a>, Vec<EntryId>), Failure> {
    let arguments = call.arguments;
    let min_idle =
        integer_or(arguments[4], "ERR Invalid min-idle-time argument for XCLAIM")?.max(0);
    let now_ms = call.state.now_ms.get() as i64;
    let ids: Vec<EntryId> =
        arguments[5..].iter().map_while(|text| strict_id(text, 0).ok()).collect();
    let mut claim = Claim {
        group: arguments[2],
        consumer: arguments[3],
        min_idle,
        delivered_ms: now_ms as u64,
        deliveries: None,
        force: false,
        only_ids: false,
        last: EntryId::default(),
    };
    let mut delivered = now_ms;
    let mut index = 5 + ids.len();
    while index < arguments.len() {
        let value = arguments.get(index + 1).copied();
        index += match (arguments[index].to_ascii_uppercase().as_slice(), value) {
            (b"FORCE", _) => {
                claim.force = true;
                1
            }
            (b"JUSTID", _) => {
                claim.only_ids = true;
                1
            }
            (b"IDLE", Some(text)) => {
                let idle = integer_or(text, "ERR Invalid IDLE option argument for XCLAIM")?;
                delivered = now_ms.saturating_sub(idle);
                2
            }
            (b"TIME", Some(text)) => {
                delivered = integer_or(text, "ERR Invalid TIME option argument for XCLAIM")?;
                2
            }
            (b"RETRYCOUNT", Some(text)) => {
                let count = integer_or(text, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                claim.deliveries = u64::try_from(count).ok();
                2
            }
            (b"LASTID", Some(text)) => {
                claim.last = strict_id(text, 0)?;
                2
            }
            _ => {
                let option = text_of(arguments[index]);
                return Err(format!("ERR Unrecognized XCLAIM option '{option}'").into());
            }
        };
    }
    // A time that makes no sense is now, as in Redis.
    claim.delivered_ms = if (0..=now_ms).contains(&delivered) { delivered } else { now_ms } as u64;
    Ok((claim, ids))
}

pub(super) fn xautoclaim<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (claim, start, most) = parse_autoclaim(call)?;
    let key = call.key(1);
    let found = call.group(&key, claim.group)?;
    let (stream, group) = found.ok_or_else(|| no_group(key.bytes, claim.group))?;
    let before = stream.pending_before(call.memory, &group, None, start);
    let there = stream.pending_count(call.memory, &group, None).saturating_sub(before);
    let (mut looks, mut left) = (most.saturating_mul(LOOKED_AT).min(there), most);
    call.visits(looks)?;
    let (mut claimed, mut gone, mut next) = (Vec::new(), Vec::new(), Some(start));
    while let Some(from) = next.filter(|_| looks > 0 && left > 0) {
        let at_once = looks.min(AT_ONCE as u64) as usize;
        let done = call.edit_group(&key, claim.group, |call, stream, group| {
            let rank = stream.pending_before(call.memory, group, None, from);
            let pending = stream.read_pending(call.memory, group, None, (rank, at_once));
            let (mut done, mut left) = (Vec::new(), left);
            for pending in pending {
                if left == 0 {
                    break;
                }
                let of = (pending.id, Some(pending));
                match claim.apply(call, &key, (stream, group), of) {
                    Err(stop) if stop.is_full() => return some_or_full(done, true),
                    claimed => done.push((pending.id, claimed?)),
                }
                left -= u64::from(done.last().is_some_and(|(_, of)| *of != Claimed::No));
            }
            Ok(done)
        });
        let done = match done {
            Err(stop) if stop.is_full() && !(claimed.is_empty() && gone.is_empty()) => break,
            done => done?,
        };
        let Some((last, _)) = done.last() else { break };
        next = last.next();
        looks = looks.saturating_sub(done.len() as u64);
        for (id, of) in done {
            match of {
                Claimed::Yes => claimed.push(id),
                Claimed::Gone => gone.push(id),
                Claimed::No => continue,
            }
            left -= 1;
        }
        call.pause()?;
    }
    call.reply.array(3);
    let next = next.and_then(|next| {
        let (stream, group) = call.group(&key, claim.group).ok()??;
        let rank = stream.pending_before(call.memory, &group, None, next);
        stream.read_pending(call.memory, &group, None, (rank, 1)).first().map(|next| next.id)
    });
    call.reply_id(next.unwrap_or_default());
    claim.reply(call, &key, &claimed)?;
    call.reply.array(gone.len());
    gone.iter().for_each(|id| call.reply_id(*id));
    Ok(())
}

/// Parses the arguments of `XAUTOCLAIM` from the consumer on: also the first id, and the number of
/// entries to claim.
fn parse_autoclaim<'a, M: FullMemory>(
    call: &Call<'a, M>,
) -> Result<(Claim<'a>, EntryId, u64), Failure> {
    const BAD_COUNT: &str = "ERR COUNT must be > 0";
    const COUNT_MAX: i64 = i64::MAX / 16;
    let arguments = call.arguments;
    let min_idle =
        integer_or(arguments[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM")?.max(0);
    let start = range_start(arguments[5])?;
    let (mut most, mut only_ids, mut index) = (100, false, 6);
    while index < arguments.len() {
        if call.is(index, "COUNT") && index + 1 < arguments.len() {
            let count =
                integer(arguments[index + 1]).filter(|count| (1..=COUNT_MAX).contains(count));
            most = count.ok_or(BAD_COUNT)? as u64;
            index += 2;
        } else if call.is(index, "JUSTID") {
            only_ids = true;
            index += 1;
        } else {
            return Err(SYNTAX.into());
        }
    }
    let claim = Claim {
        group: arguments[2],
        consumer: arguments[3],
        min_idle,
        delivered_ms: call.state.now_ms.get(),
        deliveries: None,
        force: false,
        only_ids,
        last: EntryId::default(),
    };
    Ok((claim, start, most.min(CLAIMED_MAX)))
}
