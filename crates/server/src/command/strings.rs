//! Commands on strings and counters.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Entry, VALUE_BYTES_MAX, WHOLE_BYTES_MAX};

use super::arguments::{From, Unit, expiry_option, positive_expiry, range, syntax};
use super::events::Before;
use super::large::{self, Source};
use super::{Call, Failure, NOT_FLOAT, NOT_INTEGER, Outcome, SYNTAX, Stop, TOO_LONG};
use crate::events::Classes;
use crate::large::{Outgoing, PIECE_BYTES, Staged};
use crate::number;

pub(super) fn get<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    call.reply_key(&key).map(drop)
}

/// The options of `SET`.
#[derive(Default)]
struct SetOptions {
    if_absent: bool,
    if_present: bool,
    get: bool,
    keep_expiry: bool,
    expires_at_ms: Option<u64>,
}

fn set_options<M: FullMemory>(call: &Call<'_, M>) -> Result<SetOptions, Failure> {
    let mut options = SetOptions::default();
    let mut expiry = None;
    let mut index = 3;
    while index < call.arguments.len() {
        if call.is(index, "NX") && !options.if_present {
            options.if_absent = true;
        } else if call.is(index, "XX") && !options.if_absent {
            options.if_present = true;
        } else if call.is(index, "GET") {
            options.get = true;
        } else if call.is(index, "KEEPTTL") && expiry.is_none() {
            options.keep_expiry = true;
        } else if !options.keep_expiry
            && let Some(given) = expiry_at(call, index, &expiry)?
        {
            expiry = Some(given);
            index += 1;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    if let Some(((unit, from), text)) = expiry {
        let now_ms = call.state.now_ms.get();
        options.expires_at_ms = Some(positive_expiry(text, unit, from, now_ms, "set")?);
    }
    Ok(options)
}

/// An expiry option and its number.
type Expiry<'a> = ((Unit, From), &'a [u8]);

/// Parses the expiry option at `index`. It may replace an earlier one of the same name, as in
/// Redis.
fn expiry_at<'a, M>(
    call: &Call<'a, M>,
    index: usize,
    earlier: &Option<Expiry<'a>>,
) -> Result<Option<Expiry<'a>>, Failure> {
    let Some(kind) = expiry_option(call.arguments[index]) else { return Ok(None) };
    let text = syntax(call.arguments.get(index + 1))?;
    match earlier {
        Some((earlier, _)) if *earlier != kind => Err(SYNTAX.into()),
        _ => Ok(Some((kind, text))),
    }
}

pub(super) fn set<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let options = set_options(call)?;
    let key = call.key(1);
    let mut expires_at_ms = options.expires_at_ms;
    let looks = options.if_absent || options.if_present || options.get || options.keep_expiry;
    if looks {
        let entry =
            if options.get { call.reply_key(&key)? } else { call.find(&key, &mut Vec::new()) };
        let refused = if entry.is_some() { options.if_absent } else { options.if_present };
        if options.keep_expiry {
            expires_at_ms = entry.as_ref().and_then(|entry| entry.expires_at_ms);
        }
        if !refused {
            call.set_argument(&key, 2, expires_at_ms)?;
            tell_expiry(call, options.expires_at_ms);
        }
        match (options.get, refused) {
            (true, _) => {}
            (false, true) => call.reply.null(),
            (false, false) => call.reply.ok(),
        }
        return Ok(());
    }
    call.set_argument(&key, 2, expires_at_ms)?;
    tell_expiry(call, expires_at_ms);
    call.reply.ok();
    Ok(())
}

/// Reports the event of a new expiry time of the key, unless the time has passed.
fn tell_expiry<M: FullMemory>(call: &mut Call<'_, M>, expires_at_ms: Option<u64>) {
    if expires_at_ms.is_some_and(|at| at > call.expired_ms()) {
        let key = (call.session.database, call.arguments[1]);
        call.event(key, Classes::GENERIC, "expire");
    }
}

pub(super) fn setnx<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let absent = call.find(&key, &mut Vec::new()).is_none();
    if absent {
        call.set_argument(&key, 2, None)?;
    }
    call.reply.integer(absent.into());
    Ok(())
}

pub(super) fn setex<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    set_with_expiry(call, b"EX", "setex")
}

pub(super) fn psetex<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    set_with_expiry(call, b"PX", "psetex")
}

