//! Commands on the expiry of fields of hashes, as Redis has them since 7.4 and 8.0.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{ELEMENT_BYTES_MAX, Field, Key, Kind};

use super::arguments::{From, Unit, clamp, expiry_option, positive_expiry};
use super::elements::Element;
use super::expiry::Conditions;
use super::{Call, Failure, NOT_INTEGER, Outcome, SYNTAX, Stop};
use crate::number::integer;

/// The latest time of expiry in milliseconds since the Unix epoch, as in Redis.
const TIME_MS_MAX: i64 = (1 << 46) - 1;

const NO_FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
const OTHER_COUNT: &str = "ERR The `numfields` parameter must match the number of arguments";
const BAD_COUNT: &str = "ERR Number of fields must be a positive integer";

/// Replies for a field. It does not exist, has no expiry, or stays because of a condition. Or it
/// was changed, or removed because the time has passed.
const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
const KEPT: i64 = 0;
const CHANGED: i64 = 1;
const REMOVED: i64 = 2;

/// The longest encoded head of a field, without its name.
const HEAD_BYTES_MAX: usize = 20;

/// Parses `FIELDS count name …` at `index`, with `parts` arguments for each field. `bad` is the
/// error for a count that is no positive number.
fn fields<'a, 'b>(
    arguments: &'b [&'a [u8]],
    index: usize,
    parts: usize,
    bad: &'static str,
) -> Result<&'b [&'a [u8]], Failure> {
    let word = arguments.get(index).filter(|word| word.eq_ignore_ascii_case(b"FIELDS"));
    word.ok_or(NO_FIELDS)?;
    let count = arguments.get(index + 1).and_then(|count| integer(count));
    let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
    let count = count.ok_or(bad)?;
    let given = &arguments[index + 2..];
    match count.checked_mul(parts) == Some(given.len()) {
        true => Ok(given),
        false => Err(OTHER_COUNT.into()),
    }
}

fn reply_all<M: FullMemory>(call: &mut Call<'_, M>, numbers: &[i64]) -> Outcome {
    call.reply.array(numbers.len());
    numbers.iter().for_each(|number| call.reply.integer(*number));
    Ok(())
}

/// Sets the expiry of existing fields if `allows` is true for the old expiry; `None` removes it. A
/// time that has passed removes the field. Returns a reply for each.
fn change_expiry<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    names: &[&[u8]],
    expires_at_ms: Option<u64>,
    allows: impl Fn(Option<u64>) -> bool,
) -> Result<Vec<i64>, Stop> {
    let is_over = expires_at_ms.is_some_and(|at| at <= call.expired_ms());
    let mut long = Vec::new();
    if expires_at_ms.is_some() && !is_over {
        call.edit(key, Kind::Hash, |call, hash| Ok(hash.prepare_expiry(call.memory)?))?;
    }
    if !is_over {
        long = long_elements(call, key, names, expires_at_ms)?;
    }
    let mut replies = vec![NO_FIELD; names.len()];
    call.edit_each(key, Kind::Hash, names.len(), |call, hash, index| {
        let name = names[index];
        let Some(element) = hash.find(call.memory, name) else { return Ok(0) };
        let field = Field::decode(&element);
        replies[index] = if !allows(field.expires_at_ms) {
            KEPT
        } else if is_over {
            hash.remove(call.memory, name);
            REMOVED
        } else {
            match long.iter().find(|(at, _)| *at == index) {
                Some((_, element)) => element.put(call.memory, hash)?,
                None => hash.put(call.memory, &Field { expires_at_ms, ..field }.encode())?,
            };
            CHANGED
        };
        Ok(0)
    })?;
    Ok(replies)
}

/// The fields among `names` that do not fit in one element, with their new expiry.
fn long_elements<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    names: &[&[u8]],
    expires_at_ms: Option<u64>,
) -> Result<Vec<(usize, Element)>, Stop> {
    let hash = call.collection(key, Kind::Hash)?.filter(|hash| hash.is_large());
    let Some(hash) = hash else { return Ok(Vec::new()) };
    let mut long = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let found = hash.find(call.memory, name);
        if let Some(element) =
            found.filter(|element| element.len() + HEAD_BYTES_MAX > ELEMENT_BYTES_MAX)
        {
            let field = Field { expires_at_ms, ..Field::decode(&element) };
            long.push((index, call.field(&field)?));
        }
    }
    Ok(long)
}

