//! Commands on hashes.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Field, Kind};

use super::elements::Element;
use super::{Call, Failure, NOT_FLOAT, Outcome, SYNTAX, Stop};
use crate::number;
use crate::protocol::Protocol;

/// The longest name of a field that has a number, in bytes.
const NAME_BYTES_MAX: usize = 32_000;

/// Returns an error if the name of a field with a number is too long.
fn check_name(name: &[u8]) -> Outcome {
    if name.len() > NAME_BYTES_MAX {
        let text =
            format!("ERR the name of a field with a number has at most {NAME_BYTES_MAX} bytes");
        return Err(text.into());
    }
    Ok(())
}

/// A field that does not expire.
fn field<'a>(name: &'a [u8], value: &'a [u8]) -> Field<'a> {
    Field { name, expires_at_ms: None, value }
}

/// A field with the expiry of an older element, if there is one.
fn as_before(name: &[u8], value: &[u8], old: Option<&[u8]>) -> Vec<u8> {
    let expires_at_ms = old.and_then(|old| Field::decode(old).expires_at_ms);
    Field { name, expires_at_ms, value }.encode()
}

pub(super) fn hset<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let added = set_fields(call, "hset")?;
    call.reply.integer(added);
    Ok(())
}

pub(super) fn hmset<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    set_fields(call, "hmset")?;
    call.reply.ok();
    Ok(())
}

fn set_fields<M: FullMemory>(call: &mut Call<'_, M>, command: &str) -> Result<i64, Stop> {
    let (pairs, odd) = call.arguments[2..].as_chunks::<2>();
    if !odd.is_empty() {
        return Err(format!("ERR wrong number of arguments for '{command}' command").into());
    }
    let key = call.key(1);
    call.collection(&key, Kind::Hash)?;
    let elements = pairs.iter().map(|[name, value]| call.field(&field(name, value)));
    let elements: Vec<Element> = elements.collect::<Result<_, _>>()?;
    call.edit_each(&key, Kind::Hash, pairs.len(), |call, hash, index| {
        Ok(elements[index].put(call.memory, hash)?.into())
    })
}

pub(super) fn hsetnx<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, name, value) = (call.key(1), call.arguments[2], call.arguments[3]);
    let there = call.collection(&key, Kind::Hash)?;
    let is_new = there.is_none_or(|hash| hash.find(call.memory, name).is_none());
    let set = is_new && {
        let element = call.field(&field(name, value))?;
        call.edit(&key, Kind::Hash, |call, hash| Ok(element.put(call.memory, hash)?))?
    };
    call.reply.integer(set.into());
    Ok(())
}

/// Returns the value of a field.
fn value<M: FullMemory>(call: &mut Call<'_, M>, name: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
    let key = call.key(1);
    let Some(hash) = call.collection(&key, Kind::Hash)? else { return Ok(None) };
    let found = hash.find(call.memory, name);
    Ok(found.map(|element| Field::decode(&element).value.to_vec()))
}

pub(super) fn hget<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let found = value(call, call.arguments[2])?;
    call.reply.bulk_or_null(found.as_deref());
    Ok(())
}

pub(super) fn hexists<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let found = value(call, call.arguments[2])?;
    call.reply.integer(found.is_some().into());
    Ok(())
}

pub(super) fn hstrlen<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let found = value(call, call.arguments[2])?;
    call.reply.integer(found.map_or(0, |value| value.len() as i64));
    Ok(())
}

pub(super) fn hmget<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, names) = (call.key(1), &call.arguments[2..]);
    let hash = call.collection(&key, Kind::Hash)?;
    call.visits(names.len() as u64)?;
    call.reply.array(names.len());
    for (index, name) in names.iter().enumerate() {
        let found = hash.as_ref().and_then(|hash| hash.find(call.memory, name));
        call.reply.bulk_or_null(found.as_ref().map(|element| Field::decode(element).value));
        if index % 64 == 63 {
            call.pause()?;
        }
    }
    Ok(())
}

pub(super) fn hdel<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, names) = (call.key(1), &call.arguments[2..]);
    let removed = call.edit_each(&key, Kind::Hash, names.len(), |call, hash, index| {
        Ok(hash.remove(call.memory, names[index]).into())
    })?;
    call.reply.integer(removed);
    Ok(())
}

pub(super) fn hlen<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let length = call.length(call.arguments[1], Kind::Hash)?;
    call.reply.integer(length as i64);
    Ok(())
}