fn set_with_expiry<M: FullMemory>(call: &mut Call<'_, M>, option: &[u8], name: &str) -> Outcome {
    let (unit, from) = syntax(expiry_option(option))?;
    let now_ms = call.state.now_ms.get();
    let at = positive_expiry(call.arguments[2], unit, from, now_ms, name)?;
    let key = call.key(1);
    call.set_argument(&key, 3, Some(at))?;
    tell_expiry(call, Some(at));
    call.reply.ok();
    Ok(())
}

pub(super) fn getset<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    call.reply_key(&key)?;
    call.set_argument(&key, 2, None)
}

pub(super) fn getdel<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    call.reply_key(&key)?;
    call.remove(&key)?;
    Ok(())
}

pub(super) fn getex<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (mut persist, mut expiry) = (false, None);
    let mut index = 2;
    while index < call.arguments.len() {
        if call.is(index, "PERSIST") && expiry.is_none() {
            persist = true;
        } else if !persist && let Some(given) = expiry_at(call, index, &expiry)? {
            expiry = Some(given);
            index += 1;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let key = call.key(1);
    let Some(entry) = call.reply_key(&key)? else { return Ok(()) };
    let now_ms = call.state.now_ms.get();
    let expires_at_ms = match expiry {
        Some(((unit, from), text)) => Some(positive_expiry(text, unit, from, now_ms, "getex")?),
        None => None,
    };
    let ends = persist && entry.expires_at_ms.is_some();
    if expires_at_ms.is_some_and(|at| at <= call.expired_ms()) {
        call.remove(&key)?;
    } else if ends || expires_at_ms.is_some() {
        call.set_expiry(&key, expires_at_ms)?;
    }
    Ok(())
}

pub(super) fn mget<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    call.reply.array(call.arguments.len() - 1);
    for index in 1..call.arguments.len() {
        call.pace(index, 1)?;
        let key = call.key(index);
        call.reply_string(&key)?;
    }
    Ok(())
}

pub(super) fn mset<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    set_all(call, "mset")?;
    call.reply.ok();
    Ok(())
}

pub(super) fn msetnx<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    check_pairs(call, "msetnx")?;
    for index in (1..call.arguments.len()).step_by(2) {
        call.pace(index, 2)?;
        let key = call.key(index);
        if call.find(&key, &mut Vec::new()).is_some() {
            call.reply.integer(0);
            return Ok(());
        }
    }
    set_all(call, "msetnx")?;
    call.reply.integer(1);
    Ok(())
}

fn check_pairs<M: FullMemory>(call: &Call<'_, M>, name: &str) -> Outcome {
    if call.arguments.len().is_multiple_of(2) {
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    Ok(())
}

fn set_all<M: FullMemory>(call: &mut Call<'_, M>, name: &str) -> Outcome {
    check_pairs(call, name)?;
    for index in (1..call.arguments.len()).step_by(2) {
        call.pace(index, 2)?;
        let key = call.key(index);
        call.set_argument(&key, index + 1, None)?;
    }
    Ok(())
}

pub(super) fn strlen<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let length = call.find_string(&key, &mut Vec::new())?.map_or(0, |entry| entry.value_bytes);
    call.reply.integer(length as i64);
    Ok(())
}

pub(super) fn getrange<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let key = call.key(1);
    let mut value = Vec::new();
    let Some(entry) = call.find_string(&key, &mut value)? else {
        call.reply.bulk(b"");
        return Ok(());
    };
    let (from, length) = range(start, end, entry.value_bytes);
    if entry.is_inline() {
        call.reply.bulk(&value[from as usize..(from + length) as usize]);
    } else if let Some(id) = entry.large().filter(|_| length > PIECE_BYTES as u64) {
        let bytes = Outgoing::new(&entry, from, length, call.state.shared.holds.hold(id));
        call.reply.large(length, bytes);
    } else {
        call.keyspace().read_range(call.memory, &entry, from, length as usize, &mut value);
        call.reply.bulk(&value);
    }
    Ok(())
}

