//! Collections in the format of `DUMP` and `RESTORE`.
//!
//! They are written as counted elements. The packed forms that Redis writes are read too: sets of
//! integers, and listpacks of hashes, sorted sets and lists. Hashes with fields that expire have
//! the form that Redis has for them since 7.4. Streams have no dump.

use ebbtide_core::Memory;
use ebbtide_structures::keyspace::{Collection, Field, Key, Kind, Score};

use super::building::Building;
use super::dump_text::{read_length, take_text, write_length};
use super::sorted_sets::check_member;
use super::{Call, Failure, LONG_REPLY, Outcome};
use crate::number;

/// Type bytes of counted elements.
const LIST: u8 = 1;
const SET: u8 = 2;
const HASH: u8 = 4;
const SORTED_SET: u8 = 5;
const HASH_WITH_EXPIRY: u8 = 24;

/// Type bytes of packed forms.
const SET_OF_INTEGERS: u8 = 11;
const HASH_PACKED: u8 = 16;
const SORTED_SET_PACKED: u8 = 17;
const LIST_PACKED: u8 = 18;
const HASH_PACKED_WITH_EXPIRY: u8 = 25;

/// A node of a list: one value, or a listpack.
const PLAIN: usize = 1;
const PACKED: usize = 2;

/// Bytes of the header of a listpack, and the byte that ends it.
const PACK_HEADER_BYTES: usize = 6;
const PACK_END: u8 = 0xff;

const NO_STREAMS: &str = "ERR streams have no dump here: COPY copies a stream within this server";

/// Returns a collection in the format of `DUMP`, without version and checksum.
///
/// # Errors
/// Returns an error if it takes too much DRAM, or is a stream.
pub(super) fn dumped<M: Memory>(
    call: &mut Call<'_, M>,
    collection: &Collection,
) -> Result<Vec<u8>, Failure> {
    if collection.kind == Kind::Stream {
        return Err(NO_STREAMS.into());
    }
    let count = collection.len(call.memory);
    let most = call.state.settings().argument_bytes_max;
    // Expiry times count from here. All are later.
    let now_ms = call.state.now_ms.get();
    let expires = collection.may_expire();
    let mut bytes = vec![match collection.kind {
        Kind::Hash if expires => HASH_WITH_EXPIRY,
        Kind::Hash => HASH,
        Kind::Set => SET,
        Kind::SortedSet => SORTED_SET,
        Kind::List | Kind::String | Kind::Stream => LIST,
    }];
    if expires {
        bytes.extend(now_ms.to_le_bytes());
    }
    write_length(&mut bytes, count as usize);
    call.each_live(collection, |_, element| {
        match collection.kind {
            Kind::Hash => {
                let field = Field::decode(element);
                if expires {
                    let left = field.expires_at_ms.map_or(0, |at| at.saturating_sub(now_ms) + 1);
                    write_length(&mut bytes, left as usize);
                }
                write_text(&mut bytes, field.name);
                write_text(&mut bytes, field.value);
            }
            Kind::SortedSet => {
                let (score, member) = Score::split(element);
                write_text(&mut bytes, member);
                bytes.extend(score.to_le_bytes());
            }
            _ => write_text(&mut bytes, element),
        }
        if bytes.len() > most { Err(LONG_REPLY.into()) } else { Ok(()) }
    })?;
    Ok(bytes)
}

fn write_text(bytes: &mut Vec<u8>, text: &[u8]) {
    write_length(bytes, text.len());
    bytes.extend_from_slice(text);
}

/// Sets a key to the collection in a dump without version and checksum.
///
/// # Errors
/// Returns `bad` if the dump is no collection, or an error if there is no room.
pub(super) fn restore<M: Memory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    dump: &[u8],
    expires_at_ms: Option<u64>,
    bad: &'static str,
) -> Outcome {
    let most = call.state.settings().argument_bytes_max;
    let (kind, elements) = parse(dump, most).ok_or(bad)?;
    if kind == Kind::SortedSet {
        elements.iter().try_for_each(|element| check_member(Score::split(element).1))?;
    }
    let mut building = Building::new(call, key, kind);
    for element in &elements {
        building.add(call, key, element)?;
    }
    let database = call.session.database;
    building.finish(call, (database, key), expires_at_ms).map(drop)
}

