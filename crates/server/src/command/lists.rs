//! Commands on lists.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, Key, Kind};

use super::arguments::indices;
use super::elements::Element;
use super::removing::Several;
use super::{Call, Failure, Outcome, SYNTAX, Stop};
use crate::events::Classes;

const NO_KEY: &str = "ERR no such key";
const OUT_OF_RANGE: &str = "ERR index out of range";

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Left,
    Right,
}

impl End {
    pub(super) fn parse<M: FullMemory>(call: &Call<'_, M>, index: usize) -> Result<End, Failure> {
        match call.arguments.get(index) {
            Some(_) if call.is(index, "LEFT") => Ok(End::Left),
            Some(_) if call.is(index, "RIGHT") => Ok(End::Right),
            _ => Err(SYNTAX.into()),
        }
    }
}

pub(super) fn lpush<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    push(call, End::Left, false)
}

pub(super) fn rpush<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    push(call, End::Right, false)
}

pub(super) fn lpushx<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    push(call, End::Left, true)
}

pub(super) fn rpushx<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    push(call, End::Right, true)
}

fn push<M: FullMemory>(call: &mut Call<'_, M>, end: End, if_present: bool) -> Outcome {
    let (key, values) = (call.key(1), &call.arguments[2..]);
    let there = call.length(call.arguments[1], Kind::List)?;
    if if_present && there == 0 {
        call.reply.integer(0);
        return Ok(());
    }
    let elements = values.iter().map(|value| call.element(b"", value.to_vec()));
    let elements: Vec<Element> = elements.collect::<Result<_, _>>()?;
    call.edit_each(&key, Kind::List, values.len(), |call, list, index| {
        push_one(call, list, end, &elements[index])?;
        Ok(0)
    })?;
    call.reply.integer((there + values.len() as u64) as i64);
    Ok(())
}

fn push_one<M: FullMemory>(
    call: &mut Call<'_, M>,
    list: &mut Collection,
    end: End,
    value: &Element,
) -> Outcome {
    let rank = if end == End::Left { 0 } else { list.len(call.memory) };
    Ok(value.insert(call.memory, list, rank)?)
}

fn pop_one<M: FullMemory>(
    call: &mut Call<'_, M>,
    list: &mut Collection,
    end: End,
) -> Option<Vec<u8>> {
    let count = list.len(call.memory);
    let rank = if end == End::Left { 0 } else { count.checked_sub(1)? };
    list.remove_at(call.memory, rank)
}

pub(super) fn lpop<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    pop_counted(call, End::Left)
}

pub(super) fn rpop<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    pop_counted(call, End::Right)
}

fn pop_counted<M: FullMemory>(call: &mut Call<'_, M>, end: End) -> Outcome {
    if call.arguments.len() > 3 {
        let name = if end == End::Left { "lpop" } else { "rpop" };
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let (key, count) = (call.arguments[1], call.pop_count()?);
    let there = call.length(key, Kind::List)?;
    match (there, count) {
        (0, Some(_)) => call.reply.null_array(),
        (0, None) => call.reply.null(),
        (_, Some(count)) => {
            call.reply.array(there.min(count) as usize);
            pop(call, key, end, there.min(count))?;
        }
        (_, None) => pop(call, key, end, 1)?,
    }
    Ok(())
}

/// Replies with `count` values, which are there, and removes them. If the reply finds no room, none
/// is removed.
pub(super) fn pop<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &[u8],
    end: End,
    count: u64,
) -> Outcome {
    let key = call.keyspace().key(key);
    if let Some(list) = call.collection(&key, Kind::List)? {
        let reply = |call: &mut Call<'_, M>, value: &[u8]| {
            call.reply.bulk(value);
            Ok(())
        };
        let last = list.len(call.memory) - count;
        match end {
            End::Left => call.each_element(&list, (0, count), reply)?,
            End::Right => call.each_element_back(&list, (last, count), reply)?,
        }
    }
    remove(call, &key, end, count)
}

/// Removes `count` values from an end.
fn remove<M: FullMemory>(call: &mut Call<'_, M>, key: &Key<'_>, end: End, count: u64) -> Outcome {
    call.remove_each(key, Kind::List, count, |call, list| pop_one(call, list, end).is_some())
}

pub(super) fn lmpop<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let Several { keys, end, count } = several(call, 1)?;
    if !pop_first(call, keys, end, count)? {
        call.reply.null_array();
    }
    Ok(())
}

/// Parses the number of keys at `index`, the keys, `LEFT` or `RIGHT`, and `COUNT`.
pub(super) fn several<'a, M: FullMemory>(
    call: &Call<'a, M>,
    index: usize,
) -> Result<Several<'a, End>, Failure> {
    Several::parse(call, index, End::parse)
}