/// Writes `bytes` into a value: in place if it lies in pages, else by setting the whole value.
/// Returns the new length.
pub(super) fn write_at<M: FullMemory>(
    call: &mut Call<'_, M>,
    index: usize,
    offset: u64,
    bytes: &[u8],
) -> Result<u64, Stop> {
    let key = call.key(index);
    super::check_key(&key)?;
    let database = call.session.database;
    let mut value = Vec::new();
    let entry = call.find_string(&key, &mut value)?;
    let length = entry.as_ref().map_or(0, |entry| entry.value_bytes);
    let end = offset + bytes.len() as u64;
    if end > VALUE_BYTES_MAX {
        return Err(TOO_LONG.into());
    }
    let fits = match entry.as_ref().and_then(Entry::large) {
        Some(id) => {
            // Readers must not see the change.
            let is_read = offset < length && call.state.shared.holds.holds(id);
            end.saturating_sub(length).max(bytes.len() as u64) <= PIECE_BYTES as u64 && !is_read
        }
        None => end <= WHOLE_BYTES_MAX as u64,
    };
    if call.writer.in_pieces(fits)? {
        return large::write_value(call, &key, offset, Source::Bytes(bytes));
    }
    match entry {
        Some(entry) if !entry.is_inline() => {
            call.keyspace().write_range(call.memory, database, &key, &entry, offset, bytes)?;
            call.changed((database, &key), Before::Other);
        }
        entry => {
            value.resize(value.len().max(end as usize), 0);
            value[offset as usize..end as usize].copy_from_slice(bytes);
            let expires_at_ms = entry.and_then(|entry| entry.expires_at_ms);
            call.set(&key, &value, expires_at_ms)?;
        }
    }
    Ok(length.max(end))
}

/// As [`write_at`], with an argument that came in pieces. Replies with the new length.
fn write_staged<M: FullMemory>(call: &mut Call<'_, M>, offset: u64, staged: &Staged) -> Outcome {
    let key = call.key(1);
    let value = staged.value()?;
    let length = if offset == 0 && call.find_string(&key, &mut Vec::new())?.is_none() {
        call.set_argument(&key, staged.argument, None)?;
        value.bytes
    } else {
        large::write_value(call, &key, offset, Source::Large(value))?
    };
    call.reply.integer(length as i64);
    Ok(())
}

pub(super) fn setrange<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let offset = call.integer(2)?;
    if offset < 0 {
        return Err("ERR offset is out of range".into());
    }
    if let [staged] = call.staged {
        return write_staged(call, offset as u64, staged);
    }
    let bytes = call.arguments[3];
    if bytes.is_empty() {
        return strlen(call);
    }
    if (offset as u64).saturating_add(bytes.len() as u64) > VALUE_BYTES_MAX {
        return Err(TOO_LONG.into());
    }
    let length = write_at(call, 1, offset as u64, bytes)?;
    call.reply.integer(length as i64);
    Ok(())
}

pub(super) fn append<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let length = call.find_string(&key, &mut Vec::new())?.map_or(0, |entry| entry.value_bytes);
    if let [staged] = call.staged {
        return write_staged(call, length, staged);
    }
    let length = write_at(call, 1, length, call.arguments[2])?;
    call.reply.integer(length as i64);
    Ok(())
}

pub(super) fn incr<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    add(call, 1)
}

pub(super) fn decr<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    add(call, -1)
}

pub(super) fn incrby<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let by = call.integer(2)?;
    add(call, by)
}

pub(super) fn decrby<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let by = call.integer(2)?;
    let by = by.checked_neg().ok_or("ERR decrement would overflow")?;
    add(call, by)
}

fn add<M: FullMemory>(call: &mut Call<'_, M>, by: i64) -> Outcome {
    let key = call.key(1);
    let old = call.small_value(&key, NOT_INTEGER)?;
    let (value, expires_at_ms) = match &old {
        Some((text, entry)) => (number::integer(text).ok_or(NOT_INTEGER)?, entry.expires_at_ms),
        None => (0, None),
    };
    let sum = value.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    call.set(&key, itoa::Buffer::new().format(sum).as_bytes(), expires_at_ms)?;
    call.reply.integer(sum);
    Ok(())
}

pub(super) fn incrbyfloat<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let old = call.small_value(&key, NOT_FLOAT)?;
    let (text, expires_at_ms) = match &old {
        Some((text, entry)) => (text.as_slice(), entry.expires_at_ms),
        None => (&b"0"[..], None),
    };
    let sum = number::add_floats(text, call.arguments[2]).ok_or(NOT_FLOAT)?;
    let sum = sum.map_err(|_| Failure::from("ERR increment would produce NaN or Infinity"))?;
    call.set(&key, sum.as_bytes(), expires_at_ms)?;
    call.reply.bulk(sum.as_bytes());
    Ok(())
}