/// Parses the elements of a collection that takes up all of `dump`.
#[expect(clippy::too_many_lines, reason = "an arm for each form of a dump")]
fn parse(dump: &[u8], bytes_max: usize) -> Option<(Kind, Vec<Vec<u8>>)> {
    let (&form, mut rest) = dump.split_first()?;
    let mut texts = |count: usize| -> Option<Vec<Vec<u8>>> {
        (0..count).map(|_| take_text(&mut rest, bytes_max)).collect()
    };
    let (kind, elements) = match form {
        SET_OF_INTEGERS => (Kind::Set, integers(&texts(1)?[0])?),
        HASH_PACKED => (Kind::Hash, fields(unpacked(&texts(1)?[0])?)?),
        HASH_PACKED_WITH_EXPIRY => {
            // The earliest expiry.
            rest = rest.get(8..)?;
            let pack = take_text(&mut rest, bytes_max)?;
            (Kind::Hash, expiring_fields(unpacked(&pack)?)?)
        }
        HASH_WITH_EXPIRY => {
            let (base, later) = rest.split_first_chunk::<8>()?;
            let count;
            (count, rest) = read_length(later)?;
            let mut elements = Vec::new();
            for _ in 0..count {
                let left;
                (left, rest) = read_length(rest)?;
                let at = u64::from_le_bytes(*base).checked_add(left as u64)?;
                let expires_at_ms = if left == 0 { None } else { Some(at - 1) };
                let name = take_text(&mut rest, bytes_max)?;
                let value = take_text(&mut rest, bytes_max)?;
                elements.push(Field { name: &name, expires_at_ms, value: &value }.encode());
            }
            (Kind::Hash, elements)
        }
        SORTED_SET_PACKED => (Kind::SortedSet, scored(unpacked(&texts(1)?[0])?)?),
        LIST | SET | HASH | SORTED_SET | LIST_PACKED => {
            let count;
            (count, rest) = read_length(rest)?;
            let mut elements = Vec::new();
            for _ in 0..count {
                match form {
                    HASH => {
                        let name = take_text(&mut rest, bytes_max)?;
                        elements.push(field(&name, &take_text(&mut rest, bytes_max)?));
                    }
                    SORTED_SET => {
                        let member = take_text(&mut rest, bytes_max)?;
                        let (score, later) = rest.split_first_chunk::<8>()?;
                        rest = later;
                        elements.push(member_of(f64::from_le_bytes(*score), &member)?);
                    }
                    LIST_PACKED => {
                        let node;
                        (node, rest) = read_length(rest)?;
                        let text = take_text(&mut rest, bytes_max)?;
                        match node {
                            PLAIN => elements.push(text),
                            PACKED => elements.append(&mut unpacked(&text)?),
                            _ => return None,
                        }
                    }
                    _ => elements.push(take_text(&mut rest, bytes_max)?),
                }
            }
            let kind = match form {
                SET => Kind::Set,
                HASH => Kind::Hash,
                SORTED_SET => Kind::SortedSet,
                _ => Kind::List,
            };
            (kind, elements)
        }
        _ => return None,
    };
    (rest.is_empty() && !elements.is_empty()).then_some((kind, elements))
}

fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    Field { name, expires_at_ms: None, value }.encode()
}

fn member_of(score: f64, member: &[u8]) -> Option<Vec<u8>> {
    (!score.is_nan()).then(|| Score::of(score).with(member))
}

/// The elements of a hash, from fields and values in turn.
fn fields(texts: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let (pairs, odd) = texts.as_chunks::<2>();
    odd.is_empty().then(|| pairs.iter().map(|[name, value]| field(name, value)).collect())
}

/// The elements of a hash, from fields, values and times of expiry in turn. No time is 0.
fn expiring_fields(texts: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let (triples, odd) = texts.as_chunks::<3>();
    let element = |[name, value, at]: &[Vec<u8>; 3]| {
        let at = u64::try_from(number::integer(at)?).ok()?;
        Some(Field { name, expires_at_ms: (at > 0).then_some(at), value }.encode())
    };
    if odd.is_empty() { triples.iter().map(element).collect() } else { None }
}