pub(super) fn hgetall<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let hash = call.collection(&key, Kind::Hash)?;
    let count = hash.as_ref().map_or(0, |hash| hash.len(call.memory));
    call.visits(count)?;
    call.reply.map(count as usize);
    let Some(hash) = hash else { return Ok(()) };
    call.each_live(&hash, |call, element| {
        let field = Field::decode(element);
        call.reply.bulk(field.name);
        call.reply.bulk(field.value);
        Ok(())
    })
}

pub(super) fn hkeys<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    one_part(call, |element| Field::decode(element).name)
}

pub(super) fn hvals<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    one_part(call, |element| Field::decode(element).value)
}

fn one_part<M: FullMemory>(call: &mut Call<'_, M>, part: fn(&[u8]) -> &[u8]) -> Outcome {
    let key = call.key(1);
    let hash = call.collection(&key, Kind::Hash)?;
    let count = hash.as_ref().map_or(0, |hash| hash.len(call.memory));
    call.visits(count)?;
    call.reply.array(count as usize);
    let Some(hash) = hash else { return Ok(()) };
    call.each_live(&hash, |call, element| {
        call.reply.bulk(part(element));
        Ok(())
    })
}

pub(super) fn hincrby<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, name, by) = (call.key(1), call.arguments[2], call.integer(3)?);
    check_name(name)?;
    let sum = call.edit(&key, Kind::Hash, |call, hash| {
        let element = hash.find(call.memory, name);
        let old = match &element {
            Some(element) => number::integer(Field::decode(element).value)
                .ok_or("ERR hash value is not an integer")?,
            None => 0,
        };
        let sum = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
        let text = itoa::Buffer::new().format(sum).to_owned();
        hash.put(call.memory, &as_before(name, text.as_bytes(), element.as_deref()))?;
        Ok(sum)
    })?;
    call.reply.integer(sum);
    Ok(())
}

pub(super) fn hincrbyfloat<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, name, by) = (call.key(1), call.arguments[2], call.arguments[3]);
    let given = number::float(by).ok_or(NOT_FLOAT)?;
    if !given.is_finite() {
        return Err("ERR value is NaN or Infinity".into());
    }
    check_name(name)?;
    let sum = call.edit(&key, Kind::Hash, |call, hash| {
        let element = hash.find(call.memory, name);
        let old = element.as_ref().map_or(&b"0"[..], |element| Field::decode(element).value);
        let sum = number::add_floats(old, by).ok_or("ERR hash value is not a float")?;
        let sum = sum.map_err(|_| Failure::from("ERR increment would produce NaN or Infinity"))?;
        hash.put(call.memory, &as_before(name, sum.as_bytes(), element.as_deref()))?;
        Ok(sum)
    })?;
    call.reply.bulk(sum.as_bytes());
    Ok(())
}

pub(super) fn hrandfield<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.arguments.len() == 2 {
        let key = call.key(1);
        let hash = call.collection(&key, Kind::Hash)?;
        let mut found = None;
        if let Some(hash) = hash {
            call.each_random(&hash, 1, |_, element| {
                found = Some(Field::decode(element).name.to_vec());
                Ok(())
            })?;
        }
        call.reply.bulk_or_null(found.as_deref());
        return Ok(());
    }
    let count = call.random_count()?;
    let with_values = call.arguments.len() == 4 && call.is(3, "WITHVALUES");
    if call.arguments.len() > 4 || call.arguments.len() == 4 && !with_values {
        return Err(SYNTAX.into());
    }
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err("ERR value is out of range".into());
    }
    let key = call.key(1);
    let Some(hash) = call.collection(&key, Kind::Hash)? else {
        call.reply.array(0);
        return Ok(());
    };
    let count = if count > 0 { count.min(hash.len(call.memory) as i64) } else { count };
    let in_pairs = with_values && call.reply.protocol == Protocol::Three;
    let parts = 1 + usize::from(with_values && !in_pairs);
    call.visits(count.unsigned_abs())?;
    call.reply.array(count.unsigned_abs() as usize * parts);
    call.each_random(&hash, count, |call, element| {
        let field = Field::decode(element);
        if in_pairs {
            call.reply.array(2);
        }
        call.reply.bulk(field.name);
        if with_values {
            call.reply.bulk(field.value);
        }
        Ok(())
    })
}

pub(super) fn hscan<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    call.scan_elements(
        Kind::Hash,
        2,
        |element| Field::decode(element).name,
        |call, element| {
            let field = Field::decode(element);
            call.reply.bulk(field.name);
            call.reply.bulk(field.value);
        },
    )
}