pub(super) fn hexpire<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    set(call, Unit::Seconds, From::Now, "hexpire")
}

pub(super) fn hpexpire<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    set(call, Unit::Milliseconds, From::Now, "hpexpire")
}

pub(super) fn hexpireat<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    set(call, Unit::Seconds, From::Epoch, "hexpireat")
}

pub(super) fn hpexpireat<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    set(call, Unit::Milliseconds, From::Epoch, "hpexpireat")
}

/// Parses a time, which may be 0, into milliseconds since the Unix epoch.
fn time(text: &[u8], unit: Unit, from: From, now_ms: u64, name: &str) -> Result<i64, Failure> {
    let number = integer(text).ok_or(NOT_INTEGER)?;
    if number < 0 {
        return Err("ERR invalid expire time, must be >= 0".into());
    }
    let scale = if unit == Unit::Seconds { 1000 } else { 1 };
    let base = if from == From::Now { now_ms as i64 } else { 0 };
    let at = number.checked_mul(scale).and_then(|ms| ms.checked_add(base));
    let at = at.filter(|at| *at <= TIME_MS_MAX);
    at.ok_or_else(|| format!("ERR invalid expire time in '{name}' command").into())
}

fn set<M: FullMemory>(call: &mut Call<'_, M>, unit: Unit, from: From, name: &str) -> Outcome {
    let key = call.key(1);
    let there = call.collection(&key, Kind::Hash)?.is_some();
    let at = time(call.arguments[2], unit, from, call.state.now_ms.get(), name)?;
    let mut conditions = Conditions::default();
    let first = if conditions.add(call.arguments[3]) { 4 } else { 3 };
    let bad = "ERR Parameter `numFields` should be greater than 0";
    let names = fields(call.arguments, first, 1, bad)?;
    let replies = match there {
        true => {
            let allows = |old| conditions.allow(old, at);
            change_expiry(call, &key, names, Some(clamp(at)), allows)?
        }
        false => vec![NO_FIELD; names.len()],
    };
    reply_all(call, &replies)
}

pub(super) fn hpersist<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let there = call.collection(&key, Kind::Hash)?.is_some();
    let names = fields(call.arguments, 2, 1, BAD_COUNT)?;
    let mut replies = match there {
        true => change_expiry(call, &key, names, None, |old| old.is_some())?,
        false => vec![NO_FIELD; names.len()],
    };
    let kept = replies.iter_mut().filter(|reply| **reply == KEPT);
    kept.for_each(|reply| *reply = NO_EXPIRY);
    reply_all(call, &replies)
}

pub(super) fn httl<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    tell(call, |at, now| (at - now + 999) / 1000)
}

pub(super) fn hpttl<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    tell(call, |at, now| at - now)
}

pub(super) fn hexpiretime<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    tell(call, |at, _| (at + 999) / 1000)
}

pub(super) fn hpexpiretime<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    tell(call, |at, _| at)
}

fn tell<M: FullMemory>(call: &mut Call<'_, M>, of: impl Fn(i64, i64) -> i64) -> Outcome {
    let key = call.key(1);
    let hash = call.collection(&key, Kind::Hash)?;
    let names = fields(call.arguments, 2, 1, BAD_COUNT)?;
    call.visits(names.len() as u64)?;
    let now_ms = call.state.now_ms.get() as i64;
    call.reply.array(names.len());
    for name in names {
        let found = hash.as_ref().and_then(|hash| hash.find(call.memory, name));
        let time = found.map_or(NO_FIELD, |element| {
            Field::decode(&element).expires_at_ms.map_or(NO_EXPIRY, |at| of(at as i64, now_ms))
        });
        call.reply.integer(time);
    }
    Ok(())
}

/// Replies with the values of fields.
fn reply_values<M: FullMemory>(call: &mut Call<'_, M>, key: &Key<'_>, names: &[&[u8]]) -> Outcome {
    let hash = call.collection(key, Kind::Hash)?;
    call.reply.array(names.len());
    for name in names {
        let found = hash.as_ref().and_then(|hash| hash.find(call.memory, name));
        call.reply.bulk_or_null(found.as_ref().map(|element| Field::decode(element).value));
    }
    Ok(())
}

