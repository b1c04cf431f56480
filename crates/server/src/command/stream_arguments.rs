//! Arguments of the commands on streams: ids, ends of ranges, and how a stream is trimmed.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, EntryId};

use super::{Call, Failure, NOT_INTEGER, SYNTAX};
use crate::number::integer;

pub(super) const BAD_ID: &str = "ERR Invalid stream ID specified as stream command argument";
const TWO_BOUNDS: &str =
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
const LIMIT_ALONE: &str =
    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
const LIMIT_EXACT: &str = "ERR syntax error, LIMIT cannot be used without the special ~ option";
const NO_BOUND: &str = "ERR syntax error, XTRIM must be called with a trimming strategy";

/// Entries that a trim with `~` removes together, as Redis does with its default settings.
const TRIMMED_TOGETHER: u64 = 100;

/// Entries that a trim with `~` and without `LIMIT` removes at most.
const TRIMMED_MAX: u64 = 100 * TRIMMED_TOGETHER;

fn number(text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| Failure::from(BAD_ID))
}

/// Parses an id. Without a sequence number it gets `missing`.
pub(super) fn strict_id(text: &[u8], missing: u64) -> Result<EntryId, Failure> {
    let text = std::str::from_utf8(text).map_err(|_| Failure::from(BAD_ID))?;
    let (ms, sequence) = match text.split_once('-') {
        Some((ms, sequence)) => (number(ms)?, number(sequence)?),
        None => (number(text)?, missing),
    };
    Ok(EntryId { ms, sequence })
}

/// Parses an id, `-` for the least one, or `+` for the greatest.
pub(super) fn id(text: &[u8], missing: u64) -> Result<EntryId, Failure> {
    match text {
        b"-" => Ok(EntryId::default()),
        b"+" => Ok(EntryId::MAX),
        text => strict_id(text, missing),
    }
}

/// Parses the first id of a range, which may be exclusive.
pub(super) fn range_start(text: &[u8]) -> Result<EntryId, Failure> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            strict_id(rest, 0)?.next().ok_or("ERR invalid start ID for the interval".into())
        }
        text => id(text, 0),
    }
}

/// Parses the last id of a range, which may be exclusive.
pub(super) fn range_end(text: &[u8]) -> Result<EntryId, Failure> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            strict_id(rest, u64::MAX)?.before().ok_or("ERR invalid end ID for the interval".into())
        }
        text => id(text, u64::MAX),
    }
}

/// The id that `XADD` asks for.
#[derive(Clone, Copy)]
pub(super) enum NewId {
    /// `*`: the time, or the next after the last one.
    Automatic,
    /// `ms-*`: a time, with the next sequence number.
    OfTime(u64),
    Given(EntryId),
}

impl NewId {
    fn parse(text: &[u8]) -> Result<NewId, Failure> {
        let time = text.strip_suffix(b"-*").and_then(|ms| std::str::from_utf8(ms).ok());
        match time {
            Some(ms) => Ok(NewId::OfTime(number(ms)?)),
            None => strict_id(text, 0).map(NewId::Given),
        }
    }

    /// Returns the id for an entry after the one of id `last`.
    pub(super) fn after(self, last: EntryId, now_ms: u64) -> Result<EntryId, Failure> {
        const EXHAUSTED: &str =
            "ERR The stream has exhausted the last possible ID, unable to add more items";
        const TOO_SMALL: &str =
            "ERR The ID specified in XADD is equal or smaller than the target stream top item";
        let next = last.next().ok_or(EXHAUSTED)?;
        let id = match self {
            NewId::Automatic => next.max(EntryId { ms: now_ms, sequence: 0 }),
            NewId::OfTime(ms) if ms == last.ms => next,
            NewId::OfTime(ms) => EntryId { ms, sequence: 0 },
            NewId::Given(id) => id,
        };
        let is_of_time = !matches!(self, NewId::OfTime(ms) if ms != id.ms);
        if id > last && is_of_time { Ok(id) } else { Err(TOO_SMALL.into()) }
    }
}

#[derive(Clone, Copy)]
enum Bound {
    Length(u64),
    Id(EntryId),
}

/// How a stream is trimmed.
#[derive(Clone, Copy)]
pub(super) struct Trim {
    bound: Bound,
    /// `~`: entries are removed in hundreds.
    is_coarse: bool,
    /// Entries that are removed at most.
    limit: u64,
}

impl Trim {
    /// Number of entries to remove from the start of a stream. `new` is the id of an entry that is
    /// still to come.
    pub(super) fn excess<M: FullMemory>(
        &self,
        memory: &mut M,
        stream: &Collection,
        new: Option<EntryId>,
    ) -> u64 {
        let all = stream.len(memory) + u64::from(new.is_some());
        let excess = match self.bound {
            Bound::Length(most) => all.saturating_sub(most),
            Bound::Id(least) => {
                stream.rank_of(memory, &least.to_bytes())
                    + u64::from(new.is_some_and(|new| new < least))
            }
        };
        match self.is_coarse {
            true if excess == all && all <= self.limit => all,
            true => excess.min(self.limit) / TRIMMED_TOGETHER * TRIMMED_TOGETHER,
            false => excess,
        }
    }
}