/// Pops from the first key that has values, and replies with its name and them. Returns false if
/// none has.
pub(super) fn pop_first<M: FullMemory>(
    call: &mut Call<'_, M>,
    keys: &[&[u8]],
    end: End,
    count: u64,
) -> Result<bool, Stop> {
    call.pop_first(keys, (Kind::List, count), |call, key, there| pop(call, key, end, there))
}

pub(super) fn llen<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let count = call.length(call.arguments[1], Kind::List)?;
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn lrange<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let key = call.key(1);
    let Some(list) = call.collection(&key, Kind::List)? else {
        call.reply.array(0);
        return Ok(());
    };
    let (from, count) = indices(start, end, list.len(call.memory));
    call.visits(count)?;
    call.reply.array(count as usize);
    call.each_element(&list, (from, count), |call, value| {
        call.reply.bulk(value);
        Ok(())
    })
}

/// The rank that an index names, which may count from the end.
fn rank(index: i64, count: u64) -> Option<u64> {
    let rank = if index < 0 { index.checked_add_unsigned(count)? } else { index };
    u64::try_from(rank).ok().filter(|rank| *rank < count)
}

pub(super) fn lindex<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let list = call.collection(&key, Kind::List)?;
    let Some(list) = list else {
        call.reply.null();
        return Ok(());
    };
    let index = call.integer(2)?;
    let count = list.len(call.memory);
    let value = rank(index, count).and_then(|rank| list.at(call.memory, rank));
    call.reply.bulk_or_null(value.as_deref());
    Ok(())
}

pub(super) fn lset<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, value) = (call.key(1), call.arguments[3]);
    if call.collection(&key, Kind::List)?.is_none() {
        return Err(NO_KEY.into());
    }
    let index = call.integer(2)?;
    let element = call.element(b"", value.to_vec())?;
    call.edit(&key, Kind::List, |call, list| {
        let count = list.len(call.memory);
        let rank = rank(index, count).ok_or(OUT_OF_RANGE)?;
        Ok(element.replace(call.memory, list, rank)?)
    })?;
    call.reply.ok();
    Ok(())
}

pub(super) fn linsert<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let after = match call.arguments[2].to_ascii_uppercase().as_slice() {
        b"AFTER" => 1,
        b"BEFORE" => 0,
        _ => return Err(SYNTAX.into()),
    };
    let (key, pivot, value) = (call.key(1), call.arguments[3], call.arguments[4]);
    let Some(list) = call.collection(&key, Kind::List)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let Some(rank) = position(call, &list, pivot, true)? else {
        call.reply.integer(-1);
        return Ok(());
    };
    let element = call.element(b"", value.to_vec())?;
    let count = call.edit(&key, Kind::List, |call, list| {
        element.insert(call.memory, list, rank + after)?;
        Ok(list.len(call.memory))
    })?;
    call.reply.integer(count as i64);
    Ok(())
}

/// The rank of the first value, or the last one, that equals `value`.
fn position<M: FullMemory>(
    call: &mut Call<'_, M>,
    list: &Collection,
    value: &[u8],
    from_start: bool,
) -> Result<Option<u64>, Stop> {
    let mut found = None;
    each_match(call, list, value, from_start, |rank| {
        found = Some(rank);
        false
    })?;
    Ok(found)
}

/// Calls `each` with the ranks of the values that equal `value`, until it returns false.
fn each_match<M: FullMemory>(
    call: &mut Call<'_, M>,
    list: &Collection,
    value: &[u8],
    from_start: bool,
    mut each: impl FnMut(u64) -> bool,
) -> Outcome {
    const AT_ONCE: u64 = 128;
    let count = list.len(call.memory);
    let mut passed = 0;
    while passed < count {
        if passed > 0 {
            // Only what is really visited counts.
            call.visits(passed)?;
        }
        let most = AT_ONCE.min(count - passed);
        let first = if from_start { passed } else { count - passed - most };
        let mut values = Vec::new();
        while (values.len() as u64) < most {
            let (from, left) = (first + values.len() as u64, most as usize - values.len());
            if !list.read(call.memory, from, left, &mut values) {
                return Ok(());
            }
        }
        let mut ranks: Vec<u64> = (first..first + most).collect();
        if !from_start {
            ranks.reverse();
        }
        for rank in ranks {
            if values[(rank - first) as usize] == value && !each(rank) {
                return Ok(());
            }
        }
        passed += most;
        call.pause()?;
    }
    Ok(())
}

pub(super) fn lrem<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, count, value) = (call.key(1), call.integer(2)?, call.arguments[3]);
    let Some(list) = call.collection(&key, Kind::List)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let (mut ranks, mut bytes) = (Vec::new(), 0);
    let limit = call.state.settings().argument_bytes_max;
    each_match(call, &list, value, count >= 0, |rank| {
        ranks.push(rank);
        bytes += size_of::<u64>();
        (ranks.len() as u64) < most && bytes < limit
    })?;
    ranks.sort_unstable();
    call.remove_ranks(&key, Kind::List, &ranks, |call, list, rank| {
        list.remove_at(call.memory, rank);
    })?;
    call.reply.integer(ranks.len() as i64);
    Ok(())
}