pub(super) fn hgetdel<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let names = fields(call.arguments, 2, 1, BAD_COUNT)?;
    reply_values(call, &key, names)?;
    call.edit_each(&key, Kind::Hash, names.len(), |call, hash, index| {
        Ok(hash.remove(call.memory, names[index]).into())
    })?;
    Ok(())
}

/// Change of the expiry of fields by `HGETEX` or `HSETEX`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// None was given.
    Default,
    Persist,
    Keep,
    At(u64),
}

/// Parses an option on expiry at `index`. Returns it and the number of its arguments.
fn change_option<M: FullMemory>(
    call: &Call<'_, M>,
    index: usize,
    command: &str,
) -> Result<Option<(Change, usize)>, Failure> {
    let word = call.arguments[index];
    if let Some((unit, from)) = expiry_option(word) {
        let text = call.arguments.get(index + 1).ok_or(SYNTAX)?;
        let at = positive_expiry(text, unit, from, call.state.now_ms.get(), command)?;
        return Ok(Some((Change::At(at), 2)));
    }
    Ok(match word.to_ascii_uppercase().as_slice() {
        b"PERSIST" if command == "hgetex" => Some((Change::Persist, 1)),
        b"KEEPTTL" if command == "hsetex" => Some((Change::Keep, 1)),
        _ => None,
    })
}

pub(super) fn hgetex<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (option, width) = change_option(call, 2, "hgetex")?.unwrap_or((Change::Default, 0));
    let key = call.key(1);
    let names = fields(call.arguments, 2 + width, 1, BAD_COUNT)?;
    reply_values(call, &key, names)?;
    if call.collection(&key, Kind::Hash)?.is_none() {
        return Ok(());
    }
    match option {
        Change::Default | Change::Keep => Ok(()),
        Change::Persist => change_expiry(call, &key, names, None, |old| old.is_some()).map(drop),
        Change::At(at) => change_expiry(call, &key, names, Some(at), |_| true).map(drop),
    }
}

pub(super) fn hsetex<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (mut if_none, mut if_all, mut option) = (false, false, Change::Default);
    let mut index = 2;
    while index < call.arguments.len() && !call.is(index, "FIELDS") {
        let width = if call.is(index, "FNX") && !if_all {
            if_none = true;
            1
        } else if call.is(index, "FXX") && !if_none {
            if_all = true;
            1
        } else {
            let found = change_option(call, index, "hsetex")?;
            let (given, width) = found.ok_or(SYNTAX)?;
            if option != Change::Default {
                return Err(SYNTAX.into());
            }
            option = given;
            width
        };
        index += width;
    }
    let key = call.key(1);
    let (pairs, _) = fields(call.arguments, index, 2, BAD_COUNT)?.as_chunks::<2>();
    let there = call.collection(&key, Kind::Hash)?;
    for [name, _] in pairs.iter().filter(|_| if_none || if_all) {
        let found = there.as_ref().is_some_and(|hash| hash.find(call.memory, name).is_some());
        if found != if_all {
            call.reply.integer(0);
            return Ok(());
        }
    }
    set_fields(call, &key, pairs, option)?;
    call.reply.integer(1);
    Ok(())
}

/// Sets fields with this expiry. A time that has passed removes them.
fn set_fields<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    pairs: &[[&[u8]; 2]],
    option: Change,
) -> Outcome {
    let now_ms = call.expired_ms();
    if let Change::At(at) = option
        && at > now_ms
    {
        call.edit(key, Kind::Hash, |call, hash| Ok(hash.prepare_expiry(call.memory)?))?;
    }
    let hash = call.collection(key, Kind::Hash)?;
    let mut elements = Vec::new();
    for [name, value] in pairs {
        let expires_at_ms = match option {
            Change::At(at) => Some(at),
            Change::Keep => {
                let old = hash.as_ref().and_then(|hash| hash.find(call.memory, name));
                old.and_then(|old| Field::decode(&old).expires_at_ms)
            }
            Change::Default | Change::Persist => None,
        };
        elements.push(call.field(&Field { name, expires_at_ms, value })?);
    }
    let is_over = matches!(option, Change::At(at) if at <= now_ms);
    call.edit_each(key, Kind::Hash, pairs.len(), |call, hash, index| {
        match is_over {
            true => drop(hash.remove(call.memory, pairs[index][0])),
            false => drop(elements[index].put(call.memory, hash)?),
        }
        Ok(0)
    })?;
    Ok(())
}