/// The arguments of `XADD` and `XTRIM` after the key.
pub(super) struct Changes {
    pub(super) id: NewId,
    /// True unless `NOMKSTREAM` was given.
    pub(super) makes_stream: bool,
    pub(super) trim: Option<Trim>,
    /// Index of the first argument after the id.
    pub(super) fields_at: usize,
}

impl Changes {
    /// Parses the options, and of `XADD` the id.
    pub(super) fn parse<M: FullMemory>(call: &Call<'_, M>, adds: bool) -> Result<Changes, Failure> {
        let arguments = call.arguments;
        let (mut id, mut makes_stream, mut bound, mut is_coarse, mut limit) =
            (NewId::Automatic, true, None, false, None);
        let mut index = 2;
        while index < arguments.len() {
            let has_more = index + 1 < arguments.len();
            if adds && arguments[index] == b"*" {
                break;
            } else if has_more && (call.is(index, "MAXLEN") || call.is(index, "MINID")) {
                if bound.is_some() {
                    return Err(TWO_BOUNDS.into());
                }
                let is_length = call.is(index, "MAXLEN");
                let form = arguments.get(index + 2).map_or(&b""[..], |_| arguments[index + 1]);
                is_coarse = form == b"~";
                index += 1 + usize::from(is_coarse || form == b"=");
                bound = Some(match is_length {
                    true => Bound::Length(not_negative(call, index, "MAXLEN")?),
                    false => Bound::Id(strict_id(arguments[index], 0)?),
                });
            } else if has_more && call.is(index, "LIMIT") {
                index += 1;
                limit = Some(not_negative(call, index, "LIMIT")?);
            } else if adds && call.is(index, "NOMKSTREAM") {
                makes_stream = false;
            } else if adds {
                id = NewId::parse(arguments[index])?;
                break;
            } else {
                return Err(SYNTAX.into());
            }
            index += 1;
        }
        let trim = match (bound, limit) {
            (None, None | Some(0)) if !adds => return Err(NO_BOUND.into()),
            _ => trim(bound, is_coarse, limit)?,
        };
        Ok(Changes { id, makes_stream, trim, fields_at: index + 1 })
    }
}

fn not_negative<M: FullMemory>(
    call: &Call<'_, M>,
    index: usize,
    name: &str,
) -> Result<u64, Failure> {
    let given = call.integer(index)?;
    u64::try_from(given).map_err(|_| format!("ERR The {name} argument must be >= 0.").into())
}

fn trim(
    bound: Option<Bound>,
    is_coarse: bool,
    limit: Option<u64>,
) -> Result<Option<Trim>, Failure> {
    let limited = match (bound, limit) {
        (None, Some(1..)) => return Err(LIMIT_ALONE.into()),
        (_, Some(_)) if !is_coarse => return Err(LIMIT_EXACT.into()),
        (_, Some(0)) => u64::MAX,
        (_, limit) => limit.unwrap_or(TRIMMED_MAX),
    };
    Ok(bound.map(|bound| Trim { bound, is_coarse, limit: limited }))
}

/// Parses `COUNT number` pairs from `index` on. A negative number is 0.
pub(super) fn count<M: FullMemory>(
    call: &Call<'_, M>,
    index: usize,
) -> Result<Option<u64>, Failure> {
    let (pairs, odd) = call.arguments.get(index..).unwrap_or_default().as_chunks::<2>();
    let mut count = None;
    for [word, number] in pairs {
        if !word.eq_ignore_ascii_case(b"COUNT") {
            return Err(SYNTAX.into());
        }
        let number = integer(number).ok_or(NOT_INTEGER)?;
        count = Some(u64::try_from(number).unwrap_or(0));
    }
    if odd.is_empty() { Ok(count) } else { Err(SYNTAX.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parsed_with_and_without_a_sequence_number() {
        let parsed = |text: &str| strict_id(text.as_bytes(), 7).ok().map(|id| (id.ms, id.sequence));
        assert_eq!(parsed("5"), Some((5, 7)));
        assert_eq!(parsed("5-18446744073709551615"), Some((5, u64::MAX)));
        for wrong in ["", "-", "+", "5-", "-5", "x", "5-x", "5-6-7", "18446744073709551616"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_id_of_a_new_entry_is_greater_than_the_last() {
        let last = EntryId { ms: 10, sequence: 3 };
        let after = |id: NewId, now_ms| id.after(last, now_ms).ok().map(|id| (id.ms, id.sequence));
        assert_eq!(after(NewId::Automatic, 11), Some((11, 0)));
        assert_eq!(after(NewId::Automatic, 9), Some((10, 4)), "the clock went back");
        assert_eq!(after(NewId::OfTime(10), 0), Some((10, 4)));
        assert_eq!(after(NewId::OfTime(12), 0), Some((12, 0)));
        assert_eq!(after(NewId::OfTime(9), 0), None);
        assert_eq!(after(NewId::Given(last), 0), None);
        let full = EntryId { ms: 10, sequence: u64::MAX };
        assert!(NewId::OfTime(10).after(full, 0).is_err());
        assert!(NewId::Automatic.after(EntryId::MAX, 0).is_err());
    }
}