/// The elements of a sorted set, from members and scores in turn.
fn scored(texts: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let (pairs, odd) = texts.as_chunks::<2>();
    let elements = pairs.iter().map(|[member, score]| member_of(number::float(score)?, member));
    if odd.is_empty() { elements.collect() } else { None }
}

/// The members of a set of integers: the bytes of each, their number, and the integers.
fn integers(set: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (bytes, rest) = set.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let (bytes, count) = (u32::from_le_bytes(*bytes) as usize, u32::from_le_bytes(*count) as usize);
    if ![2, 4, 8].contains(&bytes) || rest.len() != bytes.checked_mul(count)? {
        return None;
    }
    Some(rest.chunks(bytes).map(|number| signed(number).to_string().into_bytes()).collect())
}

/// A signed little-endian integer of up to 8 bytes.
fn signed(bytes: &[u8]) -> i64 {
    let bits = 8 * bytes.len() as u32;
    let wide = bytes.iter().rev().fold(0u64, |wide, byte| wide << 8 | u64::from(*byte));
    (wide << (64 - bits)) as i64 >> (64 - bits)
}

/// The texts of a listpack. (Redis, `listpack.c`.)
fn unpacked(pack: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (header, mut rest) = pack.split_at_checked(PACK_HEADER_BYTES)?;
    if u32::from_le_bytes(header[..4].try_into().ok()?) as usize != pack.len() {
        return None;
    }
    let mut texts = Vec::new();
    loop {
        let before = rest.len();
        match rest {
            [PACK_END] => return Some(texts),
            [] => return None,
            _ => texts.push(take_packed(&mut rest)?),
        }
        // The length of the entry follows it, seven bits a byte.
        let entry = before - rest.len();
        let back =
            [1 << 7, 1 << 14, 1 << 21, 1 << 28].iter().filter(|most| entry >= **most).count();
        rest = rest.get(back + 1..)?;
    }
}

/// Removes an entry of a listpack, without its length behind it, from the front of `rest`.
fn take_packed(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let first = *rest.split_off_first()?;
    let mut take = |count: usize| rest.split_off(..count);
    let number = |number: i64| Some(number.to_string().into_bytes());
    match first {
        0..0x80 => number(first.into()),
        0x80..0xc0 => Some(take(usize::from(first & 0x3f))?.to_vec()),
        0xc0..0xe0 => {
            let low = take(1)?[0];
            let wide = u16::from(first & 0x1f) << 8 | u16::from(low);
            number(i64::from((wide << 3) as i16 >> 3))
        }
        0xe0..0xf0 => {
            let length = usize::from(first & 0xf) << 8 | usize::from(take(1)?[0]);
            Some(take(length)?.to_vec())
        }
        0xf0 => {
            let length = u32::from_le_bytes(take(4)?.try_into().ok()?);
            Some(take(length as usize)?.to_vec())
        }
        0xf1 => number(signed(take(2)?)),
        0xf2 => number(signed(take(3)?)),
        0xf3 => number(signed(take(4)?)),
        0xf4 => number(signed(take(8)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_packs_and_sets_are_no_collections() {
        let pack = [&[13, 0, 0, 0, 2, 0, 0x81, b'a', 2, 5, 1, PACK_END][..], &[]].concat();
        let mut right = pack.clone();
        right[0] = right.len() as u8;
        assert_eq!(unpacked(&right), Some(vec![b"a".to_vec(), b"5".to_vec()]));
        assert_eq!(unpacked(&pack), None, "another length");
        for end in 0..right.len() {
            assert_eq!(unpacked(&right[..end]), None);
        }
        assert_eq!(integers(&[2, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff]), Some(vec![b"-1".to_vec()]));
        assert_eq!(integers(&[2, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff]), None);
        assert_eq!(integers(&[3, 0, 0, 0, 0, 0, 0, 0]), None);
        for (bytes, number) in [(&[0xff, 0x7f][..], 32_767), (&[0, 0, 0x80], -8_388_608)] {
            assert_eq!(signed(bytes), number);
        }
    }
}