pub(super) fn ltrim<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let key = call.key(1);
    let count = call.length(call.arguments[1], Kind::List)?;
    let (from, kept) = indices(start, end, count);
    if count > 0 {
        call.event((call.session.database, key.bytes), Classes::LIST, "ltrim");
    }
    for (end, left) in [(End::Right, count - from - kept), (End::Left, from)] {
        if kept == 0 {
            break;
        }
        remove(call, &key, end, left)?;
    }
    if kept == 0 && count > 0 {
        call.remove(&key)?;
    }
    call.reply.ok();
    Ok(())
}

#[expect(clippy::too_many_lines, reason = "options and their errors in the order of Redis")]
pub(super) fn lpos<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (mut first, mut wanted, mut compared) = (1, None, 0);
    let mut index = 3;
    while index < call.arguments.len() {
        if index + 1 == call.arguments.len() {
            return Err(SYNTAX.into());
        }
        if call.is(index, "RANK") {
            first = call.integer(index + 1)?;
            if first == 0 {
                let text = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second \
                            ... or use negative to start from the end of the list";
                return Err(text.into());
            }
            if first == i64::MIN {
                return Err("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807".into());
            }
        } else if call.is(index, "COUNT") {
            let given = call.integer(index + 1)?;
            wanted = Some(u64::try_from(given).map_err(|_| "ERR COUNT can't be negative")?);
        } else if call.is(index, "MAXLEN") {
            let given = call.integer(index + 1)?;
            compared = u64::try_from(given).map_err(|_| "ERR MAXLEN can't be negative")?;
        } else {
            return Err(SYNTAX.into());
        }
        index += 2;
    }
    let key = call.key(1);
    let list = call.collection(&key, Kind::List)?;
    let mut ranks = Vec::new();
    if let Some(list) = list {
        let count = list.len(call.memory);
        let most = match wanted {
            None => 1,
            Some(0) => u64::MAX,
            Some(wanted) => wanted,
        };
        let mut skipped = first.unsigned_abs() - 1;
        let limit = call.state.settings().argument_bytes_max / size_of::<u64>();
        each_match(call, &list, call.arguments[2], first > 0, |rank| {
            let passed = if first > 0 { rank } else { count - 1 - rank };
            if compared > 0 && passed >= compared {
                return false;
            }
            if skipped > 0 {
                skipped -= 1;
                return true;
            }
            ranks.push(rank);
            (ranks.len() as u64) < most && ranks.len() < limit
        })?;
    }
    match wanted {
        Some(_) => {
            call.reply.array(ranks.len());
            ranks.iter().for_each(|rank| call.reply.integer(*rank as i64));
        }
        None => match ranks.first() {
            Some(rank) => call.reply.integer(*rank as i64),
            None => call.reply.null(),
        },
    }
    Ok(())
}

pub(super) fn lmove<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let ends = (End::parse(call, 3)?, End::parse(call, 4)?);
    if !move_one(call, ends)? {
        call.reply.null();
    }
    Ok(())
}

pub(super) fn rpoplpush<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if !move_one(call, (End::Right, End::Left))? {
        call.reply.null();
    }
    Ok(())
}

/// Moves a value from the list of the first key to that of the second, and replies with it. Returns
/// false if there is none.
pub(super) fn move_one<M: FullMemory>(
    call: &mut Call<'_, M>,
    (from_end, to_end): (End, End),
) -> Result<bool, Stop> {
    let (from, to) = (call.key(1), call.key(2));
    if call.awaited_length(from.bytes, Kind::List)? == 0 {
        return Ok(false);
    }
    let Some(source) = call.collection(&from, Kind::List)? else { return Ok(false) };
    call.collection(&to, Kind::List)?;
    let count = source.len(call.memory);
    let rank = if from_end == End::Left { 0 } else { count.saturating_sub(1) };
    let Some(value) = source.at(call.memory, rank) else { return Ok(false) };
    let element = call.element(b"", value.clone())?;
    if from.bytes == to.bytes {
        call.edit(&from, Kind::List, |call, list| {
            pop_one(call, list, from_end);
            push_one(call, list, to_end, &element)
        })?;
    } else {
        // A list without room is noticed before the other one changes.
        call.edit(&to, Kind::List, |call, list| push_one(call, list, to_end, &element))?;
        call.edit(&from, Kind::List, |call, list| {
            pop_one(call, list, from_end);
            Ok(())
        })?;
    }
    call.reply.bulk(&value);
    Ok(true)
}
